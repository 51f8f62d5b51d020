package rank

import (
	"math"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/stat"
)

// prospects are the draws of an index.
type prospects struct {
	o        Options
	networks []string
	// known networks have two repetitions or more of every figure.
	known []bool
	// indices holds one row per draw: the networks' logarithms, then the baseline's.
	indices []float64
	// centers are the indices of the means, as rows are.
	centers []float64
	// based: the baseline has every figure.
	based bool
	// n is the least number of repetitions behind a figure.
	n            int
	best, regret []float64
	limits       []limit
	// broken tells of each draw and network, as indices does, whether a bound is broken.
	broken []bool
	// keeps is a network's probability to keep all bounds, each its own of one.
	keeps []float64
	each  [][]float64
}

// newProspects draws. Each figure has a generator of its own, so that leaving out
// one does not move another. Networks are drawn independently although those of
// one repetition share what the machine did: differences look less certain than
// they are, which is the safe side.
func newProspects(features []feature, limits []limit, networks []string, o Options) *prospects {
	p := &prospects{o: o, limits: limits, networks: networks, known: slices.Repeat([]bool{true}, len(networks)),
		based: true, n: math.MaxInt}
	wide := len(networks) + 1
	p.indices, p.centers = make([]float64, o.Draws*wide), make([]float64, wide)
	for _, f := range features {
		posteriors, known := f.posteriors(networks)
		for i, k := range known {
			p.known[i] = p.known[i] && k
			p.n = min(p.n, len(f.figures[networks[i]].Values))
		}
		base, ok := f.posterior(o.Baseline)
		p.based = p.based && ok
		for i, q := range append(posteriors, base) {
			if i < len(networks) || ok {
				p.add(i, f, q)
			}
		}
	}
	p.hold()
	p.count()
	return p
}

// hold puts the next rebuild of every network to the bounds. A network without a
// figure breaks them; of one repetition the figure itself is taken.
func (p *prospects) hold() {
	n := len(p.networks)
	p.broken, p.keeps = make([]bool, p.o.Draws*n), slices.Repeat([]float64{1}, n)
	share := 1 / float64(p.o.Draws)
	for at, l := range p.limits {
		p.each = append(p.each, slices.Repeat([]float64{1}, n))
		for i, name := range p.networks {
			q, ok := stat.NewPosterior(l.logs(name))
			r := rand.New(rand.NewPCG(p.o.Seed, hash("bound "+l.String()+" "+name)))
			for d := i; d < len(p.broken); d += n {
				v := l.unlog(q.Mean())
				if ok {
					v = l.unlog(q.Next(r))
				}
				if !l.Keeps(v) {
					p.broken[d] = true
					p.each[at][i] -= share
				}
			}
		}
	}
	for d, b := range p.broken {
		if b {
			p.keeps[d%n] -= share
		}
	}
	for i := range p.keeps {
		p.keeps[i] = max(p.keeps[i], 0)
	}
}

// breaks says which bounds a network keeps with less than certainty.
func (p *prospects) breaks(network string) (out []string) {
	for at, l := range p.limits {
		if f, ok := l.figures[network]; !ok {
			out = append(out, l.String()+": it has no figure")
		} else if p.each[at][p.at(network)] < p.o.Level {
			out = append(out, l.String()+": it has "+application.Amount(l.Metric, rounded(f.Interval.Center)))
		}
	}
	return out
}

// add adds one figure of one network to its index.
func (p *prospects) add(at int, f feature, q stat.Posterior) {
	name := p.o.Baseline
	if at < len(p.networks) {
		name = p.networks[at]
	}
	r := rand.New(rand.NewPCG(p.o.Seed, hash("index "+f.name()+" "+name)))
	p.centers[at] += f.share * q.Mean()
	for i := at; i < len(p.indices); i += len(p.networks) + 1 {
		p.indices[i] += f.share * q.Draw(r)
	}
}

// rounded is v to three digits.
func rounded(v float64) float64 {
	if v == 0 || !finite(v) {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	return math.Round(v/unit) * unit
}

// count takes the probabilities and the regrets from the draws. Networks that
// are the best together share the draw; one that breaks a bound loses all.
func (p *prospects) count() {
	n := len(p.networks)
	p.best, p.regret = make([]float64, n), make([]float64, n)
	draws := float64(p.o.Draws)
	for d := range p.o.Draws {
		row, broken := p.indices[d*(n+1):], p.broken[d*n:]
		top, equal := math.Inf(-1), 0.0
		for i, v := range row[:n] {
			if p.known[i] && !broken[i] {
				top = max(top, v)
			}
		}
		for i, v := range row[:n] {
			if p.known[i] && !broken[i] && top-v < 1e-12 {
				equal++
			}
		}
		for i, v := range row[:n] {
			switch {
			case broken[i]:
				p.regret[i]++
				continue
			case p.known[i] && top-v < 1e-12:
				p.best[i] += 1 / equal
			}
			p.regret[i] -= math.Expm1(min(v-top, 0))
		}
	}
	for i := range n {
		p.best[i] /= draws
		p.regret[i] /= draws
	}
}

// at is the place of a network.
func (p *prospects) at(network string) int { return slices.Index(p.networks, network) }

// index is the index of a network's means.
func (p *prospects) index(network string) float64 { return p.centers[p.at(network)] }

// ahead is the share of draws in which a is above b; equal ones count half.
func (p *prospects) ahead(a, b int) float64 {
	wins := 0.0
	for d := range p.o.Draws {
		row, broken := p.indices[d*(len(p.networks)+1):], p.broken[d*len(p.networks):]
		switch {
		case broken[a] || broken[b]:
			if !broken[a] {
				wins++
			} else if broken[b] {
				wins += 0.5
			}
		case math.Abs(row[a]-row[b]) < 1e-12:
			wins += 0.5
		case row[a] > row[b]:
			wins++
		}
	}
	return wins / float64(p.o.Draws)
}

// ratio is the index of a over that of b; b may be the baseline, which is at the end.
func (p *prospects) ratio(a, b int) stat.Interval {
	out := stat.Interval{Center: math.Exp(p.centers[a] - p.centers[b]), Low: 0, High: math.Inf(1), N: p.n,
		Level: p.o.Level, Method: MonteCarlo}
	if !p.known[a] || b < len(p.known) && !p.known[b] {
		out.Warnings =
			[]stat.Warning{{Gate: "repetitions", Text: "a figure of one repetition: needs >= 3 repetitions for an interval"}}
		return out
	}
	all := make([]float64, 0, p.o.Draws)
	for row := p.indices; len(row) > 0; row = row[len(p.networks)+1:] {
		all = append(all, row[a]-row[b])
	}
	slices.Sort(all)
	tail := int((1 - p.o.Level) / 2 * float64(len(all)))
	out.Low, out.High = math.Exp(all[tail]), math.Exp(all[len(all)-1-tail])
	return out
}

// toBaseline is a network's index over the baseline's; nil where that has none.
func (p *prospects) toBaseline(at int) *stat.Interval {
	if !p.based {
		return nil
	}
	r := p.ratio(at, len(p.networks))
	return &r
}
