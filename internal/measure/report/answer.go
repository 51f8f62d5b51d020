package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// answerView is the first screen: what was asked, what is known with the size of its effect,
// what is not and what would settle it, and one picture.
type answerView struct {
	Asked string
	Known []answerLine
	Open  []answerLine
	// Forest is the picture; nil where nothing can be drawn.
	Forest *forest
}

// answerLine is a sentence; Mark and Class are a verdict before it, and Href says where
// more is.
type answerLine struct{ Mark, Class, Text, Href string }

// mostLines bounds each list: the rest is in the sections below.
const mostLines = 5

// few keeps the first lines and says where the others are.
func few(lines []answerLine, more, href string) []answerLine {
	if len(lines) <= mostLines {
		return lines
	}
	rest := len(lines) - mostLines + 1
	return append(lines[:mostLines-1:mostLines-1],
		answerLine{Text: fmt.Sprintf("And %d more: see %s.", rest, more), Href: href})
}

// newAnswer is the first screen of a result of trials.
func newAnswer(a *analysis) answerView {
	out := answerView{Asked: asked(a)}
	if !anyOK(a.Results.Trials) {
		out.Known = []answerLine{{Text: "No network has been measured yet, so there is nothing to recommend."}}
		if len(a.Results.Trials) > 0 {
			out.Known = []answerLine{{Text: "No trial ended ok, so no network is ranked or recommended. The reasons stand with the trials.", Href: "#trials"}}
		}
		return out
	}
	p := newPace(a.Results.Trials)
	if len(a.claims) > 0 {
		out.Known = append(out.Known, knownClaims(a)...)
		out.Open = append(out.Open, openClaims(a, p)...)
		out.Forest = claimForest(a)
	}
	if a.Paper == nil {
		if len(a.claims) > 0 && len(out.Known) > 1 && out.Known[1].Mark == "" {
			out.Known = out.Known[:1] // the networks follow
		}
		out.Known = append(out.Known, few(knownNetworks(a), "the rankings", "#rankings")...)
		out.Open = append(out.Open, few(openNetworks(a, p), "the rankings", "#rankings")...)
	}
	if out.Forest == nil {
		out.Forest = networkForest(a)
	}
	if len(out.Open) == 0 {
		out.Open = []answerLine{{Text: fmt.Sprintf("Nothing that was asked is left open at %s.", a.opts.level())}}
	}
	return out
}

