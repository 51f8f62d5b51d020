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
			m.Best[in(&f.state).class(f.ev.Load)], m.Measured, m.Health, m.HealthAt, m.Proven = 0.21e9, true, 1, f.ev.At, true
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
	few := usual().Track.RateSamples - 1
	f.run(CostAware{}, few) // its queues have not been looked at
	f.path("a").Data.AppLimited = true
	f.run(CostAware{}, 30)
	if m := f.state.memory("a"); m.Measured || m.Best[0] != 0 {
		t.Errorf("measured %v, %g bit/s", m.Measured, m.Best[0])
	}
	f.state.Bulk = 1
	f.ev.Load.Connections = 2
	f.carry("a", 0.3e9)
	for range few {
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

// What may fill its path by itself is not moved for its delay to a path of which it is
// not known that it bears it; a little of what paths give is.
func TestBears(t *testing.T) {
	for _, tt := range []struct {
		name     string
		sends    float64
		limited  bool
		declared Need
		need     Need
		measured float64 // of b; 0 if it is not
		bore     float64
		want     bool
	}{
		{"wants more, as is declared", 300e6, false, Throughput, Throughput, 0, 0, true},
		{"begins to want more", 300e6, false, Auto, Latency, 0, 0, false},
		{"wants more, waits for answers as is declared", 300e6, false, Latency, Latency, 0, 0, true},
		{"nearly all", 300e6, true, Auto, Latency, 0, 0, false},
		{"nearly all, by its rate too", 300e6, true, Robust, Robust, 0, 0, true},
		{"a little", 30e6, true, Auto, Latency, 0, 0, true},
		{"nearly all, b carries it", 300e6, true, Auto, Latency, 310e6, 0, true},
		{"nearly all, b carries less", 300e6, true, Auto, Latency, 200e6, 0, false},
		{"nearly all, b bore it", 300e6, true, Auto, Latency, 0, 300e6, true},
		{"nearly all, b bore less", 300e6, true, Auto, Latency, 0, 200e6, false},
	} {
		f := newFeed(tt.declared)
		f.path("a").Prior, f.path("b").Prior = 0, 0
		f.carry("a", tt.sends)
		f.path("a").Data.AppLimited = tt.limited
		f.ev.Active = "a"
		var s State
		in(&s).measure(*f.path("a"), f.ev.Load, 320e6, 0, 0)
		if tt.measured > 0 {
			in(&s).measure(*f.path("b"), f.ev.Load, tt.measured, 0, 0)
		}
		s.memory("b").Sustained = tt.bore
		if got := in(&s).carriesDemand(f.ev, *f.path("b"), tt.need); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// What a canary gave whose flows got all they asked for is no bound of its path.
func TestLimitedCanaryIsNoMeasure(t *testing.T) {
	f := newFeed(Throughput)
	f.path("a").Prior, f.path("b").Prior = 0, 0
	f.carry("a", 100e6)
	f.carry("b", 90e6)
	f.path("b").Data.AppLimited = true
	for range 60 {
		f.step(CostAware{})
	}
	m := f.state.memory("b")
	if m.Measured || m.Sustained < 80e6 {
		t.Errorf("measured %v, bore %v", m.Measured, m.Sustained)
	}
}

// Tens of microseconds are no queue.
func TestInflation(t *testing.T) {
	for _, tt := range []struct{ base, rtt, least, most float64 }{
		{20e-6, 60e-6, 1, 1.5},
		{100e-6, 600e-6, 3, 4},
		{10e-3, 25e-3, 2.4, 2.5},
		{100e-6, 0, 1, 1},
	} {
		p := PathEvidence{Probe: Probe{RTT: tt.rtt, Samples: 9}}
		if got := (&Memory{Base: tt.base}).inflation(p, usual().Memory.JitterFloor); got < tt.least || got > tt.most {
			t.Errorf("%v after %v: %v", tt.rtt, tt.base, got)
		}
	}
}
