package drill

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
)

func known(name string) error {
	if name == "nowhere" {
		return errors.New("no such network")
	}
	return nil
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ text, fail string }{
		"plain":    {text: "name: x\ndrills: [switch, {drill: blackhole, repetitions: 3, traffic: rr, faults: [in, out]}]"},
		"own name": {text: "name: x\ndrills: [{drill: quiet, for: 10s}, {drill: quiet, name: long, for: 1h}]"},
		"unknown":  {text: "name: x\ndrills: [sleep]", fail: "f:2: drills[0]: no drill \"sleep\""},
		"twice":    {text: "name: x\ndrills: [quiet, quiet]", fail: "f:2: drills[1]: drill \"quiet\" is given twice"},
		"server alone": {text: "name: x\ndrills:\n - drill: inserts\n   server: mongod",
			fail: "f:3: drills[0]: server: \"mongod\" serves documents: expected a workload alongside it"},
		"empty server": {text: "name: x\ndrills:\n - drill: inserts\n   server: ' '",
			fail: "f:4: drills[0].server: expected a command line"},
		"other's key": {text: "name: x\ndrills:\n - drill: quiet\n   kills: 3",
			fail: "f:4: drills[0].kills: drill quiet has no option \"kills\""},
		"no such key":  {text: "name: x\ndrills:\n - drill: quiet\n   sound: 3", fail: "f:4: drills[0].sound"},
		"out of range": {text: "name: x\ndrills: [{drill: kills, kills: 0}]", fail: "f:2: drills[0].kills"},
		"word":         {text: "name: x\ndrills: [{drill: blackhole, faults: up}]", fail: "f:2: drills[0].faults"},
		"one network":  {text: "name: x\nnetworks: vxlan\ndrills: [quiet]", fail: "f:2: networks: expected two"},
		"bad network":  {text: "name: x\nnetworks: [vxlan, nowhere]\ndrills: [quiet]", fail: "no such network"},
		"IPv6 of others": {text: "name: x\nfamily: 6\ndrills: [switch]",
			fail: "f:3: drills[0]: over IPv6 there is the drill blackhole alone"},
		"IPv6 and MPTCP": {text: "name: x\nfamily: 6\ndrills: [blackhole]", fail: "with faults but mptcp"},
		"IPv6": {text: "name: x\nfamily: 6\ndrills:\n - {drill: blackhole, faults: in}\n" +
			" - {drill: blackhole, name: again, faults: out}"},
		"no drills": {text: "name: x", fail: "drills"},
	} {
		f, err := Parse("f", strings.NewReader(c.text), known)
		switch {
		case c.fail == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.fail == "" && len(f.Drills) != 2:
			t.Errorf("%s: got %+v", name, f)
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%s: got %v, want %q", name, err, c.fail)
		}
	}
}

func TestParseFillsDefaults(t *testing.T) {
	f, err := Parse("f", strings.NewReader("name: x\ndrills: [{drill: switch, switches: 7}]"), known)
	if err != nil {
		t.Fatal(err)
	}
	want := switchKind().defaults
	want.Switches = 7
	if got := f.Drills[0]; !reflect.DeepEqual(got.Options, want) || got.Name != "switch" || len(f.Networks) != 3 {
		t.Errorf("got %+v", f)
	}
	if _, err := f.Only([]string{"quiet"}); err == nil {
		t.Error("a drill that is not in the file was found")
	}
}

// TestShippedDrillsParse: the files that are shipped, by the name they have.
func TestShippedDrillsParse(t *testing.T) {
	found := 0
	for _, name := range experiments.Names() {
		file, err := experiments.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(file); err != nil {
			t.Fatal(err)
		}
		if !IsFile(b.Bytes()) {
			continue
		}
		found++
		f, err := Parse(name+".yaml", &b, known)
		if err != nil || f.Name != name || f.Description == "" {
			t.Errorf("%s: got %+v, %v", name, f, err)
		}
	}
	if found < 2 {
		t.Errorf("found %d files of drills, expected steering and demo-steering", found)
	}
}

