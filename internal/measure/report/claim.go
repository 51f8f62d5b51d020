package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// ClaimsDocument is the JSON form of claims that were held against trials.
type ClaimsDocument struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Level of confidence of the intervals, by which each verdict is given.
	Level  float64        `json:"level"`
	Claims []claim.Judged `json:"claims"`
}

// Claims writes what trials make of the input's claims as format, one of TableFormats.
func Claims(w io.Writer, format string, in Input, o Options) error {
	judged := Judge(in, o)
	switch format {
	case Text, Wide:
		return writeText(w, claimBlocks(judged, o), o.as(format))
	case Markdown:
		return writeMarkdown(w, claimBlocks(judged, o))
	case CSV:
		return writeClaimsCSV(w, judged)
	case JSON:
		return writeJSON(w, ClaimsDocument{"pathwise/claims", 1, o.confidence(), judged})
	}
	return unknownFormat(format, TableFormats())
}

// confidence is the level of the intervals.
func (o Options) confidence() float64 { return cmp.Or(o.Rank.Level, stat.Level) }

// claimBlocks shows every claim with what was published, measured and found.
func claimBlocks(judged []claim.Judged, o Options) []block {
	if len(judged) == 0 {
		return []block{alert("the experiment makes no claims: docs/reference/claims.md says how it may")}
	}
	out := []block{heading{2, "Claims of the documents"}, para(claimCounts(judged) + ".")}
	for _, j := range judged {
		out = append(out, claimGrid(j))
	}
	return append(out, claimLegend(judged, o))
}

// claimCounts is "8 claims, 11 findings: 5 hold, 4 do not hold, 1 cannot tell, 1 not tested".
func claimCounts(judged []claim.Judged) string {
	n, all := map[claim.Verdict]int{}, 0
	for _, j := range judged {
		for _, f := range j.Findings {
			n[f.Verdict]++
			all++
		}
	}
	var parts []string
	for _, v := range claim.Verdicts() {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], behind(v, n[v])))
		}
	}
	return fmt.Sprintf("%s, %s: %s", Plural(len(judged), "claim"), Plural(all, "finding"), strings.Join(parts, ", "))
}

// behind is a verdict behind a number.
func behind(v claim.Verdict, n int) string {
	switch {
	case v == claim.Holds && n > 1:
		return "hold"
	case v == claim.InPart && n > 1:
		return "hold in part"
	case v == claim.Fails && n > 1:
		return "do not hold"
	case v == claim.Open:
		return "cannot be told"
	}
	return string(v)
}

// claimGrid is one claim with its findings.
func claimGrid(j claim.Judged) grid {
	g := grid{title: j.Source + ": " + j.Text}
	g.table.cols = []column{{head: "verdict"}, {head: "question"}, {head: "measured"}, {head: "notes"}}
	for _, f := range j.Findings {
		marks := g.notes.mark(findingNotes(f))
		lines := measured(j.Claim, f)
		for i, line := range lines {
			if i == 0 {
				g.table.add(verdictText(f), findingWhere(j, f), line, marks)
			} else {
				g.table.add("", "", line, "")
			}
		}
	}
	g.table = g.table.unlessEmpty("question")
	g.legend = claimTerms(j.Claim)
	if why := because(j); why != "" {
		g.legend += " " + why
	}
	return g
}

// claimTerms says what was published and how that is tested.
func claimTerms(c claim.Claim) string {
	out := ""
	if len(c.Exhibits) > 0 {
		out = "Shown in " + strings.Join(c.Exhibits, ", ") + ". "
	}
	if c.Published != "" {
		out += "Published: " + strings.TrimSuffix(c.Published, ".") + ". "
	}
	if c.Untested != "" {
		return strings.TrimSpace(out)
	}
	return out + "Tested: " + tested(c) + "."
}

// because is the explanation, where there is something to explain.
func because(j claim.Judged) string {
	has := func(v claim.Verdict) bool {
		return slices.ContainsFunc(j.Findings, func(f claim.Finding) bool { return f.Verdict == v })
	}
	switch {
	case j.Because != "" && (has(claim.Fails) || has(claim.Open)):
		return "Explanation: " + strings.TrimSuffix(j.Because, ".") + "."
	case has(claim.Fails):
		return "Not explained yet (because: in the experiment's claim)."
	}
	return ""
}

