package decide

import (
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"
)

// TestEveryMechanismIsShown: each mechanism earns something in a family of schedules, by a
// figure in docs/explanation/decision-simulated.md that can be told apart from zero, or a
// course here shows what it is for: so with it, and not so without. What neither shows
// has to go.
func TestEveryMechanismIsShown(t *testing.T) {
	page, err := os.ReadFile("../../../docs/explanation/decision-simulated.md")
	if err != nil {
		t.Fatal(err)
	}
	courses := shown()
	for _, m := range Mechanisms() {
		course, ok := courses[m.Name]
		delete(courses, m.Name)
		if !ok {
			row := regexp.MustCompile(`(?m)^\| ` + m.Name + ` \|.*\*\*\+.*$`).FindString(string(page))
			if row == "" {
				t.Errorf("%s: neither a family nor a course shows what it earns", m.Name)
			}
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			if !course(usual()) {
				t.Errorf("not so: %s", m.About)
			}
			if course(m.Without()) {
				t.Errorf("so without it: %s", m.About)
			}
		})
	}
	for name := range courses {
		t.Errorf("%s: no such mechanism", name)
	}
}

// shown are the courses, by mechanism: true is what it is for.
func shown() map[string]func(*Params) bool {
	return map[string]func(*Params) bool{
		"silence":      silenceIsLeft,
		"stale":        oldProbesAreNoGain,
		"jitter-floor": microsecondsAreNoQueue,
		"own-load":     func(p *Params) bool { return movesUnderOwnLoad(p) < 10 },
		"reversals":    func(p *Params) bool { return movesUnderOwnLoad(p) < 10 },
		"timeout":      lossIsLeft,
		"probe-loss":   lossOfProbesIsLessRate,
		"load-class":   oneConnectionIsNotMany,
		"eased":        whatOthersLeaveIsTried,
		"low-doubt":    fewSamplesAreLess,
		"stall":        aStallIsNoEvidence,
		"cost":         costOutweighs,
		"shown":        noMoveWithoutData,
		"demand":       staysWithWhatBearsIt,
		"busy":         staysWhereItFillsItsPath,
		"crowd":        func(p *Params) bool { return firstOfMany(p).Kind == Canary },
		"doubt":        func(p *Params) bool { return movesBetweenEquals(p) < 20 },
		"prior":        laterMustShowMore,
		"ratio-clip":   oneSpikeIsNoGain,
		"mean-gain":    func(p *Params) bool { return movesBetweenEquals(p) < 20 },
		"mute":         aMomentWithoutAnswersEndsNoCanary,
		"empty":        emptyCanariesGrow,
		"slack":        slowSendersAreNoSlowPath,
		"growing":      whatGrowsIsWaitedFor,
		"overestimate": overestimatesAreLearnt,
		"outbid":       equalsDoNotHoldUpOthers,
	}
}

func silenceIsLeft(p *Params) bool {
	f := newFeed(Throughput)
	f.run(CostAware{Params: p}, 20)
	f.path("a").Data = Data{Tx: 1000, RTOs: 1}
	d, _ := f.run(CostAware{Params: p}, 5, Failover)
	return d.To == "b"
}

func oldProbesAreNoGain(p *Params) bool {
	f := newFeed(Throughput)
	f.run(CostAware{Params: p}, 20)
	f.limit("a", 0.1e9)
	f.path("b").Probe.Age = 60
	_, n := f.run(CostAware{Params: p}, 100, Canary, Switch)
	return n == 0
}

// microsecondsAreNoQueue: a busy CPU that is calm again says nothing of what a path carries.
func microsecondsAreNoQueue(p *Params) bool {
	return measuredAfter(p, 60e-6, 25e-6)
}

// measuredAfter tells whether what was measured on a path still counts once others' traffic,
// or the CPU's, changes its round trip.
func measuredAfter(p *Params, was, is float64) bool {
	s := step{&State{}, p}
	path := PathEvidence{Network: "b", State: Up, Probe: Probe{RTT: was, Samples: 9}}
	m := s.memory("b")
	for i := range 60 {
		at := time.Duration(i) * Period
		if i == 30 {
			s.measure(path, Load{Connections: 8}, 270e6, 0.02, at)
			path.Probe.RTT = is
		}
		m.observeProbe(path, &p.Memory)
		s.observeEased(m, path, at)
	}
	return m.Measured
}

func whatOthersLeaveIsTried(p *Params) bool { return !measuredAfter(p, 4e-3, 1e-3) }

