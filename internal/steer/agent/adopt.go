package agent

import (
	"errors"
	"fmt"
	"maps"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// openKeeper begins to look after what leads out of a pod.
func (ad *adopter) openKeeper(l *pod) error {
	if ad.cfg.DryRun {
		return nil
	}
	k, mended, err := route.Keep(l.Netns, l.Attachments)
	for _, m := range mended {
		ad.mended("pod "+l.Name, m)
	}
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
			l.told = p
		}
		if ad.members.pods[p.UID] == nil {
			if running || !netns.Exists(p.Netns) {
				continue // on its way, or just gone; while the loop runs, takeIn's
			}
			ad.planes.sustain()
			l, faults, err := ad.adopt(p, ad.members.elsewhere)
			for _, f := range faults {
				ad.warn("pod %s: %v", p.Name, f)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
				continue
			}
			ad.members.add(l)
			errs = append(errs, ad.entries.rejoin(l))
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
	return errors.Join(errs...)
}

// errMoved is returned for a pod whose sandbox is made again as it is taken up.
var errMoved = errors.New("its namespace has just been made again")

// adopt attaches the data plane to a pod, or takes over the one that is there. It needs
// no lock. Without what faults tell of it works less well.
func (ad *adopter) adopt(p topo.Pod, others elsewhere) (l *pod, faults []error, err error) {
	l = &pod{Pod: p, told: p, pairs: map[string]*pair{}}
	if l.inode, err = netns.Inode(p.Netns); err != nil {
		return nil, nil, err
	}
	// First: what is missing may be what keeps the rest from being found.
	if err := ad.openKeeper(l); err != nil {
		faults = append(faults, fmt.Errorf("its routes are not looked after: %w", err))
	}
	cfg := dataplane.Config{Netns: p.Netns, Dev: p.Attachments[0].Dev, PinDir: pinsOf(ad.cfg.PinDir, p.UID),
		Former: formerPins(ad.cfg.PinDir, p.UID), Now: ad.cfg.Now, Peers: ad.cfg.peers}
	for _, at := range p.Attachments[1:] {
		cfg.PathDevs = append(cfg.PathDevs, at.Dev)
	}
	if l.plane, err = dataplane.Open(cfg); err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	if err := unlead(l, others); err != nil {
		faults = append(faults, err)
	}
	if err := l.findHops(others); err != nil {
		faults = append(faults, err)
	}
	if l.echoer, err = openEchoer(l, ad.cfg.Now); err != nil {
		// Without it failures are still found, by the hosts' probes and by timeouts.
		faults = append(faults, fmt.Errorf("its own paths cannot be asked: %w", err))
	}
	if ad.survey.passive != nil {
		if l.cookie, err = ad.survey.passive.Watch(p.Netns); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("watch connections: %w", err), l.close())
		}
	}
	if !l.sandboxed() {
		return nil, nil, errors.Join(errMoved, l.close())
	}
	return l, faults, nil
}
