package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// steeringPage is what the HTML template shows.
type steeringPage struct {
	Title, Subtitle, Incomplete string
	Alerts                      []gateWarnings
	Answer                      answerView
	Scripts                     []scriptView
	Drills                      []drillView
	Method                      []SteeringFact
	Version                     []pair
	Seed                        uint64
	Took                        string
	Dir                         string
	Machine                     []machineGroup
	YAML                        string

	Style   template.CSS
	Library template.JS
	Script  template.JS
	Data    steeringData
}

type runChip struct {
	Index int
	Name  string
}

// scriptView is a script's section.
type scriptView struct {
	ID, Title, About string
	// Caption says what the time line shows, Density how its points were made.
	Caption, Density string
	// Runs are the chips that show and hide lines, by their index in the data.
	Runs     []runChip
	Phases   []phaseView
	Kinds    []string
	Notes    []string
	Lines    *dataTable
	HasLines bool
	SharesOf string
	Shares   *dataTable
	Achieved *achievedView
	Events   []eventView
	Hidden   int
	Counts   string
}

type phaseView struct {
	Letter, Name, Span string
	// From and To are where the zoom button leads.
	From, To string
}

// achievedView is the table of what each run achieved by phase.
type achievedView struct {
	Title   string
	Steered []string
	Static  []string
	Rows    []achievedRow
}

type achievedRow struct {
	Letters, Phase, Span string
	Best                 string
	Steered              []steeredCell
	Static               []staticCell
	Whole                bool
}

type steeredCell struct{ Value, OfBest string }

type staticCell struct {
	Value string
	Best  bool
}

type eventView struct {
	Mark, At, Host, Kind, Pair, Route, By, Reason, Detected, Took, Predicted, Loss, Outcome string
}

// drillView is a drill's figures.
type drillView struct {
	Name string
	Rows []figureRow
}

type figureRow struct {
	Name, Value, Bar, Verdict, Class, Interval string
	Strip                                      *strip
	// Spread is least to most, median and p99; nil where all are one.
	Spread []string
	N      int
	Note   string
}

func newSteeringPage(s *steeringStudy, _ Options) (*steeringPage, error) {
	p := &steeringPage{
		Title: s.title(), Subtitle: s.subtitle(), Incomplete: s.Incomplete, Alerts: groupWarnings(s.Warnings),
		Answer: s.answer(), Method: s.Method, Seed: s.Seed, Dir: s.Dir, Machine: machineGroups(s.Machine), YAML: s.Experiment,
		Data: newSteeringData(s),
	}
	if s.Took > 0 {
		p.Took = duration(s.Took.Seconds())
	}
	for _, k := range slices.Sorted(maps.Keys(s.Versions)) {
		p.Version = append(p.Version, pair{k, s.Versions[k]})
	}
	for i := range s.scripts {
		p.Scripts = append(p.Scripts, s.scripts[i].view(scriptID(i), s))
	}
	for _, d := range byDrill(s.Figures) {
		v := drillView{Name: d.name}
		for _, f := range d.figures {
			v.Rows = append(v.Rows, f.row())
		}
		p.Drills = append(p.Drills, v)
	}
	style, err := readAssets("assets/page.css", "assets/answer.css", "assets/steering.css")
	if err != nil {
		return nil, err
	}
	library, err := readAssets("echarts/echarts.min.js")
	if err != nil {
		return nil, err
	}
	script, err := readAssets("assets/page.js", "assets/shapes.js", "assets/steering.js", "assets/draw.js")
	if err != nil {
		return nil, err
	}
	// All three are files of this package, not data.
	p.Style, p.Library, p.Script = template.CSS(style), template.JS(library), template.JS(script)
	return p, nil
}

// chips are the script's runs that have a line.
func (s *scriptStudy) chips(all *steeringStudy) (out []runChip) {
	for _, r := range s.runs {
		if len(r.steps) > 0 {
			out = append(out, runChip{all.index(r.Name), r.Name})
		}
	}
	return out
}

// moveShape is the mark of a kind of move, as steering.js draws it.
func moveShape(kind string) string {
	switch kind {
	case "switch":
		return "triangle"
	case "failover":
		return "diamond"
	case "fallback", "several":
		return "square"
	}
	return "circle"
}

// spreadName heads the parts of a row's Spread.
func spreadName(i int) string { return []string{"least to most", "median", "p99"}[i] }

func (f SteeringFigure) row() figureRow {
	out := figureRow{Name: f.Name, Value: f.value(), Bar: f.bar(), Verdict: f.verdict(), Interval: f.interval(),
		Strip: f.strip(), N: f.N, Note: f.Note}
	if s := f.spread(); s != nil {
		out.Spread = []string{f.between(f.Least, f.Most), s[1], s[2]}
	}
	out.Class = map[string]string{"met": "ok", "not met": "failed", "not measured": "unsupported"}[out.Verdict]
	return out
}

// maxEvents bounds the page: its reader looks for one among some hundreds.
const maxEvents = 5000