// asked is the question that the run is to answer.
func asked(a *analysis) string {
	tested, all := 0, len(a.claims)
	for _, j := range a.claims {
		if j.Untested == "" {
			tested++
		}
	}
	if p := a.Paper; p != nil {
		return fmt.Sprintf("Do the findings of %s, “%s”, hold on this machine? %d of the document's %s can be tested by trials here, on %s.",
			p.Authors, p.Title, tested, Plural(all, "claim"), Plural(len(a.networks), "network"))
	}
	var workloads, places []string
	for _, s := range a.sections {
		if !slices.Contains(workloads, s.Workload) {
			workloads = append(workloads, s.Workload)
		}
		if p := string(s.Placement); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if len(workloads) == 0 {
		return "Which network is best? Nothing has been measured yet."
	}
	rivals := len(slices.DeleteFunc(slices.Clone(a.networks), func(n string) bool { return n == a.baseline() }))
	what := fmt.Sprintf("%s (%s)", inWords(workloads, 4), inWords(places, 4))
	out := fmt.Sprintf("Which of %s is best for %s, and by how much", Plural(rivals, "network"), what)
	switch rivals {
	case 0:
		out = fmt.Sprintf("What does %s reach with %s", a.baseline(), what)
	case 1:
		out = fmt.Sprintf("What does one network reach with %s, next to %s", what, a.baseline())
	}
	if all > 0 {
		out += fmt.Sprintf("; and which of %s of documents hold here", Plural(all, "claim"))
	}
	return out + "?"
}

// inWords is "a, b and c", or "a, b and 3 more".
func inWords(names []string, limit int) string {
	switch n := len(names); {
	case n > limit:
		return andMore(names, limit-1)
	case n < 2:
		return strings.Join(names, "")
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// knownNetworks says of each scenario which network is best, or which ones are not.
func knownNetworks(a *analysis) (out []answerLine) {
	for _, r := range a.overall() {
		if r.Outlook == nil {
			continue
		}
		if text := knownNetwork(r, a.baseline()); text != "" {
			out = append(out, answerLine{Text: scenarioText(*r.Scenario) + ": " + text + "."})
		}
	}
	if len(out) == 0 {
		return knownFigures(a)
	}
	return out
}

// reaching is the least that a network may reach of another.
func reaching(least float64) string {
	if least < 0.01 {
		return "0.01 or less"
	}
	return ratio(least)
}

// knownFigures are the main figures that differ from the baseline's by more than their interval:
// of each network the one that is known best.
func knownFigures(a *analysis) (out []answerLine) {
	type known struct {
		text  string
		width float64
	}
	best := map[string]known{}
	for _, s := range a.sections {
		for _, q := range s.Questions {
			if len(q.Metrics) == 0 {
				continue
			}
			for _, l := range q.Lines {
				f, ok := l.feature(q.Metrics[0].Name)
				if !ok || f.ToBaseline == nil || !f.ToBaseline.Bounded() || f.ToBaseline.Contains(1) || !(f.ToBaseline.Low > 0) {
					continue
				}
				width := f.ToBaseline.High / f.ToBaseline.Low
				if old, ok := best[l.Network]; ok && old.width <= width {
					continue
				}
				best[l.Network] = known{fmt.Sprintf("%s, %s, %s: %s has %s of the %s of %s.", capital(q.Workload),
					scenarioWords(q.Scenario), load(q.Question), l.Network, spanOf(f.ToBaseline), title(q.Metrics[0]), a.baseline()),
					width}
			}
		}
	}
	for _, n := range a.networks {
		if k, ok := best[n]; ok {
			out = append(out, answerLine{Text: k.text, Href: "#workloads"})
		}
	}
	return out
}

// knownNetwork is what a ranking is sure of; "" where that is nothing.
func knownNetwork(r rank.Ranking, baseline string) string {
	o := r.Outlook
	first, tied := o.Odds[0], o.Tied()
	switch {
	case len(o.Odds) == 1:
		return first.Network + " is the only network that could be ranked over all questions" + ofBaseline(first, baseline)
	case len(tied) == 1 && first.Best != nil:
		next := o.Odds[1]
		return fmt.Sprintf("%s is the best of %d networks over all questions, with a probability of %s; %s reaches %s of it%s",
			first.Network, len(o.Odds), rank.Probability(*first.Best), next.Network, spanOf(next.ToFirst),
			ofBaseline(first, baseline))
	case len(tied) > 1 && len(o.Named(rank.Open)) == 0:
		return fmt.Sprintf("%s, of %d networks, are practically equal and the best over all questions%s", inWords(tied, 4),
			len(o.Odds), ofBaseline(first, baseline))
	}
	return cmp.Or(behindFirst(o), likeliest(o, baseline))
}

// likeliest is the network that did best where nothing more is sure, and how sure that is.
func likeliest(o *rank.Outlook, baseline string) string {
	first := o.Odds[0]
	if first.Best == nil || o.Undecided {
		return ""
	}
	return fmt.Sprintf("%s did best of %d networks, and is the best with a probability of %s; %s reaches %s of it%s",
		first.Network, len(o.Odds), rank.Probability(*first.Best), o.Odds[1].Network, spanOf(o.Odds[1].ToFirst),
		ofBaseline(first, baseline))
}

// ofBaseline is the size of the effect against the yardstick.
func ofBaseline(n rank.Odds, baseline string) string {
	if n.ToBaseline == nil {
		return ""
	}
	return fmt.Sprintf("; %s reaches %s of %s", n.Network, spanOf(n.ToBaseline), baseline)
}

// spanOf is a ratio with its interval; "?" for none.
func spanOf(i *stat.Interval) string {
	if i == nil {
		return "?"
	}
	return ratioSpan(*i)
}

// behindFirst names the networks that are not the best, though it is open which one is.
func behindFirst(o *rank.Outlook) string {
	var names []string
	for _, n := range o.Odds[1:] {
		if n.Tie == "" && n.ToFirst != nil && n.ToFirst.Bounded() {
			names = append(names, fmt.Sprintf("%s (%s of %s)", n.Network, spanOf(n.ToFirst), o.Odds[0].Network))
		}
	}
	if len(names) == 0 {
		return ""
	}
	verb := " are not the best"
	if len(names) == 1 {
		verb = " is not the best"
	}
	return inWords(names, 3) + verb
}

// openChoice is a set of networks among which the data cannot choose, in some scenarios.
type openChoice struct {
	networks, where []string
	// hopeless are those that no number of repetitions in sight tells from the first.
	hopeless []string
	blocks   int
	seconds  float64
	// least is what a wrong choice may reach of the first network.
	least float64
	// single: of some there is one repetition, and so no scatter.
	single bool
}

// openNetworks says between which networks the data cannot choose, once for all the
// scenarios where these are the same, and what it would take.
func openNetworks(a *analysis, p pace) (out []answerLine) {
	var choices []*openChoice
	var unranked []string
	for _, r := range a.overall() {
		switch {
		case r.Outlook == nil:
			unranked = append(unranked, scenarioWords(*r.Scenario))
		case len(r.Outlook.Named(rank.Open)) > 0:
			choices = addChoice(choices, r, p, a.Results.Trials)
		}
	}
	for _, c := range choices {
		out = append(out, answerLine{Text: c.text(), Href: "#rankings"})
	}
	if len(unranked) > 0 {
		out = append(out,
			answerLine{Text: capital(inWords(unranked, 3)) +
				": no network has an OK trial for every question, so none is ranked.", Href: "#rankings"})
	}
	return out
}

// addChoice adds what a ranking leaves open to the choices.
func addChoice(choices []*openChoice, r rank.Ranking, p pace, trials []sample.Trial) []*openChoice {
	o := r.Outlook
	names := append([]string{o.Odds[0].Network}, o.Named(rank.Open)...)
	same := func(c *openChoice) bool {
		return slices.Equal(slices.Sorted(slices.Values(c.networks)), slices.Sorted(slices.Values(names)))
	}
	i := slices.IndexFunc(choices, same)
	if i < 0 {
		i = len(choices)
		choices = append(choices, &openChoice{networks: names, least: math.Inf(1)})
	}
	c, blocks, settled := choices[i], 0, names[:1:1]
	c.where = append(c.where, scenarioWords(*r.Scenario))
	for _, n := range o.Odds[1:] {
		if n.Tie != rank.Open {
			continue
		}
		switch b := o.Wants(n, mostBlocks); {
		case b == mostBlocks && !slices.Contains(c.hopeless, n.Network):
			c.hopeless = append(c.hopeless, n.Network)
		case b < mostBlocks:
			blocks, settled = max(blocks, b), append(settled, n.Network)
		}
		if n.ToFirst != nil && n.ToFirst.Bounded() {
			c.least = min(c.least, n.ToFirst.Low)
		} else {
			c.single = true
		}
	}
	c.blocks = max(c.blocks, blocks)
	c.seconds += p.of(cellsOf(r, settled, trials)) * float64(blocks)
	return choices
}

// text says what is open, what that may cost and what would settle it.
func (c openChoice) text() string {
	out := fmt.Sprintf("%s: which of %s is best", capital(inWords(c.where, 3)), inWords(c.networks, 4))
	if c.least >= 0.01 && !math.IsInf(c.least, 1) {
		out += fmt.Sprintf("; a wrong choice may reach no more than %s of the best", reaching(c.least))
	}
	if c.blocks > 0 {
		promise := "are expected to tell"
		if c.single {
			promise = "are the least that can tell, as one shows no scatter"
		}
		out += fmt.Sprintf("; about %s more, %s of these, %s", minutes(c.seconds), Plural(c.blocks, "repetition"), promise)
		if len(c.hopeless) > 0 {
			out += fmt.Sprintf(", but not of %s", inWords(c.hopeless, 3))
		}
		return out + "."
	}
	return out + fmt.Sprintf("; no number of repetitions under %d is expected to tell.", mostBlocks)
}

// mostBlocks is the number of repetitions beyond which nobody waits.
const mostBlocks = 200

// pace is how long a trial of each cell takes, building and removing included.
type pace struct {
	cell map[sample.Cell]float64
	mean float64
}

func newPace(trials []sample.Trial) pace {
	sums, n := map[sample.Cell]float64{}, map[sample.Cell]int{}
	total, all := 0.0, 0
	for _, t := range trials {
		if t.Status != sample.OK {
			continue
		}
		sums[t.Cell] += t.Phases.Total
		n[t.Cell]++
		total += t.Phases.Total
		all++
	}
	for c := range sums {
		sums[c] /= float64(n[c])
	}
	return pace{sums, total / float64(max(all, 1))}
}

// one is the time of one more trial of a cell, in seconds.
func (p pace) one(c sample.Cell) float64 { return cmp.Or(p.cell[c], p.mean) }

// of is the time of one more repetition of all cells.
func (p pace) of(cells []sample.Cell) (seconds float64) {
	for _, c := range cells {
		seconds += p.one(c)
	}
	return seconds
}

// cellsOf are the cells of a ranking's networks whose figures weigh in it.
func cellsOf(r rank.Ranking, networks []string, trials []sample.Trial) (out []sample.Cell) {
	for _, t := range trials {
		weighs := slices.ContainsFunc(r.Outlook.Weights, func(w rank.Weight) bool {
			return w.Question == t.Question() && (w.Share > 0 || r.Outlook.Undecided)
		})
		if weighs && slices.Contains(networks, t.Network) && !slices.Contains(out, t.Cell) {
			out = append(out, t.Cell)
		}
	}
	return out
}
