package stream

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

const ms = time.Millisecond

func TestBinsCountByTime(t *testing.T) {
	b := Bins{Width: ms}
	for _, x := range []struct {
		at time.Duration
		n  int64
	}{{5*ms + 1, 10}, {5*ms + 999, 1}, {6 * ms, 2}, {9*ms - 1, 3}, {4 * ms, 7}, {2 * ms, 1}} {
		b.add(x.at, x.n)
	}
	if want := (Bins{ms, 2, []int64{1, 0, 7, 11, 2, 0, 3}}); !reflect.DeepEqual(b, want) {
		t.Errorf("%+v, expected %+v", b, want)
	}
	if b.Total() != 24 {
		t.Errorf("total %d", b.Total())
	}
}

func TestBinsSumInProportion(t *testing.T) {
	b := Bins{ms, 2, []int64{10, 20, 30}}
	for _, tc := range []struct {
		from, to time.Duration
		want     float64
	}{
		{2 * ms, 5 * ms, 60}, {0, time.Hour, 60}, {2500 * time.Microsecond, 3500 * time.Microsecond, 15},
		{3100 * time.Microsecond, 3200 * time.Microsecond, 2}, {5 * ms, 9 * ms, 0}, {0, 2 * ms, 0}, {3 * ms, 3 * ms, 0},
		{4 * ms, 3 * ms, 0},
	} {
		if got := b.Sum(tc.from, tc.to); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%v to %v: %v, expected %v", tc.from, tc.to, got, tc.want)
		}
	}
}

func TestBinsFold(t *testing.T) {
	for _, tc := range []struct{ in, want Bins }{
		{Bins{ms, 3, []int64{1, 2, 3, 4}}, Bins{2 * ms, 1, []int64{1, 5, 4}}},
		{Bins{ms, 4, []int64{1, 2, 3, 4}}, Bins{2 * ms, 2, []int64{3, 7}}},
		{Bins{ms, 4, []int64{1}}, Bins{2 * ms, 2, []int64{1}}},
		{Bins{Width: ms}, Bins{Width: 2 * ms}},
	} {
		in := tc.in
		in.Counts = slices.Clone(in.Counts)
		if in.fold(); !reflect.DeepEqual(in, tc.want) {
			t.Errorf("%+v: %+v, expected %+v", tc.in, in, tc.want)
		}
	}
	b := Bins{Width: 10 * time.Microsecond}
	b.add(0, 1)
	b.add(time.Hour, 2)
	b.add(time.Minute, 4)
	if len(b.Counts) > maxBins || b.Total() != 7 || b.Sum(59*time.Second, 61*time.Second) != 4 {
		t.Errorf("%d bins of %v hold %d", len(b.Counts), b.Width, b.Total())
	}
}

func TestBinsMerge(t *testing.T) {
	for _, tc := range []struct{ a, b, want Bins }{
		{Bins{ms, 5, []int64{1, 2}}, Bins{ms, 8, []int64{3}}, Bins{ms, 5, []int64{1, 2, 0, 3}}},
		{Bins{ms, 8, []int64{1}}, Bins{ms, 5, []int64{2}}, Bins{ms, 5, []int64{2, 0, 0, 1}}},
		{Bins{Width: ms}, Bins{ms, 5, []int64{2}}, Bins{ms, 5, []int64{2}}},
		{Bins{ms, 5, []int64{2}}, Bins{Width: ms}, Bins{ms, 5, []int64{2}}},
		{Bins{ms, 5, []int64{1, 2, 3}}, Bins{2 * ms, 1, []int64{10}}, Bins{2 * ms, 1, []int64{10, 1, 5}}},
		{Bins{4 * ms, 1, []int64{1}}, Bins{2 * ms, 1, []int64{10, 20}}, Bins{4 * ms, 0, []int64{10, 21}}},
	} {
		got := tc.a
		got.Counts = slices.Clone(got.Counts)
		if err := got.merge(tc.b); err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%+v and %+v: %+v, %v, expected %+v", tc.a, tc.b, got, err, tc.want)
		}
	}
	b := Bins{Width: 2 * ms}
	if b.merge(Bins{Width: 3 * ms}) == nil {
		t.Error("bins that do not fit were merged")
	}
}

