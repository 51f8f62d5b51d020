// Package reduction shortens a pipeline without changing what it does: fewer passes of the
// datapath first, fewer lookups second. Each step is shown to change nothing by package
// proof before it counts; what is not shown is not done. It reads values, and gives the
// flows to change; it asks and changes no switch.
package reduction

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/proof"
	"pathwise.dev/pathwise/internal/explain/pipeline/survey"
)

// Options say what may be taken for granted.
type Options struct {
	// Private are zones in which nobody but this pipeline commits connections.
	Private []uint16
	// DropLookups allows for questions to be left out of packets that are delivered. Then
	// connections that only they keep alive time out.
	DropLookups bool
	// Fold asks for changes too that save nothing but lookups; Growth is how many more flows
	// and masks there may be after each.
	Fold   bool
	Growth int
	// Packets is how many are followed to tell what packets cost; twice as many are tried
	// at most where a change is not shown to change nothing.
	Packets int
	Random  *rand.Rand
}

// Result is a pipeline as short as was found, and how it came about.
type Result struct {
	Steps []Step `json:"steps"`
	// Assumptions are what the steps rest on.
	Assumptions []string `json:"assumptions"`
	// Before and After are means of the packets that were followed, Classes the same ones
	// by the way they take.
	Before  Cost    `json:"before"`
	After   Cost    `json:"after"`
	Classes []Class `json:"classes"`
	// Masks are how many different masks the tables have before and after: a lookup tries
	// each of its table's.
	Masks [2]int `json:"masks"`
	// Refused are changes that would save passes and were not shown to change nothing.
	Refused []Refused `json:"refused"`
	// Apply and Revert are lines for ovs-ofctl --bundle add-flows.
	Apply  []string `json:"apply"`
	Revert []string `json:"revert"`
	// Pipeline is the shortened one.
	Pipeline *pipeline.Pipeline `json:"-"`
}

// Step is one change.
type Step struct {
	// Lines are of the flows that it is about.
	Lines []int  `json:"lines"`
	Why   string `json:"why"`
	// Before and After are the mean costs of a packet.
	Before Cost `json:"before"`
	After  Cost `json:"after"`
}

// Refused is a change that was not made.
type Refused struct {
	Line    int    `json:"line"`
	Change  string `json:"change"`
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
}

// Bounds of the search.
const (
	mostSteps = 50
	mostTried = 40 // changes of one step whose proof is tried
)

// reducer is a search under way.
type reducer struct {
	Options
	now    *pipeline.Pipeline
	sample sample
	result Result
	// rests are assumptions that a step rests on.
	rests   []string
	refused map[string]bool
	// placed are flows that steps have put in, which ask where they are to.
	placed map[*pipeline.Flow]bool
}

// Of shortens a pipeline.
func Of(p *pipeline.Pipeline, o Options) Result {
	r := reducer{Options: o, now: p, refused: map[string]bool{}, placed: map[*pipeline.Flow]bool{}}
	r.sample = newSample(p, o)
	r.result = Result{Steps: []Step{}, Assumptions: []string{}, Refused: []Refused{}}
	r.result.Before = r.sample.cost(p)
	if len(p.Lost) == 0 {
		r.bury()
		for range mostSteps {
			if !r.track() {
				break
			}
		}
		for steps := 0; r.Fold && steps < mostSteps && r.fold(); steps++ {
		}
		r.bury()
	}
	r.result.After, r.result.Classes = r.sample.cost(r.now), r.sample.classes(p, r.now)
	r.result.Pipeline, r.result.Masks = r.now, [2]int{Masks(p), Masks(r.now)}
	r.result.Apply, r.result.Revert = Changes(p, r.now), Changes(r.now, p)
	if len(r.result.Steps) > 0 {
		r.result.Assumptions = r.assumptions()
	}
	return r.result
}

// assumptions are what the steps rest on.
func (r *reducer) assumptions() []string {
	out := []string{
		"no packet meets a limit of Open vSwitch (64 nested resubmits, 4,096 in all, 10 recirculations)",
		"where flows of one priority want the same packet, both pipelines take the same one",
		"the tracker's reassembly of fragments is not observed where no flow reads it",
	}
	return append(out, r.rests...)
}

