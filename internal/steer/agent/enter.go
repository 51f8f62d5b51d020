package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// enter makes the data plane know the peer. Where a predecessor had opened the
// pair, it stays so.
func (en *entries) enter(p *pair) error {
	p.joined = en.cfg.Now()
	p.marks = en.ring.marks(&p.host.keys, nil, p.joined)
	known, err := p.local.plane.Known(route.Peer(p.remote, p.routes, true, nil, nil))
	if err != nil {
		return err
	}
	if known {
		p.hops = p.local.hops[p.remote.Addr()]
	}
	if err := en.setPeer(p, known); err != nil {
		return err
	}
	if known {
		if err := en.adoptOpening(p); err != nil {
			return err
		}
	}
	as, err := p.found()
	if err != nil {
		return err
	}
	p.setAssignments(as)
	if as[0] != as[1] {
		p.rows.Apart, p.rows.Live = true, [flow.Rows]time.Duration{1, 1} // until it is known what flows there are
	}
	if known {
		p.opened = en.cfg.Now()
		if at := p.on(); at.Index != 0 {
			// It has prepared the pod for that, which is to be undone one day.
			if !en.cfg.DryRun {
				en.stacks.fitter.Adopt(p, p.end(), route.Fit{Hold: true})
			}
			p.unsettled = true // what became of it meanwhile is not known
			en.untracked.add(p)
			en.note(Event{Kind: EventAdopted, Pair: p.name, To: at.Network,
				Reason: fmt.Sprintf("%s is on %s, as a predecessor left it", p.name, at.Network)})
		}
		en.tidy(p)
	}
	for i := range p.lines {
		ln := &p.lines[i]
		if ln.sent, ln.received, err = p.local.plane.Tallies(p.remote.UID, p.routes[i].Index); err != nil {
			return err
		}
		// What passed before is no evidence of now.
		ln.counted = counted{ln.sent, ln.received}
	}
	return nil
}

// tidy has all of an adopted pair's own flows be on one path, also those of a canary or a
// detour of the predecessor's, and the pod's stack be fit for where flows are.
func (en *entries) tidy(p *pair) {
	if en.cfg.DryRun {
		return
	}
	if !p.placed() {
		p.unsettled = true
		_, _, err := en.mover.place(p)
		en.fault(p.name, err)
	}
	en.stacks.refit(p)
}

// hopsFresh is how long next hops are believed, which change rarely, and hopsMissing where
// the kernel did not know them all.
const hopsFresh, hopsMissing = 30 * time.Second, 4 * time.Second

// setPeer enters the peer in the data plane, with its paths once it is open. Both
// agents ask every few seconds: what is fresh stays, unless the pair's packets were found
// not to pass.
func (en *entries) setPeer(p *pair, open bool) error {
	now := en.cfg.Now()
	if open && now.Before(p.stale) {
		return nil
	}
	if err := en.enterPaths(p, open); err != nil {
		return err
	}
	if p.taken = open; open {
		p.stale = now.Add(hopsFresh)
		en.stacks.fitter.Find(p, p.end())
	}
	return nil
}

// enterPaths tells the data plane of the peer, with its paths and their next hops if it is
// open.
func (en *entries) enterPaths(p *pair, open bool) error {
	keys := func(network string) dataplane.Keys { return en.ring.tags(p, network) }
	peer := route.Peer(p.remote, p.routes, open, p.hops, keys)
	peer.DSCP = p.takesDSCP
	return p.local.plane.SetPeer(peer)
}

// remark has the data planes use other keys where the cluster's have turned over.
func (en *entries) remark() {
	now := en.cfg.Now()
	for p := range en.members.pairs() {
		if m := en.ring.marks(&p.host.keys, p.marks, now); !slices.Equal(m, p.marks) {
			p.marks, p.stale = m, now
			if err := en.setPeer(p, p.taken); err != nil {
				en.warn("%s: change keys: %v", p.name, err)
			}
		}
	}
}

