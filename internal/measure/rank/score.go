package rank

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// scored is a ranking with the sub-features that it sums and its draws.
type scored struct {
	Ranking
	o       Options
	columns []column
	draws   *draws
}

// rank scores the networks that questions were put to by the sum of columns.
// It leaves scope and name to the caller.
func (b *book) rank(columns []column, questions []sample.Question) *scored {
	out := b.score(columns, questions)
	candidates := b.candidates(questions)
	for _, c := range out.columns {
		addDraws(c, c.entrants(candidates), b.o, []*draws{out.draws})
	}
	out.finish()
	return out
}

// score is rank without the draws, and so without all that rests on them.
func (b *book) score(columns []column, questions []sample.Question) *scored {
	candidates := b.candidates(questions)
	out := &scored{o: b.o, Ranking: Ranking{Level: b.o.Level, Draws: b.o.Draws, Seed: b.o.Seed}}
	out.keep(columns, candidates, b)
	for _, network := range b.tried(questions) {
		out.Rows = append(out.Rows, Row{Network: network, Baseline: network == b.o.Baseline})
	}
	for _, c := range out.columns {
		out.add(c, candidates)
	}
	out.order()
	out.warnKernels(questions, b)
	out.draws = newDraws(out.columns, out.ranked(), b.o)
	return out
}

// finish takes rank intervals and ties from the finished draws.
func (s *scored) finish() {
	s.draws.count()
	s.draws.fill(s.Rows[:len(s.ranked())])
	s.warnRows()
}

// keep drops the sub-features that cannot order the candidates, and says so: once for all that
// nothing is known of, and once for each network that alone was asked.
func (s *scored) keep(columns []column, candidates []string, b *book) {
	var unknown, askers []string
	alone := map[string][]string{}
	for _, c := range columns {
		asked := b.candidates([]sample.Question{c.question})
		switch {
		case len(c.entrants(candidates)) == 0:
			unknown = append(unknown, c.name())
		case len(asked) == 1 && len(candidates) > 1:
			if alone[asked[0]] == nil {
				askers = append(askers, asked[0])
			}
			alone[asked[0]] = append(alone[asked[0]], c.name())
		default:
			s.columns = append(s.columns, c)
		}
	}
	if len(unknown) > 0 && len(s.columns) == 0 && len(askers) == 0 {
		s.warn("missing", "no network has an OK trial here: nothing can be ranked")
	} else if len(unknown) > 0 {
		s.warn("missing", "no OK trial of any network for %s: not in the sum", few(unknown))
	}
	for _, network := range askers {
		s.warn("missing", "only %s was asked for %s: not in the sum", network, few(alone[network]))
	}
}

// add scores one sub-feature. Mu and sigma come from the candidates alone; the
// yardstick is put on their scale.
func (s *scored) add(c column, candidates []string) {
	mu, sigma := population(c.means(c.entrants(candidates)))
	base, hasBase := c.figures[s.o.Baseline]
	for i := range s.Rows {
		row := &s.Rows[i]
		f, ok := c.figures[row.Network]
		if !ok {
			row.Missing = append(row.Missing, c.name())
			continue
		}
		feature := Feature{Question: c.question, Metric: c.metric, Value: f.Interval}
		feature.Z = z(f.Interval.Center, mu, sigma, c.metric.Better)
		if hasBase {
			ratio := stat.RatioT(f.blocks(), base.blocks(), s.o.Level)
			feature.ToBaseline = &ratio
		}
		row.Features = append(row.Features, feature)
		row.Score += feature.Z
	}
}

// order sorts the rows and numbers the ranks.
func (s *scored) order() {
	ranked := func(r Row) bool { return len(s.columns) > 0 && len(r.Missing) == 0 && !s.o.yardstick(r.Network) }
	slices.SortStableFunc(s.Rows, func(a, b Row) int {
		ra, rb := ranked(a), ranked(b)
		switch {
		case ra && rb:
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Network, b.Network))
		case ra:
			return -1
		case rb:
			return 1
		}
		return cmp.Compare(a.Network, b.Network)
	})
	for i := range s.Rows {
		switch {
		case !ranked(s.Rows[i]):
		case i > 0 && s.Rows[i].Score == s.Rows[i-1].Score:
			s.Rows[i].Rank = s.Rows[i-1].Rank
		default:
			s.Rows[i].Rank = i + 1
		}
	}
}

// ranked lists the networks with a rank, best first.
func (r Ranking) ranked() (out []string) {
	for _, row := range r.Rows {
		if row.Rank > 0 {
			out = append(out, row.Network)
		}
	}
	return out
}

func (s *scored) warn(gate, format string, args ...any) {
	s.Warnings = append(s.Warnings, sample.Warning{Gate: gate, Text: fmt.Sprintf(format, args...)})
}

// warnRows says which networks are not ranked, and whose place is not known.
func (s *scored) warnRows() {
	for _, r := range s.Rows {
		if len(r.Missing) > 0 && !s.o.yardstick(r.Network) {
			s.warn("missing", "%s is not ranked: no OK trial for %d of %d sub-features (%s)",
				r.Network, len(r.Missing), len(s.columns), few(r.Missing))
		}
	}
	if len(s.draws.unknown) > 0 {
		s.warn("repetitions", "%s: a figure of one repetition: the rank can be any and no difference is certain; needs >= 3 repetitions",
			strings.Join(s.draws.unknown, ", "))
	}
	if len(s.ranked()) == 1 {
		s.warn("candidates", "%s is the only network that could be ranked", s.Rows[0].Network)
	}
}

// foresee adds the prospects of the ranked networks, by groups of sub-features
// that are all in the sum, and bounds.
func (s *scored) foresee(b *book, groups []group, limits []limit) {
	networks := s.ranked()
	slices.Sort(networks)
	s.Outlook = b.outlook(groups, limits, networks)
}

// byWorkload groups sub-features: each workload has the weight of one, whatever
// the number of its loads and metrics.
func (b *book) byWorkload(columns []column) (out []group) {
	at := map[string]int{}
	for _, c := range columns {
		i, ok := at[c.question.Workload]
		if !ok {
			i = len(out)
			at[c.question.Workload] = i
			out = append(out, group{weight: 1})
		}
		out[i].parts = append(out[i].parts, part{c, 1})
	}
	return out
}

// has tells whether a sub-feature is in the sum.
func (s *scored) has(c column) bool {
	return slices.ContainsFunc(s.columns, func(o column) bool { return o.question == c.question && o.metric == c.metric })
}

// few joins the first names; Row.Missing has them all.
func few(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// warnKernels says when networks of one question ran on different kernels,
// whose differences then count as the networks'.
func (s *scored) warnKernels(questions []sample.Question, b *book) {
	by := map[string][]string{}
	for _, q := range questions {
		for network, cell := range b.cells[q] {
			for _, k := range cell.Kernels {
				if !slices.Contains(by[k], network) {
					by[k] = append(by[k], network)
				}
			}
		}
	}
	if len(by) < 2 {
		return
	}
	var parts []string
	for k, networks := range by {
		slices.Sort(networks)
		parts = append(parts, fmt.Sprintf("%s on %q", strings.Join(networks, ", "), k))
	}
	slices.Sort(parts)
	s.warn("kernel", "the networks ran on different kernels, which differ too: %s", strings.Join(parts, "; "))
}
