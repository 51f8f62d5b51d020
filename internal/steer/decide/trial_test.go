package decide

import (
	"math"
	"slices"
	"testing"
	"time"
)

// A path that only probes have seen gets a few flows first.
func TestCanaryBeforeGain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		carries float64
		want    Kind
	}{
		{"it carries", 1.5e9, Switch},
		{"it carries less than promised", 0.5e9, Stay},
		{"it carries nothing", 0, Stay},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFeed(Throughput)
			f.path("b").Prior = 1.5e9
			if f.carry("b", tt.carries); tt.carries == 0 {
				f.path("b").Data = Data{Tx: 1000, RTOs: 1}
			}
			d, n := f.run(CostAware{}, 100, Switch, Canary)
			if d.Kind != Canary || d.Buckets != 16 || n == 0 {
				t.Fatalf("got %s of %d buckets, want a canary of 16, a quarter of many bulk flows: %s", d.Kind, d.Buckets, d.Reason)
			}
			if d, _ = f.run(CostAware{}, 20, Switch, Stay); d.Kind != tt.want {
				t.Errorf("got %s, want %s: %s", d.Kind, tt.want, d.Reason)
			}
		})
	}
}

// Canaries whose flows get all they want are made larger before they are believed.
func TestCanaryGrows(t *testing.T) {
	f := newFeed(Throughput)
	f.path("b").Prior = 1.3e9
	f.carry("b", 20e6)
	f.path("b").Data.AppLimited = true
	var shares []int
	for range 100 {
		d := f.step(CostAware{})
		if d.Kind == Canary && !slices.Contains(shares, d.Buckets) {
			shares = append(shares, d.Buckets)
		}
		if d.Kind == Switch {
			break
		}
	}
	if !slices.Equal(shares, []int{16, 64}) || f.at.Active != "b" {
		t.Errorf("shares %v, active %s; want 16, 64 and then b", shares, f.at.Active)
	}
}

// A canary that held no flow is made larger, in the end by all: the buckets of a few long
// connections do not change.
func TestEmptyCanaryGrows(t *testing.T) {
	for need, want := range map[Need][]int{Robust: {2, 8, 32, 64}, Throughput: {16, 32, 64}} {
		f := newFeed(need)
		f.path("b").Prior = 1.5e9
		var shares []int
		for range 200 {
			if d := f.step(CostAware{}); d.Kind == Canary && !slices.Contains(shares, d.Buckets) {
				shares = append(shares, d.Buckets)
			}
		}
		if !slices.Equal(shares, want) {
			t.Errorf("need %s: shares %v, want %v", need, shares, want)
		}
	}
}

// Exploring costs at most a tenth of what it may gain.
func TestCanariesAreRationed(t *testing.T) {
	for _, connections := range []int{1, 8, 64} {
		f := newFeed(Throughput)
		f.ev.Load.Connections = connections
		f.path("b").Prior = 1.3e9
		f.carry("b", 0.3e9)
		tried := 0.0
		const steps = 6000
		for range steps {
			f.step(CostAware{})
			tried += f.at.Share("b")
		}
		if part := tried / steps; part > 0.1*0.3*1.2 || part == 0 {
			t.Errorf("%d connections: %.2f %% of the traffic was on canaries", connections, 100*part)
		}
	}
}

// Any trial is decided in a stated time, whatever its samples lack.
func TestEveryTrialEnds(t *testing.T) {
	for name, bend := range map[string]func(*feed, int){
		"data in one sample of five": func(f *feed, i int) {
			if f.carry("b", 0.99e9); i%5 != 0 {
				f.path("b").Data = Data{}
			}
		},
		"most samples are blank": func(f *feed, i int) {
			f.carry("b", 1.01e9)
			f.path("b").Data.Blank = i%5 != 0
		},
		"as good as the active path": func(f *feed, i int) { f.carry("b", 1e9*(1+0.1*float64(i%2))) },
		"nothing but what is asked for": func(f *feed, _ int) {
			f.carry("b", 1e6)
			f.path("b").Data.AppLimited = true
		},
		"nowhere to fail over to": func(f *feed, i int) {
			f.carry("b", 1e9)
			f.path("a").State, f.path("b").State = Up, Up
			if f.at.Canary != "" && i%3 == 0 {
				f.path("a").State, f.path("b").State = Failed, Failed
			}
		},
	} {
		for _, need := range []Need{Throughput, Latency, Robust} {
			for _, connections := range []int{1, 8, 64} {
				f := newFeed(need)
				f.ev.Load.Connections = connections
				f.path("b").Prior = 1.2e9
				trials, began := 0, time.Duration(-1)
				for i := range 2000 {
					bend(f, i)
					switch d := f.step(CostAware{}); {
					case d.Kind != Canary:
						began = -1
					case began < 0:
						began = f.ev.At
						trials++
					case f.ev.At-began > usual().Canary.Longest:
						t.Fatalf("%s, %s, %d connections: a trial has gone on for %v: %s", name, need, connections, f.ev.At-began,
							d.Reason)
					}
				}
				if trials == 0 && need != Latency {
					t.Errorf("%s, %s, %d connections: nothing was tried", name, need, connections)
				}
			}
		}
	}
}

