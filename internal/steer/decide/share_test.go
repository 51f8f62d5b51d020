package decide

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// sharing is the policy with flows that share networks.
func sharing(seed uint64) CostAware { return CostAware{Seed: seed}.WithShare(true) }

// sharedOf is the best that several networks give at once, where flows shared some.
func sharedOf(r Result) float64 {
	if r.Shares > 0 {
		return r.HindsightShared
	}
	return 0
}

// Bulk gets nearly the sum of what equal limits give, and where sharing wins nothing no less
// than the best network gives. Without shares it has one network.
func TestFlowsShareNetworks(t *testing.T) {
	least := map[string]float64{"share-two": 1.8, "share-three": 2.5, "share-uneven": 1.4, "share-fail": 1.4,
		"share-beneath": 0.98, "share-cpu": 0.98, "share-asked": 0.98, "share-swing": 1.1}
	for _, f := range sharers() {
		for seed := uint64(40); seed < 46; seed += 2 {
			s := f.Schedule(seed)
			r, _ := Simulate(s, sharing(seed), seed)
			checkResult(t, r)
			if r.OfStatic() < least[f.Name] {
				t.Errorf("%s, seed %d: %.3f of the best network, want %v", f.Name, seed, r.OfStatic(), least[f.Name])
			}
			if one := Play(s, CostAware{Seed: seed}.WithShare(false), seed); one.Shares > 0 || one.OfStatic() > 1.2 {
				t.Errorf("%s, seed %d: without shares %.3f of the best network", f.Name, seed, one.OfStatic())
			}
		}
	}
}

// Flows that wait for answers, and few flows, have one network.
func TestWhatSharesNothing(t *testing.T) {
	for name, change := range map[string]func(*Schedule){
		"answers": func(s *Schedule) { s.Need = Latency },
		"few":     func(s *Schedule) { s.Phases[0].Load.Connections = 7 },
	} {
		s := Families()[slices.IndexFunc(Families(), func(f Family) bool { return f.Name == "share-two" })].Schedule(2)
		change(&s)
		if r := Play(s, sharing(2), 2); r.Shares > 0 {
			t.Errorf("%s: shared %d times", name, r.Shares)
		}
	}
}

// sharedFeed is a pair whose flows share as many networks as there are.
func sharedFeed(t *testing.T, networks ...string) *feed {
	t.Helper()
	f := newFeed(Throughput)
	f.ev.Paths = slices.DeleteFunc(f.ev.Paths, func(p PathEvidence) bool { return !slices.Contains(networks, p.Network) })
	for _, n := range networks {
		if _, ok := f.ev.path(n); !ok {
			p := *f.path("b")
			p.Network = n
			f.ev.Paths = append(f.ev.Paths, p)
		}
	}
	for _, n := range networks {
		f.path(n).Prior = 0
		f.carry(n, 1e9)
	}
	for range 200 {
		if f.step(sharing(1)); len(f.at.Networks()) == len(networks) && f.state.Shared.Trying == "" && f.at.Canary == "" {
			return f
		}
	}
	t.Fatalf("flows are on %v: %s", f.at, f.last.Reason)
	return nil
}

// A network that fails loses its flows to the others in the next decision, be it the active
// one or another, and no other flow moves.
func TestSharedNetworkFails(t *testing.T) {
	for _, failing := range []string{"a", "b", "c"} {
		f := sharedFeed(t, "a", "b", "c")
		before := f.at
		f.path(failing).State = Failed
		f.step(sharing(1))
		for b := range flow.Width {
			was, is := before.On(b, flow.Width), f.at.On(b, flow.Width)
			if is == failing || was != failing && is != was {
				t.Errorf("%s failed: bucket %d was on %s and is on %s: %s", failing, b, was, is, f.last.Reason)
			}
		}
		if f.last.Kind != Share && f.last.Kind != Failover || len(f.at.Networks()) != 2 {
			t.Errorf("%s failed: %s: %+v", failing, f.last.Kind, f.at)
		}
	}
	f := sharedFeed(t, "a", "b")
	f.path("a").State = Failed
	if f.step(sharing(1)); f.last.Kind != Failover || f.at != (Assignment{Active: "b"}) {
		t.Errorf("one is left: %+v, %s", f.at, f.last.Reason)
	}
}

// Sharing ends where one network carries all that is asked, where the flows have become
// few, and where the pair's flows that wait for answers have come to the network.
func TestSharingEnds(t *testing.T) {
	for name, change := range map[string]func(*feed){
		"asked": func(f *feed) {
			for _, n := range []string{"a", "b"} {
				f.carry(n, 0.3e9)
				f.path(n).Data.AppLimited = true
			}
		},
		"few":     func(f *feed) { f.ev.Load.Connections = 3 },
		"answers": func(f *feed) { f.path("b").Answers = true },
		"paused":  func(f *feed) { f.ev.Pause = true; f.path("a").Data, f.path("b").Data = Data{}, Data{} },
	} {
		f := sharedFeed(t, "a", "b")
		change(f)
		if f.run(sharing(1), 80, Stay); f.at != (Assignment{Active: "a"}) {
			t.Errorf("%s: on %+v: %s", name, f.at, f.last.Reason)
		}
	}
}

