package decide

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// Every family draws a schedule of its own from each seed, the same each time.
func TestFamilies(t *testing.T) {
	for _, f := range Families() {
		for seed := range uint64(20) {
			s := f.Schedule(seed)
			same := reflect.DeepEqual(s.Networks, f.Schedule(seed+2).Networks) && f.Name != "quiet"
			if same || !reflect.DeepEqual(s, f.Schedule(seed)) {
				t.Errorf("%s: seed %d does not decide what is drawn", f.Name, seed)
			}
			var sum time.Duration
			for i, p := range s.Phases {
				if sum += p.For; p.For < Period || p.For%Period != 0 || p.Load.Connections < 1 {
					t.Errorf("%s, seed %d, phase %d: %+v", f.Name, seed, i, p)
				}
				for _, bad := range p.Impairments {
					if _, known := s.network(bad.Network); !known || bad.Factor < 0 || bad.Factor >= 1 {
						t.Errorf("%s, seed %d, phase %d: %+v", f.Name, seed, i, bad)
					}
				}
			}
			if sum < 25*time.Second || sum > 5*time.Minute {
				t.Errorf("%s, seed %d lasts %v", f.Name, seed, sum)
			}
		}
		r, _ := Simulate(f.Schedule(2), CostAware{Seed: 2}, 2)
		checkResult(t, r)
	}
}

// network finds one of the schedule by its name.
func (s Schedule) network(name string) (SimNetwork, bool) {
	for _, n := range s.Networks {
		if n.Name == name {
			return n, true
		}
	}
	return SimNetwork{}, false
}

// CUBIC's response is Reno's on short round trips, and more on long ones: figures of RFC
// 9438, Tables 1 and 2, where segments have 1500 bytes, in segments of a window.
func TestLossyRates(t *testing.T) {
	for _, c := range []struct{ lost, rtt, window float64 }{
		{1e-2, 0.1, 12}, {1e-3, 0.1, 39}, {1e-4, 0.1, 187}, {1e-6, 0.1, 5926}, {1e-2, 0.01, 12},
		{1e-4, 0.01, 120}, {1e-6, 0.01, 1200},
	} {
		got := lossy(c.lost, c.rtt) * c.rtt / (8 * 1448)
		if math.Abs(math.Log(got/c.window)) > 0.07 {
			t.Errorf("loss %g, round trip %g s: a window of %.4g segments, want %g", c.lost, c.rtt, got, c.window)
		}
	}
	p := Phase{Load: Load{Connections: 4}, Impairments: []Impairment{{Network: "x", Fault: Loses, Factor: 0.01}}}
	n := SimNetwork{Name: "x", Capacity: 1e9, Many: 1, RTT: 0.02}
	if got, want := p.offers(n).carries, 4*lossy(0.01, 0.02); got != want {
		t.Errorf("four connections carry %v, want %v", got, want)
	}
	if n.RTT = 1e-4; p.offers(n).carries != 1e9 {
		t.Errorf("on a short round trip they carry %v", p.offers(n).carries)
	}
}

// Where nothing answers on any path none is known to have failed; where others answer,
// one is. What probes pass and connections do not is known once connections are there.
func TestWhatIsKnownOfFailures(t *testing.T) {
	bad := func(f Fault, names ...string) (out []Impairment) {
		for _, n := range names {
			out = append(out, Impairment{Network: n, Fault: f})
		}
		return out
	}
	for name, c := range map[string]struct {
		bad  []Impairment
		want []Condition
	}{
		"all":           {bad(BlackHole, "x", "y"), []Condition{Suspect, Suspect}},
		"one":           {bad(BlackHole, "y"), []Condition{Up, Failed}},
		"active":        {bad(BlackHoleForward, "x"), []Condition{Failed, Up}},
		"refused there": {bad(Refused, "y"), []Condition{Up, Up}},
		"refused here":  {bad(Refused, "x"), []Condition{Failed, Up}},
	} {
		w := newWorld(Schedule{Need: Throughput, Bare: true, Networks: []SimNetwork{
			{Name: "x", Capacity: 1e9, Many: 1, RTT: 1e-3}, {Name: "y", Capacity: 1e9, Many: 1, RTT: 1e-3}}}, 1)
		at := Assignment{Active: "x"}
		p := Phase{Load: Load{Connections: 4}, Impairments: c.bad}
		w.play(p, at, at)
		for i, e := range w.evidence(p, at).Paths {
			if e.State != c.want[i] {
				t.Errorf("%s: %s is %s, want %s", name, e.Network, e.State, c.want[i])
			}
		}
	}
}

// A network that connections do not pass is barred for longer the longer that has lasted.
func TestBars(t *testing.T) {
	var l link
	before := 0
	for range 12 {
		n := 0
		for l.refuse(true); l.reason() != ""; n++ {
			l.refuse(false)
		}
		if n < before || n < barFirst {
			t.Errorf("barred for %d periods, after %d", n, before)
		}
		before = n
	}
	if before < 4*barFirst {
		t.Errorf("barred for %d periods at last", before)
	}
	for range barForgotten + 1 {
		l.refuse(false)
	}
	if l.refuse(true); l.barred != barFirst {
		t.Errorf("after a minute of use barred for %d periods", l.barred)
	}
}
