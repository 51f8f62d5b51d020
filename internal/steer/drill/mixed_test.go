package drill

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// One network has all of the capacity and answers last, one has least of it and answers first.
func TestDisagree(t *testing.T) {
	first := map[string]bool{}
	for seed := range uint64(40) {
		d := disagree(rand.New(rand.NewPCG(seed, 1)), []string{"x", "y", "z"}, 100)
		by := sortedNames(d.rates)
		slices.SortFunc(by, func(a, b string) int { return int(d.rates[a] - d.rates[b]) })
		if len(by) != 3 || d.rates[by[0]] > 40 || d.rates[by[2]] != 100 {
			t.Fatalf("seed %d: %v", seed, d.rates)
		}
		if !(d.delays[by[0]] >= time.Millisecond && d.delays[by[0]] < d.delays[by[1]] && d.delays[by[1]] < d.delays[by[2]]) {
			t.Fatalf("seed %d: %v, %v", seed, d.rates, d.delays)
		}
		first[by[0]] = true
	}
	if len(first) != 3 {
		t.Errorf("always %v answers first", first)
	}
}

// Each program is held against itself on the network that was best for it alone.
func TestMixedVerdict(t *testing.T) {
	m := mix{"iperf3", "wrk"}
	r := mixedResult{
		alone: map[string]map[string]mixedPart{
			"iperf3": {"x": {bits: 100}, "y": {bits: 30}},
			"wrk":    {"x": {waits: waits{0.020, 0.021}}, "y": {waits: waits{0.002, 0.004}}},
		},
		byAgents: map[mix]mixedPart{m: {bits: 96, waits: waits{0.0021, 0.006}, early: waits{0.002, 0.020}}},
		byHand:   map[mix]mixedPart{m: {bits: 99, waits: waits{0.002, 0.004}}},
	}
	out := Sample{Variant: m.String() + " verdict", Values: map[string]float64{}, Text: map[string]string{}}
	if err := r.judge(&out, m, 2); err != nil || out.Text["best of bulk"] != "x" || out.Text["best of requests"] != "y" {
		t.Fatalf("%+v, %v", out, err)
	}
	o := Options{Programs: []string{"iperf3", "wrk"}, For: 15 * time.Second}
	got := mixedFigures(o, []Sample{out})
	want := []float64{0.96, 1.05, 1.5}
	for i, met := range []bool{true, true, false} {
		if f := got[i]; math.Abs(f.Value-want[i]) > 1e-9 || f.Met() != met {
			t.Errorf("%+v", f)
		}
	}
	if note := "kept apart by hand: 1.000; in the first 5.00 s: 5.000 (medians)"; got[2].Note != note {
		t.Errorf("%q, expected %q", got[2].Note, note)
	}
	delete(r.alone["wrk"], "y")
	if err := r.judge(&out, m, 2); !errors.Is(err, errIncomplete) {
		t.Errorf("judged without one network: %v", err)
	}
}

// What programs print of how long they waited is read, and what they do not is an error.
func TestWaits(t *testing.T) {
	const wrk = `Running 15s test @ http://10.0.0.1:6001/large
  1 threads and 1 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.59ms  163.11us   8.27ms   96.20%
    Req/Sec   385.00     10.00     400.00     90.00%
  Latency Distribution
     50%    2.57ms
     75%    2.60ms
     90%    2.68ms
     99%  985.00us
`
	if w, err := wrkWaits([]byte(wrk)); err != nil || w != (waits{0.00257, 0.000985}) {
		t.Errorf("wrk: %+v, %v", w, err)
	}
	const sockperf = `sockperf: Summary: Round trip is 2543.133 usec
sockperf: ---> <MAX> observation = 4543.133
sockperf: ---> percentile 99.999 = 4543.133
sockperf: ---> percentile 99.000 = 2600.500
sockperf: ---> percentile 50.000 = 2540.250
`
	w, err := sockperfWaits([]byte(sockperf))
	if err != nil || math.Abs(w.p50-0.00254025) > 1e-12 || math.Abs(w.p99-0.0026005) > 1e-12 {
		t.Errorf("sockperf: %+v, %v", w, err)
	}
	for _, text := range []string{"", "50%  1ms", "percentile 50.000 = 1"} {
		if _, err := wrkWaits([]byte(text)); err == nil {
			t.Errorf("wrk: %q is read", text)
		}
		if _, err := sockperfWaits([]byte(text)); err == nil {
			t.Errorf("sockperf: %q is read", text)
		}
	}
}