func TestFigure(t *testing.T) {
	f := summary("x", "s", []float64{5, 1, 3, 2, 4}, median, atMost(3))
	if f.Value != 3 || f.Least != 1 || f.Most != 5 || f.N != 5 || f.Low < 1 || f.High > 5 || f.Low > 3 || f.High < 3 ||
		!f.Met() {
		t.Errorf("got %+v", f)
	}
	for name, c := range map[string]struct {
		f    Figure
		want bool
	}{
		"at most, above":  {summary("", "", []float64{4}, median, atMost(3)), false},
		"at least, below": {summary("", "", []float64{4}, median, atLeast(5)), false},
		"at least, equal": {summary("", "", []float64{5}, median, atLeast(5)), true},
		"nothing":         {summary("", "", nil, median, atMost(3)), false},
		"no bar":          {summary("", "", nil, median, nil), true},
		"not a number":    {summary("", "", []float64{math.NaN()}, median, atMost(3)), false},
	} {
		if c.f.Met() != c.want {
			t.Errorf("%s: got %v", name, c.f.Met())
		}
	}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 2.5, 0.99: 3.97, 1: 4} {
		if got := quantile([]float64{1, 2, 3, 4}, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
}

// TestBootstrapCovers: of many samples with a known median, about 95 % of the
// intervals hold it.
func TestBootstrapCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hits, runs := 0, 200
	for range runs {
		values := make([]float64, 31)
		for i := range values {
			values[i] = r.ExpFloat64()
		}
		f := summary("", "", values, median, nil)
		if f.Low <= math.Ln2 && math.Ln2 <= f.High {
			hits++
		}
	}
	if hits < runs*88/100 {
		t.Errorf("%d of %d intervals hold the median", hits, runs)
	}
}

func TestPairsAreByRepetition(t *testing.T) {
	s := func(rep int, variant string, v float64, fail string) Sample {
		return Sample{Repetition: rep, Variant: variant, Values: map[string]float64{"v": v}, Error: fail}
	}
	all := []Sample{s(1, "a", 10, ""), s(1, "b", 5, ""), s(2, "a", 9, ""), s(2, "b", 3, ""), s(3, "a", 1, ""),
		s(4, "a", 8, "broken"), s(4, "b", 2, "")}
	if got := ratios(all, "a", "b", "v"); !reflect.DeepEqual(got, []float64{2, 3}) {
		t.Errorf("got %v", got)
	}
	if got := differences(all, "a", "b", "v"); !reflect.DeepEqual(got, []float64{5, 6}) {
		t.Errorf("got %v", got)
	}
	if n, first := failures(all); n != 1 || first != "a: broken" {
		t.Errorf("got %d, %q", n, first)
	}
}

func TestInsertsFigures(t *testing.T) {
	s := func(rep int, switching, still float64) Sample {
		return Sample{Repetition: rep, Variant: "inserts",
			Values: map[string]float64{"switching_s": switching, "still_s": still, "back_s": still + 0.3, "switches": 30}}
	}
	got := insertsFigures(Options{Inserts: 50, Switches: 30},
		[]Sample{s(1, 1.25, 1), s(2, 1.5, 1), s(3, 2, 1), {Variant: "inserts", Error: "broken"}})
	// 0.5 s longer, 50 times, for 30 switches.
	if got[0].Value != 0.5 || got[0].N != 3 || got[0].Met() || math.Abs(got[1].Value-0.5*50/30) > 1e-9 ||
		math.Abs(got[2].Value-0.5) > 1e-9 {
		t.Errorf("got %+v", got)
	}
}

