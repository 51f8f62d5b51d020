package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// What takes as long as loading programs, a large part of a second, is done here apart
// from the loop, which has failures to find in milliseconds meanwhile.

// againAfter is how long a pod that could not be taken in is left alone.
const againAfter = 2 * time.Second

// adopter attaches data planes to pods for as long as they are to be steered.
type adopter struct {
	*journal
	members *members
	survey  *survey
	ledger  *telemetry.Ledger
	stacks  *stacks
	entries *entries
	planes  *planes
	// dismissed are the pods that are still to be let go of.
	dismissed []dismissed
	// stranded is when pods could not be taken in.
	stranded map[string]time.Time
	// pins are those of pods that are taken up again, by their and the peer's UID.
	pins map[string]map[string]string
}

// takeIn lets go of pods that are steered no more, and attaches data planes to pods that
// have come since the agent began, until ctx ends.
func (ad *adopter) takeIn(ctx context.Context) error {
	return each(ctx, epoch, func() {
		ad.letGoAll()
		for _, p := range ad.missing() {
			if ctx.Err() == nil && netns.Exists(p.Netns) { // else on its way, or just gone
				ad.takeInPod(p)
			}
		}
	})
}

// missing lists the pods that are to be steered and are not yet.
func (ad *adopter) missing() (out []topo.Pod) {
	ad.members.Lock()
	defer ad.members.Unlock()
	now := ad.cfg.Now()
	for _, p := range ad.members.local {
		leaving := slices.ContainsFunc(ad.dismissed, func(l dismissed) bool { return l.UID == p.UID })
		if ad.members.pods[p.UID] == nil && !leaving && now.Sub(ad.stranded[p.UID]) >= againAfter {
			out = append(out, p)
		}
	}
	return out
}

// takeInPod attaches the data plane to a pod, unless it has gone meanwhile.
func (ad *adopter) takeInPod(p topo.Pod) {
	ad.members.Lock()
	others := ad.members.elsewhere
	ad.members.Unlock()
	l, err := ad.adopt(p, others)
	ad.members.Lock()
	defer ad.members.Unlock()
	if err != nil {
		ad.stranded[p.UID] = ad.cfg.Now()
		ad.fault("pod "+p.Name, err)
		return
	}
	delete(ad.stranded, p.UID)
	if !slices.ContainsFunc(ad.members.local, func(q topo.Pod) bool { return q.UID == p.UID }) {
		ad.dismiss(l, ad.drop)
	} else {
		ad.members.add(l)
		err = ad.entries.rejoin(l, func() { ad.members.Unlock(); ad.members.Lock() })
		ad.repin(l)
	}
	ad.fault("pod "+p.Name, err)
}

// dismissed is a pod that is let go of, in one of two ways.
type dismissed struct {
	*pod
	how func(*pod) error
}

// dismiss has the pod be let go of, apart from the loop, before it is taken up again.
func (ad *adopter) dismiss(l *pod, how func(*pod) error) {
	ad.members.remove(l)
	for _, p := range l.pairs {
		ad.ledger.Forget(p.telemetryPair())
		ad.stacks.fitter.Forget(p)
	}
	ad.dismissed = append(ad.dismissed, dismissed{l, how})
}

// letGoAll lets go of the pods that were dismissed.
func (ad *adopter) letGoAll() {
	ad.members.Lock()
	all := ad.dismissed
	ad.dismissed = nil
	ad.members.Unlock()
	if len(all) > 0 {
		ad.stacks.fitter.Idle() // what it is doing may be for one of them
	}
	for _, l := range all {
		ad.fault("pod "+l.Name, l.how(l.pod))
	}
}

// hasPeer reports whether the address is one of a peer's on its default network.
func (l *pod) hasPeer(addr netip.Addr) bool {
	for _, p := range l.pairs {
		if at := p.remote.Attachments[0]; at.Addr == addr || at.Addr6 == addr {
			return true
		}
	}
	return false
}

// drop lets go of a pod: its namespace is gone or about to go, and so are its programs.
func (ad *adopter) drop(l *pod) error {
	var errs []error
	if netns.Exists(l.Netns) {
		errs = append(errs, route.Leave(l.Netns, l.Attachments[0].Dev, l.hasPeer))
	}
	if ad.survey.passive != nil {
		ad.survey.unwatch(l.cookie)
	}
	return errors.Join(append(errs, l.plane.Remove(), l.keeper.Close(), l.closeEchoers())...)
}

// openKeeper begins to look after what leads out of a pod.
func (ad *adopter) openKeeper(l *pod) error {
	if ad.cfg.DryRun {
		return nil
	}
	k, mended, err := route.Keep(l.Netns, l.Attachments)
	ad.mended("pod "+l.Name, mended)
	l.keeper = k
	return err
}

