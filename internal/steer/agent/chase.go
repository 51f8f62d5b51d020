package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
)

// Paths that have failed of late, of hosts and pairs with traffic, are asked more often than
// evidence is weighed: flows are soon back on a path that fails again and again.
const (
	// probeFailed has ten answers in a row take 0.3 s.
	probeFailed = 30 * time.Millisecond
	// chasedFor is for how long after they failed.
	chasedFor = time.Minute
	// chasedShare is each one's part of the time: they get 100 probes a second, however many they are, which is enough
	// for three networks that fail at once.
	chasedShare = 10 * time.Millisecond
)

// chasePace is how often each of so many is asked.
func chasePace(n int) time.Duration { return max(probeFailed, time.Duration(n)*chasedShare) }

// failedLately reports whether a path has failed, and not for long.
func failedLately(p *detect.Path, now time.Time) bool {
	return p.Down() && now.Sub(p.Since()) < chasedFor
}

// chased reports whether one of the host's paths is probed by chase and not by its regular probes.
func (h *remoteHost) chased(hp *hostPath, now time.Time) bool {
	return h.busy(now) && failedLately(&hp.Path, now)
}

// chase probes paths that failed lately. It returns when to look again.
func (pr *prober) chase(now time.Time) time.Duration {
	next, sent, pace := idleTick, 0, chasePace(len(pr.chased))
	for _, hp := range pr.chased {
		wait := hp.next.Sub(now)
		switch {
		case !hp.Down():
		case wait > 0 && wait <= pace: // else its regular probes were further apart
			next = min(next, wait)
		case sent == probesAtOnce:
			return suspectTick
		default:
			sent++
			pr.probe(due{hp, now.Add(pace)}, now)
			next = min(next, pace)
		}
	}
	return next
}

// findChased lists the paths that are to be chased.
func (pr *prober) findChased(now time.Time) {
	pr.chased = pr.chased[:0]
	for _, h := range pr.warm {
		for _, hp := range h.paths {
			if h.chased(hp, now) {
				pr.chased = append(pr.chased, hp)
			}
		}
	}
}

// failedLine is a path of a pair that has failed for it.
type failedLine struct {
	pair *pair
	line int
}

// chased reports whether a path of the pair that has failed for it is asked by chase.
func (p *pair) chased(i int, now time.Time) bool {
	return now.Sub(p.active) < busyFor && failedLately(&p.lines[i].Path, now)
}

// chase asks paths that have failed for pairs lately, no more rarely than evidence is weighed. It returns when to look
// again.
func (pw *pairWatcher) chase(now time.Time) time.Duration {
	next, pace := idleTick, min(chasePace(len(pw.chased)), epoch)
	for _, l := range pw.chased {
		ln := &l.pair.lines[l.line]
		if !ln.Down() {
			continue
		}
		wait := pace - now.Sub(ln.echoedAt)
		if wait <= tolerated {
			pw.handleEchoes(l.pair.local)
			l.pair.echo(l.line)
			wait = pace
		}
		next = min(next, wait)
	}
	return next
}