func TestCanaryWait(t *testing.T) {
	p := usual()
	for _, tt := range []struct {
		cost, up    float64
		stood, want time.Duration
	}{
		// sqrt(2 * 10 s * 0.25 s / 0.2), and with all the longer past.
		{0.25, 0.2, 0, 5 * time.Second},
		{0.25, 0.2, 10 * time.Second, 5 * time.Second},
		{0.25, 0.2, 160 * time.Second, 20 * time.Second},
		{0.25, 100, 0, 2236 * time.Millisecond},      // no more than all can be gained
		{0.001, 1, 0, p.Canary.LeastWait},            // a sliver
		{0.25, 0, 10 * time.Hour, p.Canary.MostWait}, // the margin at least is hoped for
		{0.25, 0.03, time.Minute, 32 * time.Second},  // 31.6 s
	} {
		if got := p.canaryWait(tt.cost, tt.up, tt.stood); (got - tt.want).Abs() > 500*time.Millisecond {
			t.Errorf("cost %v, up %v, stood %v: %v, want %v", tt.cost, tt.up, tt.stood, got, tt.want)
		}
	}
}

// The first figures of a load that has changed are of connections that begin: a
// path that carries less than the active one is not better than those.
func TestConnectionsThatBegin(t *testing.T) {
	f := newFeed(Throughput)
	f.path("a").Prior, f.path("b").Prior = 0, 0
	f.carry("a", 300e6)
	f.carry("b", 250e6)
	f.calm(t, CostAware{})
	f.ev.Load.Connections = 4
	for _, rate := range []float64{220e6, 193e6} {
		f.carry("a", rate)
		f.step(CostAware{})
	}
	f.carry("a", 310e6)
	if d, n := f.run(CostAware{}, 60, Switch); n > 0 {
		t.Errorf("switched after %d samples: %s", n, d.Reason)
	}
}

// A canary that carries little and leaves its path without a queue has not filled it:
// all flows are tried, before the path is held for slow.
func TestCanaryThatDoesNotFillItsPath(t *testing.T) {
	for _, tt := range []struct {
		name string
		srtt float64
		want Kind
		most int
	}{
		{"no queue", 150e-6, Switch, Buckets},
		{"a queue", 10e-3, Stay, Buckets / 4},
	} {
		f := newFeed(Throughput)
		f.path("a").Prior, f.path("b").Prior = 0, 0
		f.carry("a", 300e6)
		most, last := 0, Kind("")
		for range 80 {
			// A quarter of the flows brings a quarter of what it had; all fill the path.
			f.carry("b", 75e6)
			if f.at.Share("b") > 0.5 {
				f.carry("b", 400e6)
			}
			f.path("b").Data.SRTT = tt.srtt
			d := f.step(CostAware{})
			if d.Kind == Canary {
				most = max(most, d.Buckets)
			} else if last == Canary {
				if d.Kind != tt.want || most != tt.most {
					t.Errorf("%s: %s after a canary of %d buckets at most: %s", tt.name, d.Kind, most, d.Reason)
				}
				break
			}
			last = d.Kind
		}
		if last != Canary {
			t.Errorf("%s: no canary: %s", tt.name, last)
		}
	}
}

// The longer nothing has changed, the more a canary must show.
func TestAcceptAt(t *testing.T) {
	s := State{Trial: Trial{To: "b"}}
	by := usual().Canary
	soon, later := in(&s).acceptAt(5*time.Second), in(&s).acceptAt(time.Hour)
	if soon != by.AcceptAt || later < by.AcceptAt+1 || later > 2*by.AcceptAt {
		t.Errorf("%v errors soon after a change, %v an hour later", soon, later)
	}
}

// What a few samples have shown is evidence of less, for a move, than what many have.
func TestFewSamplesAreDoubted(t *testing.T) {
	f := newFeed(Throughput)
	f.path("b").Prior = 0
	var s State
	low := func(doubt float64) float64 {
		in(&s).measure(*f.path("b"), f.ev.Load, 1e9, doubt, 0)
		return in(&s).rate(f.ev, *f.path("b"), 0).low
	}
	if many, few := low(0), low(0.05); many != 1e9 || few > 0.92e9 || few < 0.88e9 {
		t.Errorf("%v of many, %v of few", many, few)
	}
}

