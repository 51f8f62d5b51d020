package rank

import (
	"cmp"
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Outlook says of each network how likely it is the best for what was asked,
// and what choosing it is expected to cost. Where z-scores need a reader who
// knows them, and are 1 and -1 for any two networks, this is in percent of what
// the application gets.
//
// In each draw every figure is drawn from its posterior, on logarithms; a
// network's index is the sum of its figures by their shares, so that a ratio of
// two indices is the weighted geometric mean of the ratios of figures. The best
// network of a draw has the highest index; the regret of another is by how much
// it falls short of that one.
type Outlook struct {
	// Odds by rising regret; networks of which nothing can be drawn are last,
	// unless none can.
	Odds []Odds `json:"odds"`
	// Weights are the figures and their shares, with the reason of those that have none.
	Weights []Weight `json:"weights"`
	// Equal is the expected regret under which a network is practically equal to the best.
	Equal float64 `json:"equal"`
	// Draws behind it, with the ranking's seed.
	Draws int `json:"draws"`
	// Level at which networks are told apart, and bounds are said to be broken.
	Level float64 `json:"level"`
	// Undecided: no figure told the networks apart, so that all of them are tied.
	Undecided bool `json:"undecided,omitempty"`
	// Lead is the first network's index over the second's; nil without a second.
	Lead *stat.Interval `json:"lead,omitempty"`
}

// Odds are one network's prospects.
type Odds struct {
	Network string `json:"network"`
	// Best is the probability that the network is the best, 0 to 1; nil where a
	// figure is of one repetition.
	Best *float64 `json:"best"`
	// Regret is the expected loss against the best network of each draw, 0 to 1.
	Regret *float64 `json:"regret"`
	// ToBaseline is the index over the baseline's; nil where that lacks a figure.
	ToBaseline *stat.Interval `json:"to_baseline,omitempty"`
	// ToFirst is the index over the first network's; nil for that one.
	ToFirst *stat.Interval `json:"to_first,omitempty"`
	// Keeps is the probability that the network, built once more, keeps every bound of
	// the application; nil without bounds.
	Keeps *float64 `json:"keeps,omitempty"`
	// Breaks says which bounds are kept with less than certainty, and by what figure.
	Breaks []string `json:"breaks,omitempty"`
	// Tie says how the network is tied with the first one; "" for one that is not.
	Tie Tie `json:"tie,omitempty"`
}

// Tie says why two networks are named together.
type Tie string

// Ties.
const (
	// Equal: the expected regret is so small that either will do.
	Equal Tie = "equal"
	// Open: the data cannot tell which is better, and it may matter.
	Open Tie = "open"
)

// Weight is one figure's part in an index.
type Weight struct {
	Question sample.Question `json:"question"`
	Metric   sample.Metric   `json:"metric"`
	// Share of the index, 0 to 1; all shares make 1.
	Share float64 `json:"share"`
	// LeftOut is why the figure has no share.
	LeftOut string `json:"left_out,omitempty"`
}

// limit is a bound with the figures that it is put to.
type limit struct {
	column
	application.Bound
}

// group is a workload with the sub-features that share its weight.
type group struct {
	weight float64
	parts  []part
}

// part is a sub-feature with its weight within the group.
type part struct {
	column
	weight float64
}

// mostDraws: of 4,000 draws a probability of 95 % is known to 0.35 %, more than the
// figures are worth.
const mostDraws = 4000

// outlook draws the prospects of networks, which all have every figure.
func (b *book) outlook(groups []group, limits []limit, networks []string) *Outlook {
	if len(networks) == 0 || len(groups) == 0 {
		return nil
	}
	o := b.o
	o.Draws = min(o.Draws, mostDraws)
	out := &Outlook{Equal: o.Equal, Draws: o.Draws, Level: o.Level}
	var kept, unsure, all []feature
	for _, g := range groups {
		k, u := out.weigh(g, networks, o)
		kept, unsure, all = append(kept, k...), append(unsure, u...), append(all, g.features(g.parts)...)
	}
	// Where nothing tells the networks apart, what is known of the figures that
	// scatter still says how much the networks can differ.
	if out.Undecided = len(kept) == 0; out.Undecided {
		if kept = unsure; len(kept) == 0 {
			kept = all
		}
		for i := range kept {
			kept[i].flat = true
		}
	}
	share(kept)
	for i, w := range out.Weights {
		for _, f := range kept {
			if !out.Undecided && f.question == w.Question && f.metric == w.Metric {
				out.Weights[i].Share = f.share
			}
		}
	}
	newProspects(kept, limits, networks, o).tell(out)
	return out
}

// weigh splits the figures of a group into those that tell the networks apart and
// those that could do so with more repetitions. Either share the weight of the group.
func (o *Outlook) weigh(g group, networks []string, opts Options) (kept, unsure []feature) {
	var keep, doubt []part
	for _, p := range g.parts {
		why, noise := p.uninformative(networks, opts)
		switch {
		case why == "":
			keep = append(keep, p)
		case noise:
			doubt = append(doubt, p)
		}
		o.Weights = append(o.Weights, Weight{Question: p.question, Metric: p.metric, LeftOut: why})
	}
	return g.features(keep), g.features(doubt)
}

// features are parts of the group, which share its weight.
func (g group) features(parts []part) (out []feature) {
	total := 0.0
	for _, p := range parts {
		total += p.weight
	}
	for _, p := range parts {
		out = append(out, feature{column: p.column, share: g.weight * p.weight / total})
	}
	return out
}

// share scales the features' shares so that they make 1.
func share(features []feature) {
	sum := 0.0
	for _, f := range features {
		sum += f.share
	}
	for i := range features {
		features[i].share /= sum
	}
}

// tell orders the networks and names the ties.
func (p *prospects) tell(out *Outlook) {
	for i, n := range p.networks {
		o := Odds{Network: n, ToBaseline: p.toBaseline(i)}
		if p.known[i] {
			o.Best, o.Regret = &p.best[i], &p.regret[i]
		}
		if len(p.limits) > 0 {
			o.Keeps, o.Breaks = &p.keeps[i], p.breaks(n)
		}
		out.Odds = append(out.Odds, o)
	}
	slices.SortStableFunc(out.Odds, func(a, b Odds) int {
		if x, y := a.Regret == nil, b.Regret == nil; x != y {
			return last(x)
		}
		if x, y := a.Refused(out.Level), b.Refused(out.Level); x != y {
			return last(x)
		}
		// what the draws say of such is noise
		if len(p.limits) == 0 && (a.Regret == nil || out.Undecided) || a.Regret == nil && b.Regret == nil {
			return cmp.Compare(p.index(b.Network), p.index(a.Network))
		}
		return cmp.Or(cmp.Compare(*a.Regret, *b.Regret), cmp.Compare(*b.Best, *a.Best))
	})
	leader := p.at(out.Odds[0].Network)
	for i := range out.Odds[1:] {
		o := &out.Odds[i+1]
		ratio := p.ratio(p.at(o.Network), leader)
		o.ToFirst = &ratio
		switch at := p.at(o.Network); {
		case o.Refused(p.o.Level) || out.Odds[0].Refused(p.o.Level):
		case o.Regret != nil && *o.Regret < out.Equal && p.known[leader]:
			o.Tie = Equal
		case out.Undecided && len(p.limits) == 0 || !p.known[at] || !p.known[leader] ||
			p.ahead(leader, at) <= (1+p.o.Level)/2:
			o.Tie = Open
		}
	}
	if len(out.Odds) > 1 {
		lead := p.ratio(leader, p.at(out.Odds[1].Network))
		out.Lead = &lead
	}
}

// Tied lists the networks that are named together, the first one before those tied with it.
func (o *Outlook) Tied() (out []string) {
	if o == nil {
		return nil
	}
	for i, n := range o.Odds {
		if i == 0 && !n.Refused(o.Level) || n.Tie != "" {
			out = append(out, n.Network)
		}
	}
	return out
}

// leastToTell is how many repetitions a rank needs at the least.
const leastToTell = 3

// Wants is how many more repetitions of the network and of the first one are expected to tell
// them apart, or to show that they are practically equal: most where no number below that
// would, 0 for a network that is not open.
func (o *Outlook) Wants(n Odds, most int) int {
	if n.Tie != Open || n.ToFirst == nil {
		return 0
	}
	if !n.ToFirst.Bounded() { // one repetition: nothing is known of the scatter
		return max(leastToTell-n.ToFirst.N, 1)
	}
	i := *n.ToFirst
	i.Method = stat.RatioWelch // its width goes by logarithms, as that of any ratio
	apart := math.Abs(math.Log(i.Center))
	need := i.Blocks(max(apart, math.Log1p(o.Equal)-apart), most)
	if need == most {
		return most
	}
	return max(need-i.N, 1)
}

// Refused tells whether the network breaks a bound, as surely as level says.
func (o Odds) Refused(level float64) bool { return o.Keeps != nil && *o.Keeps <= 1-level }

// Find returns a network's odds.
func (o *Outlook) Find(network string) (Odds, bool) {
	if o != nil {
		for _, n := range o.Odds {
			if n.Network == network {
				return n, true
			}
		}
	}
	return Odds{}, false
}

// LeftOut lists the figures without a share.
func (o *Outlook) LeftOut() (out []Weight) {
	if o == nil {
		return nil
	}
	for _, w := range o.Weights {
		if w.LeftOut != "" {
			out = append(out, w)
		}
	}
	return out
}

// last orders what comes after all that is not so.
func last(so bool) int {
	if so {
		return 1
	}
	return -1
}
