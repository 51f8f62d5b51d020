package agent

import (
	"iter"
	"time"
)

// crowds is what all pairs do on each path between hosts. It is taken once a moment, as evidence of
// many pairs is asked for at once: else each would look through all others.
type crowds struct {
	at time.Time
	on map[between]*use
}

// between is a path to a host, by its network.
type between struct {
	host    *remoteHost
	network string
}

// use is how many pairs have traffic on a path, and when packets came over it.
type use struct {
	pairs    int
	arrivals arrivals
}

// take looks through the pairs, unless that was done at the same time.
func (c *crowds) take(pairs iter.Seq[*pair], now time.Time) {
	if c.at.Equal(now) {
		return
	}
	c.at, c.on = now, map[between]*use{}
	for p := range pairs {
		for i, r := range p.routes {
			on := c.of(between{p.host, r.Network})
			if p.isOn(r.Network, now) {
				on.pairs++
			}
			on.arrivals.add(p, i, now)
		}
	}
}

// of is that of a path, made where there is none.
func (c *crowds) of(path between) *use {
	on := c.on[path]
	if on == nil {
		on = &use{}
		c.on[path] = on
	}
	return on
}

// isOn reports whether the pair has traffic that is assigned to the network.
func (p *pair) isOn(network string, now time.Time) bool {
	return (p.assigned.Active == network || p.assigned.With.On(network) > 0) && now.Sub(p.active) < quiet
}
