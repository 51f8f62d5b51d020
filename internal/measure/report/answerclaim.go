package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// decided tells whether the trials settle a claim.
func decided(v claim.Verdict) bool { return v != claim.Open && v != claim.NotTested }

// knownClaims counts the claims that are told, and names the first of each verdict with what
// was measured.
func knownClaims(a *analysis) []answerLine {
	n, tested, told := countVerdicts(a.claims), 0, 0
	var parts []string
	for _, v := range claim.Verdicts() {
		if decided(v) && n[v] > 0 {
			told += n[v]
			parts = append(parts, fmt.Sprintf("%d %s", n[v], behind(v, n[v])))
		}
	}
	for _, j := range a.claims {
		if j.Untested == "" {
			tested++
		}
	}
	are := "are"
	if told == 1 {
		are = "is"
	}
	head := fmt.Sprintf("%d of %s that can be tested %s told", told, Plural(tested, "claim"), are)
	if told == 0 {
		out := append([]answerLine{{Text: head + ".", Href: "#claims"}},
			few(knownNetworks(a), "the rankings", "#rankings")...)
		if len(out) > 1 {
			return out
		}
		return append(out, nearest(a.claims)...)
	}
	out := []answerLine{{Text: head + ": " + strings.Join(parts, ", ") + ".", Href: "#claims"}}
	for _, j := range foremost(a.claims) {
		text := j.Text + ": measured " + effect(j)
		if j.Published != "" {
			text += "; published " + strings.TrimSuffix(j.Published, ".")
		}
		out = append(out, answerLine{Mark: string(j.Verdict()), Class: verdictClass(j.Verdict()), Text: text + ".",
			Href: "#claim-" + j.ID})
	}
	return out
}

// nearest are the open claims that are measured best, where nothing more is known.
func nearest(judged []claim.Judged) (out []answerLine) {
	const shown = 3
	open := slices.DeleteFunc(slices.Clone(judged), func(j claim.Judged) bool {
		return j.Verdict() != claim.Open || math.IsInf(looseness(j), 1)
	})
	slices.SortStableFunc(open, func(x, y claim.Judged) int { return cmp.Compare(looseness(x), looseness(y)) })
	for _, j := range open[:min(len(open), shown)] {
		out = append(out, answerLine{Mark: string(claim.Open), Class: verdictClass(claim.Open),
			Text: j.Text + ": measured so far " + effect(j) + ".", Href: "#claim-" + j.ID})
	}
	return out
}

// foremost are the claims that the first screen names: of each verdict in turn the one with the
// narrowest interval.
func foremost(judged []claim.Judged) (out []claim.Judged) {
	const shown = 4
	by := map[claim.Verdict][]claim.Judged{}
	for _, j := range judged {
		if v := j.Verdict(); decided(v) && effect(j) != "" {
			by[v] = append(by[v], j)
		}
	}
	for _, list := range by {
		slices.SortStableFunc(list, func(x, y claim.Judged) int { return cmp.Compare(looseness(x), looseness(y)) })
	}
	for turn := 0; len(out) < shown; turn++ {
		before := len(out)
		for _, v := range claim.Verdicts() {
			if turn < len(by[v]) && len(out) < shown {
				out = append(out, by[v][turn])
			}
		}
		if len(out) == before {
			return out
		}
	}
	return out
}

// looseness is how wide the interval of a claim's first comparison is; 0 for a value.
func looseness(j claim.Judged) float64 {
	f := telling(j)
	if len(f.Steps) == 0 || f.Steps[0].Ratio.Low <= 0 {
		return math.Inf(1)
	}
	return f.Steps[0].Ratio.High / f.Steps[0].Ratio.Low
}

// telling is the finding that represents a claim: the first with the claim's verdict, or the
// first that compares anything.
func telling(j claim.Judged) claim.Finding {
	for _, want := range []claim.Verdict{j.Verdict(), claim.Fails, claim.Holds, claim.Equal, claim.Open} {
		for _, f := range j.Findings {
			if f.Verdict == want && (len(f.Steps) > 0 || f.Value != nil || len(f.Chosen) > 0) {
				return f
			}
		}
	}
	return claim.Finding{}
}