// verdictText marks a verdict that rests on a part of the networks alone.
func verdictText(f claim.Finding) string {
	if inPart(f) {
		return string(f.Verdict) + " (in part)"
	}
	return string(f.Verdict)
}

// inPart tells whether the verdict is one without some of the networks.
func inPart(f claim.Finding) bool { return f.Verdict != claim.NotTested && len(f.Lacks) > 0 }

// tested says in words what the figures are held to.
func tested(c claim.Claim) string {
	if c.Untested != "" {
		return "by no trial"
	}
	m, _ := sample.MetricByName(c.Metric)
	what := metricText(m) + " of " + c.Where.Workload
	if r := c.Relative; r != nil {
		what += " over that at " + whereText(*r)
	}
	if c.Overall {
		what += ", mean over all loads"
	}
	if c.Except != "" {
		what += ", not with " + c.Except
	}
	switch t := c.Test; {
	case t.Ratio != nil:
		return fmt.Sprintf("%s, %s %s", what, sides(*t.Ratio, c), rangeText(t.Ratio.Range, plainNumber))
	case t.Order != nil:
		return what + ", " + orderText(t.Order) + " (the best first)"
	case t.Value != nil:
		return what + " " + rangeText(*t.Value, func(v float64) string { return human(v, m.Unit) })
	case t.Choice != nil:
		return choiceText(*t.Choice)
	case t.Optimum != nil:
		return fmt.Sprintf("%s is best at %s", what,
			strings.TrimPrefix(rangeText(t.Optimum.Range, t.Optimum.Over.Say), "at "))
	case t.Trend != nil && t.Trend.Falling:
		return fmt.Sprintf("%s falls with %s", what, t.Trend.Over)
	}
	return fmt.Sprintf("%s rises with %s", what, c.Test.Trend.Over)
}

// metricText is a metric's name where no unit is next to it.
func metricText(m sample.Metric) string {
	switch m.Name {
	case sample.CPUPerGB:
		return "CPU time per GB"
	case sample.CPUPerKop:
		return "CPU time per 1000 operations"
	}
	return title(m)
}

// sides names what a ratio compares.
func sides(r claim.Ratio, c claim.Claim) string {
	name := func(s claim.Side) string {
		if s.Network != "" {
			return s.Network
		}
		if len(c.Networks) == 1 {
			return c.Networks[0]
		}
		return "each"
	}
	of, to := name(r.Of), name(r.To)
	if r.Of.Network == "" && r.To.Network == "" {
		return whereText(r.Of.Where) + " / " + whereText(r.To.Where) + " of each"
	}
	if where := whereText(r.Of.Where); where != "" {
		of += " (" + where + ")"
	}
	if where := whereText(r.To.Where); where != "" {
		to += " (" + where + ")"
	}
	return of + " / " + to
}

// whereText says what a side sets for itself.
func whereText(w claim.Where) string {
	var parts []string
	add := func(prefix string, values ...string) {
		if len(values) > 0 {
			parts = append(parts, prefix+strings.Join(values, " or "))
		}
	}
	if w.Workload != "" {
		add("", w.Workload)
	}
	add("", texts(w.Placements, func(p topo.Placement) string { return string(p) })...)
	add("pairs ", texts(w.Pairs, strconv.Itoa)...)
	add("MTU ", texts(w.MTUs, strconv.Itoa)...)
	add("outside ", texts(w.Outsides, func(o topo.Outside) string { return string(o) })...)
	add("IPv", texts(w.Families, func(f int) string { return strconv.Itoa(topo.Scenario{Family: f}.IP()) })...)
	add("", texts(w.Loads, sample.Load.String)...)
	return strings.Join(parts, ", ")
}

