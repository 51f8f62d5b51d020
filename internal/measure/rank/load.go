package rank

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// loads lists the questions of a part in a scenario that a candidate answered,
// by rising load.
func (b *book) loads(p application.Part, s topo.Scenario) []sample.Question {
	var asked []sample.Question
	for _, q := range b.asked {
		if q.Scenario == s && q.Workload == p.Workload && p.Takes(q.Load) {
			asked = append(asked, q)
		}
	}
	return b.nonEmpty(asked, p.Metrics[0].Name)
}

// choose picks the question of a part at a load point among its loads, of
// which there is at least one.
func (b *book) choose(p application.Part, loads []sample.Question, point LoadPoint) (
	sample.Question, []sample.Warning) {
	highest := loads[len(loads)-1]
	if len(loads) == 1 {
		return highest, []sample.Warning{{Gate: "load", Text: fmt.Sprintf(
			"%s: only load %s was measured, so it is optimum and high at once", p.Workload, highest.Load)}}
	}
	if point == High {
		return highest, nil
	}
	return b.optimum(p, loads)
}

// optimum is the load at which the mean over networks of the part's first
// metric is best. Only networks measured at every load enter, so that a weak
// network that fails at a high load does not lift that load's mean.
func (b *book) optimum(p application.Part, loads []sample.Question) (sample.Question, []sample.Warning) {
	columns := b.peaks(p, loads)
	networks := b.candidates(loads)
	everywhere := slices.Clone(networks)
	for _, c := range columns {
		everywhere = c.entrants(everywhere)
	}
	var warnings []sample.Warning
	if len(everywhere) == 0 {
		everywhere = networks
		warnings = append(warnings, sample.Warning{Gate: "load", Text: p.Workload +
			": no network was measured at every load: the optimum compares means over different networks"})
	}
	at := bestLoad(columns, func(c column) float64 { return mean(c.means(c.entrants(everywhere))) })
	if w, doubt := b.doubt(columns, everywhere, at); doubt {
		warnings = append(warnings, w)
	}
	return loads[at], warnings
}

// peaks lists, per load, the sub-feature that decides which load is the optimum.
func (b *book) peaks(p application.Part, loads []sample.Question) (out []column) {
	m, _ := sample.MetricByName(p.Metrics[0].Name)
	for _, q := range loads {
		out = append(out, b.column(q, m))
	}
	return out
}

// bestLoad is the index of the best value; the lowest load of equal ones.
func bestLoad(columns []column, value func(column) float64) int {
	best, at := math.Inf(-1), 0
	for i, c := range columns {
		if v := float64(c.metric.Better) * value(c); v > best {
			best, at = v, i
		}
	}
	return at
}

// doubt warns when another load could as well be the optimum.
func (b *book) doubt(columns []column, networks []string, chosen int) (sample.Warning, bool) {
	const draws = 1000
	name := fmt.Sprintf("%s: optimum load %s", columns[chosen].question.Workload, columns[chosen].question.Load)
	posteriors := make([][]stat.Posterior, len(columns))
	for i, c := range columns {
		for _, n := range c.entrants(networks) {
			p, ok := stat.NewPosterior(c.figures[n].Values)
			if !ok {
				return sample.Warning{Gate: "load", Text: name + " rests on figures of one repetition: it is not certain"}, true
			}
			posteriors[i] = append(posteriors[i], p)
		}
	}
	r := rand.New(rand.NewPCG(b.o.Seed, hash(name)))
	wins := make([]int, len(columns))
	means := make([]float64, len(columns))
	for range draws {
		best, at := math.Inf(-1), 0
		for i, ps := range posteriors {
			means[i] = 0
			for _, p := range ps {
				means[i] += p.Draw(r) / float64(len(ps))
			}
			if v := float64(columns[i].metric.Better) * means[i]; v > best {
				best, at = v, i
			}
		}
		wins[at]++
	}
	if float64(wins[chosen]) >= b.o.Level*draws {
		return sample.Warning{}, false
	}
	wins[chosen] = -1
	other := slices.Index(wins, slices.Max(wins))
	return sample.Warning{Gate: "load", Text: fmt.Sprintf("%s is not certain: it could be %s",
		name, columns[other].question.Load)}, true
}

// nearest is the question whose load is most like load: by connections, then
// rate, then size, each on a logarithmic scale; the lower of two equally near.
func nearest(questions []sample.Question, load sample.Load) sample.Question {
	apart := func(a, b float64) float64 { return math.Abs(math.Log1p(a) - math.Log1p(b)) }
	return slices.MinFunc(questions, func(a, b sample.Question) int {
		return cmp.Or(
			cmp.Compare(apart(float64(a.Load.Connections), float64(load.Connections)),
				apart(float64(b.Load.Connections), float64(load.Connections))),
			cmp.Compare(apart(a.Load.Rate, load.Rate), apart(b.Load.Rate, load.Rate)),
			cmp.Compare(apart(float64(a.Load.Size), float64(load.Size)), apart(float64(b.Load.Size), float64(load.Size))),
		)
	})
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}
