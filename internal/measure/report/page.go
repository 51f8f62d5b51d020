package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// page is what the HTML template shows.
type page struct {
	Title    string
	Subtitle string
	// Incomplete is set for an unfinished run.
	Incomplete string
	Alerts     []gateWarnings
	Answer     answerView
	Advice     adviceView
	Rankings   rankingsView
	Claims     *claimsView
	Paper      *paperView
	Explain    *explainView
	Matrix     *matrix
	Networks   []chartNetwork
	Sections   []sectionView
	// Notes are what tables and claims mark by number: a text is said once on the page.
	Notes    []string
	Phases   *dataTable
	Wall     string
	Trials   []trialView
	Counts   string
	Run      runView
	Machine  []machineGroup
	YAML     string
	Baseline string
	// Legend explains the columns of rankings.
	Legend string
	// HasBaseline: the baseline network was among those measured.
	HasBaseline bool

	Style   template.CSS
	Library template.JS
	Script  template.JS
	Data    chartData
}

// runView is what the method section says in figures.
type runView struct {
	Seed  uint64
	Draws int
	// OutlookDraws are those of probabilities and regrets; 0 without any.
	OutlookDraws int
	Level        string
	Planned      int
	Trials       int
	Wall         string
	Kernels      string
	Gates        []string
}

func newPage(a *analysis) (*page, error) {
	p := &page{
		Title: a.title(), Subtitle: subtitle(a), Incomplete: a.incomplete(), Alerts: a.byGate(), Baseline: a.baseline(),
		Answer: newAnswer(a), Matrix: appMatrix(a), Networks: chartNetworks(a), Phases: phaseTable(a),
		Counts: counts(a.Results.Trials), Run: newRunView(a), Machine: machineGroups(a.Machine), YAML: a.Experiment,
		Data: newChartData(a), Legend: prospectLegend(a.opts, a.baseline()),
	}
	p.HasBaseline = slices.Contains(a.networks, a.baseline())
	var notes footnotes
	claims := newClaimViews(a, &notes)
	p.Rankings = newRankingsView(a, &notes)
	p.Advice = newAdviceView(a, p.Rankings.LeftOut)
	p.Paper = newPaperView(a, claims)
	p.Claims = newClaimsView(a, claims)
	docs := map[string]bool{}
	for i, s := range a.sections {
		v := newSectionView(i, s, a, &notes)
		if docs[v.Doc] {
			v.Doc = ""
		}
		docs[v.Doc] = true
		p.Sections = append(p.Sections, v)
	}
	p.Notes = notes.texts
	for _, t := range a.Results.Trials {
		p.Trials = append(p.Trials, newTrialView(t))
	}
	p.Explain = newExplainView(a)
	style, err := readAssets("assets/page.css", "assets/answer.css", "assets/claims.css", "assets/paper.css",
		"assets/explain.css")
	if err != nil {
		return nil, err
	}
	library, err := readAssets("echarts/echarts.min.js")
	if err != nil {
		return nil, err
	}
	script, err := readAssets(scripts()...)
	if err != nil {
		return nil, err
	}
	// All three are files of this package, not data.
	p.Style, p.Library, p.Script = template.CSS(style), template.JS(library), template.JS(script)
	return p, nil
}

// subtitle says when and how much.
func subtitle(a *analysis) string {
	parts := []string{counts(a.Results.Trials), Plural(len(a.networks), "network")}
	if first, last := span(a.Results.Trials); !first.IsZero() {
		when := first.UTC().Format("2006-01-02 15:04")
		if d := last.Sub(first); d >= time.Minute {
			format := "2006-01-02 15:04"
			if last.UTC().Format(time.DateOnly) == first.UTC().Format(time.DateOnly) {
				format = "15:04"
			}
			when += " to " + last.UTC().Format(format)
		}
		parts = append(parts, when+" UTC")
	}
	return strings.Join(parts, " · ")
}

// span is when the first trial began and the last one ended.
func span(trials []sample.Trial) (first, last time.Time) {
	for _, t := range trials {
		if t.Started.IsZero() {
			continue
		}
		if first.IsZero() || t.Started.Before(first) {
			first = t.Started
		}
		if end := t.Started.Add(time.Duration(t.Phases.Total * float64(time.Second))); end.After(last) {
			last = end
		}
	}
	return first, last
}

// scenarioText begins a sentence about a scenario.
func scenarioText(s topo.Scenario) string { return capital(scenarioWords(s)) }

// scenarioWords says a scenario in a sentence: "one host (cores same, IPv6)". Tables of text
// and files have it as filters and keys do.
func scenarioWords(s topo.Scenario) string {
	parts := strings.Split(s.String(), ",")
	for i, p := range parts {
		switch {
		case p == string(topo.OneHost) || p == string(topo.TwoHosts):
			parts[i] = strings.ReplaceAll(p, "-", " ")
		case p == "family=6":
			parts[i] = "IPv6"
		default:
			parts[i] = strings.Replace(p, "=", " ", 1)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts[0] + " (" + strings.Join(parts[1:], ", ") + ")"
}

// andMore is "a, b and 3 more".
func andMore(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

func newRunView(a *analysis) runView {
	out := runView{
		Seed: a.Results.Header.Seed, Planned: a.Results.Header.Planned, Trials: len(a.Results.Trials), Level: a.opts.level(),
		Draws: a.opts.Rank.Draws,
	}
	for _, r := range a.overall() {
		out.Draws = r.Draws
		if r.Outlook != nil {
			out.OutlookDraws = r.Outlook.Draws
		}
	}
	if f := a.Results.Footer; f != nil {
		out.Wall = duration(f.Wall)
	}
	kernels, gates := map[string]bool{}, map[string]bool{}
	var names []string
	for _, t := range a.Results.Trials {
		if t.Kernel != "" && !kernels[t.Kernel] {
			kernels[t.Kernel] = true
			names = append(names, t.Kernel)
		}
		for _, w := range t.Warnings {
			if !gates[w.Gate] {
				gates[w.Gate] = true
				out.Gates = append(out.Gates, w.Gate)
			}
		}
	}
	out.Kernels = strings.Join(names, ", ")
	return out
}

// duration shows seconds as "2 h 37 min", "3 min 10 s" or "4.2 s".
func duration(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%.1f s", s)
}