// TestInserterPlan: rounds of a block of each kind, each path in turn, and of the
// operations as many followed by a switch as asked.
func TestInserterPlan(t *testing.T) {
	s := &inserting{paths: 3, rand: rand.New(rand.NewPCG(1, 2))}
	s.plan(6, 60)
	got := map[block]int{}
	for i, b := range s.blocks {
		got[b]++
		for _, other := range s.blocks[i/3*3 : i] {
			if other.course == b.course {
				t.Errorf("round %d has two of a kind: %+v", i/3, b)
			}
		}
	}
	want := map[block]int{{course: moving}: 6}
	for path := range 3 {
		want[block{course: still, path: path}], want[block{course: back, path: path}] = 2, 2
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	n := 0
	for _, m := range s.moves {
		if m {
			n++
		}
	}
	if n != 60 || len(s.moves) != blockLength {
		t.Errorf("%d of %d operations are followed by a switch", n, len(s.moves))
	}
}

func TestRemaining(t *testing.T) {
	f := File{Drills: []Entry{{Name: "x", Options: Options{Repetitions: 2}},
		{Name: "y", Options: Options{Repetitions: 1}}}}
	left, total := Remaining(f, []Sample{{Drill: "x", Repetition: 1}, {Drill: "x", Repetition: 1},
		{Drill: "gone", Repetition: 1}})
	if total != 3 || len(left) != 2 || left[0].Repetition != 2 || left[1].Entry.Name != "y" {
		t.Errorf("got %+v of %d", left, total)
	}
}

func TestExplained(t *testing.T) {
	us := time.Microsecond
	delays := []time.Duration{10 * us, 130 * us}
	turns := map[[2]int]int{{0, 1}: 7, {1, 0}: 3}
	// From slow to fast by 120 us: two packets of 50 us each are overtaken.
	if got := explained(turns, delays, 50*us); got != 6 {
		t.Errorf("got %d", got)
	}
}

func TestCarrier(t *testing.T) {
	network, part := carrier(map[string]uint64{"a": 100, "b": 5}, map[string]uint64{"a": 110, "b": 95})
	if network != "b" || part != 0.9 {
		t.Errorf("got %s %v", network, part)
	}
	if network, _ := carrier(nil, nil); network != "" {
		t.Errorf("got %q of nothing", network)
	}
}

func TestMovesAreMovesOnly(t *testing.T) {
	all := []agent.Event{{Kind: "switch"}, {Kind: "canary"}, {Kind: "failover"}, {Kind: "stay"},
		{Kind: "switch", DryRun: true}, {Kind: "fallback"}}
	if got := moves(all); len(got) != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestLegs(t *testing.T) {
	networks := []string{"x", "y", "z"}
	for _, s := range append(shipped(networks, time.Second), decide.RandomSchedule(3, decide.Shape{Networks: networks})) {
		all := legs(s, 4e8)
		if len(all) != len(s.Phases) {
			t.Fatalf("%s: %d legs", s.Name, len(all))
		}
		for i, l := range all {
			for _, n := range networks {
				if r := l.rates[n]; !(r > 0 && r <= 4.001e8) {
					t.Errorf("%s: leg %d gives %s %v bit/s", s.Name, i, n, r)
				}
			}
			faults := len(l.holes) + len(l.crowd)
			if len(s.Phases[i].Impairments) == 0 && faults > 0 {
				t.Errorf("%s: leg %d has faults", s.Name, i)
			}
		}
	}
	s := shipped(networks, time.Second)
	fast := func(l leg) (name string) {
		for n, r := range l.rates {
			if name == "" || r > l.rates[name] {
				name = n
			}
		}
		return name
	}
	if all := legs(s[0], 4e8); fast(all[0]) == fast(all[1]) {
		t.Errorf("the schedule load has the best network %s at every load", fast(all[0]))
	}
}

func TestLegFaultsActTogether(t *testing.T) {
	s := decide.Schedule{Networks: []decide.SimNetwork{{Name: "x", Capacity: 1, Many: 1}},
		Phases: []decide.Phase{{Impairments: []decide.Impairment{
			{Network: "x", Fault: decide.Delay, Factor: 0.01}, {Network: "x", Fault: decide.BlackHoleReverse}}}}}
	got := legs(s, 4e8)[0].faults()["x"]
	if got.Delay != 10*time.Millisecond || got.Direction != impair.Both || got.LossIngress != 1 || got.LossEgress > 0.01 {
		t.Errorf("got %v", got)
	}
}

func TestHindsight(t *testing.T) {
	all := []leg{{span: time.Second}, {span: 2 * time.Second}}
	kept := map[string]outcome{"x": {rates: []float64{10, 1}}, "y": {rates: []float64{4, 5}}}
	sum, best, which := hindsight(all, kept)
	if sum != 20 || best != 14 || which != "y" {
		t.Errorf("got %v, %v, %s", sum, best, which)
	}
	if got := achieved(all, outcome{rates: []float64{9, 5}}); got != 19 {
		t.Errorf("achieved %v", got)
	}
}

func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	l, err := Create(dir, Header{Name: "x", Seed: 5}, []byte("name: x\n"), map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Write([]Sample{{Drill: "d", Repetition: 1, Values: map[string]float64{"v": 1}}}),
		l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, Header{}, nil, nil); err == nil {
		t.Error("a result was overwritten")
	}
	path := filepath.Join(dir, LogFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(raw, `{"drill":"d","rep`...), 0o644); err != nil { // a kill cut it short
		t.Fatal(err)
	}
	l, err = Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Done) != 1 || l.Seed != 5 || l.Done[0].Values["v"] != 1 {
		t.Errorf("got %+v", l)
	}
	if err := errors.Join(l.Write([]Sample{{Drill: "d", Repetition: 2}}), l.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, all, err := Read(path, f); err != nil || len(all) != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	figures := []Figure{summary("stall", "s", []float64{0.05, 0.06}, median, atMost(0.06)),
		total("lost", []float64{1}, atMost(0))}
	figures[0].Note = "a note"
	if err := Table(&b, figures); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"55.0 ms", "<= 60.0 ms: met", "<= 0: NOT MET", "[1] a note", "1 of 2 bars met"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestDissect(t *testing.T) {
	p := stampPacket()
	got, ok := dissect(p)
	if !ok || got.to != netip.MustParseAddrPort("10.0.0.2:862") || string(got.payload) != "hello" {
		t.Errorf("got %+v, %v", got, ok)
	}
	for cut := range p {
		if _, ok := dissect(p[:cut]); ok {
			t.Errorf("%d bytes of %d were taken for a packet", cut, len(p))
		}
	}
}

// TestDissectShortHeader: a header that says it is shorter than a header is would
// be read as its own payload.
func TestDissectShortHeader(t *testing.T) {
	for _, words := range []byte{0, 1, 4} {
		p := make([]byte, 60)
		p[0], p[9] = 0x40|words, 17
		udp := p[4*words:]
		udp[4], udp[5] = 0, 16
		if words != 0 {
			udp[2], udp[3] = 0x03, 0x5e
		} else {
			p[0], p[1], p[2], p[3] = 0x40, 0, 0x03, 0x5e
		}
		if got, ok := dissect(p); ok {
			t.Errorf("a header of %d words was taken for %+v", words, got)
		}
	}
}

func stampPacket() []byte {
	p := []byte{0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x80, 0, 3, 0x5e, 0, 13, 0, 0}
	return append(p, "hello"...)
}

func FuzzDissect(f *testing.F) {
	f.Add(stampPacket())
	f.Fuzz(func(t *testing.T, b []byte) {
		// An IPv4 header and one of UDP are 28 octets at least.
		if p, ok := dissect(b); ok && (len(p.payload) > len(b)-28 || b[0] < 0x45) {
			t.Errorf("%x: more than there was: %+v", b, p)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add(`{"format":"pathwise/drills","version":1,"name":"x","seed":1,"started":"2026-01-01T00:00:00Z","load_average":0}` +
		"\n" + `{"drill":"d","repetition":1,"variant":"v","at":"2026-01-01T00:00:00Z","took_ns":1}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, err := Read("f", strings.NewReader(text)); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error without a place: %v", err)
		}
	})
}

// endless gives the same letter for ever.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}

// TestReadIsBounded: a line that does not end is refused, not gathered.
func TestReadIsBounded(t *testing.T) {
	in := &endless{}
	if _, _, err := Read("f", io.LimitReader(in, 4*longest)); err == nil || !strings.HasPrefix(err.Error(), "f:1: ") ||
		in.read > 2*longest {
		t.Errorf("%v after %d bytes", err, in.read)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: x\ndrills: [switch, {drill: blackhole, repetitions: 3, traffic: rr, faults: [in, out]}]")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Parse("f", strings.NewReader(text), known); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error without a place: %v", err)
		}
	})
}

// TestBounded: a course on a network whose packets escape its class is no yardstick.
func TestBounded(t *testing.T) {
	all := []leg{{what: "phase 1", rates: map[string]float64{"vxlan": 100e6}},
		{what: "phase 2", rates: map[string]float64{"macvlan": 100e6}}}
	if err := bounded(all, outcome{rates: []float64{105e6, 9e9}}, "vxlan"); err != nil {
		t.Error(err)
	}
	if err := bounded(all, outcome{rates: []float64{150e6, 1}}, "vxlan"); !errors.Is(err, errUnbounded) {
		t.Errorf("got %v, want that nothing bounded it", err)
	}
}
