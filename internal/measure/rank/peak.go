package rank

import (
	"math"
	"math/rand/v2"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Peak is the load at which a network does best, of those along a knob.
type Peak struct {
	// Best is the index of the load with the best mean.
	Best int
	// Ties are the others, by rising index, that the data cannot tell from it.
	Ties []int
}

// PeakOf finds the peak of one network's figures of a metric, load by load; a
// load without a figure has no values. ok is false where fewer than two loads
// have a figure: nothing is a peak by itself.
//
// A load is tied with the best one if its mean is as good in more than 1 - Level
// of the draws of both from their posteriors (stat.Posterior), or where one of
// the two has a single repetition.
func PeakOf(m sample.Metric, figures []Figure, o Options) (p Peak, ok bool) {
	o = o.withDefaults()
	best, n := math.Inf(-1), 0
	posteriors, known := make([]stat.Posterior, len(figures)), make([]bool, len(figures))
	for i, f := range figures {
		if len(f.Values) == 0 {
			continue
		}
		n++
		posteriors[i], known[i] = stat.NewPosterior(f.Values)
		if v := float64(m.Better) * posteriors[i].Mean(); v > best {
			best, p.Best = v, i
		}
	}
	if n < 2 {
		return Peak{}, false
	}
	r := rand.New(rand.NewPCG(o.Seed, hash(m.Name)))
	for i, f := range figures {
		if i == p.Best || len(f.Values) == 0 {
			continue
		}
		sure := known[i] && known[p.Best]
		better := 0
		for range o.Draws {
			if float64(m.Better)*(posteriors[p.Best].Draw(r)-posteriors[i].Draw(r)) > 0 {
				better++
			}
		}
		if !sure || float64(better) < o.Level*float64(o.Draws) {
			p.Ties = append(p.Ties, i)
		}
	}
	return p, true
}
