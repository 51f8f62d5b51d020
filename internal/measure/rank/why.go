package rank

import (
	"fmt"
	"strings"
)

// why says the outcome in one sentence that needs no statistics to be read.
func why(need Need, o *Outlook) string {
	if o == nil {
		return "no network has an OK trial for every sub-feature, so none can be named"
	}
	if len(o.Tied()) == 0 {
		return o.nobody(need)
	}
	return o.choice(need) + o.bounded()
}

// nobody is the sentence where no network keeps the bounds.
func (o *Outlook) nobody(need Need) string {
	first := o.Odds[0]
	return fmt.Sprintf("No network can be recommended for %s, as none keeps its bounds: the likeliest, %s, does with a probability of %s (%s)",
		need.App, first.Network, Probability(*first.Keeps), strings.Join(first.Breaks, "; "))
}

// bounded says of the first network that it may break a bound, and which networks do.
func (o *Outlook) bounded() string {
	var out string
	first := o.Odds[0]
	if len(first.Breaks) > 0 {
		out = fmt.Sprintf("; built once more, it keeps the bounds with a probability of %s (%s)", Probability(*first.Keeps),
			strings.Join(first.Breaks, "; "))
	}
	var refused []string
	for _, n := range o.Odds[1:] {
		if n.Refused(o.Level) {
			refused = append(refused, fmt.Sprintf("%s (%s)", n.Network, strings.Join(n.Breaks, "; ")))
		}
	}
	if len(refused) > 0 {
		out += "; no choice is " + listed(refused)
	}
	return out
}

// choice is the sentence about the networks that are named.
func (o *Outlook) choice(need Need) string {
	first := o.Odds[0]
	if len(o.Odds) == 1 {
		return fmt.Sprintf("%s is the only network with an OK trial for every sub-feature", first.Network)
	}
	equal, open := o.Named(Equal), o.Named(Open)
	switch {
	case first.Regret == nil && len(open) == 0:
		return fmt.Sprintf("%s did best for %s by one repetition: measure at least three", first.Network, need.App)
	case first.Regret == nil:
		return fmt.Sprintf("%s did best for %s, but a figure of one repetition cannot tell it from %s: measure at least three",
			first.Network, need.App, listed(open))
	case o.Undecided && len(equal) == len(o.Odds)-1:
		return fmt.Sprintf("Any of %d networks will do for %s: no figure tells them apart, and choosing one costs less than %s",
			len(o.Odds), need.App, Percent(max(o.worst(), 0.001)))
	case o.Undecided && len(o.Tied()) == len(o.Odds):
		return fmt.Sprintf("The data cannot tell any of %d networks from another for %s: no figure differs by more than its uncertainty, and a wrong choice could cost %s",
			len(o.Odds), need.App, Percent(o.worst()))
	case len(open) > 0:
		return o.open(need, equal, open)
	case len(equal) > 0:
		return fmt.Sprintf("Use %s or, practically equal, %s for %s: %s is the best of %d networks with a probability of %s, and choosing any of these costs %s of performance or less on average%s",
			first.Network, listed(equal), need.App, first.Network, len(o.Odds), Probability(*first.Best),
			Percent(max(o.worstOf(equal), 0.0005)), o.next())
	}
	return fmt.Sprintf("Use %s for %s: it is the best of %d networks with a probability of %s, and choosing it costs %s of performance on average%s",
		first.Network, need.App, len(o.Odds), Probability(*first.Best), cost(*first.Regret), o.next())
}

// open is the sentence where the data leave the choice open.
func (o *Outlook) open(need Need, equal, open []string) string {
	first := o.Odds[0]
	out := fmt.Sprintf("The data cannot tell whether %s or %s is best for %s: ", first.Network, listed(open), need.App)
	out += fmt.Sprintf("%s is with a probability of %s, and choosing it costs %s of performance on average", first.Network,
		Probability(*first.Best), cost(*first.Regret))
	if len(equal) > 0 {
		out += fmt.Sprintf("; %s is practically equal", listed(equal))
	}
	return out + "; more repetitions would tell"
}

// next is what the best network that is not tied would cost.
func (o *Outlook) next() string {
	for _, n := range o.Odds[1:] {
		if n.Tie == "" && n.Regret != nil && !n.Refused(o.Level) {
			return fmt.Sprintf("; the next one, %s, would cost %s", n.Network, cost(*n.Regret))
		}
	}
	return ""
}

// Named lists the networks tied with the first one in a way.
func (o *Outlook) Named(t Tie) (out []string) {
	for _, n := range o.Odds[1:] {
		if n.Tie == t {
			out = append(out, n.Network)
		}
	}
	return out
}

// worst is the greatest expected regret.
func (o *Outlook) worst() (out float64) {
	for _, n := range o.Odds {
		if n.Regret != nil {
			out = max(out, *n.Regret)
		}
	}
	return out
}

// worstOf is the greatest expected regret of the first network and those named.
func (o *Outlook) worstOf(names []string) float64 {
	out := *o.Odds[0].Regret
	for _, n := range names {
		if odds, ok := o.Find(n); ok && odds.Regret != nil {
			out = max(out, *odds.Regret)
		}
	}
	return out
}

// Probability shows a share of draws; none is 0 or 1, as draws are finite.
func Probability(p float64) string {
	switch {
	case p > 0.995:
		return "over 99 %"
	case p < 0.005:
		return "under 1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// cost shows an expected regret, that of nothing in words.
func cost(regret float64) string {
	if regret < 0.0005 {
		return "next to nothing"
	}
	return Percent(regret)
}

// listed joins the first names; an outlook has them all.
func listed(names []string) string {
	const shown = 4
	switch {
	case len(names) > shown:
		return fmt.Sprintf("%s or one of %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	case len(names) > 1:
		return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	}
	return strings.Join(names, "")
}