// Connections bring their windows along: on a path of a longer round trip they get less until these have grown.
// What has not filled its path is waited for, what has is judged by what it gives, and what does not grow as well.
func TestWindowsGrow(t *testing.T) {
	for _, c := range []struct {
		name        string
		srtt        time.Duration
		retrans     float64
		first, most float64 // of what the canary's quarter had before
		moves       bool
	}{
		{"they grow", 20 * time.Millisecond, 0, 0.5, 2.5, true},
		{"they get as much at once", 20 * time.Millisecond, 0, 1.1, 2.5, true},
		{"they fill its queue", 40 * time.Millisecond, 0, 0.5, 2.5, false},
		{"they lose", 20 * time.Millisecond, 0.01, 0.5, 2.5, false},
		{"they do not grow", 20 * time.Millisecond, 0, 0.5, 0.5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFeed(Throughput)
			f.ev.Load.Connections = 4
			for _, n := range []string{"a", "b"} {
				f.path(n).Prior = 0
			}
			f.path("b").Probe.RTT = 20e-3
			f.carry("a", 100e6)
			f.path("a").Data.SRTT = 20e-3
			part, share := c.first, 0.0
			for range 40 {
				if now := f.at.Share("b"); now > 0 {
					if share > 0 {
						part = min(part+0.05, max(c.most, c.first))
					}
					f.carry("b", 100e6*now*part)
					f.path("b").Data.SRTT, f.path("b").Data.Retrans = c.srtt.Seconds(), c.retrans
				} else {
					part = c.first
				}
				share = f.at.Share("b")
				f.step(CostAware{})
			}
			if moved := f.at.Active == "b"; moved != c.moves {
				t.Errorf("on %s", f.at.Active)
			}
		})
	}
}

// In simulation as well: moved connections carry what their windows allow on the longer round trip, and more and more.
func TestWindowsInSimulation(t *testing.T) {
	s := Schedule{Need: Throughput, Windows: true, Networks: []SimNetwork{
		{Name: "near", Capacity: 100e6, Many: 1, RTT: 1e-3, Queue: 4e-3},
		{Name: "far", Capacity: 400e6, Many: 1, RTT: 20e-3, Queue: 4e-3}}}
	p := Phase{Load: Load{Connections: 4}}
	w := newWorld(s, 1)
	at := Assignment{Active: "near"}
	carried := func(next Assignment) rates {
		w.moveWindows(p, at, next)
		out := w.filled(p, next)
		w.play(p, at, next)
		at = next
		return out
	}
	if got := carried(at)["near"]; got != 1 {
		t.Errorf("at first: %v of its share", got)
	}
	// 100 Mbit/s for 5 ms are 25 of 20 ms.
	last := carried(Assignment{Active: "far"})["far"]
	if math.Abs(last-25.0/400) > 1e-9 {
		t.Errorf("as it comes: %v of its share", last)
	}
	for i := range 60 {
		now := carried(at)["far"]
		if now < last || i < 10 && now > 0.4 {
			t.Fatalf("%v after %v, %d periods after it came", now, last, i)
		}
		last = now
	}
	if last != 1 {
		t.Errorf("after six seconds: %v of its share", last)
	}
	if got := carried(Assignment{Active: "near"})["near"]; got != 1 {
		t.Errorf("back: %v of its share", got)
	}
	if got := carried(Assignment{Active: "far"})["far"]; got > 0.07 {
		t.Errorf("there again: %v of its share", got)
	}
}

// equalsDoNotHoldUpOthers: while a canary compares two paths alike, a third waits, of which nothing is known.
func equalsDoNotHoldUpOthers(p *Params) bool {
	s := Schedule{Name: "alike", Need: Throughput, Bare: true, Loss: 0.01, Networks: []SimNetwork{
		{Name: "a", Capacity: 200e6, Many: 1, RTT: 1e-3, Noise: 0.05},
		{Name: "b", Capacity: 206e6, Many: 1, RTT: 1e-3, Noise: 0.05},
		{Name: "c", Capacity: 400e6, Many: 1, RTT: 1e-3, Noise: 0.05},
	}, Phases: []Phase{{For: 10 * time.Second, Load: Load{Connections: 16}}}}
	sum := 0.0
	const seeds = 20
	for seed := range uint64(seeds) {
		sum += Play(s, CostAware{Params: p}, seed).OfHindsight() / seeds
	}
	return sum > 0.85
}
