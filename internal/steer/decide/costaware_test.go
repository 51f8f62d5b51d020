package decide

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestFailureMovesAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		bend  func(*feed)
		kind  Kind
		to    string
		steps int
	}{
		"failed":     {func(f *feed) { f.path("a").State = Failed }, Failover, "b", 1},
		"ineligible": {func(f *feed) { f.path("a").State = Ineligible }, Failover, "b", 1},
		"timeouts and silence": {func(f *feed) {
			f.path("a").Data = Data{Tx: 1000, RTOs: 1}
		}, Failover, "b", usual().Failure.SilentSamples},
		"timeouts and silence in a queue that others fill": {func(f *feed) {
			f.path("a").Data, f.path("a").Passes = Data{Tx: 1000, RTOs: 1}, true
		}, "", "", 0},
		"suspect and silence": {func(f *feed) {
			f.path("a").State = Suspect
			f.path("a").Data = Data{Tx: 1000}
		}, Failover, "b", usual().Failure.SilentSamples},
		"a moment after a move": {func(f *feed) {
			f.state.Since, f.state.LastMove = f.ev.At, Switch
			f.path("a").State = Failed
		}, Failover, "b", 1},
		"in a crowd": {func(f *feed) {
			f.path("a").OtherPairs = 50
			f.path("a").State = Failed
		}, Failover, "b", 1},
		"all failed": {func(f *feed) {
			f.path("a").State, f.path("b").State = Failed, Failed
		}, "", "", 0},
		"others ineligible": {func(f *feed) {
			f.path("a").State, f.path("b").State = Failed, Ineligible
		}, "", "", 0},
		"one answer": {func(f *feed) { f.path("a").Data = Data{Tx: 1000, Rx: 60, RTOs: 1} }, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed(Throughput)
			f.path("b").Prior = 0.8e9
			f.calm(t, CostAware{})
			tt.bend(f)
			d, n := f.run(CostAware{}, 3, Switch, Failover, Fallback)
			if d.Kind != tt.kind || d.To != tt.to || n != tt.steps {
				t.Errorf("got %q to %q after %d samples (%s), want %q to %q after %d", d.Kind, d.To, n, d.Reason, tt.kind, tt.to,
					tt.steps)
			}
		})
	}
}

func TestFailoverPrefersWhatAnswers(t *testing.T) {
	f := newFeed(Throughput)
	c := *f.path("b")
	c.Network, c.Prior, c.Probe.Samples = "c", 5e9, 0
	f.ev.Paths = append(f.ev.Paths, c)
	f.path("b").Prior = 0.5e9
	f.step(CostAware{})
	f.path("a").State = Failed
	if d := f.step(CostAware{}); d.To != "b" {
		t.Errorf("moved to %q, want b, which answers probes: %s", d.To, d.Reason)
	}
}

func TestFallbackToTheDefault(t *testing.T) {
	f := newFeed(Throughput)
	f.at = Assignment{Active: "b"}
	f.carry("b", 1e9)
	f.step(CostAware{})
	f.path("b").State, f.path("a").State = Failed, Suspect
	if d := f.step(CostAware{}); d.Kind != Fallback || d.To != "a" {
		t.Errorf("got %q to %q: %s", d.Kind, d.To, d.Reason)
	}
}

// A rate limit to a tenth must move traffic within a second of evidence, and
// for every seed of noise.
func TestRateLimitToATenth(t *testing.T) {
	worst := 0
	for seed := range uint64(200) {
		f := newFeed(Throughput)
		f.r = rand.New(rand.NewPCG(seed, 3))
		f.path("b").Prior = 0.5e9 + 0.5e9*f.r.Float64()
		f.carry("b", f.path("b").Prior)
		f.calm(t, CostAware{})
		if f.at.Active != "a" {
			continue
		}
		f.limit("a", 0.1e9)
		d, n := f.run(CostAware{}, 30, Switch)
		if n == 0 || d.To != "b" {
			t.Fatalf("seed %d: stayed: %s", seed, f.last.Reason)
		}
		worst = max(worst, n)
	}
	t.Logf("slowest: %d samples", worst)
	within(t, "rate limit", time.Duration(worst)*Period, time.Second)
}

func TestWhatIsNoReasonToMove(t *testing.T) {
	for name, bend := range map[string]func(*feed, int){
		"the application sends less": func(f *feed, _ int) {
			f.carry("a", 0.1e9)
			f.path("a").Data.AppLimited = true
		},
		"one spike of a second's third": func(f *feed, i int) {
			f.carry("a", 1e9)
			if i%30 < 2 {
				f.limit("a", 0.3e9)
			}
		},
		"blank evidence": func(f *feed, _ int) {
			f.limit("a", 0.1e9)
			f.path("a").Data.Blank = true
		},
		"the other path is no better": func(f *feed, _ int) {
			f.limit("a", 0.4e9)
			f.path("b").Prior = 0.3e9
		},
		"probes of the other path are old": func(f *feed, _ int) {
			f.limit("a", 0.1e9)
			f.path("b").Probe.Age = 2 * usual().Failure.StaleProbe
		},
		"a pause": func(f *feed, _ int) {
			f.ev.Pause = true
			f.path("a").Data = Data{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed(Throughput)
			f.path("b").Prior = 0.8e9
			f.carry("b", 0.8e9)
			f.calm(t, CostAware{})
			for i := range 100 {
				bend(f, i)
				if d := f.step(CostAware{}); d.Moves() {
					t.Fatalf("sample %d: %s to %s: %s", i, d.Kind, d.To, d.Reason)
				}
			}
		})
	}
}

