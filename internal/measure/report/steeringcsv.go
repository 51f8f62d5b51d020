package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
)

// steeringColumns are those of the CSV: one row for each figure, phase, step of
// a time line, share and event, which "record" tells apart.
func steeringColumns() []string {
	return []string{"record", "drill", "name", "from_s", "to_s", "value", "unit", "low", "high", "n", "least", "median",
		"p99", "most", "bar", "met", "host", "kind", "from", "to", "text"}
}

// SteeringCSV writes everything that the page shows, and the time lines with
// every step they have.
func SteeringCSV(w io.Writer, in SteeringInput, _ Options) error {
	s, err := studySteering(in)
	if err != nil {
		return err
	}
	out := steeringWriter{csv.NewWriter(w)}
	_ = out.w.Write(steeringColumns()) // errors stay in the csv.Writer until it is flushed
	for _, f := range s.Figures {
		out.figure(f)
	}
	for i := range s.scripts {
		out.script(&s.scripts[i])
	}
	out.w.Flush()
	if err := out.w.Error(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

type steeringWriter struct{ w *csv.Writer }

// row writes the cells that are named.
func (o steeringWriter) row(record, drill, name string, cells map[string]string) {
	cells["record"], cells["drill"], cells["name"] = record, drill, name
	var out []string
	for _, c := range steeringColumns() {
		out = append(out, cells[c])
	}
	_ = o.w.Write(out)
}

// known shows a value; empty where there is none.
func known(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return exact(v)
}

// timeCell shows seconds as far as nanoseconds go.
func timeCell(t float64) string { return signless(strconv.FormatFloat(t, 'f', 9, 64)) }

func (o steeringWriter) figure(f SteeringFigure) {
	c := map[string]string{"unit": f.Unit, "n": strconv.Itoa(f.N), "text": oneLine(f.Note)}
	if f.N > 0 {
		c["value"], c["low"], c["high"] = known(f.Value), known(f.Low), known(f.High)
		c["least"], c["median"], c["p99"], c["most"] = known(f.Least), known(f.Median), known(f.P99), known(f.Most)
	}
	if f.Bar != nil {
		c["bar"] = f.Bar.Sign(">=", "<=") + exact(f.Bar.Limit)
		c["met"] = strconv.FormatBool(f.Met())
	}
	o.row("figure", f.Drill, f.Name, c)
}

func (o steeringWriter) script(s *scriptStudy) {
	for _, p := range s.phases {
		o.row("phase", s.Name, p.letter, map[string]string{"from_s": timeCell(p.from), "to_s": timeCell(p.to), "kind": p.Kind,
			"text": oneLine(p.Name)})
	}
	for i, p := range append(s.parts[:len(s.parts):len(s.parts)], s.all) {
		cells := func(v float64) map[string]string {
			return map[string]string{"from_s": timeCell(p.from), "to_s": timeCell(p.to), "value": known(v), "unit": s.Unit,
				"text": oneLine(p.name)}
		}
		record := "achieved"
		if i == len(s.parts) {
			record = "achieved-whole"
		}
		o.row(record, s.Name, "best in hindsight", cells(p.best))
		for j, r := range s.Runs {
			o.row(record, s.Name, r.Name, cells(p.values[j]))
		}
	}
	for _, r := range s.runs {
		if r.Note != "" {
			o.row("note", s.Name, r.Name, map[string]string{"text": oneLine(r.Note)})
		}
		for _, v := range r.steps {
			o.row("step", s.Name, r.Name, map[string]string{"from_s": timeCell(v.from), "to_s": timeCell(v.to),
				"value": known(v.value), "unit": s.Unit})
		}
	}
	for _, sh := range s.shares() {
		for i, name := range sh.names {
			o.row("share", s.Name, name, map[string]string{"from_s": timeCell(sh.at), "value": known(sh.parts[i]),
				"unit": "share"})
		}
	}
	for _, e := range s.events {
		o.event(s.Name, e)
	}
}

func (o steeringWriter) event(script string, e eventStudy) {
	c := map[string]string{"from_s": timeCell(e.At.Seconds()), "host": e.Host, "kind": e.Kind, "from": e.From, "to": e.To,
		"text": oneLine(e.Reason)}
	name := ""
	if e.mark > 0 {
		name = strconv.Itoa(e.mark)
	}
	o.row("event", script, name, c)
	effect := func(what string, v float64, unit string) {
		o.row(what, script, name, map[string]string{"from_s": c["from_s"], "value": known(v), "unit": unit, "host": e.Host})
	}
	if e.Detected > 0 {
		effect("event-detected", e.Detected.Seconds(), "s")
	}
	if e.Took > 0 {
		effect("event-took", e.Took.Seconds(), "s")
	}
	if e.PredictedGain != 0 {
		effect("event-predicted", e.PredictedGain, "change")
	}
	if e.ExpectedLoss != 0 {
		effect("event-expected-loss", e.ExpectedLoss, "s")
	}
	if e.Gain != nil {
		effect("event-gain", *e.Gain, "change")
	}
}
