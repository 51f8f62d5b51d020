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

// straighten has the pair's route lead straight to the path that carries what it
// sends, no matter which end opened the flows: the pod's packets then pass one interface, not
// two. It decides nothing: flows are where the maps have them, and what is not on that
// path is redirected to its own.
func (a *Agent) straighten(p *pair, now time.Time) {
	to := p.carrier()
	if to != p.bearing {
		p.bearing, p.borne = to, now
	}
	if now.Sub(p.borne) < steady {
		to = p.direct
	}
	if to != 0 && (p.opened.IsZero() || a.cfg.DryRun || !p.routes[0].Remote.Addr.Is4() || !a.mayDirect(p.local, now)) {
		to = 0
	}
	if to == p.direct || !a.leisure() {
		return
	}
	if err := a.lead(p, to); err != nil {
		p.borne = now // tried again after a while
		a.warn("%s: %v", p.name, err)
	}
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

// mayDirect asks the pod's data plane, now and then.
func (a *Agent) mayDirect(l *pod, now time.Time) bool {
	if now.Sub(l.asked) < askMay {
		return l.mayDirect
	}
	ok, err := l.plane.MayDirect()
	if err != nil {
		a.warn("pod %s: %v", l.Name, err)
	}
	l.asked, l.mayDirect = now, ok && err == nil
	return l.mayDirect
}

// lead has the pair's route lead straight to path index, 0 for the default network.
// The data plane is ready before the route is there, and until it has gone.
func (a *Agent) lead(p *pair, index int) error {
	was := p.direct
	if dev := p.dev(index); dev != "" {
		if err := p.local.plane.Direct(dev, true); err != nil {
			return err
		}
	}
	p.direct = index
	if err := a.shape(p); err != nil {
		p.direct = was // the route is as it was, and the data plane ready for either
		return err
	}
	for _, q := range p.local.pairs {
		if was == 0 || q.direct == was {
			return nil
		}
	}
	return p.local.plane.Direct(p.dev(was), false)
}

// undirect ends the pair's direct route.
func (a *Agent) undirect(p *pair) error {
	if p.direct == 0 {
		return nil
	}
	return a.lead(p, 0)
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

// shape makes the pod's own route to the peer as the pair needs it.
func (a *Agent) shape(p *pair) error {
	f := route.Form{MTU: p.clamped, RTOMin: a.cfg.RTOMin, Direct: p.dev(p.direct)}
	if f.Direct != "" && f.MTU == 0 {
		f.MTU = p.routes[0].Local.MTU // not what that interface has: flows may go elsewhere
	}
	err := route.Shape(p.local.Netns, p.routes[0].Remote.Addr, f)
	p.shaped = err == nil
	return err
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
