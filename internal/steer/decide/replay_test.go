package decide

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// checkResult holds for every replay.
func checkResult(t *testing.T, r Result) {
	t.Helper()
	for _, x := range r.Trace {
		d := x.Decision
		to, ok := d.Evidence.path(d.To)
		switch {
		case !ok:
			t.Fatalf("%s: %s to %q, which is no path", r.Policy, d.Kind, d.To)
		case d.Kind != Stay && (to.State == Failed || to.State == Ineligible):
			t.Fatalf("%s: %s to %s, which is %s", r.Policy, d.Kind, d.To, to.State)
		case d.Kind != Stay && d.From == d.To, d.Kind == Stay && d.From != d.To, d.From != d.Evidence.Active:
			t.Fatalf("%s: %s from %s to %s, active %s", r.Policy, d.Kind, d.From, d.To, d.Evidence.Active)
		case d.Buckets < 1 || d.Buckets > Buckets || (d.Kind != Canary && d.Kind != Share && d.Buckets != Buckets):
			t.Fatalf("%s: %s of %d buckets", r.Policy, d.Kind, d.Buckets)
		case d.With.total() >= Buckets, d.Kind == Share && d.With.On(d.To) != d.Buckets, d.With.On(d.Evidence.Active) > 0:
			t.Fatalf("%s: %s of %+v", r.Policy, d.Kind, d.With)
		case d.Reason == "":
			t.Fatalf("%s: %s without a reason", r.Policy, d.Kind)
		case math.IsNaN(d.PredictedGain) || math.IsInf(d.PredictedGain, 0) || math.IsNaN(d.Confidence):
			t.Fatalf("%s: %s with gain %v, confidence %v", r.Policy, d.Kind, d.PredictedGain, d.Confidence)
		}
	}
	if slack := 1e-9 * math.Abs(r.HindsightFree); r.Hindsight > r.HindsightFree+slack || r.Static > r.Hindsight+slack ||
		r.Achieved > max(r.Hindsight, sharedOf(r))+slack {
		t.Errorf("%s: achieved %v, static %v, hindsight %v, free %v", r.Policy, r.Achieved, r.Static, r.Hindsight,
			r.HindsightFree)
	}
}

func policies() []Policy {
	return []Policy{CostAware{Seed: 4}, Hysteresis{}, TablePolicy{Table: PaperTable5()}, Static{Network: "b"},
		Static{Network: "b", Failover: true}}
}

// randomEvidence is anything that passes the check.
func randomEvidence(r *rand.Rand, at time.Duration, active string) PairEvidence {
	ev := PairEvidence{At: at, Pair: "p", Need: Needs()[r.IntN(4)], App: "MongoDB insert", Default: "a", Active: active,
		Pause: r.IntN(5) == 0,
		Load:  Load{Connections: r.IntN(40)}, SwitchLoss: LossEstimate{Upper: r.ExpFloat64() / 100, N: r.IntN(3)}}
	figure := func(scale float64) float64 {
		if r.IntN(4) == 0 {
			return 0
		}
		return scale * r.ExpFloat64()
	}
	for _, n := range []string{"a", "b", "c"} {
		ev.Paths = append(ev.Paths, PathEvidence{
			Network: n, State: Conditions()[max(r.IntN(8)-4, 0)], Buckets: r.IntN(Buckets + 1), Prior: figure(1e9),
			CPU: figure(1), OtherPairs: r.IntN(8),
			Probe: Probe{RTT: figure(1e-4), Jitter: figure(1e-5), Loss: r.Float64() * float64(r.IntN(2)), Samples: r.IntN(10),
				Age: figure(1)},
			Data: Data{Goodput: figure(1e9), AppLimited: r.IntN(2) == 0, SRTT: figure(1e-3), Retrans: figure(0.01),
				RTOs: max(r.IntN(6)-4, 0), Tx: figure(1e8), Rx: figure(1e8), Blank: r.IntN(6) == 0},
		})
	}
	return ev
}

