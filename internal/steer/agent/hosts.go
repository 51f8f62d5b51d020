package agent

import (
	"fmt"
	"maps"
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
)

// hostWatcher follows up suspicions of paths to other hosts.
type hostWatcher struct {
	members *members
	wires   *wires
	pacer   *pacer
	stats   *counters
	// pairs are the figures by which pairs' silence is told.
	pairs    *detect.Params
	suspects map[*hostPath]bool
}

// suspect takes it up that packets go out over the path since silent, and none come in.
func (hw *hostWatcher) suspect(hp *hostPath, silent, now time.Time) {
	if hp == nil || hp.wire == nil {
		return
	}
	if do := hp.Suspect(silent, now); do != 0 {
		hw.suspects[hp] = true
		hw.stats.suspicions++
		hw.pacer.soon(suspectTick)
		hw.ask(hp, do)
	}
}

// compare probes the path next to the echoes of a pair that suspects it, though it may not be suspected itself: what
// is lost to both is not for the pair to tell.
func (hw *hostWatcher) compare(hp *hostPath, now time.Time) {
	if hp != nil && !hp.Asked(now) {
		hw.wires.send(hp, false)
	}
}

// judge follows up what is suspected, and reports whether anything is. It returns the paths
// that have failed.
func (hw *hostWatcher) judge(now time.Time) (failed []failure, asking bool) {
	for hp := range hw.suspects {
		if !hp.Suspected() {
			delete(hw.suspects, hp)
			continue
		}
		asking = true
		do := hp.Tick(now, hw.evidence(hp, now))
		if hp.State() == detect.Confirming {
			if more := hp.Confirm(now, hw.opinion(hp, now)); hp.State() != detect.Confirming {
				do = more
			}
		}
		if hw.ask(hp, do); do.Has(detect.Fail) {
			failed = append(failed, hw.failure(hp, now))
		}
	}
	return failed, asking
}

// forget forgets suspicions of paths on a network.
func (hw *hostWatcher) forget(network string) {
	maps.DeleteFunc(hw.suspects, func(hp *hostPath, _ bool) bool { return hp.network == network })
}

// evidence is what is known of a suspected path to a host. Replies that lay in sockets
// were read after now: else a stall of this process would look like a loss.
func (hw *hostWatcher) evidence(hp *hostPath, now time.Time) detect.Evidence {
	e := detect.Evidence{Until: now, Expected: hp.expected(now), Late: hw.pacer.late(hp.Silent(), now)}
	for name, other := range hp.host.paths {
		if other != hp && !other.Down() {
			e.Witnesses = append(e.Witnesses, other.Testimony(name, other.summary.P99, other.rtt()))
		}
	}
	e.Probed = hp.lastProbe()
	a := hw.members.arrivals(hp, now)
	e.Came, e.Next = a.but(nil)
	return e
}

// ask probes as an event on the path calls for.
func (hw *hostWatcher) ask(hp *hostPath, do detect.Action) {
	if do.Has(detect.Ask) {
		hw.wires.send(hp, false)
	}
	for _, other := range hp.host.paths {
		if do.Has(detect.AskOthers) && other != hp && !other.Down() {
			hw.wires.send(other, false)
		}
	}
}

// failure is what has become of the path. What its pairs suspect of it is settled with that.
func (hw *hostWatcher) failure(hp *hostPath, now time.Time) failure {
	since := hp.Silent()
	for p, i := range hw.members.along(hp) {
		p.lines[i].Overrule(since, now)
	}
	return failure{path: hp, since: since, by: byPolicy, reason: fmt.Sprintf("%s to %s has failed%s: %v; silent for %v",
		hp.network, hp.host.name, hp.Verdict().Direction, hp.Verdict(), now.Sub(since).Round(time.Millisecond))}
}

// opinion is what pairs know of a path between hosts that fails: their echoes pass, or
// a packet of the silent peer has come; or they are about to know. One that has found the failure first has left,
// and is silent for that no more.
func (hw *hostWatcher) opinion(hp *hostPath, now time.Time) detect.Opinion {
	o, silent := detect.Agrees, false
	for p, i := range hw.members.along(hp) {
		ln := &p.lines[i]
		if ln.Passed(hp.Arose()) {
			return detect.Denies
		}
		silent = silent || ln.Down() && !ln.Since().Before(hp.Arose()) || ln.silence.Lasts(hw.pairs.Silence, now) ||
			!ln.silence.Since.IsZero() && ln.silence.Since.Equal(hp.Silent())
		if ln.State() == detect.Suspect {
			o = detect.Undecided
		}
	}
	if !silent {
		return detect.Denies
	}
	return o
}
