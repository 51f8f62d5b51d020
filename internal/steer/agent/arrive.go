package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// What takes as long as loading programs, a large part of a second, is done here apart
// from the loop, which has failures to find in milliseconds meanwhile.

// againAfter is how long a pod that could not be taken in is left alone.
const againAfter = 2 * time.Second

// adopter takes pods in that are to be steered, and lets go of those that are no more.
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
	return eachEpoch(ctx, func() {
		ad.letGoAll()
		for _, p := range ad.arrived() {
			if ctx.Err() == nil {
				ad.takeInPod(p)
			}
		}
	})
}

// arrived lists the pods that are to be steered and are not yet.
func (ad *adopter) arrived() []topo.Pod {
	missing := ad.missing()
	return slices.DeleteFunc(missing, func(p topo.Pod) bool { return !netns.Exists(p.Netns) }) // on its way, or just gone
}

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
	l, faults, err := ad.adopt(p, others)
	ad.members.Lock()
	defer ad.members.Unlock()
	for _, f := range faults {
		ad.warn("pod %s: %v", p.Name, f)
	}
	if err != nil {
		ad.stranded[p.UID] = ad.cfg.Now()
		ad.warn("pod %s: %v", p.Name, err)
		return
	}
	delete(ad.stranded, p.UID)
	if !slices.ContainsFunc(ad.members.local, func(q topo.Pod) bool { return q.UID == p.UID }) {
		ad.dismiss(l, ad.drop)
	} else {
		ad.members.add(l)
		err = ad.entries.rejoin(l)
		ad.repin(l)
	}
	if err != nil {
		ad.warn("pod %s: %v", p.Name, err)
	}
}

// dismissed is a pod that is let go of, in one of two ways.
type dismissed struct {
	*pod
	how func(*pod) error
}

// dismiss has the pod be let go of, apart from the loop, before it is taken up again.
func (ad *adopter) dismiss(l *pod, how func(*pod) error) {
	if ad.members.pods[l.UID] == l {
		delete(ad.members.pods, l.UID)
		ad.members.changes++
	}
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
		if err := l.how(l.pod); err != nil {
			ad.warn("pod %s: %v", l.Name, err)
		}
	}
}

// drop lets go of a pod: its namespace is gone or about to go, and so are its programs.
func (ad *adopter) drop(l *pod) error {
	var errs []error
	if netns.Exists(l.Netns) {
		errs = append(errs, route.Clear(l.Netns))
	}
	if ad.survey.passive != nil {
		ad.survey.unwatch(l.cookie)
	}
	return errors.Join(append(errs, l.plane.Remove(), l.unkeep(), l.closeEchoer())...)
}
