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

// keeper looks after what pods' interfaces need.
type keeper struct {
	*journal
	members *members
	adopter *adopter
	entries *entries
	stacks  *stacks
	mine    own
}

// keepAll looks after what the interfaces of the pods need, the agent's own among them,
// until ctx ends.
func (k *keeper) keepAll(ctx context.Context) error {
	err := each(ctx, epoch, func() {
		k.checkDirect()
		k.keepOwn()
		for _, l := range k.present() {
			if ctx.Err() == nil {
				k.keep(l)
			}
		}
	})
	return errors.Join(err, k.mine.close())
}

// keepOwn puts back what the interfaces of the agent's own pod have lost.
func (k *keeper) keepOwn() {
	k.members.Lock()
	self := k.members.self
	k.members.Unlock()
	if k.cfg.DryRun {
		return
	}
	mended, err := k.mine.keep(self)
	k.mended("the agent's own pod", mended)
	k.fault("the agent's own pod", err)
}

// present lists the pods that are steered.
func (k *keeper) present() (out []presence) {
	k.members.Lock()
	defer k.members.Unlock()
	for _, l := range k.members.pods {
		other := !slices.Equal(l.listed.Attachments, l.Attachments)
		if !other && !l.replugging.IsZero() { // it was said for a moment
			l.replugging = time.Time{}
			for _, p := range l.pairs {
				p.withdrawn = false
				k.stacks.refit(p)
			}
		}
		out = append(out, presence{pod: l, listed: l.listed, other: other})
	}
	return out
}

// presence is a pod, and what the cluster has it be by now: other says that its networks are
// not those that it was taken up with.
type presence struct {
	*pod
	listed topo.Pod
	other  bool
}

// keep puts back what a pod's interfaces have lost, and what the agent has made there for
// the pod's pairs. A pod is taken up again whose sandbox or interface was made again, or
// that has other networks.
func (k *keeper) keep(l presence) {
	if k.moved(l) || l.other && k.replugged(l) || l.keeper == nil {
		return
	}
	mended, err := l.keeper.Look()
	k.fault("pod "+l.Name, err)
	k.mended("pod "+l.Name, mended)
	if len(mended) > 0 && !k.madeAgain(l.pod, mended) {
		k.fitAgain(l.pod)
	}
}

// mended tells of interfaces that are whole again.
func (j *journal) mended(whose string, all []route.Mended) {
	for _, m := range all {
		j.note(Event{Kind: EventPod, Reason: fmt.Sprintf("%s: %s is whole again: %d routes and rules were put back", whose,
			m.Dev, m.Routes)})
	}
}

// madeAgain takes up a pod again whose interface has another number than its programs
// know: those hang on one that is no more. It reports whether that is so.
func (k *keeper) madeAgain(l *pod, mended []route.Mended) bool {
	k.members.Lock()
	defer k.members.Unlock()
	if k.members.pods[l.UID] != l {
		return true // it has just gone
	}
	for _, m := range mended {
		if l.plane.Index(m.Dev) != m.Index {
			// What is pinned steers its flows meanwhile.
			k.adopter.letGo(l, m.Dev+" was made again", func(l *pod) error { return l.close() })
			return true
		}
	}
	return false
}

// moved takes up a pod again that is in another sandbox than it was. It reports whether
// that is so, or the sandbox has gone.
func (k *keeper) moved(l presence) bool {
	inode, err := netns.Inode(l.listed.Netns)
	if err == nil && inode == l.inode {
		return false
	}
	k.members.Lock()
	defer k.members.Unlock()
	if err == nil && k.members.pods[l.UID] == l.pod {
		// Its interfaces went with the sandbox, and the programs with them.
		k.adopter.letGo(l.pod, "its sandbox was made again", k.adopter.drop)
	}
	return true
}

// replugged takes up a pod again that has other networks than it was taken up with, once
// its interfaces are there. Flows whose paths are others go home first, and what comes
// over these is taken for another look at the cluster, as where pairs change (syncPairs).
func (k *keeper) replugged(l presence) bool {
	if dev, err := lacking(l.listed); err != nil || dev != "" {
		if err == nil {
			err = fmt.Errorf("it is said to have %s, which is not there", dev)
		}
		k.warn("pod %s: %v: it stays on the networks that it had", l.Name, err)
		return false
	}
	k.members.Lock()
	defer k.members.Unlock()
	now := k.cfg.Now()
	switch {
	case k.members.pods[l.UID] != l.pod:
	case l.replugging.IsZero() && k.entries.withdrawFrom(l.pod, l.listed):
		l.replugging = now
	case now.Sub(l.replugging) >= refresh:
		k.adopter.letGo(l.pod, "its networks are others", func(l *pod) error { return l.close() })
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

// fitAgain has what the agent had made in the pod for its pairs be made again, as routes and
// neighbours go with a link.
func (k *keeper) fitAgain(l *pod) {
	k.members.Lock()
	defer k.members.Unlock()
	for _, p := range l.pairs {
		p.stale = time.Time{} // the next hops are asked for again
		k.stacks.fitter.Again(p)
	}
}

// close lets go of a pod, whose data plane goes on as it is.
func (l *pod) close() error {
	var errs []error
	if l.plane != nil {
		errs = append(errs, l.plane.Close())
	}
	return errors.Join(append(errs, l.keeper.Close(), l.closeEchoers())...)
}

// sandboxed reports whether the pod's namespace is still the one that it was taken up in.
func (l *pod) sandboxed() bool {
	inode, err := netns.Inode(l.Netns)
	return err == nil && inode == l.inode
}

// checkDirect has the data planes of pods whose pairs would have direct routes say whether they may.
func (k *keeper) checkDirect() {
	for _, l := range k.members.some(func(l *pod) bool { return l.checkDirect }) {
		ok, err := l.plane.MayDirect()
		k.fault("pod "+l.Name, err)
		k.members.Lock()
		l.checkDirect, l.directCheckedAt, l.mayDirect = false, k.cfg.Now(), ok && err == nil
		k.members.Unlock()
	}
}
