package drill

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// A course fills its time on connections that last throughout, within the capacity; what is
// drawn is the seed's, and the network that fails is another one in the next repetition.
func TestSharings(t *testing.T) {
	o := sharesKind().defaults
	for _, c := range sharings() {
		networks := []string{"x", "y", "z"}[:c.networks]
		draw := func(repetition int) []leg {
			return c.course(c.legs(rand.New(rand.NewPCG(4, 5)), repetition), networks, o)
		}
		all := draw(1)
		sum, dead := time.Duration(0), ""
		for i, l := range all {
			sum += l.span
			if l.goesOn != (i > 0) || l.connections != o.Connections || len(l.rates) != c.networks {
				t.Errorf("%s, leg %d: %+v", c.name, i, l)
			}
			for _, n := range networks {
				if r := l.rates[n]; r < 0.2*o.Capacity || r > o.Capacity {
					t.Errorf("%s, leg %d: %v bit/s of %s", c.name, i, r, n)
				}
			}
			for n := range l.holes {
				dead += n
			}
		}
		if sum != o.For || (dead != "") != (c.name == "fails") {
			t.Errorf("%s takes %v, %q fails", c.name, sum, dead)
		}
		again, other := draw(1), draw(2)
		for i := range all {
			if again[i].rates["x"] != all[i].rates["x"] {
				t.Errorf("%s is not the seed's", c.name)
			}
		}
		if c.name == "fails" && (len(other[1].holes) != 1 || other[1].holes[dead] != "") {
			t.Errorf("%s fails in each repetition: %v", dead, other[1].holes)
		}
	}
}

// What is shared is held against the best network alone, and by the course's own bar.
func TestSharesFigures(t *testing.T) {
	v := Sample{Variant: "two iperf3 verdict", Values: map[string]float64{}, Text: map[string]string{}}
	of := map[string]carried{sharedVariant: {bits: 150e6, again: 0.02}, "x": {bits: 60e6}, "y": {bits: 75e6, again: 0.01}}
	if err := judgeShare(&v, of); err != nil || v.Text["best network"] != "y" {
		t.Errorf("%v, %v", v, err)
	}
	if err := judgeShare(&v, map[string]carried{sharedVariant: {bits: 1}}); !errors.Is(err, errNothing) {
		t.Errorf("judged against nothing: %v", err)
	}
	lost := Sample{Variant: "fails stream shared", Values: map[string]float64{"connections_lost": 1, "gap_s": 0.07,
		"gap_outage_s": 0.21, "gap_before_s": 0.19}}
	alone := Sample{Variant: "fails stream x", Values: map[string]float64{"connections_lost": 8}}
	got := sharesFigures(Options{Limits: []string{"two", "fails"}, Programs: []string{"iperf3"}}, []Sample{v, lost, alone})
	if len(got) != 6 {
		t.Fatalf("%d figures: %+v", len(got), got)
	}
	if f := got[0]; f.Value != 2 || !f.Met() || !strings.Contains(f.Note, "2.00 % of segments, 1.00 % on the best") {
		t.Errorf("%+v", f)
	}
	for i, met := range []bool{true, true, false, true, true, false} {
		if got[i].Met() != met {
			t.Errorf("%+v", got[i])
		}
	}
	if f := got[4]; f.Bar != nil || f.Value != 0.21 || !strings.Contains(f.Note, "in as long before: 190.0 ms") {
		t.Errorf("the whole outage: %+v", f)
	}
	if got[5].Value != 1 {
		t.Errorf("connections lost alone are counted: %+v", got[5])
	}
}

// Gaps are the failure's that begin with it, or as what was on its way has come.
func TestOutage(t *testing.T) {
	const ms = time.Millisecond
	gap := func(from, to time.Duration) stream.Gap { return stream.Gap{From: from, To: to} }
	r := stream.Report{Gaps: stream.Gaps{List: []stream.Gap{gap(100*ms, 290*ms), gap(995*ms, 1040*ms),
		gap(1030*ms, 1090*ms), gap(1200*ms, 1410*ms), gap(2500*ms, 2900*ms)}}}
	out := Sample{Values: map[string]float64{}}
	outage{}.tell(&out, r)
	if len(out.Values) > 0 {
		t.Errorf("without an outage: %v", out.Values)
	}
	outage{from: 1000 * ms, done: 1010 * ms, span: 1000 * ms}.tell(&out, r)
	want := map[string]float64{"gap_s": 0.06, "gap_outage_s": 0.21, "gap_before_s": 0.19}
	if !maps.Equal(out.Values, want) {
		t.Errorf("%v, expected %v", out.Values, want)
	}
}

// What programs tell is read, and what they do not tell is an error.
func TestProgramsTell(t *testing.T) {
	const report = `{"start":{},"end":{"sum_sent":{"bits_per_second":9},"sum_received":{"bits_per_second":76.5}}}`
	if bits, err := iperf3Received([]byte(report)); bits != 76.5 || err != nil {
		t.Errorf("iperf3: %v, %v", bits, err)
	}
	if bits, err := curlReceived([]byte("1000 2.0\n3000 4\n")); math.Abs(bits-8000) > 1e-9 || err != nil {
		t.Errorf("curl: %v, %v", bits, err)
	}
	for name, f := range map[string]func() (float64, error){
		"iperf3 fails":      func() (float64, error) { return iperf3Received([]byte(`{"error":"unable to connect"}`)) },
		"iperf3 is cut off": func() (float64, error) { return iperf3Received([]byte(`{"start":`)) },
		"iperf3 is silent":  func() (float64, error) { return iperf3Received(nil) },
		"curl is silent":    func() (float64, error) { return curlReceived(nil) },
		"curl says more":    func() (float64, error) { return curlReceived([]byte("curl: (7) no\n")) },
	} {
		if bits, err := f(); err == nil {
			t.Errorf("%s: %v", name, bits)
		}
	}
}

// Three networks are asked for where a course has three.
func TestSharesWantNetworks(t *testing.T) {
	for text, ok := range map[string]bool{
		"[a, b]\ndrills:\n  - {drill: shares, limits: [two, fails]}": true,
		"[a, b]\ndrills:\n  - {drill: shares, limits: three}":        false,
		"[a, b]\ndrills: [shares]":                                   false,
		"[a, b, c]\ndrills: [shares]":                                true,
		"[a, b, c]\ndrills: [{drill: shares, programs: ftp}]":        false,
		"[a, b, c]\ndrills: [{drill: shares, programs: wrk}]":        false,
		"[a, b, c]\ndrills: [{drill: programs, faults: mptcp}]":      false,
		"[a, b]\ndrills: [{drill: mixed, programs: iperf3}]":         false,
	} {
		f, err := Parse("f.yaml", strings.NewReader("name: f\nnetworks: "+text), known)
		if (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
		if ok && !slices.Equal(f.Drills[0].Programs, programNames(isBulk)) {
			t.Errorf("%s: programs %v", text, f.Drills[0].Programs)
		}
	}
}

// A program that is missing is told by its name.
func TestMissingProgram(t *testing.T) {
	g := &ground{generators: &generators{}}
	_, _, err := g.startPair(context.Background(), topo.Pod{}, topo.Pod{}, []string{"no-such-server"}, []string{"true"})
	if err == nil || !strings.Contains(err.Error(), "no-such-server") {
		t.Errorf("%v", err)
	}
}