func TestBinsSurviveJSON(t *testing.T) {
	long := Bins{ms, 123456789, make([]int64, 100000)}
	for i := range long.Counts {
		if i%1000 < 100 {
			long.Counts[i] = int64(i) * 131072
		}
	}
	for _, b := range []Bins{{Width: ms}, {ms, 7, []int64{0}}, {ms, 7, []int64{1, 0, 0, 5}}, long} {
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var got Bins
		if err := json.Unmarshal(raw, &got); err != nil || got.Width != b.Width || got.First != b.First ||
			!slices.Equal(got.Counts, b.Counts) {
			t.Errorf("%d bins came back as %d: %v", len(b.Counts), len(got.Counts), err)
		}
	}
}

func TestGapsKeepTheLongest(t *testing.T) {
	g := Gaps{Floor: 10}
	g.add(Gap{From: 0, To: 10})
	for i := range maxGaps * 3 {
		g.add(Gap{From: time.Duration(i), To: time.Duration(i + 11 + i*7919%maxGaps)})
	}
	if len(g.List) >= maxGaps || g.Floor <= 10 {
		t.Fatalf("%d gaps above %d", len(g.List), g.Floor)
	}
	// Whatever is longer than the floor must be there.
	want := 0
	for i := range maxGaps * 3 {
		if time.Duration(11+i*7919%maxGaps) > g.Floor {
			want++
		}
	}
	if len(g.List) != want {
		t.Errorf("%d gaps are longer than %d, %d are listed", want, g.Floor, len(g.List))
	}
	same := Gaps{}
	for i := range maxGaps {
		same.add(Gap{From: time.Duration(i), To: time.Duration(i + 5)})
	}
	if len(same.List) != 0 || same.Floor != 5 {
		t.Errorf("equal gaps: %d above %d", len(same.List), same.Floor)
	}
}

func TestStall(t *testing.T) {
	r := Report{
		Gaps: Gaps{Floor: ms, List: []Gap{{10 * ms, 15 * ms, 0, false}, {12 * ms, 30 * ms, 1, false},
			{40 * ms, 90 * ms, 0, true}}}}
	for _, tc := range []struct {
		from, to, want time.Duration
	}{{0, time.Hour, 50 * ms}, {0, 11 * ms, 5 * ms}, {0, 35 * ms, 18 * ms}, {29 * ms, 31 * ms, 18 * ms},
		{30 * ms, 40 * ms, 0}, {50 * ms, 51 * ms, 50 * ms}, {90 * ms, time.Hour, 0}} {
		g, found := Stall(r, tc.from, tc.to)
		if g.Length() != tc.want || found != (tc.want > 0) {
			t.Errorf("%v to %v: %v, %v, expected %v", tc.from, tc.to, g, found, tc.want)
		}
	}
}

func TestSeriesAddsUp(t *testing.T) {
	r := Report{Started: Moment{Monotonic: 1500 * time.Microsecond}, Ended: 5 * ms, Bins: Bins{ms, 1, []int64{2, 4, 0, 8}}}
	if got := Throughput(r, 2*ms, 4*ms); math.Abs(got-2000) > 1e-6 {
		t.Errorf("throughput %v", got)
	}
	points := Series(r, 1500*time.Microsecond, 5*ms, ms)
	if len(points) != 3 || points[0].At != 1500*time.Microsecond {
		t.Fatalf("%v", points)
	}
	sum := 0.0
	for _, p := range points {
		sum += p.Rate * 0.0035 / 3
	}
	if want := r.Bins.Sum(1500*time.Microsecond, 5*ms); math.Abs(sum-want) > 1e-6 {
		t.Errorf("steps hold %v of %v", sum, want)
	}
	if n := len(Series(r, 0, 5*ms, 0)); n != 5 {
		t.Errorf("%d steps of a bin", n)
	}
	if n := len(Series(r, 5*ms, 5*ms, ms)); n != 0 {
		t.Errorf("%d steps of no time", n)
	}
}

// The end of a span makes no step of its own: what arrives in one read just before it
// would be a rate that no network carries.
func TestSeriesEndsWithWholeStep(t *testing.T) {
	for _, rest := range []time.Duration{0, ms, 3 * ms, 50 * ms, 99 * ms} {
		end := 2*time.Second + rest
		r := Report{Ended: end, Bins: Bins{Width: ms}}
		for at := time.Duration(0); at < end; at += ms {
			r.Bins.add(at, 100)
		}
		r.Bins.add(end-ms, 2000) // a full socket buffer
		points := Series(r, 0, end, 100*ms)
		for i, p := range points {
			if p.Rate > 1.21*100_000 {
				t.Errorf("rest of %v: step %d of %d holds %.0f/s", rest, i+1, len(points), p.Rate)
			}
		}
	}
}

