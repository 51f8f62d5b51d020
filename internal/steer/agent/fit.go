package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/route"
)

// What a pod's kernel needs for where a pair's flows are, its own route to the peer and
// the peer's hardware address, is made by the fitter, apart from the loop: each takes as
// long as the kernel does. The loop says what is needed, and hears what became of it.

// stacks have the kernels of pods be fit for where their pairs' flows are.
type stacks struct {
	*journal
	leisure *leisure
	// fitter asks pods' kernels, and reports to Agent.became. It has locks of its own, which
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
	fit := route.Fit{Form: route.Form{RTOMin: rtoMin, Direct: p.dev(p.direct)}}
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
		s.fitter.Want(p, p.end(), p.needs(p.wanted(p.assigned), s.cfg.RTOMin))
	}
}

// preparing has the pod's kernel be fit for where flows are to be, and still are. It reports
// whether that is under way: a path of smaller packets is prepared for before the move.
func (s *stacks) preparing(p *pair, to decide.Assignment) bool {
	now, then := p.needs(p.wanted(p.assigned), s.cfg.RTOMin), p.needs(p.wanted(to), s.cfg.RTOMin)
	then.Hold = then.Hold || now.Hold
	if then.MTU == 0 || now.MTU != 0 && now.MTU < then.MTU {
		then.MTU = now.MTU
	}
	return s.fitter.Want(p, p.end(), then)
}