// movesUnderOwnLoad counts the moves in ten minutes of a pair whose own traffic makes the path
// slower that it is on.
func movesUnderOwnLoad(p *Params) (moves int) {
	f := newDialogue()
	for range 6000 {
		for _, n := range []string{"a", "b"} {
			f.path(n).Probe.RTT = 200e-6
			if f.at.Share(n) > 0.5 {
				f.path(n).Probe.RTT = 400e-6
			}
			f.path(n).Probe.RTT *= math.Exp(0.1 * f.r.NormFloat64())
		}
		if f.step(CostAware{Params: p}).Kind == Switch {
			moves++
		}
	}
	return moves
}

// lossIsLeft: of two equally long paths a dialogue leaves the one that loses.
func lossIsLeft(p *Params) bool {
	f := newDialogue()
	f.path("a").Probe.Loss = 0.01
	f.run(CostAware{Params: p}, 100, Switch)
	return f.at.Active == "b"
}

// lossOfProbesIsLessRate: a path promises a fifth more, and every fifth probe is lost on it.
func lossOfProbesIsLessRate(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior, f.path("b").Probe.Loss = 1.2e9, 0.2
	s := step{&State{}, p}
	return s.rate(f.ev, *f.path("b"), 1e9).mid < 1e9
}

// oneConnectionIsNotMany: a path gives one connection a part of what it gives many.
func oneConnectionIsNotMany(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior = 0
	s := step{&State{}, p}
	s.measure(*f.path("b"), Load{Connections: 1}, 0.3e9, 0.02, 0)
	s.measure(*f.path("b"), Load{Connections: 64}, 2e9, 0.02, 0)
	f.ev.Load.Connections = 1
	return s.rate(f.ev, *f.path("b"), 0).mid < 0.5e9
}

func fewSamplesAreLess(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior = 0
	s := step{&State{}, p}
	s.measure(*f.path("b"), f.ev.Load, 1e9, 0.05, 0)
	return s.rate(f.ev, *f.path("b"), 0).low < 0.95e9
}

// aStallIsNoEvidence: what is seen for half a second while the machine stalls moves nothing.
func aStallIsNoEvidence(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior = 0.9e9
	f.run(CostAware{Params: p}, 50)
	f.prove("b")
	f.limit("a", 0.1e9)
	f.path("b").Probe.RTT = 20e-3
	_, n := f.run(CostAware{Params: p}, window, Switch, Canary)
	return n == 0
}

func costOutweighs(p *Params) bool {
	f := newFeed(Throughput)
	f.ev.SwitchLoss = LossEstimate{Mean: 30, Upper: 60, N: 5}
	f.path("b").Prior = 1.5e9
	f.carry("b", 1.5e9)
	_, n := f.run(CostAware{Params: p}, 300, Switch)
	return n == 0
}

// noMoveWithoutData: probes are answered, and data does not pass.
func noMoveWithoutData(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior = 1.5e9
	f.path("b").Data = Data{Tx: 1000, RTOs: 1}
	_, n := f.run(CostAware{Params: p}, 200, Switch)
	return n == 0
}

// staysWithWhatBearsIt: a dialogue sends more than the path that answers faster has carried.
func staysWithWhatBearsIt(p *Params) bool {
	f := newFeed(Latency)
	f.path("a").Prior, f.path("b").Prior = 0, 0
	f.carry("a", 0.27e9)
	f.path("a").Data.AppLimited = true
	f.run(CostAware{Params: p}, 20)
	f.prove("b")
	f.state.memory("b").Best[in(&f.state).class(f.ev.Load)] = 0.21e9
	f.path("b").Probe.RTT = 30e-6
	_, n := f.run(CostAware{Params: p}, 15, Switch)
	return n == 0
}

// staysWhereItFillsItsPath: nearly all that any path gave is sent, and of the other one
// nothing is known but that it is fast while idle.
func staysWhereItFillsItsPath(p *Params) bool {
	f := newFeed(Auto)
	f.path("a").Prior, f.path("b").Prior = 0, 0
	f.carry("a", 300e6)
	f.path("a").Data.AppLimited = true
	f.ev.Active = "a"
	s := step{&State{}, p}
	s.measure(*f.path("a"), f.ev.Load, 320e6, 0, 0)
	return !s.carriesDemand(f.ev, *f.path("b"), Latency)
}

// firstOfMany is the first decision of a pair that sees what many others do.
func firstOfMany(p *Params) Decision {
	f := newFeed(Throughput)
	f.path("a").OtherPairs = 39
	f.path("b").Prior = 1.5e9
	f.carry("b", 1.5e9)
	f.calmWithoutTrial()
	f.prove("b")
	f.state.memory("b").Lead.Fast = p.Lead.Threshold
	d, _ := f.run(CostAware{Seed: 9, Params: p}, 30, Canary, Switch)
	return d
}

