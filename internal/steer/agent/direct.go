package agent

import (
	"errors"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/steer/route"
)

const (
	// steady is for how long nearly all that a pair sends must have gone over one
	// path for its route to lead straight there.
	steady = time.Second
	// askMay is how often it is asked whether anything forbids direct routes.
	askMay = 2 * time.Second
)

// routeDirectly has the pair's route lead straight to the path that carries what it
// sends, no matter which end opened the flows: the pod's packets then pass one interface, not
// two. It decides nothing: flows are where the maps have them, and what is not on that
// path is redirected to its own.
func (s *stacks) routeDirectly(p *pair, now time.Time) {
	to := p.carrier()
	if to != p.bearing {
		p.bearing, p.borne = to, now
	}
	if now.Sub(p.borne) < steady {
		to = p.direct
	}
	if to != 0 && (p.opened.IsZero() || s.cfg.DryRun || !p.routes[0].Remote.Addr.Is4() || !p.local.mayLead(now)) {
		to = 0
	}
	if to == p.direct || !s.leisure.take() {
		return
	}
	p.direct = to
	s.refit(p)
}

// carrier is the index of the path over which nearly all that the pair sends goes; 0
// where there is none. Of what sent nothing there is no news.
func (p *pair) carrier() int {
	total, best := 0.0, 0
	for i := range p.lines {
		total += p.lines[i].tx
		if p.lines[i].tx > p.lines[best].tx {
			best = i
		}
	}
	switch {
	case total == 0:
		return p.bearing
	case p.lines[best].tx < 0.9*total:
		return 0
	}
	if p.routes[best].Encap {
		return 0 // encapsulating behind a route has not been tried
	}
	return p.routes[best].Index
}

// mayLead reports whether direct routes are harmless, as far as is known, and has that be
// asked now and then.
func (l *pod) mayLead(now time.Time) bool {
	l.asks = now.Sub(l.asked) >= askMay
	return l.mayDirect
}

// dev is the pod's interface on a path but the default network's.
func (p *pair) dev(index int) string {
	for _, r := range p.routes[1:] {
		if r.Index == index {
			return r.Local.Dev
		}
	}
	return ""
}

// pathBy is the index of the path by an interface of the pod, 0 for "".
func (p *pair) pathBy(dev string) int {
	for _, r := range p.routes[1:] {
		if r.Local.Dev == dev {
			return r.Index
		}
	}
	return 0
}

// unlead removes what a predecessor's direct routes have left in the pod. One of another
// layout has left peers that are not known any more: all that it has prepared for them is
// undone.
func unlead(l *pod, others elsewhere) error {
	var errs []error
	left, err := l.plane.Former()
	if l.former = left; left == 0 {
		errs = append(errs, err, route.Undirect(l.Netns))
	} else {
		held := func(addr netip.Addr) bool {
			_, ok := others.addressed(addr)
			return ok
		}
		errs = append(errs, err, route.Clear(l.Netns), route.ReleaseNeighbours(l.Netns, l.Attachments[0].Dev, held))
	}
	for _, at := range l.Attachments[1:] {
		errs = append(errs, l.plane.Direct(at.Dev, false))
	}
	return errors.Join(errs...)
}