// A stall of the machine spoils every path at once.
func TestStallOfTheMachine(t *testing.T) {
	f := newFeed(Throughput)
	f.path("b").Prior = 0.9e9
	f.calm(t, CostAware{})
	f.limit("a", 0.1e9)
	f.path("b").Probe.RTT = 20e-3
	if d, n := f.run(CostAware{}, window, Switch, Failover, Fallback); n > 0 {
		t.Errorf("moved after %d samples: %s", n, d.Reason)
	}
}

func TestLossOutweighsGain(t *testing.T) {
	for _, tt := range []struct {
		upper float64
		moves bool
	}{{0.002, true}, {1, true}, {60, false}} {
		f := newFeed(Throughput)
		f.ev.SwitchLoss = LossEstimate{Mean: tt.upper / 2, Upper: tt.upper, N: 5}
		f.path("b").Prior = 1.5e9
		f.carry("b", 1.5e9)
		_, n := f.run(CostAware{}, 300, Switch)
		if (n > 0) != tt.moves {
			t.Errorf("half as much again for 10 s, a switch costs %v s: moved %v, want %v", tt.upper, n > 0, tt.moves)
		}
	}
}

func TestReturnAfterFailure(t *testing.T) {
	f := newFeed(Throughput)
	f.path("b").Prior = 0.5e9
	f.carry("b", 0.5e9)
	f.calm(t, CostAware{})
	f.path("a").State = Failed
	f.run(CostAware{}, 20, Failover)
	f.run(CostAware{}, 30)
	f.path("a").State = Up
	back := f.ev.At
	var first Decision
	for range 100 {
		d := f.step(CostAware{})
		if d.Kind == Canary && first.Kind == "" {
			first = d
		}
		if d.Kind == Switch {
			break
		}
	}
	if first.Kind != Canary {
		t.Errorf("first %s after %v up, want a canary", first.Kind, first.Evidence.At-back)
	}
	if f.at.Active != "a" {
		t.Errorf("still on %s: %s", f.at.Active, f.last.Reason)
	}
}

// calmWithoutTrial runs a few samples without any canary.
func (f *feed) calmWithoutTrial() {
	for range 10 {
		f.step(Static{Network: "a"})
	}
}

// Many pairs that see the same move at different times, in steps.
func TestNoHerd(t *testing.T) {
	starts, step := map[time.Duration]int{}, usual().Spread.Step
	for pair := range 40 {
		f := newFeed(Throughput)
		f.ev.Pair = strings.Repeat("x", pair+1)
		f.path("a").OtherPairs = 39
		f.path("b").Prior = 1.5e9
		f.carry("b", 1.5e9)
		f.calmWithoutTrial()
		f.prove("b")
		f.state.memory("b").Lead.Fast = usual().Lead.Threshold
		start := f.ev.At
		d, n := f.run(CostAware{Seed: 9}, 30, Canary, Switch)
		if n == 0 || d.Kind != Canary || d.Buckets != step {
			t.Fatalf("pair %d: %s of %d buckets, want a step of %d: %s", pair, d.Kind, d.Buckets, step, d.Reason)
		}
		starts[d.Evidence.At-start]++
		if d, n = f.run(CostAware{Seed: 9}, 40, Switch); n == 0 {
			t.Fatalf("pair %d: never finished: %s", pair, f.last.Reason)
		}
	}
	most := 0
	for _, n := range starts {
		most = max(most, n)
	}
	if len(starts) < 5 || most > 20 {
		t.Errorf("40 pairs began at %v", starts)
	}
}

func TestLatencyFollowsTheRoundTrip(t *testing.T) {
	f := newDialogue()
	f.path("b").Probe.RTT = 60e-6
	d, n := f.run(CostAware{}, 50, Switch)
	if n == 0 || d.To != "b" || math.Abs(d.PredictedGain-2.0/3) > 0.05 {
		t.Errorf("got %s to %q, gain %.2f; want b, 0.67: %s", d.Kind, d.To, d.PredictedGain, f.last.Reason)
	}
}

