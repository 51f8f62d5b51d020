package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// footnotes numbers notes in the order of their first use. Notes that differ in
// percentages and in numbers of trials alone are one, which says their ranges.
type footnotes struct {
	texts []string
	spans []ranged
}

// mark returns the marks of texts, "[1][3]", and keeps them for the foot.
func (f *footnotes) mark(texts []string) string {
	var out strings.Builder
	for _, i := range f.numbers(texts) {
		fmt.Fprintf(&out, "[%d]", i)
	}
	return out.String()
}

// numbers are those of texts, each once.
func (f *footnotes) numbers(texts []string) (out []int) {
	for _, t := range texts {
		if i := f.number(t); !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// number is that of a text, counting from 1.
func (f *footnotes) number(text string) int {
	s := newRanged(text)
	i := slices.IndexFunc(f.spans, func(o ranged) bool { return slices.Equal(o.words, s.words) })
	if i < 0 {
		f.spans, f.texts = append(f.spans, s), append(f.texts, text)
		return len(f.spans)
	}
	f.spans[i].widen(s)
	f.texts[i] = f.spans[i].String()
	return i + 1
}

// saidBefore are texts with what they were said of first.
type saidBefore map[string]string

// once is the text, or where it was said before what it was said of there.
func (s saidBefore) once(text, of string) string {
	if first, ok := s[text]; ok && text != "" {
		return of + ": as for " + first
	}
	s[text] = of
	return text
}

// sharedNotes are texts with the places that they are about: each is said once.
type sharedNotes struct {
	texts []string
	where map[string][]string
}

func (s *sharedNotes) add(text, where string) {
	if s.where == nil {
		s.where = map[string][]string{}
	}
	if s.where[text] == nil {
		s.texts = append(s.texts, text)
	}
	if !slices.Contains(s.where[text], where) {
		s.where[text] = append(s.where[text], where)
	}
}

// list is each text with its places.
func (s *sharedNotes) list() (out []string) {
	for _, t := range s.texts {
		out = append(out, t+" ("+inWords(s.where[t], 4)+")")
	}
	return out
}

// notes says what a reader of the line must know besides its figures: how
// trials ended that do not count, the validity gates that warned, and what the
// statistics lack.
func (q question) notes(l line) []string {
	if l.Sum == nil {
		return nil
	}
	var out []string
	for _, e := range l.Sum.Ends {
		if e.Status != sample.OK {
			out = append(out, endNote(e, l.Sum.Trials))
		}
	}
	for _, w := range alike(l.Sum.Warnings) {
		out = append(out, fmt.Sprintf("%s: %s (%d of %s)", w.Gate, w.Text, w.Count, Plural(l.Sum.Trials, "trial")))
	}
	for _, k := range l.Sum.Kernels {
		if k != "host" {
			out = append(out, "ran on the guest kernel "+k+": its figures compare with one another, not with the machine's own")
		}
	}
	out = append(out, l.Sum.Notes...)
	if len(q.Metrics) == 0 {
		return out
	}
	if f, ok := l.figure(q.Metrics[0].Name); ok {
		for _, w := range f.Interval.Warnings {
			out = append(out, fmt.Sprintf("%s: %s", w.Gate, w.Text))
		}
	}
	return out
}

// endNote is "failed: reason (2 of 5 trials)".
func endNote(e rank.End, trials int) string {
	out := string(e.Status)
	if e.Reason != "" {
		out += ": " + strings.Join(strings.Fields(e.Reason), " ")
	}
	return fmt.Sprintf("%s (%d of %s)", out, e.Count, Plural(trials, "trial"))
}

// status is the line in a word where it has no figure: its most frequent end.
func (l line) status() string {
	if l.Sum == nil || len(l.Sum.Ends) == 0 {
		return "not run"
	}
	ends := slices.Clone(l.Sum.Ends)
	slices.SortStableFunc(ends, func(a, b rank.End) int { return b.Count - a.Count })
	return string(ends[0].Status)
}

// counts says how the trials ended: "42 trials: 40 ok, 2 failed".
func counts(trials []sample.Trial) string {
	n := map[sample.Status]int{}
	for _, t := range trials {
		n[t.Status]++
	}
	var parts []string
	for _, s := range []sample.Status{sample.OK, sample.Failed, sample.Invalid, sample.Refused, sample.Unsupported} {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	if len(parts) == 0 {
		return "no trials"
	}
	return Plural(len(trials), "trial") + ": " + strings.Join(parts, ", ")
}

// incomplete says that the run is unfinished; empty for a finished one.
func (in Input) incomplete() string {
	if in.Results.Footer != nil {
		return ""
	}
	n, m := len(in.Results.Trials), in.Results.Header.Planned
	out := fmt.Sprintf("incomplete: %d trials", n)
	if m > 0 {
		out = fmt.Sprintf("incomplete: %d of %s", n, Plural(m, "trial"))
	}
	return out + ", continue with --resume"
}

// warnings are those of the run as a whole, from its start and its end.
func (in Input) warnings() []sample.Warning {
	out := slices.Clone(in.Results.Header.Warnings)
	if f := in.Results.Footer; f != nil {
		out = append(out, f.Warnings...)
	}
	return out
}

// gateWarnings are a run's warnings of one gate: a result of many cells can
// have many of a kind.
type gateWarnings struct {
	Gate  string
	Texts []string
}

// byGate groups the run's warnings.
func (in Input) byGate() []gateWarnings { return groupWarnings(in.warnings()) }

// groupWarnings groups by gate, in the order in which the gates first warned.
func groupWarnings(warnings []sample.Warning) (out []gateWarnings) {
	for _, w := range warnings {
		i := slices.IndexFunc(out, func(g gateWarnings) bool { return g.Gate == w.Gate })
		if i < 0 {
			i = len(out)
			out = append(out, gateWarnings{Gate: w.Gate})
		}
		out[i].Texts = append(out[i].Texts, w.Text)
	}
	return out
}

// String shows the first few.
func (g gateWarnings) String() string {
	const few = 2
	if n := len(g.Texts); n > few {
		return fmt.Sprintf("%s (%d warnings): %s; and %d more", g.Gate, n, strings.Join(g.Texts[:few], "; "), n-few)
	}
	return g.Gate + ": " + strings.Join(g.Texts, "; ")
}

// tieLetter is the mark of a row's tie group, empty where the row is alone.
func tieLetter(r rank.Ranking, row rank.Row) string {
	n := 0
	for _, o := range r.Rows {
		if row.Tie > 0 && o.Tie == row.Tie {
			n++
		}
	}
	if n < 2 {
		return ""
	}
	// After z come aa, ab, ...: more groups than letters are possible.
	var out string
	for i := row.Tie; i > 0; i = (i - 1) / 26 {
		out = string(rune('a'+(i-1)%26)) + out
	}
	return out
}

// rankText is "2" or, where the data leave it open, "2 (1-4)"; the baseline,
// which does not compete, is named.
func rankText(row rank.Row) string {
	switch {
	case row.Rank == 0 && row.Baseline:
		return "baseline"
	case row.Rank == 0:
		return "-"
	case row.RankLow == row.RankHigh || row.RankLow == 0:
		return fmt.Sprint(row.Rank)
	}
	return fmt.Sprintf("%d (%d-%d)", row.Rank, row.RankLow, row.RankHigh)
}

// listed joins names; more than limit of them are counted.
func listed(names []string, sep string, limit int) string {
	if limit > 0 && len(names) > limit {
		return strings.Join(names[:limit], sep) + fmt.Sprintf(" +%d", len(names)-limit)
	}
	return strings.Join(names, sep)
}

// rankingWarnings joins what is to be said about a ranking as a whole. That a
// network is not ranked shows in its own row already.
func rankingWarnings(r rank.Ranking) string {
	var out []string
	for _, w := range r.Warnings {
		own := slices.ContainsFunc(r.Rows, func(row rank.Row) bool {
			return len(row.Missing) > 0 && strings.HasPrefix(w.Text, row.Network+" is not ranked")
		})
		if !own {
			out = append(out, w.Gate+": "+w.Text)
		}
	}
	return strings.Join(out, "; ")
}
