package agent

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"pathwise.dev/pathwise/stamp"
)

const (
	// refusedFor is how long nothing but refused probes must have come from a host to
	// be told. While a key turns over, or where somebody takes the host's address,
	// others come too.
	refusedFor = 3 * time.Second
	// refusedGap ends a row of refusals.
	refusedGap = 30 * time.Second
	// silentFor and silentProbes: so many unanswered for so long are told.
	silentFor, silentProbes = 10 * time.Second, 10
)

// refusals are what reflectors refused of known hosts. They have a lock of their
// own, as a flood at a reflector must not keep the loop waiting.
type refusals struct {
	mu sync.Mutex // of by, with what is in it
	by map[refuser]*refused
}

// refuser is whose probes are refused: who has the address on the network.
type refuser struct {
	network string
	addr    netip.Addr
}

// refused is of one host on one network.
type refused struct {
	keys, clocks row
	// ahead is by how much its clock is, by the latest probe.
	ahead time.Duration
	// looked is when this was last asked for.
	looked time.Time
}

// row is of refusals without a long gap.
type row struct{ first, last time.Time }

func (r *row) add(now time.Time) {
	if now.Sub(r.last) >= refusedGap {
		r.first = now
	}
	r.last = now
}

// lasts reports whether the row goes on, and nothing better has come for long.
func (r row) lasts(better, now time.Time) bool {
	since := r.first
	if better.After(since) {
		since = better
	}
	return !r.last.IsZero() && now.Sub(r.last) < refusedGap && r.last.Sub(since) >= refusedFor
}

func newRefusals() *refusals { return &refusals{by: map[refuser]*refused{}} }

// add takes one, on a reflector's goroutine. Of addresses that no host has it keeps
// nothing.
func (rs *refusals) add(network string, r stamp.Refusal, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e := rs.by[refuser{network, r.From.Addr()}]
	switch {
	case e == nil:
	case r.Key:
		e.keys.add(now)
	default:
		e.clocks.add(now)
		e.ahead = r.Ahead
	}
}

// of returns what is refused of a host's path, from now on if it was not known.
func (rs *refusals) of(who refuser, now time.Time) refused {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.by[who] == nil {
		rs.by[who] = &refused{}
	}
	rs.by[who].looked = now
	return *rs.by[who]
}

// forget drops paths that are gone.
func (rs *refusals) forget(now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	maps.DeleteFunc(rs.by, func(_ refuser, e *refused) bool { return now.Sub(e.looked) >= time.Minute })
}

// tellEvery is how often it is looked whose probes are refused: that is told once they were for longer, and the
// look takes in all paths to all hosts.
const tellEvery = 2 * time.Second

// tellRefusals tells of hosts whose probes are refused here, and of those that
// answer none of this host's.
func (ws *wires) tellRefusals(hosts map[string]*remoteHost, now time.Time) {
	if now.Sub(ws.warned) < tellEvery {
		return
	}
	ws.warned = now
	ws.refusals.forget(now)
	for _, h := range hosts {
		why := ""
		for _, hp := range h.paths {
			why = max(why, ws.tellRefused(h, hp.wire, hp, now))
		}
		k := &h.keys
		if k.unanswered < silentProbes || now.Sub(k.unansweredSince) < silentFor {
			continue
		}
		if why == "" {
			why = "its agent does not run, or refuses them for their key or their time"
		}
		ws.warnOf("silent "+h.name, "%s has answered none of %d probes on any network for %v: %s", h.name, k.unanswered,
			now.Sub(k.unansweredSince).Round(time.Second), why)
	}
}

// tellRefused tells what is refused of one path's probes, and returns what that
// says of the other direction.
func (ws *wires) tellRefused(h *remoteHost, w *wire, hp *hostPath, now time.Time) (why string) {
	from := hp.to.Addr()
	r := ws.refusals.of(refuser{w.network, from}, now)
	if r.keys.last.After(r.keys.first) && r.keys.lasts(w.reflector.LastProbe(from), now) {
		ws.warnOf("key "+h.name+" "+w.network,
			"probes and notices from %s are refused on %s: they authenticate by no key of this host", h.name, w.network)
		why = "the two hosts' keys differ, as its own are refused here"
	}
	if r.clocks.last.After(r.clocks.first) && r.clocks.lasts(w.reflector.LastFreshProbe(from), now) {
		ws.clockOf(h, r.ahead)
		why = "the two hosts' clocks differ, and its own are refused here"
	}
	return why
}

// clockOf tells of a clock that differs by more than is tolerated.
func (ws *wires) clockOf(h *remoteHost, ahead time.Duration) {
	if ahead.Abs() <= stamp.DefaultFreshness {
		return
	}
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	ws.warnOf("clock "+h.name, "the clock of %s is %v %s this host's: each refuses the other's notices while they differ by more than %v",
		h.name, ahead.Abs().Round(10*time.Millisecond), word, stamp.DefaultFreshness)
}
