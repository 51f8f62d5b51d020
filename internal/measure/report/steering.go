package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"time"

	"pathwise.dev/pathwise/internal/measure/figure"
	"pathwise.dev/pathwise/internal/sample"
)

// SteeringInput is what drills of steering measured, and what was recorded
// alongside it. Every part may be empty.
type SteeringInput struct {
	// Name is the title.
	Name string
	// Dir is where the result lies, as the user would type it; it is used in hints.
	Dir     string
	Started time.Time
	Took    time.Duration
	Seed    uint64
	// Incomplete says what an unfinished run lacks; empty for a finished one.
	Incomplete string
	// Method tells how it was measured, alongside what every page says.
	Method []SteeringFact
	// Versions by program or part.
	Versions map[string]string
	// Machine is the record of the machine, as decoded from JSON; may be nil.
	Machine map[string]any
	// Experiment is the text of the file of drills; may be empty.
	Experiment string
	Warnings   []sample.Warning
	// Scripts are drawn over time; a demo has one.
	Scripts []SteeringScript
	// Figures are the drills' answers, drill by drill.
	Figures []SteeringFigure
}

// SteeringFact is a term and what is to be said about it.
type SteeringFact struct{ Term, Text string }

// SteeringScript is a script of changing load and faults that was played once
// for each run. All times count from its start in the run at hand: where one
// run's phases began later than another's, the caller shifts its points.
type SteeringScript struct {
	// Name is unique among the scripts.
	Name  string
	About string
	// Quantity is what the values are, for people ("goodput"), Unit their unit:
	// "bit/s", "1/s", "s" or another word.
	Quantity string
	Unit     string
	// Lower is set where lower values are better, as with latency.
	Lower  bool
	Phases []SteeringPhase
	// Weights are the lengths that the phases count with in the whole; nil for their own.
	Weights []time.Duration
	Runs    []SteeringRun
	// Events are those of the steered run, of all hosts, in any order.
	Events []SteeringEvent
	// Shares of the networks in the steered run, each valid until the next; in any
	// order. SharesOf says of what, "buckets" where it is empty.
	Shares   []SteeringShare
	SharesOf string
}

// Kinds of phases; another kind is shown like a load.
const (
	// PhaseLoad changes what the application offers.
	PhaseLoad = "load"
	// PhaseLimit makes a network worse: rate-limited, delayed, lossy.
	PhaseLimit = "limit"
	// PhaseFault takes a network away: black hole, link down.
	PhaseFault = "fault"
)

// SteeringPhase is a part of a script. Phases may overlap.
type SteeringPhase struct {
	// Name is short and whole: "rate limit vxlan to 40 Mbit/s".
	Name string
	Kind string
	From time.Duration
	// To is the phase's end; 0 is the script's.
	To time.Duration
}

// SteeringRun is the script played once: steered, or with all traffic on one
// network from start to end, which is named by Name.
type SteeringRun struct {
	// Name is unique among the script's runs.
	Name    string
	Steered bool
	// Step is how long a point holds, unless the next one comes before.
	Step time.Duration
	// Points are the means of steps, in any order. What no point covers, and a
	// value of NaN, was not measured, which is not the same as 0.
	Points []SteeringPoint
	// Means, one a phase in the order of Phases, are the means as they were counted where
	// the run was judged; nil leaves them to the points. Phases that overlap have none.
	Means []float64
	// Note is what a reader must know: why a run has no values, for example.
	Note string
}

// SteeringPoint is the mean of the step that begins At.
type SteeringPoint struct {
	At    time.Duration
	Value float64
}

// SteeringEvent is what an agent noted. One with From and To that differ, and
// that is no dry run, moved traffic: it is marked in the chart.
type SteeringEvent struct {
	// ID counts the events of a Host.
	ID   int
	At   time.Duration
	Host string
	// Kind is a word: switch, failover, fallback, canary, suspect, outcome ...
	Kind     string
	Pair     string
	From, To string
	// Reason is the evidence in one sentence.
	Reason string
	By     string
	DryRun bool
	// Took is the time of the map writes, Detected from the first packet without
	// answer to the decision; 0 where not known.
	Took, Detected time.Duration
	// PredictedGain is 0.1 for 10 % more; 0 is none or not known.
	PredictedGain float64
	// ExpectedLoss is what moving was expected to cost, in seconds of traffic.
	ExpectedLoss float64
	// Of is the ID of the event, of the same host, whose outcome this is. It is
	// then shown with that event, not by itself.
	Of int
	// Gain is what it really brought; nil where not known. It may stand in the
	// event itself or in its outcome.
	Gain *float64
}

// SteeringShare is how much each network has from At on, of buckets, bytes or
// another amount; the page shows parts of the sum.
type SteeringShare struct {
	At    time.Duration
	Parts map[string]float64
}

// SteeringFigure is one answer of a drill.
type SteeringFigure struct {
	figure.Figure
	// Took is how long the drill takes with all its repetitions; 0 where not known.
	Took time.Duration
}

// Steering writes one HTML file that needs nothing else.
func Steering(w io.Writer, in SteeringInput, o Options) error {
	s, err := studySteering(in)
	if err != nil {
		return err
	}
	t, err := template.New("steering.html").Funcs(template.FuncMap{"swatch": s.swatch, "moveShape": moveShape,
		"plotClass": s.plotClass, "spreadName": spreadName}).ParseFS(files, steeringTemplates()...)
	if err != nil {
		return fmt.Errorf("parse report template: %w", err)
	}
	p, err := newSteeringPage(s, o)
	if err != nil {
		return err
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// steeringTemplates are the parts that the page of drills is made of.
func steeringTemplates() []string {
	return []string{"assets/steering.html", "assets/head.html", "assets/answer.html", "assets/banners.html",
		"assets/machine.html", "assets/table.html", "assets/script.html", "assets/foot.html"}
}

// SteeringText writes figures, time lines and events for a terminal, in 80
// columns unless o.Width says otherwise.
func SteeringText(w io.Writer, in SteeringInput, o Options) error {
	o.Unhinted = o.Unhinted || o.Width == 0
	o.Width = cmp.Or(o.Width, 80)
	s, err := studySteering(in)
	if err != nil {
		return err
	}
	nameWidth := 0 // interval and spread have columns
	if o.Width < 120 && !o.Whole {
		nameWidth = 36
	}
	return writeText(w, steeringBlocks(s, o.Width, nameWidth), o)
}

// SteeringMarkdown writes the same as Markdown.
func SteeringMarkdown(w io.Writer, in SteeringInput, _ Options) error {
	s, err := studySteering(in)
	if err != nil {
		return err
	}
	return writeMarkdown(w, steeringBlocks(s, 80, 0))
}
