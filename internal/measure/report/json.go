package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// Format and Version name the JSON report in its first fields.
const (
	Format  = "pathwise/report"
	Version = 1
)

// Document is the JSON report. Units are those of sample.Metrics: bit/s, s,
// 1/s. An interval's bound is null where the data give none.
type Document struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Name    string `json:"name"`
	Run     Run    `json:"run"`
	// Metrics describes every metric that Trials carry.
	Metrics []sample.Metric `json:"metrics"`
	// Summaries: one per cell (network, scenario, workload, load).
	Summaries []rank.Summary `json:"summaries"`
	// Rankings: overall, by application and scenario, by question.
	Rankings []rank.Ranking `json:"rankings"`
	// Table is the recommendation table, a grid per scenario.
	Table []rank.Grid `json:"table"`
	// Claims of documents and what the trials make of them.
	Claims []claim.Judged `json:"claims,omitempty"`
	// Trials in the order of the result, without histograms and time series,
	// which are in the result's samples.jsonl.
	Trials []Trial `json:"trials"`
	// Machine is the record of the machine; Experiment is the YAML text.
	Machine    map[string]any `json:"machine,omitempty"`
	Experiment string         `json:"experiment,omitempty"`
}

// Run is how the trials came about.
type Run struct {
	Experiment string `json:"experiment"`
	// Seed of the random order of the trials.
	Seed uint64 `json:"seed"`
	// Planned is the least number of trials of a whole run, Trials how many there are.
	Planned int `json:"planned"`
	Trials  int `json:"trials"`
	// Finished: the run ended by its stopping rule. Otherwise --resume continues it.
	Finished bool `json:"finished"`
	// Wall time of all sessions in seconds; 0 while unfinished.
	Wall     float64          `json:"wall"`
	Warnings []sample.Warning `json:"warnings,omitempty"`
}

// Trial is how one trial ended, and its figures.
type Trial struct {
	sample.Cell
	Repetition int                `json:"repetition"`
	Order      int                `json:"order"`
	Started    time.Time          `json:"started"`
	Status     sample.Status      `json:"status"`
	Reason     string             `json:"reason,omitempty"`
	Kernel     string             `json:"kernel"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	CPU        *sample.CPU        `json:"cpu,omitempty"`
	Phases     sample.Phases      `json:"phases"`
	Warnings   []sample.Warning   `json:"warnings,omitempty"`
}

func newDocument(a *analysis) Document {
	h := a.Results.Header
	d := Document{
		Format: Format, Version: Version, Name: a.title(),
		Run: Run{
			Experiment: h.Experiment, Seed: h.Seed, Planned: h.Planned, Trials: len(a.Results.Trials),
			Finished: a.Results.Footer != nil, Warnings: a.Input.warnings(),
		},
		Metrics: sample.Metrics(), Summaries: a.summaries, Rankings: a.rankings, Table: a.grids, Claims: a.claims,
		Trials:  make([]Trial, len(a.Results.Trials)),
		Machine: a.Machine, Experiment: a.Experiment,
	}
	if f := a.Results.Footer; f != nil {
		d.Run.Wall = f.Wall
	}
	for i, t := range a.Results.Trials {
		d.Trials[i] = Trial{
			Cell: t.Cell, Repetition: t.Repetition, Order: t.Order, Started: t.Started, Status: t.Status,
			Reason: t.Reason, Kernel: t.Kernel, Metrics: t.Metrics, CPU: t.CPU, Phases: t.Phases, Warnings: t.Warnings,
		}
	}
	return d
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	return nil
}
