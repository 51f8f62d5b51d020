package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// reportDrills writes the page about a result of drills that has just ended and says where
// it is.
func reportDrills(e env, dir string, head drill.Header, text []byte, figures []drill.Figure) error {
	in, err := steeringInput(dir, head, text, figures, e.now().Sub(head.Started))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, result.ReportFile)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create report: %w", err)
	}
	if err := errors.Join(report.Steering(f, in, report.Options{}), f.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	_, err = fmt.Fprintf(e.stdout, "report: %s\n", path)
	return err
}

// holdsDrills tells whether dir holds a result of drills.
func holdsDrills(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, drill.LogFile))
	return err == nil
}

// drillFormats are those that a report of drills has, the default first.
func drillFormats() []string {
	return []string{report.Text, report.Wide, report.Markdown, report.CSV, report.JSON, report.HTML, report.SVG}
}

// showDrills writes the report of a result of drills that lies in dir, from its samples.
func showDrills(e env, dir, format string) error {
	if !slices.Contains(drillFormats(), format) {
		return usageError{fmt.Errorf("-o %s: %s holds drills: expected one of %s", format, dir,
			strings.Join(drillFormats(), ", "))}
	}
	r, figures, err := openDrills(dir)
	if err != nil {
		return err
	}
	if format == report.JSON {
		return writeJSON(e.stdout, figures)
	}
	took := time.Duration(0)
	for _, s := range r.Samples {
		took = max(took, s.At.Add(s.Took).Sub(r.Started))
	}
	in, err := steeringInput(dir, r.Header, r.Experiment, figures, took)
	if err != nil {
		return err
	}
	write := map[string]func(io.Writer, report.SteeringInput, report.Options) error{
		report.Text: report.SteeringText, report.Wide: report.SteeringText, report.Markdown: report.SteeringMarkdown,
		report.CSV: report.SteeringCSV, report.HTML: report.Steering, report.SVG: report.SteeringPicture}
	return write[format](e.stdout, in, e.listOptions(format))
}

// openDrills reads a result of drills, and what its figures are.
func openDrills(dir string) (drill.Result, []drill.Figure, error) {
	r, err := drill.Open(dir)
	if err != nil {
		return r, nil, err
	}
	file, err := fileOf(dir, r)
	if err != nil {
		return r, nil, err
	}
	figures, err := drill.Figures(file, r.Samples)
	return r, figures, err
}

// fileOf is the file of drills that a result was made by.
func fileOf(dir string, r drill.Result) (drill.File, error) {
	return drill.Parse(filepath.Join(dir, drill.ExperimentFile), bytes.NewReader(r.Experiment),
		func(string) error { return nil })
}

// steeringInput is what a report of drills is made of.
func steeringInput(dir string, head drill.Header, text []byte, figures []drill.Figure,
	lasted time.Duration) (report.SteeringInput, error) {
	in := report.SteeringInput{Name: head.Name, Dir: dir, Started: head.Started, Took: lasted, Seed: head.Seed,
		Experiment: string(text)}
	var err error
	if in.Machine, err = machineOf(dir); err != nil {
		return in, err
	}
	took := map[string]time.Duration{}
	if file, err := drill.Parse(filepath.Join(dir, drill.ExperimentFile), bytes.NewReader(text),
		func(string) error { return nil }); err == nil {
		for _, e := range file.Drills {
			took[e.Name] = time.Duration(e.Repetitions) * drill.Estimate(file, e)
		}
	}
	for _, f := range figures {
		g := figureOf(f)
		g.Took = took[f.Drill]
		in.Figures = append(in.Figures, g)
	}
	act, err := readAct(dir)
	if err != nil {
		return in, err
	}
	if act != nil {
		in.Scripts = []report.SteeringScript{scriptOf(*act)}
	}
	return in, nil
}

// machineOf reads the record of the machine that a result was measured on.
func machineOf(dir string) (record map[string]any, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, drill.MachineFile))
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		return nil, fmt.Errorf("read machine: %w", err)
	}
	return record, nil
}

// figureOf is a figure as a report shows it.
func figureOf(f drill.Figure) report.SteeringFigure { return report.SteeringFigure{Figure: f.Figure} }

// readAct reads the demonstration's time series; nil where there is none.
func readAct(dir string) (*drill.Act, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*act.json"))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	raw, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		return nil, fmt.Errorf("read time series: %w", err)
	}
	var act drill.Act
	if err := json.Unmarshal(raw, &act); err != nil {
		return nil, fmt.Errorf("%s: %w", found[len(found)-1], err)
	}
	return &act, nil
}

// scriptOf makes the time series what the report plots. Each run's legs began
// when they could: its points are moved to where the steered run's are.
func scriptOf(act drill.Act) report.SteeringScript {
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	s := report.SteeringScript{Name: "demo", Quantity: "goodput", Unit: "bit/s", SharesOf: "traffic",
		About: "The same script of load and faults, played once with agents that steer and once with all traffic kept on each network. Each phase begins with new connections."}
	for i, l := range act.Legs {
		p := report.SteeringPhase{Name: l.Text, Kind: l.Kind, From: at(l.At)}
		if i+1 < len(act.Legs) {
			p.To = at(act.Legs[i+1].At)
		}
		s.Phases = append(s.Phases, p)
	}
	for _, span := range act.Spans {
		s.Weights = append(s.Weights, at(span))
	}
	began := map[string]map[int]float64{}
	var names []string
	for _, p := range act.Seconds {
		if began[p.Run] == nil {
			began[p.Run] = map[int]float64{}
			names = append(names, p.Run)
		}
		if first, ok := began[p.Run][p.Leg]; !ok || p.At < first {
			began[p.Run][p.Leg] = p.At
		}
	}
	for _, name := range names {
		run := report.SteeringRun{Name: name, Steered: name == steeredRun, Step: at(step(act, name)), Means: act.Rates[name]}
		for _, p := range act.Seconds {
			if p.Run != name {
				continue
			}
			shift := 0.0
			if first, ok := began[steeredRun][p.Leg]; ok {
				shift = first - began[name][p.Leg]
			}
			run.Points = append(run.Points, report.SteeringPoint{At: at(p.At + shift), Value: p.Rate})
		}
		s.Runs = append(s.Runs, run)
	}
	for _, v := range act.Events {
		s.Events = append(s.Events, report.SteeringEvent{ID: v.ID, At: v.At.Sub(act.Started), Host: v.Host, Kind: v.Kind,
			Pair: v.Pair,
			From: v.From, To: v.To, Reason: v.Reason, By: v.By, DryRun: v.DryRun, Took: v.Took, Detected: v.Detected,
			PredictedGain: v.PredictedGain, ExpectedLoss: v.ExpectedLoss, Of: v.Of, Gain: v.Gain})
	}
	return s
}

// steeredRun is the run of the demonstration that agents steer.
const steeredRun = "steered"

// step is the longest of a run's steps, in seconds: those of a leg are equal.
func step(act drill.Act, run string) float64 {
	longest := 0.1
	for i := 1; i < len(act.Seconds); i++ {
		a, b := act.Seconds[i-1], act.Seconds[i]
		if a.Run == run && b.Run == run && a.Leg == b.Leg {
			longest = max(longest, b.At-a.At)
		}
	}
	return longest
}
