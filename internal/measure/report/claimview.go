package report

import (
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// claimsView is the section about claims.
type claimsView struct {
	Counts string
	Legend string
	// By lists the claims of each verdict; one with several is under each.
	By []verdictView
	// Claims are those that no figure of a document comes with.
	Claims []claimView
}

type verdictView struct {
	Verdict, Class string
	IDs            []string
}

// claimView is one claim and its findings.
type claimView struct {
	ID, Source, Text, Published, Tested, Because string
	Findings                                     []findingView
	// Verdict, Class, Where and Notes are those of all findings where none has more to show.
	Verdict, Class, Where string
	Notes                 []int
}

type findingView struct {
	Verdict, Class, Where string
	// Best says where an optimum was found.
	Best  string
	Steps []stepView
	// Notes are numbers of the page's notes.
	Notes []int
}

// stepView is one comparison, or one value.
type stepView struct {
	Name, Ratio, Span string
	// Figures are both sides as measured.
	Figures string
	Class   string
	Strip   *claimStrip
}

// claimStrip draws an interval alongside the range that it is held to, in parts of
// the strip's width, 0 to 100. One is where the ratio is 1; below 0 without.
type claimStrip struct{ From, Width, Low, Mid, High, One float64 }

// newClaimViews are the claims in their order.
func newClaimViews(a *analysis, notes *footnotes) (out []claimView) {
	said := saidBefore{}
	for _, j := range a.claims {
		v := claimView{ID: j.ID, Source: j.Source, Text: j.Text, Published: j.Published, Tested: tested(j.Claim)}
		if j.Because != "" {
			v.Because = said.once(because(j), j.ID)
		}
		for _, f := range j.Findings {
			v.Findings = append(v.Findings, newFindingView(j, f, notes))
		}
		v.fold()
		out = append(out, v)
	}
	return out
}

// fold makes one line of findings that say no more than that the claim was not tested.
func (v *claimView) fold() {
	var where []string
	var notes []int
	for _, f := range v.Findings {
		if f.Best != "" || len(f.Steps) > 0 || f.Verdict != v.Findings[0].Verdict {
			return
		}
		if f.Where != "" && !slices.Contains(where, f.Where) {
			where = append(where, f.Where)
		}
		for _, n := range f.Notes {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	if len(v.Findings) > 0 {
		v.Where, v.Notes = strings.Join(where, "; "), notes
		v.Verdict, v.Class, v.Findings = v.Findings[0].Verdict, v.Findings[0].Class, nil
	}
}

// newClaimsView is nil for an experiment without claims.
func newClaimsView(a *analysis, claims []claimView) *claimsView {
	if len(a.claims) == 0 {
		return nil
	}
	out := &claimsView{Counts: claimCounts(a.claims), Legend: string(claimLegend(a.claims, a.opts))}
	for _, c := range claims {
		if a.Paper == nil ||
			!slices.ContainsFunc(a.Paper.Exhibits, func(e paper.Exhibit) bool { return shows(e, c.ID, a.claims) }) {
			out.Claims = append(out.Claims, c)
		}
	}
	for _, v := range claim.Verdicts() {
		by := verdictView{Verdict: string(v), Class: verdictClass(v)}
		for _, j := range a.claims {
			if slices.ContainsFunc(j.Findings, func(f claim.Finding) bool { return f.Verdict == v }) {
				by.IDs = append(by.IDs, j.ID)
			}
		}
		if len(by.IDs) > 0 {
			out.By = append(out.By, by)
		}
	}
	return out
}

func newFindingView(j claim.Judged, f claim.Finding, notes *footnotes) findingView {
	c := j.Claim
	out := findingView{Verdict: verdictText(f), Class: verdictClass(f.Verdict), Where: findingWhere(j, f)}
	for _, n := range findingNotes(f) {
		out.Notes = append(out.Notes, notes.number(n))
	}
	m, _ := sample.MetricByName(c.Metric)
	if f.Value != nil {
		s := scaleFor(m.Unit, f.Value.Center)
		out.Steps = []stepView{{Name: f.Network, Figures: s.pm(*f.Value) + " " + s.unit, Class: out.Class}}
	}
	if len(f.Chosen) > 0 {
		out.Best = chosenText(f.Chosen)
	}
	if f.At != nil {
		out.Best = measured(c, f)[0]
	}
	for _, s := range f.Steps {
		scale := scaleFor(m.Unit, max(s.Of.Mean.Center, s.To.Mean.Center))
		v := stepView{Name: s.Of.Name + " / " + s.To.Name, Ratio: ratio(s.Ratio.Center), Class: verdictClass(s.Verdict),
			Figures: scale.num(s.Of.Mean.Center) + " / " + scale.num(s.To.Mean.Center) + " " + scale.unit,
			Strip:   claimStripOf(s.Ratio, stepRange(c, m)), Span: bounds(s.Ratio)}
		out.Steps = append(out.Steps, v)
	}
	return out
}

// verdictClass is a verdict as the style sheet calls it.
func verdictClass(v claim.Verdict) string {
	switch v {
	case claim.Holds, claim.InPart:
		return "holds"
	case claim.Equal:
		return "equal"
	case claim.Fails:
		return "fails"
	case claim.Open:
		return "open"
	}
	return "untested"
}

// stepRange is the range in which a step's ratio bears the claim out.
func stepRange(c claim.Claim, m sample.Metric) claim.Range {
	one := 1.0
	above := m.Better == sample.Higher
	switch t := c.Test; {
	case t.Ratio != nil:
		return t.Ratio.Range
	case t.Trend != nil:
		above = !t.Trend.Falling
	}
	if above {
		return claim.Range{Least: &one}
	}
	return claim.Range{Most: &one}
}

// claimStripOf draws on a logarithmic scale: half and double are as far from 1.
func claimStripOf(i stat.Interval, r claim.Range) *claimStrip {
	if !i.Bounded() || i.Low <= 0 || math.IsInf(i.Low, 0) {
		return nil
	}
	low, high := min(i.Low, 1), max(i.High, 1)
	for _, end := range []*float64{r.Least, r.Most} {
		if end != nil && *end > 0 {
			low, high = min(low, *end), max(high, *end)
		}
	}
	// A little room at both ends shows that an open range goes on.
	low, high = math.Log(low/1.1), math.Log(high*1.1)
	at := func(v float64) float64 {
		if v <= 0 {
			return 0
		}
		return math.Round(1000*min(max((math.Log(v)-low)/(high-low), 0), 1)) / 10
	}
	from, to := 0.0, 100.0
	if r.Least != nil {
		from = at(*r.Least)
	}
	if r.Most != nil {
		to = at(*r.Most)
	}
	return &claimStrip{From: from, Width: math.Round(10*(to-from)) / 10, Low: at(i.Low), Mid: at(i.Center),
		High: at(i.High), One: at(1)}
}
