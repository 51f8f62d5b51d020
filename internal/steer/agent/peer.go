package agent

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// entries keeps the data planes of pods in step with the pairs that there are.
type entries struct {
	*journal
	members   *members
	ring      *ring
	mover     *mover
	stacks    *stacks
	teller    *teller
	untracked *untracked
	ledger    *telemetry.Ledger
	params    *detect.Params
}

// rejoin enters the peers that a predecessor has left in the pod's data plane, and
// forgets those that are none any more. It rests as often as it has held the loop for
// as long as it may be held.
func (en *entries) rejoin(l *pod, rest func()) error {
	l.plane.SetCandidates(en.members.elsewhere.filter)
	l.rejoining = true
	defer func() { l.rejoining = false }()
	var errs []error
	begin := en.cfg.Now()
	for _, addr := range l.plane.Entered() {
		if en.cfg.Now().Sub(begin) >= admitting {
			rest()
			begin = en.cfg.Now()
		}
		if en.members.pods[l.UID] != l {
			return errors.Join(errs...) // it was let go of meanwhile
		}
		if remote, ok := en.members.elsewhere.addressed(addr); ok {
			if _, err := en.join(l, remote); !isNative(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(append(errs, l.plane.Forget())...)
}

// admitting is how long the loop may be held by peers that are entered, and wantedMost
// how many of a pod wait for their turn. Others are asked for again with their next packets.
const admitting, wantedMost = 3 * time.Millisecond, 1024

// admitWanted enters the peers with which the host's pods have begun to speak.
func (en *entries) admitWanted(now time.Time) {
	for _, l := range en.members.pods {
		l.wanted = append(l.wanted, l.plane.Misses()...)
		l.wanted = l.wanted[:min(len(l.wanted), wantedMost)]
		for len(l.wanted) > 0 && en.cfg.Now().Sub(now) < admitting {
			addr := l.wanted[0]
			l.wanted = l.wanted[1:]
			remote, ok := en.members.elsewhere.addressed(addr)
			if !ok || l.pairs[remote.UID] != nil {
				continue
			}
			p, err := en.join(l, remote)
			if p != nil {
				p.active = now // it may have asked for a link address alone
			}
			if errors.Is(err, dataplane.ErrTooMany) {
				en.warnOf("room "+l.UID,
					"pod %s speaks with more pods than there is room for (%d): traffic with further ones is native", l.Name, cmp.Or(en.cfg.peers, dataplane.DefaultPeers))
			} else if err != nil && !isNative(err) {
				en.warn("%s>%s: %v", l.Name, remote.Name, err)
			}
		}
	}
}

// errNative is returned for two pods between which there is nothing to choose.
var errNative = errors.New("there is one path")

// errCrowded is returned where room for another peer is still to be made.
var errCrowded = errors.New("there is no room for another peer yet")

// isNative reports whether a pair is native, or is so for now, without a fault.
func isNative(err error) bool { return errors.Is(err, errNative) || errors.Is(err, errCrowded) }

// join enters a pair of pods. Pods of the same host stay on their default network, on
// which they are one hop apart.
func (en *entries) join(l *pod, remote topo.Pod) (*pair, error) {
	if p := l.pairs[remote.UID]; p != nil {
		return p, nil
	}
	rs, h := en.members.Cluster.eligible(route.Between(l.Pod, remote)), en.members.remote[en.members.hosts[remote.Host]]
	if len(rs) < 2 || h == nil {
		return nil, errNative
	}
	if l.leaving[remote.Addr()] || l.plane.NeedsRoom(remote.Addr()) {
		return nil, errCrowded // it is asked for again with its next packets
	}
	p := &pair{name: pairName(l.Pod, remote), local: l, remote: remote, host: h, routes: rs,
		notIn6: en.members.Cluster.notIn6(l.Pod, remote, rs), lines: newLines(len(rs), en.params),
		traffic: traffic{limited: share{part: 1}, sending: share{part: 1}}, accord: accord{peerLimited: 1}}
	if err := en.enter(p); err != nil {
		return nil, err
	}
	en.members.enter(p)
	return p, nil
}

// syncPairs drops the pairs that are none any more, or have other paths than before:
// these are entered again, and do not use until then what they must not. They go home
// first, and take what comes over their paths for another look at the cluster: the other
// agent may have looked at another moment.
func (en *entries) syncPairs(l *pod, c Cluster) error {
	var errs []error
	l.withdrawing = false
	for uid, p := range l.pairs {
		remote, ok := en.members.elsewhere.named(uid)
		if ok && slices.Equal(p.routes, c.eligible(route.Between(l.Pod, remote))) &&
			en.members.remote[en.members.hosts[remote.Host]] == p.host {
			continue
		}
		if ok && en.mover.withdraw(p) {
			continue
		}
		p.withdrawn = true
		errs = append(errs, en.reenter(p))
	}
	return errors.Join(errs...)
}

// reenter leaves a pair, and enters it again if it is one still: at once, or as soon as its
// pod's kernel is rid of what was made for it.
func (en *entries) reenter(p *pair) error {
	parted, err := en.part(p)
	if p.leaving = !parted; p.leaving {
		return err
	}
	if remote, ok := en.members.elsewhere.named(p.remote.UID); ok {
		if _, failed := en.join(p.local, remote); !isNative(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// unfit has nothing in the pod's kernel be made for the pair. It reports whether that is
// under way.
func (s *stacks) unfit(p *pair) bool {
	p.direct = 0
	return s.fitter.Want(p, p.end(), route.Fit{})
}

// part forgets a pair, whose traffic is native then. It reports whether it has: first what
// was made for the pair in the pod's kernel must have gone, as a route may lead to where
// only the data plane knows what to do.
func (en *entries) part(p *pair) (bool, error) {
	if en.stacks.unfit(p) {
		if p.local.leaving == nil {
			p.local.leaving = map[netip.Addr]bool{}
		}
		p.local.leaving[p.remote.Addr()] = true
		return false, nil
	}
	delete(p.local.leaving, p.remote.Addr())
	en.stacks.fitter.Forget(p)
	en.members.leave(p)
	en.ledger.Forget(p.telemetryPair())
	return true, p.local.plane.RemovePeer(p.remote.UID)
}

// leaveAfter is how long a pair without traffic stays entered, and leaving how long the
// loop may be held by those that leave: of many at a time the rest leave later.
const leaveAfter, leaving = time.Minute, 2 * time.Millisecond

// partIdle forgets the pairs whose traffic has ended. Both ends must be home first: what
// one of them still steered would find nobody who puts it back.
func (en *entries) partIdle(now time.Time) error {
	var errs []error
	for p := range en.members.pairs() {
		if now.Sub(p.active) < en.cfg.leave || now.Sub(p.joined) < en.cfg.leave || p.pinned != "" {
			en.retain(p)
			continue
		}
		if p.unsettled && now.Sub(p.active) < 2*en.cfg.leave {
			if now.Sub(p.noticed) >= time.Second {
				en.teller.announce(p)
			}
			continue
		}
		if p.home() {
			parted, err := en.part(p)
			p.parting = !parted
			errs = append(errs, err)
		}
		if en.cfg.Now().Sub(now) > leaving {
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// retain has a pair stay that was about to be left for want of traffic.
func (en *entries) retain(p *pair) {
	if p.parting {
		p.parting = false
		delete(p.local.leaving, p.remote.Addr())
		en.stacks.refit(p)
	}
}

// home reports whether all flows of the pair are on the default network.
func (p *pair) home() bool {
	own, followed, err := p.flows()
	away := func(c dataplane.Choice) bool { return c.Path != 0 }
	return err == nil && p.assignments() == p.routes.home() &&
		!slices.ContainsFunc(own[:], away) && !slices.ContainsFunc(followed[:], away)
}