// On any evidence: the same state and evidence give the same decision, a step
// leaves its state alone, a state that was stored and read goes on as before,
// applying twice changes nothing, and no path is chosen that must not be.
func TestAnyEvidence(t *testing.T) {
	for _, p := range append(policies(), sharing(4)) {
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 8))
			var state State
			at := Assignment{Active: "a"}
			var trace []Traced
			for i := range 200 {
				ev := randomEvidence(r, time.Duration(i)*Period, at.Active)
				if err := ev.Check(); err != nil {
					t.Fatal(err)
				}
				before, err := json.Marshal(state)
				if err != nil {
					t.Fatal(err)
				}
				next, d := p.Step(state, ev)
				after, _ := json.Marshal(state)
				if string(before) != string(after) {
					t.Fatalf("%s: a step changed the state it was given", p.Name())
				}
				var stored State
				if err := json.Unmarshal(before, &stored); err != nil {
					t.Fatal(err)
				}
				again, d2 := p.Step(stored, ev)
				if !reflect.DeepEqual(d, d2) {
					t.Fatalf("%s: a stored state decides otherwise:\n%+v\n%+v", p.Name(), d, d2)
				}
				if a, b := mustJSON(t, next), mustJSON(t, again); a != b {
					t.Fatalf("%s: a stored state goes on otherwise:\n%s\n%s", p.Name(), a, b)
				}
				once := at.Apply(d)
				if twice := once.Apply(d); twice != once {
					t.Fatalf("applying %s twice: %+v, then %+v", d.Kind, once, twice)
				}
				trace = append(trace, Traced{Decision: d})
				state, at = next, once
			}
			checkResult(t, Result{Policy: p.Name(), Trace: trace})
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestApply(t *testing.T) {
	a := Assignment{Active: "a"}
	for _, tt := range []struct {
		from Assignment
		d    Decision
		want Assignment
	}{
		{a, Decision{Kind: Stay, From: "a", To: "a", Buckets: 64}, a},
		{a, Decision{Kind: Canary, From: "a", To: "b", Buckets: 4}, Assignment{Active: "a", Canary: "b", Buckets: 4}},
		{Assignment{Active: "a", Canary: "b", Buckets: 4}, Decision{Kind: Stay, From: "a", To: "a", Buckets: 64}, a},
		{Assignment{Active: "a", Canary: "b", Buckets: 4}, Decision{Kind: Switch, From: "a", To: "b", Buckets: 64},
			Assignment{Active: "b"}},
		{a, Decision{Kind: Failover, From: "a", To: "b", Buckets: 64}, Assignment{Active: "b"}},
		{a, Decision{Kind: Switch, From: "c", To: "b", Buckets: 64}, a},
	} {
		if got := tt.from.Apply(tt.d); got != tt.want {
			t.Errorf("%+v, %s to %s: %+v, want %+v", tt.from, tt.d.Kind, tt.d.To, got, tt.want)
		}
	}
}

// Hindsight is what trying every course of paths gives.
func TestHindsightIsTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	networks := []string{"a", "b", "c"}
	for range 50 {
		var l ledger
		const n = 6
		for range n {
			e := epoch{truth: map[string]float64{}, seconds: 0.5 + r.Float64(), loss: r.Float64()}
			for _, name := range networks {
				e.truth[name] = r.Float64()
			}
			l.epochs = append(l.epochs, e)
		}
		best := 0.0
		for code := range 729 {
			var course ledger
			at := ""
			for i, e := range l.epochs {
				to := networks[code/int(math.Pow(3, float64(i)))%3]
				if at == "" {
					at = to
				}
				course.add(e, Assignment{Active: at}, Assignment{Active: to}, Switch)
				at = to
			}
			best = max(best, course.achieved)
		}
		if got, _ := l.hindsight(networks); math.Abs(got-best) > 1e-9 {
			t.Fatalf("hindsight %v, best course %v", got, best)
		}
	}
}

func TestFalseSwitches(t *testing.T) {
	var l ledger
	a, b := Assignment{Active: "a"}, Assignment{Active: "b"}
	e := func(x, y float64) epoch {
		return epoch{truth: map[string]float64{"a": x, "b": y}, seconds: 1, loss: 0.1}
	}
	l.add(e(1, 2), a, b, Switch)
	l.add(e(1, 2), b, b, Stay)
	l.add(e(1, 2), b, a, Switch)    // leaves the better one
	l.add(e(1, 1.05), a, b, Switch) // gains less than it costs
	l.add(e(0, 1.05), b, a, Failover)
	if got := l.falseSwitches(); got != 2 {
		t.Errorf("%d false switches, want 2", got)
	}
}

func TestReplayLeavesOutWhatIsNotKnown(t *testing.T) {
	rec, err := PaperRecording()
	if err != nil {
		t.Fatal(err)
	}
	rec.Records = slices.Clone(rec.Records)
	rec.Records[5].Truth = map[string]float64{"calico": 1}
	got := Replay(TablePolicy{Table: PaperTable5()}, rec)
	if got.Unknown != 1 || got.Epochs != 5 {
		t.Errorf("%d epochs, %d unknown", got.Epochs, got.Unknown)
	}
}

// Replaying a run's own record with the same policy repeats it.
func TestReplayRepeatsTheRun(t *testing.T) {
	for seed := range uint64(10) {
		s := RandomSchedule(seed, Shape{Phases: 4})
		ran, rec := Simulate(s, CostAware{Seed: 1}, seed)
		again := Replay(CostAware{Seed: 1}, rec)
		again.Pairs = ran.Pairs
		ran.HindsightShared = 0 // of a recording it is not known
		if !reflect.DeepEqual(ran, again) {
			t.Errorf("seed %d: ran %d switches, %v; replayed %d, %v", seed, ran.Switches, ran.Achieved, again.Switches,
				again.Achieved)
		}
	}
}
