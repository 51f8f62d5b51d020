package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/route"
)

// Pods' interfaces come, go and come back. What goes with one and comes back with none of
// the kernel's own doing is put back here, apart from the loop: it takes as long as the
// kernel takes to list a pod's routes.

// openKeeper begins to look after what leads out of a pod.
func (a *Agent) openKeeper(l *pod) error {
	if a.cfg.DryRun {
		return nil
	}
	k, mended, err := route.Keep(l.Netns, l.Attachments)
	for _, m := range mended {
		a.noteMended("pod "+l.Name, m)
	}
	l.keeper = k
	return err
}

// keepAll looks after what the pods' interfaces need, until ctx ends.
func (a *Agent) keepAll(ctx context.Context) error {
	return a.eachEpoch(ctx, func() {
		for _, l := range a.present() {
			if ctx.Err() == nil {
				a.keep(l)
			}
		}
	})
}

// present lists the pods that are steered.
func (a *Agent) present() (out []*pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.pods {
		out = append(out, l)
	}
	return out
}

// keep puts back what a pod's interfaces have lost, and what the agent has made there for
// the pod's pairs. A pod whose interface was made again is taken up again.
func (a *Agent) keep(l *pod) {
	if l.keeper == nil {
		return
	}
	mended, err := l.keeper.Look()
	if err != nil {
		a.complain("pod %s: %v", l.Name, err)
	}
	for _, m := range mended {
		a.noteMended("pod "+l.Name, m)
		l.bare = true
	}
	if a.madeAgain(l, mended) {
		return
	}
	if l.bare {
		l.bare = !a.fitAgain(l)
	}
}

// noteMended tells of an interface that is whole again.
func (a *Agent) noteMended(whose string, m route.Mended) {
	a.note(Event{Kind: EventPod, Reason: fmt.Sprintf("%s: %s is whole again: %d routes and rules were put back", whose,
		m.Dev, m.Routes)})
}

// madeAgain takes up a pod again whose interface has another number than its programs
// know: those hang on one that is no more. It reports whether that is so.
func (a *Agent) madeAgain(l *pod, mended []route.Mended) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods[l.UID] != l {
		return true // it has just gone
	}
	for _, m := range mended {
		if l.plane.Index(m.Dev) != m.Index {
			a.takeAgain(l, fmt.Sprintf("%s was made again", m.Dev))
			return true
		}
	}
	return false
}

// takeAgain lets go of a pod, which takeIn then adopts as from a predecessor: what is
// pinned steers its flows meanwhile.
func (a *Agent) takeAgain(l *pod, why string) {
	a.note(Event{Kind: EventPod, Reason: fmt.Sprintf("pod %s: %s: it is taken up again", l.Name, why)})
	pins := map[string]string{}
	for uid, p := range l.pairs {
		if p.pinned != "" {
			pins[uid] = p.pinned
		}
	}
	if len(pins) > 0 {
		a.pins[l.UID] = pins
	}
	delete(a.pods, l.UID)
	if err := l.close(); err != nil {
		a.warn("pod %s: %v", l.Name, err)
	}
	a.rewatch(a.cfg.Now())
}

// repin pins a pod's pairs again that were when it was let go.
func (a *Agent) repin(l *pod) {
	for uid, network := range a.pins[l.UID] {
		if remote, ok := a.elsewhere.named(uid); ok {
			if p, err := a.join(l, remote); err == nil {
				p.pinned = network
			}
		}
	}
	delete(a.pins, l.UID)
}

// fitAgain makes again what the agent had made in the pod for its pairs, as routes and
// neighbours go with a link. It reports whether all is done.
func (a *Agent) fitAgain(l *pod) bool {
	a.mu.Lock()
	var pairs []*pair
	for _, p := range l.pairs {
		pairs = append(pairs, p)
	}
	a.mu.Unlock()
	done := true
	for _, p := range pairs { // one at a time: there may be thousands
		done = a.fit(p) && done
	}
	return done
}

func (a *Agent) fit(p *pair) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods[p.local.UID] != p.local || p.local.pairs[p.remote.UID] != p || a.cfg.DryRun {
		return true // it has just gone
	}
	p.stale = time.Time{} // the next hops are asked for again
	if !p.shaped && p.direct == 0 && p.clamped == 0 {
		return a.holdAgain(p)
	}
	if err := a.shape(p); err != nil {
		a.warn("%s: %v", p.name, err)
		return false
	}
	return a.holdAgain(p)
}

// holdAgain holds the peer's hardware address again, if it was.
func (a *Agent) holdAgain(p *pair) bool {
	if !p.held || p.gateway {
		return true
	}
	r := p.routes[0]
	if _, err := route.HoldNeighbour(p.local.Netns, r.Local.Dev, r.Remote.Addr, r.Remote.MAC, true); err != nil {
		a.warn("%s: %v", p.name, err)
		return false
	}
	return true
}

// close lets go of a pod, whose data plane goes on as it is.
func (l *pod) close() error {
	var errs []error
	if l.plane != nil {
		errs = append(errs, l.plane.Close())
	}
	if l.keeper != nil {
		errs = append(errs, l.keeper.Close())
	}
	return errors.Join(append(errs, l.closeEchoer())...)
}

// sandboxed reports whether the pod's namespace is still the one that it was taken up in.
func (l *pod) sandboxed() bool {
	inode, err := netns.Inode(l.Netns)
	return err == nil && inode == l.inode
}