// effect is what was measured of a claim, with its interval.
func effect(j claim.Judged) string {
	f := telling(j)
	var out string
	switch {
	case f.Value != nil:
		m, _ := sample.MetricByName(j.Metric)
		s := scaleFor(m.Unit, f.Value.Center)
		out = s.pm(*f.Value) + " " + s.unit
	case len(f.Chosen) > 0:
		out = chosenText(f.Chosen)
	case len(f.Steps) > 0:
		s := f.Steps[0]
		out = s.Of.Name + " / " + s.To.Name + " " + ratioSpan(s.Ratio)
		if f.At != nil {
			out = "best at " + j.Test.Optimum.Over.Say(*f.At) + ", " + out
		}
	default:
		return ""
	}
	if n := len(j.Findings) - 1; n > 0 {
		out += fmt.Sprintf(" and %d more", n)
	}
	return out
}

// openClaims says which claims cannot be told, and how long it would take.
func openClaims(a *analysis, p pace) (out []answerLine) {
	doubts, far := openDoubts(a.claims, p)
	if n := len(doubts) + len(far); n > 0 {
		out = append(out, answerLine{Text: doubtText(doubts, n, p), Href: "#claims"})
	}
	if len(far) > 0 {
		out = append(out, answerLine{Text: fmt.Sprintf("%s: no number of repetitions under %d is expected to tell; what was measured lies at the end of the range tested, or scatters too much.",
			inWords(far, 4), claim.MostBlocks), Href: "#claims"})
	}
	var untested []string
	for _, j := range a.claims {
		if j.Verdict() == claim.NotTested {
			untested = append(untested, j.ID)
		}
	}
	yet := ""
	if a.incomplete() != "" {
		yet = " yet, or not at all here"
	}
	if len(untested) > 0 {
		out = append(out, answerLine{Text: fmt.Sprintf("%s: not tested%s; each says why.", inWords(untested, 3), yet),
			Href: "#claims"})
	}
	return out
}

// doubt is a claim that more repetitions would settle.
type doubt struct {
	id string
	claim.Doubt
}

// openDoubts splits the claims that cannot be told into those that repetitions would settle,
// the cheapest first, and the ones that none in sight would.
func openDoubts(judged []claim.Judged, p pace) (doubts []doubt, far []string) {
	for _, j := range judged {
		if j.Verdict() != claim.Open {
			continue
		}
		d := j.Doubt()
		if len(d.Cells) == 0 || d.Blocks >= claim.MostBlocks {
			far = append(far, j.ID)
			continue
		}
		doubts = append(doubts, doubt{j.ID, d})
	}
	slices.SortStableFunc(doubts, func(x, y doubt) int {
		return cmp.Compare(p.of(x.Cells)*float64(x.Blocks), p.of(y.Cells)*float64(y.Blocks))
	})
	return doubts, far
}

// doubtText says what the doubts take together: what a cell is given for one costs the
// others nothing.
func doubtText(doubts []doubt, open int, p pace) string {
	out := fmt.Sprintf("%s cannot be told yet", Plural(open, "claim"))
	if len(doubts) == 0 {
		return out + "."
	}
	given := map[sample.Cell]int{}
	var seconds, half float64
	var ids []string
	for i, d := range doubts {
		for _, c := range d.Cells {
			seconds += p.one(c) * float64(max(d.Blocks-given[c], 0))
			given[c] = max(given[c], d.Blocks)
		}
		ids = append(ids, d.id)
		if i == (len(doubts)-1)/2 {
			half = seconds
		}
	}
	switch n := (len(doubts) + 1) / 2; {
	case open == 1:
		return out + fmt.Sprintf(". About %s more of repetitions are expected to settle it: %s.", minutes(seconds), ids[0])
	case len(doubts) == 1:
		return out + fmt.Sprintf(". About %s more of repetitions are expected to settle one of them: %s.", minutes(seconds), ids[0])
	case len(doubts) > 2 && half < seconds/2:
		out += fmt.Sprintf(". About %s more of repetitions are expected to settle %d of them, and %s in all to settle %d",
			minutes(half), n, minutes(seconds), len(doubts))
	default:
		out += fmt.Sprintf(". About %s more of repetitions are expected to settle %d of them", minutes(seconds), len(doubts))
	}
	return out + ", the cheapest first: " + inWords(ids, 5) + "."
}

// minutes shows seconds of waiting: "a minute", "12 minutes", "3 h 20 min".
func minutes(seconds float64) string {
	switch m := math.Ceil(seconds / 60); {
	case m <= 1:
		return "a minute"
	case m < 120:
		return fmt.Sprintf("%.0f minutes", m)
	}
	return duration(seconds)
}