func (s *scriptStudy) view(id string, all *steeringStudy) scriptView {
	sc := s.scale()
	out := scriptView{ID: id, Title: s.Name, About: s.About, Density: s.density(), Lines: s.table(60),
		Achieved: s.achieved(), Shares: s.shareTable(), Runs: s.chips(all), SharesOf: cmp.Or(s.SharesOf, "buckets")}
	out.Caption = cmp.Or(s.Quantity, "value")
	if sc.unit != "" {
		out.Caption += " (" + sc.unit + ")"
	}
	out.Caption = capital(out.Caption + " over time")
	for _, p := range s.phases {
		room := 0.08 * max(p.to-p.from, 0.01)
		out.Phases = append(out.Phases, phaseView{p.letter, p.Name, fromTo(p.from, p.to), timeCell(max(p.from-room, s.from)),
			timeCell(min(p.to+room, s.end))})
	}
	for _, r := range s.runs {
		out.HasLines = out.HasLines || len(r.steps) > 0
		if r.Note != "" {
			out.Notes = append(out.Notes, r.Name+": "+r.Note)
		}
	}
	if s.moves > maxMarks {
		out.Notes = append(out.Notes, fmt.Sprintf("%d moves: those within %s of another share its mark.", s.moves,
			human(s.markGap(), "s")))
	}
	if n := len(s.shares()); n > maxPoints {
		out.Notes = append(out.Notes, fmt.Sprintf("The shares changed up to %d times: drawn are the means of %d slots of equal length.", n, maxPoints))
	}
	for _, e := range s.events {
		if e.mark > 0 && !slices.Contains(out.Kinds, e.Kind) {
			out.Kinds = append(out.Kinds, e.Kind)
		}
	}
	for i, e := range s.events {
		if i == maxEvents {
			out.Hidden = len(s.events) - i
			break
		}
		out.Events = append(out.Events, e.view())
	}
	out.Counts = fmt.Sprintf("%s, %s", Plural(len(s.events), "event"), Plural(s.moves, "move"))
	return out
}

func (e eventStudy) view() eventView {
	out := eventView{At: fmt.Sprintf("%.3f", e.At.Seconds()), Host: e.Host, Kind: e.Kind, Pair: e.Pair, Route: e.route(),
		By: e.By, Reason: e.Reason}
	if e.mark > 0 {
		out.Mark = fmt.Sprint(e.mark)
	}
	if e.DryRun {
		out.Kind += " (dry run)"
	}
	if e.Detected > 0 {
		out.Detected = human(e.Detected.Seconds(), "s")
	}
	if e.Took > 0 {
		out.Took = human(e.Took.Seconds(), "s")
	}
	if e.PredictedGain != 0 {
		out.Predicted = gain(e.PredictedGain)
	}
	if e.ExpectedLoss != 0 {
		out.Loss = "loss " + human(e.ExpectedLoss, "s")
	}
	out.Outcome = e.brought()
	return out
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// achieved is nil without runs.
func (s *scriptStudy) achieved() *achievedView {
	if len(s.runs) == 0 {
		return nil
	}
	out := &achievedView{Title: capital(cmp.Or(s.Quantity, "value") + " achieved by phase")}
	if u := s.scale().unit; u != "" {
		out.Title += " (" + u + ")"
	}
	for _, r := range s.runs {
		if r.Steered {
			out.Steered = append(out.Steered, r.Name)
		} else {
			out.Static = append(out.Static, r.Name)
		}
	}
	for _, p := range s.parts {
		row := s.achievedRow(p)
		row.Letters, row.Phase, row.Span = p.letters, p.name, fromTo(p.from, p.to)
		out.Rows = append(out.Rows, row)
	}
	if len(s.parts) != 1 {
		row := s.achievedRow(s.all)
		row.Phase, row.Span, row.Whole = s.all.name, fromTo(s.all.from, s.all.to), true
		out.Rows = append(out.Rows, row)
	}
	return out
}

func (s *scriptStudy) achievedRow(p part) achievedRow {
	sc := s.scale()
	row := achievedRow{Best: sc.num(p.best)}
	for j, r := range s.runs {
		v := sc.num(p.values[j])
		if r.Steered {
			row.Steered = append(row.Steered, steeredCell{v, quantity(s.ofBest(p.values[j], p.best), "share")})
		} else {
			row.Static = append(row.Static, staticCell{v, j == p.hindsight})
		}
	}
	return row
}

// table is the time line in at most rows equal slots, for readers; nil without runs.
func (s *scriptStudy) table(rows int) *dataTable {
	out, sc := &dataTable{Head: []string{"time [s]"}}, s.scale()
	for _, r := range s.runs {
		if len(r.steps) > 0 {
			out.Head = append(out.Head, strings.TrimSpace(r.Name+" ["+sc.unit+"]"))
		}
	}
	if len(out.Head) == 1 {
		return nil
	}
	slot := max(niceStep((s.end-s.from)/float64(rows)), 1e-3)
	for c := range rows {
		from := s.from + float64(c)*slot
		to := min(from+slot, s.end)
		if to-from < 1e-9 {
			break
		}
		row := []string{fromTo(from, to)}
		for _, r := range s.runs {
			if len(r.steps) > 0 {
				row = append(row, sc.num(r.mean(from, to)))
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// shareTable lists the changes of the shares, at most a hundred; nil without any.
func (s *scriptStudy) shareTable() *dataTable {
	shares := slices.CompactFunc(s.shares(), func(a, b parting) bool { return slices.Equal(a.parts, b.parts) })
	if len(shares) == 0 {
		return nil
	}
	out := &dataTable{Head: append([]string{"from [s]"}, shares[0].names...)}
	for i, sh := range shares {
		if i == 100 {
			row := slices.Repeat([]string{""}, len(out.Head))
			row[0] = fmt.Sprintf("%d more", len(shares)-i)
			out.Rows = append(out.Rows, row)
			break
		}
		row := []string{instant(sh.at)}
		for _, p := range sh.parts {
			row = append(row, fmt.Sprintf("%g %%", math.Round(p*1000)/10))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
