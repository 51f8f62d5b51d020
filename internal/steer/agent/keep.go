package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
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
		a.mended("pod "+l.Name, m)
	}
	l.keeper = k
	return err
}

// keepAll looks after what the interfaces of the pods need, the agent's own among them,
// until ctx ends.
func (a *Agent) keepAll(ctx context.Context) error {
	var mine own
	err := eachEpoch(ctx, func() {
		a.askDirect()
		if err := mine.keep(a); err != nil {
			a.warn("the agent's own pod: %v", err)
		}
		for _, l := range a.present() {
			if ctx.Err() == nil {
				a.keep(l)
			}
		}
	})
	return errors.Join(err, mine.close())
}

// present lists the pods that are steered.
func (a *Agent) present() (out []presence) {
	a.members.Lock()
	defer a.members.Unlock()
	for _, l := range a.members.pods {
		other := !slices.Equal(l.told.Attachments, l.Attachments)
		if !other && !l.replugging.IsZero() { // it was said for a moment
			l.replugging = time.Time{}
			for _, p := range l.pairs {
				p.withdrawn = false
				a.stacks.refit(p)
			}
		}
		out = append(out, presence{pod: l, told: l.told, other: other})
	}
	return out
}

// presence is a pod, and what is told of it by now: other says that its networks are not
// those that it was taken up with.
type presence struct {
	*pod
	told  topo.Pod
	other bool
}

// keep puts back what a pod's interfaces have lost, and what the agent has made there for
// the pod's pairs. A pod is taken up again whose sandbox or interface was made again, or
// that has other networks.
func (a *Agent) keep(l presence) {
	if a.moved(l) || l.other && a.replugged(l) || l.keeper == nil {
		return
	}
	mended, err := l.keeper.Look()
	if err != nil {
		a.warn("pod %s: %v", l.Name, err)
	}
	for _, m := range mended {
		a.mended("pod "+l.Name, m)
	}
	if len(mended) > 0 && !a.madeAgain(l.pod, mended) {
		a.fitAgain(l.pod)
	}
}

// mended tells of an interface that is whole again.
func (j *journal) mended(whose string, m route.Mended) {
	j.note(Event{Kind: EventPod, Reason: fmt.Sprintf("%s: %s is whole again: %d routes and rules were put back", whose,
		m.Dev, m.Routes)})
}

// madeAgain takes up a pod again whose interface has another number than its programs
// know: those hang on one that is no more. It reports whether that is so.
func (a *Agent) madeAgain(l *pod, mended []route.Mended) bool {
	a.members.Lock()
	defer a.members.Unlock()
	if a.members.pods[l.UID] != l {
		return true // it has just gone
	}
	for _, m := range mended {
		if l.plane.Index(m.Dev) != m.Index {
			// What is pinned steers its flows meanwhile.
			a.letGo(l, m.Dev+" was made again", func(l *pod) error { return l.close() })
			return true
		}
	}
	return false
}

// moved takes up a pod again that is in another sandbox than it was. It reports whether
// that is so, or the sandbox has gone.
func (a *Agent) moved(l presence) bool {
	inode, err := netns.Inode(l.told.Netns)
	if err == nil && inode == l.inode {
		return false
	}
	a.members.Lock()
	defer a.members.Unlock()
	if err == nil && a.members.pods[l.UID] == l.pod {
		// Its interfaces went with the sandbox, and the programs with them.
		a.letGo(l.pod, "its sandbox was made again", a.drop)
	}
	return true
}

// replugged takes up a pod again that has other networks than it was taken up with, once
// its interfaces are there. Flows whose paths are others go home first, and what comes
// over these is taken for another look at the cluster, as where pairs change (syncPairs).
func (a *Agent) replugged(l presence) bool {
	if dev, err := lacking(l.told); err != nil || dev != "" {
		if err == nil {
			err = fmt.Errorf("it is said to have %s, which is not there", dev)
		}
		a.warn("pod %s: %v: it stays on the networks that it had", l.Name, err)
		return false
	}
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now()
	switch {
	case a.members.pods[l.UID] != l.pod:
	case l.replugging.IsZero() && a.withdrawFrom(l.pod, l.told):
		l.replugging = now
	case now.Sub(l.replugging) >= refresh:
		a.letGo(l.pod, "its networks are others", func(l *pod) error { return l.close() })
	}
	return true
}

// lacking is an interface that the pod is said to have and has not; "" if none.
func lacking(p topo.Pod) (string, error) {
	h, err := netns.Netlink(p.Netns)
	if err != nil {
		return "", err
	}
	defer h.Close()
	for _, at := range p.Attachments {
		if _, err := h.LinkByName(at.Dev); errors.As(err, &netlink.LinkNotFoundError{}) {
			return at.Dev, nil
		} else if err != nil {
			return "", fmt.Errorf("find %s: %w", at.Dev, err)
		}
	}
	return "", nil
}

// withdrawFrom takes the flows of the pod's pairs home whose paths are others by what is
// told of it, and reports whether there were some.
func (a *Agent) withdrawFrom(l *pod, told topo.Pod) (some bool) {
	for uid, p := range l.pairs {
		remote, ok := a.members.elsewhere.named(uid)
		if ok && !slices.Equal(p.routes, a.eligible(route.Between(told, remote), a.members.Cluster)) {
			some = a.mover.withdraw(p) || some
		}
	}
	return some
}

// letGo lets go of a pod in one of two ways; takeIn then takes it up as it is by then.
// What users have pinned stays so.
func (a *Agent) letGo(l *pod, why string, how func(*pod) error) {
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
	a.dismiss(l, how)
	a.observe()
	a.rewatch(a.cfg.Now())
}

// repin pins a pod's pairs again that were when it was let go.
func (a *Agent) repin(l *pod) {
	for uid, network := range a.pins[l.UID] {
		if remote, ok := a.members.elsewhere.named(uid); ok {
			if p, err := a.join(l, remote); err == nil {
				p.pinned = network
			}
		}
	}
	delete(a.pins, l.UID)
}

// fitAgain has what the agent had made in the pod for its pairs be made again, as routes and
// neighbours go with a link.
func (a *Agent) fitAgain(l *pod) {
	a.members.Lock()
	defer a.members.Unlock()
	for _, p := range l.pairs {
		p.stale = time.Time{} // the next hops are asked for again
		a.stacks.fitter.Again(p)
	}
}

// close lets go of a pod, whose data plane goes on as it is.
func (l *pod) close() error {
	var errs []error
	if l.plane != nil {
		errs = append(errs, l.plane.Close())
	}
	return errors.Join(append(errs, l.unkeep(), l.closeEchoer())...)
}

// unkeep ends that its routes are looked after.
func (l *pod) unkeep() error {
	if l.keeper == nil {
		return nil
	}
	return l.keeper.Close()
}

// sandboxed reports whether the pod's namespace is still the one that it was taken up in.
func (l *pod) sandboxed() bool {
	inode, err := netns.Inode(l.Netns)
	return err == nil && inode == l.inode
}