// Round trips of idle paths sway by tens of microseconds as the CPU is busy, for a second or
// two at a time: a pair that has declared no need is not moved after them.
func TestSwayOfIdlePathsIsNoGain(t *testing.T) {
	for seed := range uint64(20) {
		f := newFeed(Auto)
		f.r = rand.New(rand.NewPCG(seed, 7))
		c := *f.path("b")
		c.Network = "c"
		f.ev.Paths = append(f.ev.Paths, c)
		all, until := []string{"a", "b", "c"}, map[string]int{}
		for _, n := range all {
			f.path(n).Prior = 0
			f.carry(n, 1e6)
			f.path(n).Data.AppLimited = true
		}
		for i := range 600 {
			for _, n := range all {
				if p := f.path(n); i >= until[n] {
					until[n] = i + 5 + f.r.IntN(20)
					p.Probe.RTT = 24e-6 + 31e-6*f.r.Float64()
					p.Probe.Jitter = p.Probe.RTT / 4
				}
			}
			if d := f.step(CostAware{}); d.Moves() {
				t.Errorf("seed %d, %v: %s: %s", seed, f.ev.At, d.Kind, d.Reason)
			}
		}
		f.path("b").Probe.RTT, f.path("c").Probe.RTT = 5e-3, 5e-3
		f.path(f.at.Active).Probe.RTT = 50e-3
		if d, n := f.run(CostAware{}, 50, Switch); n == 0 {
			t.Errorf("seed %d: not moved for milliseconds: %s", seed, d.Reason)
		}
	}
}

// A robust pair leaves a path that loses and jitters for an equally fast one
// that does not; one that needs throughput alone has no reason to.
func TestRobustLeavesLoss(t *testing.T) {
	for need, want := range map[Need]string{Robust: "b", Throughput: "a"} {
		f := newFeed(need)
		f.path("a").Probe.Loss, f.path("a").Probe.Jitter = 0.01, 100e-6
		f.carry("b", 1e9)
		f.run(CostAware{}, 200, Switch)
		if f.at.Active != want {
			t.Errorf("%s: on %s, want %s: %s", need, f.at.Active, want, f.last.Reason)
		}
	}
}

// What a pair needs is learned where it is not declared.
func TestAutoNeed(t *testing.T) {
	for _, limited := range []bool{false, true} {
		f := newFeed(Auto)
		f.path("a").Data.AppLimited = limited
		f.run(CostAware{}, 50)
		want := Throughput
		if limited {
			want = Latency
		}
		if got := in(&f.state).need(f.ev); got != want {
			t.Errorf("app-limited %v: need %s, want %s", limited, got, want)
		}
	}
}

// An hour on a quiet path whose figures have heavy tails, with an equal, a
// slightly worse and a slightly overstated other path: nothing moves.
func TestQuietHour(t *testing.T) {
	hours := 20
	if testing.Short() {
		hours = 2
	}
	for seed := range uint64(hours) {
		s := Schedule{Name: "quiet", Need: Throughput, Loss: 0.005, Networks: []SimNetwork{
			{Name: "a", Capacity: 5e9, Many: 1, RTT: 60e-6, Noise: 0.05},
			{Name: "b", Capacity: 5e9, Many: 1, RTT: 60e-6, Noise: 0.05},
			{Name: "c", Capacity: 4.8e9, Many: 1, RTT: 60e-6, Noise: 0.05, Bias: 0.03},
		}, Phases: []Phase{{For: time.Hour, Load: Load{Connections: 16}}}}
		if seed%2 == 1 {
			s.Need = Latency
		}
		if seed%4 >= 2 {
			s.Phases[0].Load.Offered = 3e9
		}
		r, _ := Simulate(s, CostAware{}, seed)
		if r.Switches+r.Failovers > 0 {
			t.Errorf("seed %d, need %s, offered %v: %d switches, %d failovers", seed, s.Need, s.Phases[0].Load.Offered,
				r.Switches, r.Failovers)
			for _, x := range r.Trace {
				if x.Decision.Moves() {
					t.Logf("%v %s: %s", x.At, x.Decision.Kind, x.Decision.Reason)
				}
			}
		}
		if r.OfStatic() < 0.995 {
			t.Errorf("seed %d: exploring cost %.2f %%", seed, 100*(1-r.OfStatic()))
		}
	}
}

// Microseconds that two idle paths do not sway by are a gain: a pair that waits for answers of
// 100 us does a fifth more on a path of 80 us.
func TestSettledMicrosecondsAreAGain(t *testing.T) {
	for _, needed := range []float64{80e-6, 96e-6} {
		f := newFeed(Auto)
		for _, n := range []string{"a", "b"} {
			f.path(n).Prior = 0
			f.carry(n, 1e6)
			f.path(n).Data.AppLimited = true
		}
		moved := false
		for range 300 {
			f.path("a").Probe.RTT = 100e-6 * math.Exp(0.05*f.r.NormFloat64())
			f.path("b").Probe.RTT = needed * math.Exp(0.05*f.r.NormFloat64())
			f.step(CostAware{})
			moved = moved || f.at.Active == "b"
		}
		if worth := needed == 80e-6; moved != worth {
			t.Errorf("%v s against 100 us: moved %v: %s", needed, moved, f.last.Reason)
		}
	}
}
