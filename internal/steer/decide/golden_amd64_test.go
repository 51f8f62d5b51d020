package decide

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// On other machines the compiler may fuse a product and a sum (Go specification,
// "Floating-point operators"), and a last digit tips a decision once in a while.

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

// TestDecisionsAreAsBefore holds every decision of some simulated runs, with its
// figures and its reason: a change that is meant to change nothing shows here that
// it does not, and one that is meant to shows what it changes.
func TestDecisionsAreAsBefore(t *testing.T) {
	const path = "testdata/decisions.golden"
	var b strings.Builder
	for _, need := range []Need{Throughput, Latency, Robust} {
		for _, bare := range []bool{false, true} {
			for seed := uint64(71); seed < 75; seed++ {
				s := RandomSchedule(seed, Shape{Need: need, Bare: bare, Phases: 5})
				r, _ := Simulate(s, CostAware{Seed: seed}, seed)
				line(&b, fmt.Sprintf("%s, bare %v, seed %d", need, bare, seed), r)
				if seed == 71 {
					usual, _ := Simulate(s, Hysteresis{}, seed)
					line(&b, fmt.Sprintf("%s, bare %v, seed %d", need, bare, seed), usual)
					table, _ := Simulate(s, TablePolicy{Table: s.Table()}, seed)
					line(&b, fmt.Sprintf("%s, bare %v, seed %d", need, bare, seed), table)
				}
			}
		}
	}
	for seed := range uint64(4) {
		r, _ := Simulate(faults(8*time.Second), CostAware{Seed: seed}, seed)
		line(&b, fmt.Sprintf("faults, seed %d", seed), r)
	}
	for _, p := range policies() {
		for seed := range uint64(8) {
			line(&b, fmt.Sprintf("any evidence, seed %d", seed), onAnyEvidence(p, seed))
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(golden), "\n")
	for i, got := range strings.Split(b.String(), "\n") {
		if i >= len(want) || got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[min(i, len(want)-1)])
		}
	}
}

// onAnyEvidence is what a policy decides on evidence that no network would give.
func onAnyEvidence(p Policy, seed uint64) Result {
	r := rand.New(rand.NewPCG(seed, 9))
	out := Result{Policy: p.Name()}
	var state State
	at := Assignment{Active: "a"}
	for i := range 300 {
		var d Decision
		state, d = p.Step(state, randomEvidence(r, time.Duration(i)*Period, at.Active))
		at = at.Apply(d)
		out.Trace = append(out.Trace, Traced{Decision: d})
	}
	return out
}

// line writes one: what was done, and a hash of every decision to the last digit.
func line(b *strings.Builder, name string, r Result) {
	h := fnv.New64a()
	canaries := 0
	for _, x := range r.Trace {
		d := x.Decision
		fmt.Fprintf(h, "%s %s %s %d %v %v %v %s\n", d.Kind, d.From, d.To, d.Buckets, d.PredictedGain, d.ExpectedLoss,
			d.Confidence, d.Reason)
		if d.Kind == Canary {
			canaries++
		}
	}
	fmt.Fprintf(b, "%s, %s: %016x: %d switches, %d failovers, %d periods of canaries, %.6f of hindsight\n",
		name, r.Policy, h.Sum64(), r.Switches, r.Failovers, canaries, r.OfHindsight())
}
