package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// What takes as long as loading programs, a large part of a second, is done here apart
// from the loop, which has failures to find in milliseconds meanwhile.

// againAfter is how long a pod that could not be taken in is left alone.
const againAfter = 2 * time.Second

// takeIn lets go of pods that are steered no more, and attaches data planes to pods that
// have come since the agent began, until ctx ends.
func (a *Agent) takeIn(ctx context.Context) error {
	return eachEpoch(ctx, func() {
		a.letGoAll()
		for _, p := range a.arrived() {
			if ctx.Err() == nil {
				a.takeInPod(p)
			}
		}
	})
}

// arrived lists the pods that are to be steered and are not yet.
func (a *Agent) arrived() []topo.Pod {
	missing := a.missing()
	return slices.DeleteFunc(missing, func(p topo.Pod) bool { return !netns.Exists(p.Netns) }) // on its way, or just gone
}

func (a *Agent) missing() (out []topo.Pod) {
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now()
	for _, p := range a.members.local {
		leaving := slices.ContainsFunc(a.dismissed, func(l dismissed) bool { return l.UID == p.UID })
		if a.members.pods[p.UID] == nil && !leaving && now.Sub(a.stranded[p.UID]) >= againAfter {
			out = append(out, p)
		}
	}
	return out
}

// takeInPod attaches the data plane to a pod, unless it has gone meanwhile.
func (a *Agent) takeInPod(p topo.Pod) {
	a.members.Lock()
	others := a.members.elsewhere
	a.members.Unlock()
	l, faults, err := a.adopt(p, others)
	a.members.Lock()
	defer a.members.Unlock()
	for _, f := range faults {
		a.warn("pod %s: %v", p.Name, f)
	}
	if err != nil {
		a.stranded[p.UID] = a.cfg.Now()
		a.warn("pod %s: %v", p.Name, err)
		return
	}
	delete(a.stranded, p.UID)
	if !slices.ContainsFunc(a.members.local, func(q topo.Pod) bool { return q.UID == p.UID }) {
		a.dismiss(l, a.drop)
	} else {
		a.members.pods[p.UID] = l
		err = a.rejoin(l)
		a.repin(l)
		a.observe()
		a.rewatch(a.cfg.Now())
	}
	if err != nil {
		a.warn("pod %s: %v", p.Name, err)
	}
}

// dismissed is a pod that is let go of, in one of two ways.
type dismissed struct {
	*pod
	how func(*pod) error
}

// dismiss has the pod be let go of, apart from the loop, before it is taken up again.
func (a *Agent) dismiss(l *pod, how func(*pod) error) {
	if a.members.pods[l.UID] == l {
		delete(a.members.pods, l.UID)
	}
	for _, p := range l.pairs {
		a.ledger.Forget(p.telemetryPair())
		a.stacks.fitter.Forget(p)
	}
	a.dismissed = append(a.dismissed, dismissed{l, how})
}

// letGoAll lets go of the pods that were dismissed.
func (a *Agent) letGoAll() {
	a.members.Lock()
	all := a.dismissed
	a.dismissed = nil
	a.members.Unlock()
	if len(all) > 0 {
		a.stacks.fitter.Idle() // what it is doing may be for one of them
	}
	for _, l := range all {
		if err := l.how(l.pod); err != nil {
			a.warn("pod %s: %v", l.Name, err)
		}
	}
}

// drop lets go of a pod: its namespace is gone or about to go, and so are its programs.
func (a *Agent) drop(l *pod) error {
	var errs []error
	if netns.Exists(l.Netns) {
		errs = append(errs, route.Clear(l.Netns))
	}
	if a.survey.passive != nil {
		a.survey.unwatch(l.cookie)
	}
	return errors.Join(append(errs, l.plane.Remove(), l.unkeep(), l.closeEchoer())...)
}

// errCrowded is returned where room for another peer is still to be made.
var errCrowded = errors.New("there is no room for another peer yet")

// makeRoom makes room for more peers where it is nearly taken, and takes away data planes
// of other versions, until ctx ends.
func (a *Agent) makeRoom(ctx context.Context) error {
	var retired time.Time
	return eachEpoch(ctx, func() {
		if now := a.cfg.Now(); now.Sub(retired) >= refresh {
			retired = now
			a.retire()
		}
		for _, l := range a.narrow() {
			if ctx.Err() != nil {
				return
			}
			if err := a.widen(l); err != nil {
				a.members.Lock()
				a.warn("pod %s: make room for more peers: %v", l.Name, err)
				l.narrow = a.cfg.Now()
				a.members.Unlock()
			}
		}
	})
}

// narrow lists the pods that have nearly as many peers as there is room for.
func (a *Agent) narrow() (out []*pod) {
	a.members.Lock()
	defer a.members.Unlock()
	for _, l := range a.members.pods {
		if l.plane.NearlyFull() && a.cfg.Now().Sub(l.narrow) >= againAfter {
			out = append(out, l)
		}
	}
	return out
}

// widen makes room for more peers of a pod: the agent waits only for it to be put in
// place.
func (a *Agent) widen(l *pod) error {
	a.members.Lock()
	if a.members.pods[l.UID] != l {
		a.members.Unlock()
		return nil // it has just gone
	}
	w, err := l.plane.Widen()
	a.members.Unlock()
	if err != nil {
		return err
	}
	if err := w.Load(); err != nil {
		return errors.Join(err, w.Close())
	}
	a.members.Lock()
	defer a.members.Unlock()
	if a.members.pods[l.UID] != l {
		return w.Close()
	}
	if err := l.plane.Exchange(w); err != nil {
		return fmt.Errorf("exchange data plane: %w", err)
	}
	return nil
}