// letGo lets go of a pod in one of two ways; takeIn then takes it up as it is by then.
// What users have pinned stays so.
func (ad *adopter) letGo(l *pod, why string, how func(*pod) error) {
	ad.note(Event{Kind: EventPod, Reason: fmt.Sprintf("pod %s: %s: it is taken up again", l.Name, why)})
	pins := map[string]string{}
	for uid, p := range l.pairs {
		if p.pinned != "" {
			pins[uid] = p.pinned
		}
	}
	if len(pins) > 0 {
		ad.pins[l.UID] = pins
	}
	ad.dismiss(l, how)
}

// repin pins a pod's pairs again that were when it was let go.
func (ad *adopter) repin(l *pod) {
	if ad.members.pods[l.UID] != l {
		return // it was let go of meanwhile, and is taken up again
	}
	for uid, network := range ad.pins[l.UID] {
		if remote, ok := ad.members.elsewhere.named(uid); ok {
			if p, err := ad.entries.join(l, remote); err == nil {
				p.pinned = network
			}
		}
	}
	delete(ad.pins, l.UID)
}

func (ad *adopter) syncPods(d *description, other, running bool) error {
	var errs []error
	here := map[string]bool{}
	for _, p := range d.local {
		here[p.UID] = true
		if l := ad.members.pods[p.UID]; l != nil {
			l.listed, l.Barred, l.Need = p, p.Barred, p.Need
			l.Pin, l.DryRun, l.Policy = p.Pin, p.DryRun, p.Policy
		}
		if ad.members.pods[p.UID] == nil {
			if running || !netns.Exists(p.Netns) {
				continue // on its way, or just gone; while the loop runs, takeIn's
			}
			ad.planes.sustain()
			l, err := ad.adopt(p, ad.members.elsewhere)
			if err != nil {
				errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
				continue
			}
			ad.members.add(l)
			errs = append(errs, ad.entries.rejoin(l, func() {})) // the loop does not run yet
		}
		if other || ad.members.pods[p.UID].withdrawing {
			errs = append(errs, ad.entries.syncPairs(ad.members.pods[p.UID], d.Cluster))
		}
	}
	for uid, p := range ad.members.pods {
		if !here[uid] {
			ad.dismiss(p, ad.drop)
		}
	}
	maps.DeleteFunc(ad.pins, func(uid string, _ map[string]string) bool { return !here[uid] })
	maps.DeleteFunc(ad.stranded, func(uid string, _ time.Time) bool { return !here[uid] })
	return errors.Join(errs...)
}

// errMoved is returned for a pod whose sandbox is made again as it is taken up.
var errMoved = errors.New("its namespace has just been made again")

// adopt attaches the data plane to a pod, or takes over the one that is there. It needs
// no lock. Without what it only warns of the pod is steered less well.
func (ad *adopter) adopt(p topo.Pod, others elsewhere) (l *pod, err error) {
	fault := func(err error) { ad.fault("pod "+p.Name, err) }
	l = &pod{Pod: p, listed: p, pairs: map[string]*pair{}}
	if l.inode, err = netns.Inode(p.Netns); err != nil {
		return nil, err
	}
	// First: what is missing may be what keeps the rest from being found.
	if err := ad.openKeeper(l); err != nil {
		fault(fmt.Errorf("its routes are not looked after: %w", err))
	}
	cfg := dataplane.Config{Netns: p.Netns, Dev: p.Attachments[0].Dev, PinDir: pinsOf(ad.cfg.PinDir, p.UID),
		Former: formerPins(ad.cfg.PinDir, p.UID), Now: ad.cfg.Now, Peers: ad.cfg.peers}
	for _, at := range p.Attachments[1:] {
		cfg.PathDevs = append(cfg.PathDevs, at.Dev)
	}
	if l.plane, err = dataplane.Open(cfg); err != nil {
		return nil, errors.Join(err, l.close())
	}
	fault(removeDirect(l, others))
	fault(l.findHops(others))
	if err := l.openEchoers(ad.cfg.Now); err != nil {
		// Without it failures are still found, by the hosts' probes and by timeouts.
		fault(fmt.Errorf("its own paths cannot be asked: %w", err))
	}
	if ad.survey.passive != nil {
		if l.cookie, err = ad.survey.passive.Watch(p.Netns); err != nil {
			return nil, errors.Join(fmt.Errorf("watch connections: %w", err), l.close())
		}
	}
	if !l.sandboxed() {
		return nil, errors.Join(errMoved, l.close())
	}
	return l, nil
}
