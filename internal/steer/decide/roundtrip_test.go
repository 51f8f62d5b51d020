package decide

import (
	"testing"
	"time"
)

// What a path gave while others used it is no bound once probes show that they have gone; that
// the pair's own flows have gone shows nothing.
func TestEased(t *testing.T) {
	for name, tt := range map[string]struct {
		own  bool
		rtt  time.Duration
		want bool
	}{
		"others have gone":  {false, time.Millisecond, false},
		"a little faster":   {false, 3 * time.Millisecond, true},
		"its own have gone": {true, time.Millisecond, true},
	} {
		var s State
		p := PathEvidence{Network: "b", State: Up, Buckets: 16, Probe: Probe{RTT: 4e-3, Samples: 9}}
		at := time.Duration(0)
		see := func(n int) {
			for range n {
				m := in(&s).memory("b")
				m.observeProbe(p, &usual().Memory)
				in(&s).observeEased(m, p, at)
				at += Period
			}
		}
		see(10)
		in(&s).measure(p, Load{Connections: 8}, 270e6, 0.02, at)
		in(&s).memory("b").NextTrial = time.Hour
		p.Buckets = 0
		if !tt.own {
			see(20)
		}
		p.Probe.RTT = tt.rtt.Seconds()
		see(20)
		m := in(&s).memory("b")
		if m.Measured != tt.want || (m.NextTrial < time.Hour) == tt.want {
			t.Errorf("%s: measured %t, next canary at %v", name, m.Measured, m.NextTrial)
		}
	}
}

// Where competing load goes from a path, bulk tries the path soon after that.
func TestPathThatOthersLeave(t *testing.T) {
	busy := []Impairment{{Network: "b", Fault: Competing, Factor: 0.7}}
	s := Schedule{Name: "left", Need: Throughput, Bare: true, Loss: 0.005, Networks: []SimNetwork{
		{Name: "a", Capacity: 350e6, Many: 1, RTT: 1e-3, Noise: 0.03},
		{Name: "b", Capacity: 600e6, Many: 1, RTT: 1e-3, Noise: 0.03}},
		Phases: []Phase{{For: 20 * time.Second, Load: Load{Connections: 8}, Impairments: busy},
			{For: 20 * time.Second, Load: Load{Connections: 8}}}}
	for seed := range uint64(10) {
		_, rec := Simulate(s, CostAware{}, seed)
		for _, r := range rec.Records {
			if r.Evidence.At == 25*time.Second && r.Evidence.Active != "b" {
				t.Errorf("seed %d: on %s five seconds later", seed, r.Evidence.Active)
			}
		}
	}
}
