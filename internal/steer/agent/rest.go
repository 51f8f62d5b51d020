package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// restAfter is how long the other agent's confirmation holds for a pair without
// traffic, which is not renewed: less than for one that asks and is not answered, so
// that a pair that speaks again just before it is asked about has time to be confirmed.
const restAfter = 3 * renew

// rest takes a pair home whose silence has outlived the confirmation: nobody knows
// whether what it would send over another path is taken there still. It is no failure,
// as nothing was lost and nothing moves; and it comes before the pair speaks again, as
// packets would be on their way over the path by the time that this is seen.
func (a *Agent) rest(p *pair, now time.Time) {
	if p.opened.IsZero() || now.Sub(p.opened) < restAfter {
		return
	}
	p.opened = time.Time{}
	from := p.on()
	home := decide.Assignment{Active: p.routes[0].Network}
	if a.cfg.DryRun || from.Index == 0 && p.assigned.Canary == "" {
		return
	}
	p.outcome, p.state.Trial = nil, decide.Trial{}
	_, took, err := a.assign(p, home)
	if err != nil {
		a.warn("%s: move to %s: %v", p.name, home.Active, err)
	}
	if p.assigned != home {
		return // the data plane has refused; the policy leaves what is not confirmed
	}
	a.stats.homes++
	p.unsettled = true
	a.announce(p)
	a.note(Event{Kind: string(decide.Home), Pair: p.name, From: from.Network, To: home.Active, By: "policy", Took: took,
		Reason: fmt.Sprintf(
			"no traffic for %v: its next flows begin on the default network, until the other agent has confirmed the pair again", now.Sub(p.active).Round(time.Second))})
}