// A network that adds nothing is tried ever more rarely.
func TestSharingBacksOff(t *testing.T) {
	p := defaultShare()
	for fails, want := range []time.Duration{5, 5, 10, 20, 40, 80, 160, 300, 300} {
		if got := p.sharesWait(fails); got != want*time.Second {
			t.Errorf("after %d: %v", fails, got)
		}
	}
}

// What takes more CPU for each byte is to bring as much more.
func TestSharingIsWorthItsCPU(t *testing.T) {
	f := newFeed(Throughput)
	f.path("a").CPU, f.path("b").CPU = 1, 2
	f.ev.Active = "a"
	got := in(&State{}).worth(f.ev, Portions{{"b", 32}})
	if want := usual().Share.Margin + 0.5; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	f.path("b").CPU = 0
	if got := in(&State{}).worth(f.ev, Portions{{"b", 32}}); got != usual().Share.Margin {
		t.Errorf("unknown: %v", got)
	}
}

// Portions follow what networks carry, and none is without a bucket.
func TestWeights(t *testing.T) {
	p := defaultShare()
	for _, tt := range []struct {
		each [3]float64
		with Portions
		want Portions
	}{
		{[3]float64{2, 1, 0}, Portions{{"b", 16}}, Portions{{"b", 21}}},
		{[3]float64{1, 1, 2}, Portions{{"b", 16}, {"c", 16}}, Portions{{"b", 16}, {"c", 32}}},
		{[3]float64{0, 1, 0}, Portions{{"b", 16}}, Portions{{"b", 56}}},
		{[3]float64{0, 1, 1}, Portions{{"b", 16}, {"c", 16}}, Portions{{"b", 28}, {"c", 32}}},
		{[3]float64{1, 0, 1}, Portions{{"b", 16}, {"c", 16}}, Portions{{"b", 4}, {"c", 32}}},
	} {
		h := Shared{With: tt.with, Each: tt.each, Total: tt.each[0] + tt.each[1] + tt.each[2]}
		if got := h.weights(&p); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.each, got, tt.want)
		}
	}
}

// Each flow gets alike of what is beneath all networks, but for those that get less anyway.
func TestBeneath(t *testing.T) {
	s := Schedule{Beneath: 100, Networks: []SimNetwork{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	got := s.beneath(rates{"a": 200, "b": 10, "c": 200}, rates{"a": 2, "b": 1, "c": 1})
	if got["a"] != 60 || got["b"] != 10 || got["c"] != 30 {
		t.Errorf("got %v", got)
	}
	if got := s.beneath(rates{"a": 50, "b": 10}, rates{"a": 1, "b": 1}); got["a"] != 50 || got["b"] != 10 {
		t.Errorf("less than is there: %v", got)
	}
	s.Costs = 0.1
	if got := s.beneath(rates{"a": 200, "b": 200}, rates{"a": 1, "b": 1}); got["a"] != 45 {
		t.Errorf("with costs: %v", got)
	}
}

// Each bucket is on one network, as many on each as an assignment says.
func TestBucketsOfAssignments(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		a := Assignment{Active: "a", With: Portions{{"b", 4 + r.IntN(24)}, {"c", 4 + r.IntN(24)}}}
		on := map[string]int{}
		for b := range Buckets {
			on[a.On(b, Buckets)]++
		}
		for _, n := range a.Networks() {
			if want := int(a.Share(n)*Buckets + 0.5); on[n] != want {
				t.Errorf("%+v: %d buckets on %s, want %d", a, on[n], n, want)
			}
		}
	}
}

// A network that comes back carries more at first than it can: its queue is empty. Flows that
// shared it before share it again, and are not all moved there for that.
func TestSharedNetworkComesBack(t *testing.T) {
	for _, burst := range []float64{1, 1.3, 2} {
		f := sharedFeed(t, "a", "b")
		f.path("b").State = Failed
		f.run(sharing(1), 50)
		f.path("b").State = Up
		samples := 0
		for range 200 {
			f.carry("b", 1e9)
			if f.at.Share("b") > 0 {
				if samples++; samples <= 3 {
					f.carry("b", burst*1e9)
				}
			}
			if f.step(sharing(1)); f.last.Kind == Switch || f.at.Active != "a" {
				t.Errorf("burst %v: all flows are on %s: %s", burst, f.at.Active, f.last.Reason)
				break
			}
			if len(f.at.Networks()) == 2 && f.at.Canary == "" && f.state.Shared.Trying == "" {
				break
			}
		}
		if len(f.at.Networks()) != 2 || f.at.Canary != "" {
			t.Errorf("burst %v: on %+v: %s", burst, f.at, f.last.Reason)
		}
	}
}
