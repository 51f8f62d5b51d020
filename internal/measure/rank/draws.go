package rank

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/stat"
)

// MonteCarlo names the method of intervals of indices.
const MonteCarlo = "Monte Carlo of posterior means"

// draws are scores as they could be: in each draw every cell's mean is drawn
// from its posterior (stat.Posterior), and all z-scores are taken again, mu and
// sigma included. Cells are drawn independently although those of one block
// share what the machine did; differences then look a little less certain
// than they are, which is the safe side.
type draws struct {
	level float64
	// known are ranked networks whose every figure has two repetitions or
	// more; unknown are the other ranked ones. Of one value nothing can be
	// drawn, so the place of an unknown network is left wholly open.
	known, unknown []string
	// scores holds one row of known's scores per draw.
	scores []float64
	// wins[i][j] counts the draws in which known i scores above known j.
	wins [][]int
	// ranks[i][r] counts the draws in which r known networks score above i.
	ranks [][]int
}

// newDraws prepares the draws of the networks in ranked.
func newDraws(columns []column, ranked []string, o Options) *draws {
	d := &draws{level: o.Level}
	for _, n := range ranked {
		if slices.ContainsFunc(columns, func(c column) bool { return len(c.figures[n].Values) < 2 }) {
			d.unknown = append(d.unknown, n)
		} else {
			d.known = append(d.known, n)
		}
	}
	slices.Sort(d.unknown)
	d.scores = make([]float64, o.Draws*len(d.known))
	return d
}

// addDraws draws one sub-feature and adds its z-scores to all of to, the
// rankings that sum it: drawing is the slow part, so it is done once. Every
// entrant takes part in mu and sigma, ranked or not.
func addDraws(c column, entrants []string, o Options, to []*draws) {
	posteriors := make([]stat.Posterior, len(entrants))
	at := make([][]int, len(to))
	for i, n := range entrants {
		posteriors[i], _ = stat.NewPosterior(c.figures[n].Values)
		for t, d := range to {
			at[t] = append(at[t], slices.Index(d.known, n))
		}
	}
	r := rand.New(rand.NewPCG(o.Seed, hash(c.name())))
	means, scores := make([]float64, len(entrants)), make([]float64, len(entrants))
	for n := range o.Draws {
		for i, p := range posteriors {
			means[i] = p.Draw(r)
		}
		ZScores(means, c.metric.Better, scores)
		for t, d := range to {
			row := d.scores[n*len(d.known):]
			for i, k := range at[t] {
				if k >= 0 {
					row[k] += scores[i]
				}
			}
		}
	}
}

// count compares every pair of known networks in every draw.
func (d *draws) count() {
	k := len(d.known)
	d.wins, d.ranks = square(k), square(k)
	above := make([]int, k)
	for row := d.scores; len(row) > 0; row = row[k:] {
		clear(above)
		for i := range k {
			for j := i + 1; j < k; j++ {
				switch {
				case row[i] > row[j]:
					d.wins[i][j]++
					above[j]++
				case row[j] > row[i]:
					d.wins[j][i]++
					above[i]++
				}
			}
		}
		for i, a := range above {
			d.ranks[i][a]++
		}
	}
}

// fill sets rank intervals and ties of the ranked rows, which stand best first.
func (d *draws) fill(rows []Row) {
	for i := range rows {
		row := &rows[i]
		k := slices.Index(d.known, row.Network)
		if k < 0 {
			row.RankLow, row.RankHigh = 1, len(rows)
			continue
		}
		// Any unknown network may stand above or below.
		row.RankLow = 1 + d.rankQuantile(k, (1-d.level)/2)
		row.RankHigh = 1 + d.rankQuantile(k, (1+d.level)/2) + len(d.unknown)
	}
	for group, left := 1, len(rows); left > 0; group++ {
		leader := slices.IndexFunc(rows, func(r Row) bool { return r.Tie == 0 })
		for i := leader; i < len(rows); i++ {
			if rows[i].Tie == 0 && (i == leader || d.tied(rows[leader].Network, rows[i].Network)) {
				rows[i].Tie = group
				left--
			}
		}
	}
}

// rankQuantile is the least number of networks above k that at least a share p
// of the draws do not exceed.
func (d *draws) rankQuantile(k int, p float64) int {
	seen, need := 0, p*float64(len(d.scores)/len(d.known))
	for above, n := range d.ranks[k] {
		seen += n
		if float64(seen) >= need {
			return above
		}
	}
	return len(d.known) - 1
}

// tied tells whether the interval of the difference of two scores contains 0:
// neither is above the other in more than all but half of 1 - level of the draws.
func (d *draws) tied(a, b string) bool {
	i, j := slices.Index(d.known, a), slices.Index(d.known, b)
	if i < 0 || j < 0 {
		return true
	}
	most := (1 + d.level) / 2 * float64(len(d.scores)/len(d.known))
	return float64(max(d.wins[i][j], d.wins[j][i])) <= most
}

func square(n int) [][]int {
	out := make([][]int, n)
	for i := range out {
		out[i] = make([]int, n)
	}
	return out
}

// hash names a sub-feature's own stream of random numbers.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
