package decide

import (
	"slices"
	"time"
)

// Shared is what a policy remembers while flows share several networks.
type Shared struct {
	// Active is the network that the portions With go with, and Since when they are as they are.
	Active string        `json:"active,omitempty"`
	With   Portions      `json:"with,omitzero"`
	Since  time.Duration `json:"since_ns,omitempty"`
	// Trying is the network of a portion of which it is not known yet whether it adds anything.
	// Before is what was carried before it came, N counts samples since, Sum adds up the
	// logarithms of what all carried over Before, and Theirs what that network did.
	Trying string `json:"trying,omitempty"`
	// Undo are the portions before it came.
	Undo   Portions `json:"undo,omitzero"`
	Before float64  `json:"before,omitempty"`
	N      int      `json:"n,omitempty"`
	Sum    float64  `json:"sum,omitempty"`
	Theirs float64  `json:"theirs,omitempty"`
	// Quiet counts samples in which that network carried nothing.
	Quiet int `json:"quiet,omitempty"`
	// Alone is what the active network last carried alone. Total and Each are moving averages of
	// what all carry, and of the active network and the portions.
	Alone float64    `json:"alone,omitempty"`
	Total float64    `json:"total,omitempty"`
	Each  [3]float64 `json:"each,omitzero"`
	// Short counts samples in a row in which all carried no more than one network would, and
	// Limited those in which they had nothing more to send.
	Short   int `json:"short,omitempty"`
	Limited int `json:"limited,omitempty"`
	// Check is since when all flows are on the active network, to see what it carries alone; 0
	// for not. CheckSum adds up what it did in Checked samples.
	Check    time.Duration `json:"check_ns,omitempty"`
	Checked  int           `json:"checked,omitempty"`
	CheckSum float64       `json:"check_sum,omitempty"`
	// CheckedAt is when the last check ended, and Checks how many sharing has passed.
	CheckedAt time.Duration `json:"checked_at_ns,omitempty"`
	Checks    int           `json:"checks,omitempty"`
	// LastTraffic is when traffic was last seen.
	LastTraffic time.Duration `json:"heard_ns,omitempty"`
}

// on tells whether flows share networks, or would but for a check.
func (h *Shared) on() bool { return !h.With.None() }

// networks are the active one and those of the portions, "" for one that is free, as in Each.
func (h *Shared) networks() [3]string {
	return [3]string{h.Active, h.With[0].Network, h.With[1].Network}
}

// settled tells whether flows have had the time to find out what the networks give.
func (h *Shared) settled(at time.Duration, p *ShareParams) bool { return at-h.Since >= p.Settle }

// changed notes that the portions are others now.
func (h *Shared) changed(with Portions, at time.Duration) {
	h.With, h.Since, h.Short, h.Total, h.Each = with, at, 0, 0, [3]float64{}
}

// try notes that a portion has come of which it is not known what it adds. What is left is
// for the others alike.
func (h *Shared) try(portion Portion, before float64, at time.Duration) {
	h.Undo = h.With
	with := h.With
	place := with.free()
	with[place] = portion
	if other := &with[1-place]; other.Network != "" {
		other.Buckets = min(other.Buckets, (Buckets-portion.Buckets)/2)
	}
	h.changed(with, at)
	h.Trying, h.Before, h.N, h.Sum, h.Theirs, h.Quiet = portion.Network, before, 0, 0, 0, 0
}

// portion is how many buckets try a network: more of them where a portion before had no flow,
// and as many as the others have where these are two. As that may leave one of those without a
// flow, every other time it is half of what the active network has.
func (h *Shared) portion(m *Memory, p *ShareParams) int {
	n := p.Buckets
	switch {
	case h.on() && m.ShareFails%2 == 1:
		return (Buckets - h.With.total()) / 2
	case h.on():
		n = Buckets / 3
	}
	return n + min(m.Empty, 2)*n/2
}

// bulkiness is 1 where the flows want more than one network gives.
func (h *Shared) bulkiness(d Data, p *ShareParams) float64 {
	if h.Total > p.Room*h.Alone {
		return 1
	}
	return bulkiness(d)
}

// carried is what a piece of evidence shows of the networks: the active one and the portions'.
type carried struct {
	each  [3]float64
	total float64
	// limited: senders had nothing more to send on any; blank: it says nothing; silent: there
	// was no traffic.
	limited, blank, silent bool
}

// carriedOn gathers what was carried on the networks that flows share.
func (h *Shared) carriedOn(ev PairEvidence) (c carried) {
	c.limited, c.silent = true, true
	for i, network := range h.networks() {
		p, ok := ev.path(network)
		if !ok || network == "" || p.Data.idle() {
			continue
		}
		c.each[i] = p.Data.Goodput
		c.total += p.Data.Goodput
		c.limited = c.limited && p.Data.AppLimited
		c.blank = c.blank || p.Data.Blank
		c.silent = false
	}
	return c
}

// observe takes in what was carried while nothing is tried.
func (h *Shared) observe(c carried, p *ShareParams) {
	weight := p.Weight
	if h.Total == 0 {
		weight = 1
	}
	h.Total += weight * (c.total - h.Total)
	for i := range h.Each {
		h.Each[i] += weight * (c.each[i] - h.Each[i])
	}
	if h.Limited++; !c.limited {
		h.Limited = 0
	}
	if h.Short++; c.total >= (1+p.Margin)*max(h.Alone, slices.Max(h.Each[:])) {
		h.Short = 0
	}
}

// weights are the portions by what each network carries, so that flows get alike wherever they
// are.
func (h *Shared) weights(p *ShareParams) Portions {
	out := h.With
	for i := range out {
		if out[i].Network != "" && h.Total > 0 {
			n := int(Buckets*h.Each[i+1]/h.Total + 0.5)
			out[i].Buckets = min(max(n, p.Least), Buckets-2*p.Least)
		}
	}
	if over := out.total() - (Buckets - p.Least); over > 0 {
		for i := range out {
			if out[i] == out.largest() {
				out[i].Buckets -= over
				break
			}
		}
	}
	return out
}

// uneven tells whether portions differ by so much that flows are worth to be moved.
func (p Portions) uneven(than Portions, by float64) bool {
	ratio := func(a, b int) bool { return float64(max(a, b)) >= by*float64(max(min(a, b), 1)) }
	return ratio(p[0].Buckets, than[0].Buckets) || ratio(p[1].Buckets, than[1].Buckets) ||
		ratio(Buckets-p.total(), Buckets-than.total())
}

// worth is by how much networks must carry more together than one does: the margin, and the
// CPU that they take in addition, where that is known of all.
func (s *step) worth(ev PairEvidence, with Portions) float64 {
	by := &s.p.Share
	a, _ := ev.path(ev.Active)
	mine := a.CPU
	all := mine * float64(Buckets-with.total())
	for _, one := range with {
		if one.Network == "" {
			continue
		}
		p, _ := ev.path(one.Network)
		if p.CPU <= 0 || mine <= 0 {
			return by.Margin
		}
		all += p.CPU * float64(one.Buckets)
	}
	if mine <= 0 {
		return by.Margin
	}
	return by.Margin + by.CPUWeight*max(all/(Buckets*mine)-1, 0)
}

// sharesWait is the time until a network is tried again that has added nothing so many times.
func (p *ShareParams) sharesWait(fails int) time.Duration {
	return min(p.FirstWait<<min(max(fails-1, 0), 20), p.MostWait)
}