// withdrawFrom takes the flows of the pod's pairs home whose paths are others as the
// cluster has it now, and reports whether there were some.
func (en *entries) withdrawFrom(l *pod, listed topo.Pod) (some bool) {
	for uid, p := range l.pairs {
		remote, ok := en.members.elsewhere.named(uid)
		if ok && !slices.Equal(p.routes, en.members.Cluster.eligible(route.Between(listed, remote))) {
			some = en.mover.withdraw(p) || some
		}
	}
	return some
}

// ordered is a pair that an order is about; entered says that it was entered for it.
type ordered struct {
	*pair
	entered bool
}

// named finds the pairs that an order is about: of pods of both IP families that of IPv4 first.
// Those that have had no traffic yet are entered for it.
func (en *entries) named(local, remote string) (out []ordered) {
	for _, l := range en.members.pods {
		if l.Name != local {
			continue
		}
		for _, r := range en.members.elsewhere.pods {
			if r.Name != remote {
				continue
			}
			for _, r := range families(r) {
				if _, ok := en.members.elsewhere.named(r.UID); !ok {
					continue
				}
				known := l.pairs[r.UID] != nil
				if p, err := en.join(l, r); err == nil {
					out = append(out, ordered{p, !known})
				}
			}
		}
	}
	return out
}

// became takes what became of what was asked of the fitter.
func (en *entries) became(p *pair, r route.Report) {
	en.members.Lock()
	defer en.members.Unlock()
	if !en.members.knows(p) {
		return
	}
	now := en.cfg.Now()
	if r.Err != nil {
		en.warn("%s: %v", p.name, r.Err)
		if r.Has.Direct != p.routes.dev(p.direct) { // the route is as it was, and the data plane ready for either
			p.direct, p.carryingSince = p.routes.pathBy(r.Has.Direct), now // tried again after a while
			en.stacks.refit(p)
		}
	}
	if p.leaving {
		en.fault(p.name, en.reenter(p))
		return
	}
	if r.Hops != nil {
		en.found(p, r, now)
	}
	en.move(p)
}

// goOn moves pairs that have waited until their hosts had forgotten what they left behind.
func (en *entries) goOn(pairs []*pair) {
	en.members.Lock()
	defer en.members.Unlock()
	for _, p := range pairs {
		if en.members.knows(p) {
			en.move(p)
		}
	}
}

// move carries out what has waited, where that is still possible.
func (en *entries) move(p *pair) {
	c := p.coming
	if c == nil || p.leaving {
		return
	}
	p.coming = nil
	if to, _ := p.routes.byNetwork(c.To); to.Index == 0 || !p.opened.IsZero() && p.usable(to.Index) {
		en.mover.carryOut(p, c.Decision, c.by, c.detected)
	} else {
		en.stacks.refit(p)
	}
}

// found tells the data plane the next hops of the pair's paths, if they are others.
func (en *entries) found(p *pair, r route.Report, now time.Time) {
	if again := now.Add(hopsMissing); len(r.Hops) < len(p.routes)-1 && p.stale.After(again) {
		p.stale = again // the kernel did not know them all
	}
	if !p.taken || maps.EqualFunc(p.hops, r.Hops, slices.Equal) {
		return
	}
	p.hops = r.Hops
	en.fault(p.name, en.enterPaths(p, true))
}

// settleRoutes ends direct routes as the agent ends: what takes the programs out then need
// not know of them.
func (en *entries) settleRoutes() {
	en.members.Lock()
	var straight []*pair
	for _, l := range en.members.pods {
		for _, p := range l.pairs {
			if p.direct != 0 && l.sandboxed() {
				p.direct = 0
				en.stacks.refit(p)
				straight = append(straight, p)
			}
		}
	}
	en.members.Unlock()
	for _, p := range straight {
		en.stacks.fitter.Do(p)
	}
}