func texts[T any](list []T, text func(T) string) (out []string) {
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

// rangeText is "from 2 to 3", "at least 2", "at most 3" or "at 50".
func rangeText(r claim.Range, show func(float64) string) string {
	switch {
	case r.Least == nil && r.Most == nil:
		return ""
	case r.Most == nil:
		return "at least " + show(*r.Least)
	case r.Least == nil:
		return "at most " + show(*r.Most)
	case *r.Least == *r.Most:
		return show(*r.Least)
	}
	return "from " + show(*r.Least) + " to " + show(*r.Most)
}

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// orderText is "a > b, c": networks of a group are in no order.
func orderText(o claim.Order) string {
	var groups []string
	for _, g := range o {
		groups = append(groups, strings.Join(g, ", "))
	}
	return strings.Join(groups, " > ")
}

// findingWhere is the question in words. A load that all findings share is left
// out: it tells none of them from the others.
func findingWhere(j claim.Judged, f claim.Finding) string {
	q := told(j, f)
	var parts []string
	if f.Network != "" && len(j.Networks) > 1 {
		parts = append(parts, f.Network)
	}
	if p := q.Scenario.Placement; p != "" {
		parts = append(parts, string(p))
	}
	if n := q.Scenario.MTU; n != 0 && n != topo.DefaultMTU {
		parts = append(parts, fmt.Sprintf("MTU %d", n))
	}
	parts = append(parts, placeWords(q.Scenario)...)
	if q.Load != (sample.Load{}) || q.Scenario.Pairs > 1 {
		parts = append(parts, load(q))
	}
	if k := q.Scenario.Kernel; k != "" {
		parts = append(parts, "kernel "+k)
	}
	return strings.Join(parts, ", ")
}

// told is the finding's question without a load that all findings share.
func told(j claim.Judged, f claim.Finding) sample.Question {
	q := f.Question
	if !slices.ContainsFunc(j.Findings, func(o claim.Finding) bool { return o.Question.Load != q.Load }) {
		q.Load = sample.Load{}
	}
	return q
}

// measured is what was found, a line for each comparison.
func measured(c claim.Claim, f claim.Finding) []string {
	var out []string
	switch {
	case f.Value != nil:
		m, _ := sample.MetricByName(c.Metric)
		s := scaleFor(m.Unit, f.Value.Center)
		return []string{f.Network + " " + s.pm(*f.Value) + " " + s.unit}
	case len(f.Chosen) > 0:
		return []string{chosenText(f.Chosen)}
	case len(f.Steps) == 0:
		return []string{""}
	case f.At != nil:
		m, _ := sample.MetricByName(c.Metric)
		best := "best"
		if m.Better == sample.Lower {
			best = "least"
		}
		out = append(out, best+" at "+c.Test.Optimum.Over.Say(*f.At))
	}
	for _, s := range f.Steps {
		out = append(out, s.Of.Name+" / "+s.To.Name+" "+ratioSpan(s.Ratio))
	}
	return out
}

// ratioSpan is "1.12 (1.08-1.17)".
func ratioSpan(i stat.Interval) string {
	out := ratio(i.Center)
	if s := bounds(i); s != "" {
		out += " (" + s + ")"
	}
	return out
}

// bounds is a ratio's interval. Of one that goes over orders of magnitude, as two
// noisy repetitions make it, the ends say nothing.
func bounds(i stat.Interval) string {
	const wide = 1000
	switch {
	case !i.Bounded():
		return ""
	case i.High > wide*i.Low:
		return "wide"
	}
	return ratio(i.Low) + "-" + ratio(i.High)
}

// findingNotes are what could not be compared, and what is to be known of the rest.
func findingNotes(f claim.Finding) []string {
	var out []string
	for _, l := range f.Lacks {
		out = append(out, lackText(l))
	}
	out = append(out, f.Notes...)
	for _, w := range f.Warnings {
		out = append(out, w.Gate+": "+w.Text)
	}
	return out
}

// lackText is "sriov: was not run", with the guest's kernel where it is one.
func lackText(l claim.Lack) string {
	out := l.Why
	if l.Network != "" {
		out = l.Network + ": " + out
	}
	if l.Kernel != "" {
		out += " (kernel " + l.Kernel + ")"
	}
	return out
}
