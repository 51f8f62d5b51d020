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

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/survey"
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
	// Seed is of the random numbers: the same one makes the same packets.
	Seed uint64
}

func (o Options) random() *rand.Rand { return rand.New(rand.NewPCG(o.Seed, o.Seed)) }

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
	// Refused are changes to the shortened pipeline that would save passes and were not shown
	// to change nothing, Kept the questions to the tracker that are left in it.
	Refused []Refused `json:"refused"`
	Kept    []Kept    `json:"kept"`
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
	mostRounds = 20
	mostSteps  = 50 // of a kind in a round
	mostTried  = 40 // changes of one step whose proof is tried
)

// reducer is a search under way.
type reducer struct {
	Options
	now *pipeline.Pipeline
	// sample is packets made for the pipeline as it was when the round began, first those of
	// the first round. Both are now on their way through the pipeline as it is.
	sample, first *sample
	// base is what changes are held against.
	base   *proof.Base
	result Result
	// rests are assumptions that a step rests on.
	rests   []string
	refused map[string]bool
}

// Of shortens a pipeline. There is nothing to be shortened in what comes of it: rounds follow
// each other until one finds nothing.
func Of(p *pipeline.Pipeline, o Options) Result {
	r := reducer{Options: o, now: p}
	r.result = Result{Steps: []Step{}, Assumptions: []string{}, Refused: []Refused{}}
	r.sample = newSample(p, o)
	r.first = r.sample
	r.result.Before = r.first.cost()
	for n := 0; n < mostRounds && len(p.Lost) == 0 && r.round(); n++ {
		r.sample = newSample(r.now, o)
	}
	r.result.After, r.result.Classes = r.first.cost(), r.first.classes(p, r.now)
	r.result.Kept = r.kept()
	r.result.Pipeline, r.result.Masks = r.now, [2]int{Masks(p), Masks(r.now)}
	r.result.Apply, r.result.Revert = Changes(p, r.now), Changes(r.now, p)
	if len(r.result.Steps) > 0 {
		r.result.Assumptions = r.assumptions()
	}
	return r.result
}

// round does what can be done, and says whether anything was.
func (r *reducer) round() bool {
	before := len(r.result.Steps)
	r.refused, r.result.Refused = map[string]bool{}, []Refused{}
	r.bury()
	for n := 0; n < mostSteps && r.track(); n++ {
	}
	for n := 0; r.Fold && n < mostSteps && r.fold(); n++ {
	}
	r.bury()
	return len(r.result.Steps) > before
}

// assumptions are what the steps rest on.
func (r *reducer) assumptions() []string {
	return append(proof.Assumptions("pipelines"), r.rests...)
}

// rest notes an assumption that a step rests on.
func (r *reducer) rest(s string) {
	if !slices.Contains(r.rests, s) {
		r.rests = append(r.rests, s)
	}
}

// equal decides whether a change changes nothing.
func (r *reducer) equal(a, b *pipeline.Pipeline) proof.Decision {
	if !r.base.Is(a) {
		r.base = proof.NewBase(a)
	}
	return r.base.Of(b, proof.Options{Packets: 2 * r.Packets, Random: r.random(), Once: true})
}

// step makes a change.
func (r *reducer) step(next *pipeline.Pipeline, lines []int, why string) {
	slices.Sort(lines)
	before := r.first.cost()
	r.first.advance(next)
	if r.sample != r.first {
		r.sample.advance(next)
	}
	r.result.Steps = append(r.result.Steps, Step{Lines: slices.Compact(lines), Why: why, Before: before,
		After: r.first.cost()})
	r.now = next
}

// lasting reports whether a flow is one that may be changed: understood, there until it is
// deleted, and none with which others go that it had a switch learn.
func lasting(p *pipeline.Pipeline, f *pipeline.Flow) bool {
	learns := func(a pipeline.Action) bool { return a.Kind == pipeline.Learn }
	return f.Understood() && !p.Fleeting(f) && !p.Any(f.Actions, learns)
}

// bury leaves out the dead flows. That no packet meets one is shown by package survey, for all
// packets; it needs no further proof.
func (r *reducer) bury() {
	dead := map[int]survey.Dead{}
	for _, d := range survey.Of(r.now).Dead {
		dead[d.Line] = d
	}
	var left []*pipeline.Flow
	var lines []int
	sent, learnt := false, r.now.Learnt()
	for _, f := range r.now.Flows {
		d, ok := dead[f.Line]
		if !ok || learnt.MayReplace(f) || !lasting(r.now, f) || d.Flow != r.now.Print(f, pipeline.AsGiven) {
			left = append(left, f)
			continue
		}
		lines = append(lines, f.Line)
		sent = sent || d.Reason == survey.NotReached || d.Reason == survey.NeverLoaded
	}
	if len(lines) == 0 || len(left) == 0 {
		return
	}
	r.step(r.now.With(left), lines, "leave out flows that no packet can meet (see \"pathwise ovs show --dead\")")
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
		why += ": " + r.now.PrintPacket(d.Witness.Packet.Terms(r.now.Words))
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
	now := r.sample.cost()
	var list []scored
	for _, c := range r.trackings() {
		cost, worse := r.sample.against(c.next)
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
			if cost, worse := r.sample.against(c.rather.next); !worse && cost.less(now) && r.try(*c.rather) {
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
	r.step(c.next, c.lines, c.what+c.because)
	for _, s := range c.rests {
		r.rest(s)
	}
	return true
}
