package agent

import (
	"errors"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/route"
)

// What a pod's kernel needs for where a pair's flows are, its own route to the peer and
// the peer's hardware address, is made by the fitter, apart from the loop: each takes as
// long as the kernel does. The loop says what is needed, and learns what became of it.

// stacks have the kernels of pods be fit for where their pairs' flows are.
type stacks struct {
	*journal
	leisure *leisure
	// fitter asks pods' kernels, and reports to entries. It has locks of its own, which
	// are taken under that of members.
	fitter *route.Fitter[*pair]
}

// coming is a move that waits until the pod's kernel is fit for it.
type coming struct {
	decide.Decision
	by       string
	detected time.Duration
}

// end is the peer as the fitter knows it.
func (p *pair) end() route.End {
	return route.End{Netns: p.local.Netns, Routes: p.routes, Ready: p.local.plane.Direct}
}

// needs is what the pod's kernel is to be fit for where its own flows to the peer are on
// these paths. Those that answer the peer's flows count where there are some: of a download,
// they are most.
func (p *pair) needs(own [dataplane.Buckets]int, rtoMin time.Duration) route.Fit {
	var used [dataplane.MaxPaths]bool
	for _, path := range own {
		used[path%dataplane.MaxPaths] = true
	}
	if p.fitted {
		followed, err := p.local.plane.Followed(p.remote.UID)
		for _, c := range followed {
			used[c.Path%dataplane.MaxPaths] = used[c.Path%dataplane.MaxPaths] || err == nil
		}
	}
	fit := route.Fit{Form: route.Form{RTOMin: rtoMin, Direct: p.routes.dev(p.direct)}}
	usual := p.routes[0].Local.MTU
	for _, r := range p.routes {
		if r.Index != 0 && used[r.Index] {
			fit.Hold = true
			if m := r.MTU(); m < usual && (fit.MTU == 0 || m < fit.MTU) {
				fit.MTU = m
			}
		}
	}
	if fit.Direct != "" && fit.MTU == 0 {
		fit.MTU = usual // not what that interface has: flows may go elsewhere
	}
	return fit
}

// refit has the pod's kernel be fit for where flows are.
func (s *stacks) refit(p *pair) {
	if !s.cfg.DryRun && !p.withdrawn {
		s.fitter.Want(p, p.end(), p.needs(p.wanted(p.assignments()), s.cfg.RTOMin))
	}
}

// preparing has the pod's kernel be fit for where flows are to be, and still are. It reports
// whether that is under way: a path of smaller packets is prepared for before the move.
func (s *stacks) preparing(p *pair, to [flow.Rows]decide.Assignment) bool {
	now, then := p.needs(p.wanted(p.assignments()), s.cfg.RTOMin), p.needs(p.wanted(to), s.cfg.RTOMin)
	then.Hold = then.Hold || now.Hold
	if then.MTU == 0 || now.MTU != 0 && now.MTU < then.MTU {
		then.MTU = now.MTU
	}
	return s.fitter.Want(p, p.end(), then)
}

const (
	// steady is for how long nearly all that a pair sends must have gone over one
	// path for its route to lead straight there.
	steady = time.Second
	// checkDirectEvery is how often it is checked whether anything forbids direct routes.
	checkDirectEvery = 2 * time.Second
)

// routeDirectly has the pair's route lead straight to the path that carries what it
// sends, no matter which end opened the flows: the pod's packets then pass one interface, not
// two. It decides nothing: flows are where the maps have them, and what is not on that
// path is redirected to its own.
func (s *stacks) routeDirectly(p *pair, now time.Time) {
	to := p.carrier()
	if to != p.carrying {
		p.carrying, p.carryingSince = to, now
	}
	if now.Sub(p.carryingSince) < steady {
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
		return p.carrying
	case p.lines[best].tx < 0.9*total:
		return 0
	}
	if p.routes[best].Encap {
		return 0 // encapsulating behind a route has not been tried
	}
	return p.routes[best].Index
}

// mayLead reports whether direct routes are harmless, as far as is known, and has that be
// checked now and then.
func (l *pod) mayLead(now time.Time) bool {
	l.checkDirect = now.Sub(l.directCheckedAt) >= checkDirectEvery
	return l.mayDirect
}

// removeDirect removes what a predecessor's direct routes have left in the pod. One of another
// layout has left peers that are not known any more: all that it has prepared for them is
// undone.
func removeDirect(l *pod, others elsewhere) error {
	var errs []error
	left, err := l.plane.Former()
	if l.former = left; left == 0 {
		errs = append(errs, err, route.Undirect(l.Netns))
	} else {
		dev := l.Attachments[0].Dev
		errs = append(errs, err, route.Clear(l.Netns), route.ReleaseNeighbours(l.Netns, dev, others.hasAddress))
	}
	for _, at := range l.Attachments[1:] {
		errs = append(errs, l.plane.Direct(at.Dev, false))
	}
	return errors.Join(errs...)
}
