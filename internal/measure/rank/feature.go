package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// feature is a sub-feature with its share of an index.
type feature struct {
	column
	share float64
	// flat: the networks' figures are drawn as they are, without what they have
	// in common (see posteriors).
	flat bool
}

// negligible is what is added to a figure before its logarithm is taken: an
// amount of which more or less is nothing to an application, so that one lost
// packet is not infinitely worse than none. Loss of 0.1 % is the bound of the
// strict classes of ITU-T Y.1541; retransmissions of 10 segments per GB are
// some 0.001 %; a jitter of 10 us is what waking a thread takes.
func negligible(m sample.Metric) float64 {
	switch m.Name {
	case sample.Loss:
		return 1e-3
	case sample.Retransmits:
		return 10
	case sample.Jitter:
		return 10e-6
	case sample.Errors:
		return 1
	}
	return 0
}

// logs are a network's figures as logarithms, the better the higher. A figure of
// 0 that has no negligible amount counts as a thousandth of the least.
func (c column) logs(network string) []float64 {
	add := negligible(c.metric)
	out := slices.Clone(c.figures[network].Values)
	for i, v := range out {
		if v+add <= 0 {
			v = c.least() / 1000
		}
		out[i] = float64(c.metric.Better) * math.Log(v+add)
	}
	return out
}

// unlog takes the logarithm of logs back.
func (c column) unlog(v float64) float64 {
	add := negligible(c.metric)
	out := math.Exp(float64(c.metric.Better)*v) - add
	if out < 1e-9*add { // rounding of a figure of 0
		return 0
	}
	return out
}

// least is the least figure above 0 of any network.
func (c column) least() float64 {
	least := math.Inf(1)
	for _, f := range c.figures {
		for _, v := range f.Values {
			if v > 0 {
				least = min(least, v)
			}
		}
	}
	if math.IsInf(least, 1) {
		return 1
	}
	return least
}

// nearlyAll is the part of an offered rate that counts as all of it: generators
// and windows have edges.
const nearlyAll = 0.99

// offered is what the load offered of this figure; ok is false where it offered
// no rate, or the figure is none.
func (c column) offered() (rate float64, ok bool) {
	q := c.question
	if q.Load.Rate <= 0 || c.metric.Name != sample.Throughput && c.metric.Name != sample.Rate {
		return 0, false
	}
	return q.Load.Rate * float64(max(q.Scenario.Pairs, 1)), true
}

// met tells whether the network carried the whole rate that was offered. It could
// have carried more, and what it shows above or below is not its own.
func (c column) met(network string) bool {
	rate, ok := c.offered()
	return ok && c.figures[network].Interval.Center >= nearlyAll*rate
}

// uninformative says why a figure cannot tell the networks apart, "" if it can;
// noise where more repetitions might.
func (c column) uninformative(networks []string, o Options) (why string, noise bool) {
	if len(networks) < 2 {
		return "", false
	}
	if !slices.ContainsFunc(networks, func(n string) bool { return !c.met(n) }) {
		return fmt.Sprintf("every network met the offered rate, all within %s", Percent(c.spread(networks))), false
	}
	if c.spread(networks) < 1e-9 {
		return "it is the same for every network", false
	}
	groups := make([][]float64, len(networks))
	for i, n := range networks {
		groups[i] = c.logs(n)
	}
	const draws = 2000
	p := stat.Homogeneity(groups, draws, rand.New(rand.NewPCG(o.Seed, hash("spread "+c.name()))))
	// NaN: one repetition has no uncertainty to hold the spread against.
	if !(p > 1-o.Level) {
		return "", false
	}
	return fmt.Sprintf("its spread of %s is within its uncertainty of ±%s", Percent(c.spread(networks)),
		Percent(c.uncertainty(networks, o))), true
}

// spread is the greatest figure over the least, less 1.
func (c column) spread(networks []string) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, n := range networks {
		m := mean(c.logs(n))
		low, high = min(low, m), max(high, m)
	}
	return math.Expm1(high - low)
}

// uncertainty is the median half width of the networks' intervals, on logarithms.
func (c column) uncertainty(networks []string, o Options) float64 {
	var widths []float64
	for _, n := range networks {
		i := stat.MeanT(c.logs(n), o.Level)
		widths = append(widths, (i.High-i.Low)/2)
	}
	slices.Sort(widths)
	return math.Expm1(widths[len(widths)/2])
}

// Percent shows a part as "0.15 %" or "12 %"; one that is beyond use as "over 1000 %".
func Percent(part float64) string {
	switch p := 100 * part; {
	case !(p <= 1000):
		return "over 1000 %"
	case p >= 9.95:
		return fmt.Sprintf("%.0f %%", p)
	default:
		return fmt.Sprintf("%.2g %%", p)
	}
}

// posterior is what a network's logarithm can be. One that met the offered rate
// has that rate, whatever it shows.
func (f feature) posterior(network string) (stat.Posterior, bool) {
	values := f.logs(network)
	if len(values) > 0 && f.met(network) {
		rate, _ := f.offered()
		values = slices.Repeat([]float64{math.Log(rate)}, max(len(values), 2))
	}
	return stat.NewPosterior(values)
}

// posteriors are those of networks, drawn toward their mean by as much as their
// uncertainty makes of their spread, since the best of many looks better than it is.
func (f feature) posteriors(networks []string) (out []stat.Posterior, known []bool) {
	var centers, errors []float64
	for _, n := range networks {
		p, ok := f.posterior(n)
		out, known = append(out, p), append(known, ok)
		if ok {
			centers, errors = append(centers, p.Mean()), append(errors, p.Stderr())
		}
	}
	if f.flat || len(centers) < 2 {
		return out, known
	}
	center, variance := between(centers, errors)
	for i := range out {
		if known[i] {
			out[i] = out[i].Toward(center, variance)
		}
	}
	return out, known
}

// between is the mean of means and their variance beyond what their errors make
// (the method of moments of Hedges and Olkin 1985).
func between(means, errors []float64) (center, variance float64) {
	center = mean(means)
	for i, m := range means {
		variance += (m-center)*(m-center)/float64(len(means)-1) - errors[i]*errors[i]/float64(len(means))
	}
	return center, max(variance, 0)
}
