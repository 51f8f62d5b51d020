package agent

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// That the default network drops datagrams alone, or those to one port, no flow tells where each request is a flow of
// its own. Where requests that are usually answered are not any more, the pair's flows try the other paths: nobody can
// send a datagram again but its program, with its next one.

// trial is the question whether requests to a port are answered on another path than the default one.
type trial struct {
	port uint16
	// on is the path by index, since when the pair's flows are there, and buckets are those of them that were at home.
	on      int
	since   time.Time
	buckets dataplane.Set
	tried   map[int]bool
}

// requestPorts bounds how many ports of a peer are watched.
const requestPorts = 64

// looks are what a look at a pod's flows finds of requests, by pair.
type looks map[*pair]map[uint16]*look

// look is that of one port: those that wait, those that were answered since the last look, by the pod's ports, and how
// many of these by another path.
type look struct {
	waiting, answered []uint16
	elsewhere         int
}

// add takes a flow that was found, and not known to be answered lately.
func (ls looks) add(p *pair, f dataplane.Asked) {
	if ls[p] == nil {
		ls[p] = map[uint16]*look{}
	}
	at := ls[p][f.Remote]
	if at == nil {
		at = &look{}
		ls[p][f.Remote] = at
	}
	switch {
	case f.Begins, f.N > 0: // or it goes on after a while, and waits again
		at.waiting = append(at.waiting, f.Local)
	default:
		at.answered = append(at.answered, f.Local)
		if f.Elsewhere {
			at.elsewhere++
		}
	}
}

// lookAtRequests takes what a look has found of a pair.
func (iq *inquirer) lookAtRequests(p *pair, found map[uint16]*look, now time.Time) {
	if len(found) == 0 && len(p.requests) == 0 {
		return
	}
	for port, at := range found {
		r := p.requests[port]
		if r == nil && len(p.requests) < requestPorts && len(at.answered) > 0 {
			if p.requests == nil {
				p.requests = map[uint16]*detect.Requests{}
			}
			r = &detect.Requests{}
			p.requests[port] = r
		}
		if r != nil {
			r.Looked(iq.params, at.waiting, at.answered, now)
		}
	}
	for port, r := range p.requests {
		if found[port] == nil {
			r.Looked(iq.params, nil, nil, now)
		}
		switch t := p.trial; {
		case t != nil && t.port == port:
			iq.followTrial(p, r, found[port], now)
		case t == nil && r.Missing(iq.params, now) && iq.mayTry(p, port, now):
			p.trial = &trial{port: port, tried: map[int]bool{}}
			iq.tryNext(p, now)
		case r.Idle(time.Minute, now):
			delete(p.requests, port)
		}
	}
}

// mayTry reports whether the pair's flows may try whether requests to the port are answered elsewhere.
func (iq *inquirer) mayTry(p *pair, port uint16, now time.Time) bool {
	return p.takesOpening && !p.opened.IsZero() && iq.members.letsBegin(p, &iq.cfg) && !p.homeFails(now) &&
		!p.handshakes.unserved.Bars(iq.params, detect.Service{Protocol: unix.IPPROTO_UDP, Port: port}, now)
}

// tryNext has the flows that are at home try the next path, or return where there is none.
func (iq *inquirer) tryNext(p *pair, now time.Time) {
	t := p.trial
	for _, path := range p.otherPaths(0) {
		if t.tried[path] {
			continue
		}
		t.tried[path], t.on, t.since = true, path, now
		for b := range uint8(flow.Width) { // those of the first row, in which flows begin
			if d := p.detours[b]; d != nil && d.out && !t.buckets.Has(b) {
				continue
			}
			d := p.detours.of(b)
			d.lead(0, path)
			d.opens = true
			t.buckets |= 1 << b
		}
		iq.mover.replace(p, now)
		iq.rebegin(p, now)
		return
	}
	p.handshakes.unserved.Add(iq.params, detect.Service{Protocol: unix.IPPROTO_UDP, Port: t.port}, now)
	iq.endTrial(p, now)
}

// endTrial has the flows be where they are to be without it.
func (iq *inquirer) endTrial(p *pair, now time.Time) {
	t := p.trial
	p.trial = nil
	for b, d := range p.detours {
		if t.buckets.Has(b) && d.bar.Left(now) == 0 {
			d.back()
		}
	}
	iq.mover.replace(p, now)
	iq.rebegin(p, now)
}

// followTrial takes what has become of requests since the flows are on another path.
func (iq *inquirer) followTrial(p *pair, r *detect.Requests, found *look, now time.Time) {
	t := p.trial
	switch {
	case p.homeFails(now), !p.usable(t.on):
		iq.endTrial(p, now) // that is known better now
	case found != nil && found.elsewhere > 0 && found.elsewhere == len(found.answered):
		from, to := p.routes[0].Network, p.routes[p.routes.at(t.on)].Network
		iq.note(Event{Kind: EventSuspect, Pair: p.name, To: from, Reason: fmt.Sprintf(
			"requests to port %d are not answered on %s, and are on %s, though probes pass on both", t.port, from, to)})
		iq.escape.bar(p, 0, iq.params, now.Sub(t.since), now)
		iq.endTrial(p, now)
	case found != nil && len(found.answered) > 0:
		iq.endTrial(p, now) // they were only late
	case r.Late(iq.params, t.since, now) > 0:
		iq.tryNext(p, now)
	}
}

// expireTrial ends a trial of which nothing was seen for so long: flows are looked at only while there are some.
func (iq *inquirer) expireTrial(p *pair, now time.Time) {
	t := p.trial
	if t == nil {
		return
	}
	lasts := iq.params.RepliesIdle
	if r := p.requests[t.port]; r != nil {
		lasts = max(lasts, 2*r.Patience(iq.params))
	}
	if now.Sub(t.since) >= lasts {
		iq.endTrial(p, now)
	}
}