// movesBetweenEquals counts the moves of pairs whose two paths give the same, where the other
// one promises more.
func movesBetweenEquals(p *Params) (moves int) {
	for seed := range uint64(100) {
		f := newFeed(Throughput)
		f.r = rand.New(rand.NewPCG(seed, 11))
		f.path("b").Prior = 1.2e9
		for range 600 {
			for _, n := range []string{"a", "b"} {
				f.carry(n, 1e9*math.Exp(0.1*f.r.NormFloat64()))
			}
			if f.step(CostAware{Params: p}).Kind == Switch {
				moves++
			}
		}
	}
	return moves
}

func laterMustShowMore(p *Params) bool {
	s := step{&State{Trial: Trial{To: "b"}}, p}
	return s.acceptAt(time.Hour) > s.acceptAt(5*time.Second)+1
}

// oneSpikeIsNoGain: of the samples of a canary one is far out.
func oneSpikeIsNoGain(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior = 1.2e9
	f.run(CostAware{Params: p}, 20)
	for i := range 600 {
		if f.carry("b", 1e9); i%20 == 0 {
			f.carry("b", 10e9)
		}
		if f.step(CostAware{Params: p}).Kind == Switch {
			return false
		}
	}
	return true
}

// aMomentWithoutAnswersEndsNoCanary: of the samples of a canary on a full path one has no answer.
func aMomentWithoutAnswersEndsNoCanary(p *Params) bool {
	f := newFeed(Throughput)
	f.path("b").Prior = 1.5e9
	f.carry("b", 1.5e9)
	f.run(CostAware{Params: p}, 100, Canary)
	full := f.path("b").Data
	f.path("b").Data = Data{Tx: 1000, RTOs: 1}
	f.step(CostAware{Params: p})
	f.path("b").Data = full
	d, _ := f.run(CostAware{Params: p}, 10, Stay, Switch)
	return f.at.Canary == "b" || d.Kind == Switch
}

func emptyCanariesGrow(p *Params) bool {
	f := newFeed(Robust)
	f.path("b").Prior = 1.5e9
	most := 0
	for range 200 {
		if d := f.step(CostAware{Params: p}); d.Kind == Canary {
			most = max(most, d.Buckets)
		}
	}
	return most == Buckets
}

// whatGrowsIsWaitedFor: flows have come to a long path, which gives most once their windows fill it; meanwhile a
// third path, which they fill at once, gives more.
func whatGrowsIsWaitedFor(p *Params) bool {
	f := newFeed(Throughput)
	f.ev.Load.Connections = 4
	f.ev.Paths = append(f.ev.Paths, PathEvidence{Network: "c", State: Up,
		Probe: Probe{RTT: 5e-3, Jitter: 10e-6, Samples: 10, Age: 0.01}})
	f.path("a").Prior, f.path("b").Prior, f.path("b").Probe.RTT = 0, 0, 20e-3
	f.path("c").State = Failed // until the flows are on b
	gives := 0.0
	for range 40 {
		f.carry("a", 62e6*f.at.Share("a"))
		if gives = min(gives+4e6, 184e6); f.at.Share("b") == 0 {
			gives = 77e6
		}
		f.carry("b", gives*f.at.Share("b"))
		f.path("b").Data.SRTT = 20e-3
		// A quarter of the flows has no queue there.
		f.carry("c", min(124e6, 250e6*f.at.Share("c")))
		f.path("c").Data.SRTT = 5e-3 + 20e-3*max(f.at.Share("c")-0.5, 0)
		if f.at.Active == "b" {
			f.path("c").State = Up
		}
		if f.step(CostAware{Params: p}); f.at.Active == "c" {
			return false
		}
	}
	return f.at.Active == "b"
}

// slowSendersAreNoSlowPath: a quarter of the flows brings a quarter of what it had, without a
// queue, and all of them bring more.
func slowSendersAreNoSlowPath(p *Params) bool {
	f := newFeed(Throughput)
	f.path("a").Prior, f.path("b").Prior = 0, 0
	f.carry("a", 300e6)
	for range 80 {
		if f.carry("b", 75e6); f.at.Share("b") > 0.5 {
			f.carry("b", 400e6)
		}
		f.path("b").Data.SRTT = 150e-6
		f.step(CostAware{Params: p})
	}
	return f.at.Active == "b"
}
