package agent

import (
	"slices"
	"time"
)

// Pace of regular probes. On a path that carries traffic they measure; that
// it fails is found by suspicion, within milliseconds.
const (
	probeActive  = 100 * time.Millisecond
	probeStandby = 200 * time.Millisecond
	probeIdle    = 10 * time.Second
	// probeFailed is that of paths that failed less than a minute ago: ten answers in a row
	// take 0.3 s, so that flows are soon back on a path that fails again and again.
	probeFailed = 30 * time.Millisecond
	// probeFollower is that of paths whose flows the other host's agent decides
	// about: it measures them, by probes that both directions show in.
	probeFollower = 5 * time.Second
	// probeShare is each busy path's part of the time, and probeIdleShare each
	// other one's: regular probes come to 50 and 5 a second for each end, and no more,
	// however many paths there are.
	probeShare     = 20 * time.Millisecond
	probeIdleShare = 200 * time.Millisecond
	// probesAtOnce bounds those of one period, as when many paths become busy at once,
	// and leisurely the other questions of that period that can wait: the loop must
	// not be late for what cannot.
	probesAtOnce, leisurely = 6, 10
	// firstProbes of a path go faster: it is to be known before it is needed.
	firstProbes = 4
	// fullEvery is how many small probes go with one of the path's full size.
	fullEvery = 8
	// busyFor is how long after its last packet a pair of hosts counts as busy, and
	// warmFor how long its paths are probed after that. Hosts that have had no
	// traffic with each other do not probe each other at all: of many hosts most
	// pairs never have any, and even one packet in ten seconds between all of them
	// would be most of what there is to do, and fill their neighbour tables.
	busyFor = 5 * time.Second
	warmFor = 10 * time.Minute
)

// busy reports whether pairs with that host had traffic of late.
func (h *remoteHost) busy(now time.Time) bool { return now.Sub(h.used) < busyFor }

// every is how often one of the host's paths is to be probed, if it had all the
// time for itself; 0 is never.
func (h *remoteHost) every(hp *hostPath, now time.Time) time.Duration {
	failed := hp.Down()
	switch {
	case h.busy(now) && failed && now.Sub(hp.Since()) < time.Minute:
		return probeFailed
	case h.busy(now) && failed:
		return probeActive
	case h.busy(now) && now.Sub(h.owned) >= busyFor && hp.sent >= firstProbes:
		return probeFollower
	case h.busy(now) && now.Sub(hp.busy) < quiet:
		return probeActive
	case h.busy(now):
		return probeStandby
	case failed && now.Sub(hp.Since()) < time.Minute:
		return probeStandby // it may be well again in a moment
	case failed, now.Sub(h.used) < warmFor:
		return probeIdle
	}
	return 0
}

// due is a regular probe that is to go out, and when the path's next one is.
type due struct {
	hp   *hostPath
	next time.Time
}

// dueProbes are the regular probes to be sent now: those that have waited longest,
// where there are many.
func dueProbes(remote map[string]*remoteHost, now time.Time) []due {
	var busy, idle time.Duration // how many paths, as parts of the time
	for _, h := range remote {
		for _, hp := range h.paths {
			switch {
			case h.busy(now):
				busy += probeShare
			case h.every(hp, now) > 0:
				idle += probeIdleShare
			}
		}
	}
	var all []due
	for _, h := range remote {
		least := idle
		if h.busy(now) {
			least = busy
		}
		for _, hp := range h.paths {
			every := h.every(hp, now)
			if every == 0 {
				continue
			}
			next := now.Add(max(every, least))
			// Due by the pace of now: a path that was idle until now waits no ten seconds.
			if !now.Before(hp.next) || hp.next.After(next) {
				all = append(all, due{hp, next})
			}
		}
	}
	slices.SortFunc(all, func(x, y due) int { return x.hp.next.Compare(y.hp.next) })
	return all[:min(len(all), probesAtOnce)]
}

// leisure counts the questions of this period that could have waited.
type leisure struct{ asked int }

// take reports whether another one may be asked.
func (b *leisure) take() bool {
	b.asked++
	return b.asked <= leisurely
}

// probeAll sends the regular probes that are due.
func (a *Agent) probeAll(now time.Time) {
	for _, d := range dueProbes(a.members.remote, now) {
		d.hp.next, d.hp.pace = d.next, d.next.Sub(now)
		d.hp.sent++
		a.wires.send(d.hp, d.hp.sent%fullEvery == 0)
	}
}
