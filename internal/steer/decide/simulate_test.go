package decide

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// spread of a policy's results over schedules.
type spreadOf struct{ hindsight, static []float64 }

func play(t *testing.T, from, n uint64, shape Shape, policy func(Schedule) Policy) (out spreadOf, all []Result) {
	t.Helper()
	for seed := from; seed < from+n; seed++ {
		s := RandomSchedule(seed, shape)
		r, _ := Simulate(s, policy(s), seed)
		checkResult(t, r)
		r.Trace = nil // of hundreds it is gigabytes
		out.hindsight = append(out.hindsight, r.OfHindsight())
		out.static = append(out.static, r.OfStatic())
		all = append(all, r)
	}
	return out, all
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

func quantile(v []float64, q float64) float64 {
	return slices.Sorted(slices.Values(v))[int(q*float64(len(v)-1))]
}

func TestRandomSchedules(t *testing.T) {
	n := uint64(200)
	if testing.Short() {
		n = 40
	}
	for _, need := range []Need{Throughput, Latency} {
		shape := Shape{Need: need}
		ours, all := play(t, 1, n, shape, func(s Schedule) Policy { return CostAware{Seed: s.Seed} })
		table, _ := play(t, 1, n, shape, func(s Schedule) Policy { return TablePolicy{Table: s.Table()} })
		usual, _ := play(t, 1, n, shape, func(Schedule) Policy { return Hysteresis{} })
		for name, v := range map[string]spreadOf{"cost-aware": ours, "table": table, "hysteresis": usual} {
			t.Logf("%s %s: of hindsight mean %.4f, 5%% %.4f, least %.4f; of static mean %.4f, 5%% %.4f, least %.4f", need, name,
				mean(v.hindsight), quantile(v.hindsight, 0.05), quantile(v.hindsight, 0), mean(v.static), quantile(v.static, 0.05),
				quantile(v.static, 0))
		}
		switches, false_ := 0, 0
		for i, r := range all {
			switches, false_ = switches+r.Switches, false_+r.False
			if r.OfStatic() < 0.98 {
				t.Errorf("%s, schedule %d: %.4f of the best static network", need, i+1, r.OfStatic())
			}
		}
		t.Logf("%s: %d switches, %d false", need, switches, false_)
		if m := mean(ours.hindsight); m < 0.97 || m <= mean(table.hindsight) || m <= mean(usual.hindsight) {
			t.Errorf("%s: %.4f of hindsight, table %.4f, hysteresis %.4f", need, m, mean(table.hindsight), mean(usual.hindsight))
		}
	}
}

func TestRandomSchedulesAreFixedBySeed(t *testing.T) {
	if !reflect.DeepEqual(RandomSchedule(7, Shape{}), RandomSchedule(7, Shape{})) {
		t.Error("the same seed gave two schedules")
	}
	if reflect.DeepEqual(RandomSchedule(7, Shape{}), RandomSchedule(8, Shape{})) {
		t.Error("two seeds gave the same schedule")
	}
	for seed := range uint64(100) {
		s := RandomSchedule(seed, Shape{})
		for i, p := range s.Phases {
			if p.For < 10*time.Second || p.For > 30*time.Second || len(p.Impairments) > 1 {
				t.Errorf("seed %d, phase %d: %+v", seed, i, p)
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	_, rec := Simulate(RandomSchedule(1, Shape{}), CostAware{}, 1)
	var s State
	i := 0
	for b.Loop() {
		s, _ = CostAware{}.Step(s, rec.Records[i%len(rec.Records)].Evidence)
		i++
	}
}

func TestDelayLengthensRoundTrips(t *testing.T) {
	s := Schedule{Need: Latency, Networks: []SimNetwork{{Name: "x", Capacity: 1e9, Many: 1, RTT: 1e-3},
		{Name: "y", Capacity: 1e9, Many: 1, RTT: 1e-3}}}
	got := newWorld(s, 1).truth(Phase{Impairments: []Impairment{{Network: "x", Fault: Delay, Factor: 2e-3}}})
	if x, y := 1/got["x"], 1/got["y"]; x < 4.99e-3 || x > 5.01e-3 || y < 0.99e-3 || y > 1.01e-3 {
		t.Errorf("round trips of %v and %v s", x, y)
	}
}
