package decide

import "testing"

// A dialogue does not go to a path that answers faster while nothing is on it but
// carries less than the pair sends.
func TestStaysWithWhatBearsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		sends float64
		kind  Kind
	}{"more than it bears": {0.27e9, ""}, "less": {0.1e9, Switch}} {
		t.Run(name, func(t *testing.T) {
			f := newFeed(Latency)
			for _, n := range []string{"a", "b"} {
				f.path(n).Prior = 0
			}
			f.carry("a", tt.sends)
			f.path("a").Data.AppLimited = true
			f.run(CostAware{}, 20)
			m := f.state.memory("b")
			m.Best[f.ev.Load.class()], m.Measured, m.Health, m.HealthAt, m.Proven = 0.21e9, true, 1, f.ev.At, true
			f.path("b").Probe.RTT = 30e-6
			if d, _ := f.run(CostAware{}, 15, Switch); d.Kind != tt.kind {
				t.Errorf("got %q: %s", d.Kind, f.last.Reason)
			}
		})
	}
}

// What a path carried when its senders were short of data, or were not yet known to
// be, is no measurement of it, and no reason to leave it when others come.
func TestShortOfDataIsNoMeasurement(t *testing.T) {
	f := newFeed(Auto)
	for _, n := range []string{"a", "b"} {
		f.path(n).Prior = 0
	}
	f.ev.Load.Connections = 1
	f.carry("a", 0.35e6)
	f.run(CostAware{}, least-1) // its queues have not been looked at
	f.path("a").Data.AppLimited = true
	f.run(CostAware{}, 30)
	if m := f.state.memory("a"); m.Measured || m.Best[0] != 0 {
		t.Errorf("measured %v, %g bit/s", m.Measured, m.Best[0])
	}
	f.state.Bulk = 1
	f.ev.Load.Connections = 2
	f.carry("a", 0.3e9)
	for range least - 1 {
		if d := f.step(CostAware{}); d.Kind != Stay {
			t.Errorf("got %q before anything is known: %s", d.Kind, d.Reason)
		}
	}
}

// A path of which no more is known than that it once gave little at this load is
// tried when the active path gives less than others have given.
func TestLittleOnceIsNoBound(t *testing.T) {
	f := newFeed(Throughput)
	for _, n := range []string{"a", "b"} {
		f.path(n).Prior = 0
	}
	f.ev.Load.Connections = 1
	f.carry("a", 0.3e9)
	f.run(CostAware{}, 30)
	f.state.memory("b").Best[0], f.state.memory("b").Measured = 0.35e6, false
	f.state.memory("b").NextTrial = 0
	f.limit("a", 0.1e9)
	if d, _ := f.run(CostAware{}, 30, Canary, Switch); d.To != "b" {
		t.Errorf("got %q to %q: %s", d.Kind, d.To, f.last.Reason)
	}
}