// example is a report with something in every field.
func example(start time.Duration) Report {
	h := sample.NewHistogram()
	h.Record(3 * ms)
	s := newSpacing()
	s.record(-2 * ms)
	s.record(ms)
	return Report{
		Format: Format, Kind: UDP, Role: ServerRole, Unit: Packets,
		Started: Moment{time.Unix(1700000000, 5).UTC(), start}, Ended: start + time.Second,
		Bins: Bins{ms, int64(start/ms) + 1, []int64{1, 2, 0, 3}},
		Gaps: Gaps{ms, []Gap{{start + ms, start + 4*ms, 1, true}}},
		Counts: Counts{Connections: Connections{4, 1, 2, 1},
			Datagrams: Datagrams{Sent: 1, Expected: 7, Received: 6, Lost: 1, MaxExtent: 3, MaxLate: ms}},
		Errors: Errors{map[string]int64{"send: broken": 1}, []Event{{start, 1, "send: broken"}}}, Latency: h,
		Lag: merged(nil, h), Spacing: s, Details: map[string]string{"rcvbuf": "1"},
	}
}

func TestReportSurvivesJSON(t *testing.T) {
	r := example(time.Hour)
	var b bytes.Buffer
	b.WriteString("listening 127.0.0.1:7\n")
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := got.write(&again); err != nil || !strings.HasSuffix(b.String(), again.String()) {
		t.Errorf("%v\n%s\n%s", err, b.String(), again.String())
	}
	for _, bad := range []string{"", "listening\n", "{}", "{", b.String() + "{}",
		strings.Replace(b.String(), `"format":1`, `"format":2`, 1),
		strings.Replace(b.String(), `"kind":"udp"`, `"kind":"x"`, 1),
		strings.Replace(b.String(), `"width_ns":1000000`, `"width_ns":0`, 1)} {
		if _, err := Parse([]byte(bad)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

func TestReportsAddUp(t *testing.T) {
	sum, b := example(time.Hour), example(time.Hour-10*ms)
	if err := sum.absorb(b); err != nil {
		t.Fatal(err)
	}
	if sum.Ended != time.Hour+time.Second || sum.Bins.Total() != 12 || len(sum.Gaps.List) != 2 ||
		sum.Counts.Datagrams.Lost != 2 || sum.Counts.Connections.Opened != 8 || sum.Counts.Datagrams.MaxExtent != 3 ||
		sum.Latency.Count() != 2 || sum.Lag.Count() != 2 || sum.Spacing.Count() != 4 ||
		sum.Errors.Reasons["send: broken"] != 2 || len(sum.Errors.Events) != 2 {
		t.Errorf("%+v", sum)
	}
	if b.Bins.Total() != 6 || b.Latency.Count() != 1 || b.Spacing.Count() != 2 || b.Errors.Reasons["send: broken"] != 1 {
		t.Error("what was added has changed")
	}
	sum.Bins.Width, b.Bins.Width = 2*ms, 3*ms
	if err := sum.absorb(b); err == nil {
		t.Error("bins of different widths were added")
	}
}

func FuzzParse(f *testing.F) {
	r := example(time.Hour)
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"format":1,"kind":"tcp","bins":{"width_ns":1,"first":9,"counts":"YwAAAAD//w=="}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Parse(raw)
		if err != nil {
			return
		}
		// What was accepted must be usable.
		Stall(r, 0, time.Hour)
		if v := Throughput(r, 0, time.Hour); math.IsNaN(v) {
			t.Error("not a number")
		}
		again, err := Parse(raw)
		if err == nil {
			err = again.absorb(r)
		}
		if err != nil {
			t.Error(err)
		}
		if r.Spacing != nil {
			r.Spacing.Percentile(99)
		}
	})
}

// TestReasonsAreBounded: greetings of strangers, each refused in words of its own,
// do not make a server's report grow without end, and none of them goes uncounted.
func TestReasonsAreBounded(t *testing.T) {
	var e, o Errors
	const each = 10 * maxReasons
	for i := range each {
		_, err := parseHello(hello{Kind: wireTCP, Size: maxMessage + 1 + uint32(i)}.encode())
		if err == nil {
			t.Fatal("a greeting that cannot be was taken")
		}
		e.add(Event{Reason: err.Error()})
		o.add(Event{Reason: err.Error() + " too"})
	}
	e.merge(o)
	sum := int64(0)
	for _, n := range e.Reasons {
		sum += n
	}
	if len(e.Reasons) > maxReasons+1 || sum != 2*each {
		t.Errorf("%d reasons for %d errors, want %d at most for %d", len(e.Reasons), sum, maxReasons+1, 2*each)
	}
}
