package agent

import (
	"context"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
)

// sweepEvery is how often pods' tables of flows are swept, those without flows less
// often.
const sweepEvery, sweepIdle = time.Second, 10 * time.Second

// sweepFlows takes flows that have ended out of the pods' tables until ctx ends: apart
// from the loop, as there may be very many.
func (a *Agent) sweepFlows(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, l := range a.sweepable() {
			if ctx.Err() == nil {
				a.sweepPod(l)
			}
		}
	}
}

// sweepable lists the pods whose turn it is.
func (a *Agent) sweepable() (out []*pod) {
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now()
	for _, l := range a.members.pods {
		if l.census.Flows > 0 || now.Sub(l.swept) >= sweepIdle {
			l.swept = now
			out = append(out, l)
		}
	}
	return out
}

func (a *Agent) sweepPod(l *pod) {
	a.members.Lock()
	if a.members.pods[l.UID] != l {
		a.members.Unlock()
		return // it has just gone
	}
	flows, err := l.plane.Flows()
	a.members.Unlock()
	var c dataplane.Census
	if err == nil {
		c, err = flows.Sweep()
		_ = flows.Close() // a handle of ours
	}
	a.members.Lock()
	defer a.members.Unlock()
	if err != nil {
		a.warn("pod %s: %v", l.Name, err)
		return
	}
	if a.members.pods[l.UID] == l {
		l.plane.SetFlowCounts(c)
		l.census = c
		a.sayFull(l)
	}
}
