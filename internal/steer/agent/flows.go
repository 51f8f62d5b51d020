package agent

import (
	"context"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
)

// sweepEvery is how often pods' tables of flows are swept, those without flows less
// often.
const sweepEvery, sweepIdle = time.Second, 10 * time.Second

// sweeper keeps the pods' tables of flows from filling up.
type sweeper struct {
	*journal
	members *members
}

// sweepFlows takes flows that have ended out of the pods' tables until ctx ends: apart
// from the loop, as there may be very many.
func (sw *sweeper) sweepFlows(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := sw.cfg.Now()
		for _, l := range sw.members.some(func(l *pod) bool { return l.census.Flows > 0 || now.Sub(l.swept) >= sweepIdle }) {
			if ctx.Err() == nil {
				sw.sweepPod(l)
			}
		}
	}
}

func (sw *sweeper) sweepPod(l *pod) {
	sw.members.Lock()
	if sw.members.pods[l.UID] != l {
		sw.members.Unlock()
		return // it has just gone
	}
	l.swept = sw.cfg.Now()
	flows, err := l.plane.Flows()
	sw.members.Unlock()
	var c dataplane.Census
	if err == nil {
		c, err = flows.Sweep()
		_ = flows.Close() // a handle of ours
	}
	sw.members.Lock()
	defer sw.members.Unlock()
	if err != nil {
		sw.warn("pod %s: %v", l.Name, err)
		return
	}
	if sw.members.pods[l.UID] == l {
		l.plane.SetFlowCounts(c)
		l.census = c
		sw.sayFull(l)
	}
}

// sayFull tells once a minute of flows that cannot be told apart any more.
func (sw *sweeper) sayFull(l *pod) {
	if n := l.plane.Events().Full; n != l.full {
		l.full = n
		sw.warnOf("flows "+l.UID, "pod %s has more flows than there is room for now (%d; %d at most): further ones stay on the default network, until there is", l.Name,
			l.census.Room, dataplane.DefaultFlows)
	}
}