// rest notes an assumption that a step rests on.
func (r *reducer) rest(s string) {
	if !slices.Contains(r.rests, s) {
		r.rests = append(r.rests, s)
	}
}

// equal decides whether a change changes nothing.
func (r *reducer) equal(a, b *pipeline.Pipeline) proof.Decision {
	return proof.Of(a, b, proof.Options{Packets: 2 * r.Packets, Random: r.Random})
}

// step makes a change.
func (r *reducer) step(next *pipeline.Pipeline, lines []int, why string) {
	slices.Sort(lines)
	r.result.Steps = append(r.result.Steps, Step{Lines: slices.Compact(lines), Why: why, Before: r.sample.cost(r.now),
		After: r.sample.cost(next)})
	r.now = next
}

// lasting reports whether a flow is one that may be changed: understood, and there until it
// is deleted.
func lasting(f *pipeline.Flow) bool {
	return f.Understood() && f.IdleTimeout == 0 && f.HardTimeout == 0
}

// bury leaves out the dead flows.
func (r *reducer) bury() {
	dead := map[int]survey.Dead{}
	for _, d := range survey.Of(r.now).Dead {
		dead[d.Line] = d
	}
	var left []*pipeline.Flow
	var lines []int
	sent := false
	for _, f := range r.now.Flows {
		d, ok := dead[f.Line]
		if !ok || !lasting(f) || d.Flow != r.now.Print(f, pipeline.AsGiven) {
			left = append(left, f)
			continue
		}
		lines = append(lines, f.Line)
		sent = sent || d.Reason == survey.NotReached || d.Reason == survey.NeverLoaded
	}
	if len(lines) == 0 || len(left) == 0 {
		return
	}
	next := r.now.With(left)
	if d := r.equal(r.now, next); d.Verdict != proof.Equal {
		r.refuse(lines[0], "leave out flows that no packet can meet", d)
		return
	}
	r.step(next, lines, "leave out flows that no packet can meet (see \"pathwise ovs show --dead\")")
	if sent {
		r.rest("no controller sends packets into tables itself (packet-out)")
	}
}

// refuse notes a change that was not shown to change nothing.
func (r *reducer) refuse(line int, change string, d proof.Decision) {
	k := fmt.Sprintf("%d %s", line, change)
	if r.refused[k] {
		return
	}
	r.refused[k] = true
	why := "a packet fares differently"
	if d.Witness != nil {
		why += ": " + r.now.PrintTerms(d.Witness.Packet.Terms(r.now.Words))
	} else if len(d.Reasons) > 0 {
		why = d.Reasons[0].Why
	}
	r.result.Refused = append(r.result.Refused, Refused{line, change, string(d.Verdict), why})
}

// track makes the change to what is tracked that saves most, if there is one.
func (r *reducer) track() bool {
	type scored struct {
		change
		cost Cost
	}
	now := r.sample.cost(r.now)
	var list []scored
	for _, c := range r.trackings() {
		cost, worse := r.sample.against(r.now, c.next)
		if !worse && cost.less(now) {
			list = append(list, scored{c, cost})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.cost.Passes, b.cost.Passes), cmp.Compare(a.cost.Lookups, b.cost.Lookups))
	})
	for i, c := range list {
		if i == mostTried {
			break
		}
		if c.rather != nil {
			if cost, worse := r.sample.against(r.now, c.rather.next); !worse && cost.less(now) && r.try(*c.rather) {
				return true
			}
		}
		if r.try(c.change) {
			return true
		}
	}
	return false
}

// try makes a change if it is shown to change nothing.
func (r *reducer) try(c change) bool {
	if d := r.equal(c.from, c.next); d.Verdict != proof.Equal {
		r.refuse(c.line, c.what, d)
		return false
	}
	before := map[*pipeline.Flow]bool{}
	for _, f := range r.now.Flows {
		before[f] = true
	}
	for _, f := range c.next.Flows {
		r.placed[f] = r.placed[f] || !before[f]
	}
	r.step(c.next, c.lines, c.what+c.because)
	for _, s := range c.rests {
		r.rest(s)
	}
	return true
}
