package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// ports are a connection's within its pair: the local and the remote one.
type ports [2]uint16

// of names the pair's connection with these ports to telemetry.
func (c ports) of(p telemetry.Pair) telemetry.Connection {
	return telemetry.Connection{Pair: p, Local: c[0], Remote: c[1]}
}

// inquiry is the question whether one connection gets through.
type inquiry struct {
	pair *pair
	ports
	bucket uint8
	// side says who decides about the flow; it is known once begun.
	side  dataplane.Side
	begun bool
	about subject
	// since is since when a connection waits for an acknowledgment of what it has sent again, or of its SYN, and acked
	// how many bytes were acknowledged by then.
	since time.Time
	acked uint64
	// repeat is what that was.
	repeat *repeat
	// last is what the kernel said last of the connection before it ended, if it has, and delivered when the peer had
	// acknowledged all of it by then.
	last      detect.Progress
	ended     bool
	delivered time.Time
	// there is whether it gets through where the other end's agent tries it, as it begins.
	there *detect.Detour
	// replies are those to a flow of datagrams, and syn is the packet of a handshake.
	replies *detect.Replies
	syn     *dataplane.SYN
	detect.Detour
}

// subject is what an inquiry is about.
type subject uint8

const (
	// aboutConnection: one that both ends know. The kernel's socket tells how it gets on.
	aboutConnection subject = iota
	// aboutHandshake: a connection whose SYN waits for its answer. The data plane has seen both.
	aboutHandshake
	// aboutDatagrams: a flow that goes both ways. The data plane counts what is not answered.
	aboutDatagrams
)

// saidOf tells what was found of an inquiry that proved its path not to get its packets through.
func (q *inquiry) saidOf(from, to string) string {
	what := [...]string{
		aboutConnection: "the connection from port %d to %d does not get through on %s, and does on %s",
		aboutHandshake:  "the connection from port %d to %d does not begin on %s, and does on %s",
		aboutDatagrams:  "datagrams from port %d to %d are not answered on %s, and are on %s",
	}[q.about]
	return fmt.Sprintf(what, q.ports[0], q.ports[1], from, to) + ", though probes pass on both"
}

// nowhere has what it was about not be asked again at once, as no path got it through.
func (q *inquiry) nowhere(params *detect.Params, now time.Time) {
	switch q.about {
	case aboutConnection:
		q.pair.nowhere, q.pair.excused = now, nil
	case aboutHandshake:
		q.pair.handshakes.unserved.Add(params, detect.Service{Protocol: unix.IPPROTO_TCP, Port: q.ports[1]}, now)
	case aboutDatagrams:
		q.replies.Nowhere(params, now)
	}
}

// pending reports whether it is still to be found out.
func (q *inquiry) pending() bool {
	if !q.begun {
		return q.there == nil || q.there.State() != detect.Unfounded
	}
	return !q.Over()
}

// inquiries are those that are open, of all pairs.
type inquiries struct {
	params *detect.Params
	open   []*inquiry
	// pending is how many of these are, as they were last settled: each of thousands of timers asks.
	pending int
	bell    bell
}

const (
	// inquireEvery is how often the kernel is asked about connections that may not get through, and inquireSoon how
	// often about few: each wait is part of a stall.
	inquireEvery, inquireSoon, few = 5 * time.Millisecond, time.Millisecond, 8
	// inquiriesMost bounds them, of all pairs: each costs some ten microseconds each time. When
	// a path fails for all, thousands of timers fire, and nothing is to be learnt from each.
	inquiriesMost = 64
	// rememberedMost bounds them with those that were found to get through nowhere, which are not begun again for a while.
	rememberedMost = 8 * inquiriesMost
)

// ask takes up that what a connection had sent a second time, or later, is not acknowledged since then.
func (qs *inquiries) ask(p *pair, e telemetry.Event, since time.Time, r *repeat) {
	qs.take(&inquiry{pair: p, ports: ports{e.LocalPort, e.RemotePort}, bucket: e.Bucket % dataplane.Buckets,
		since: since, acked: e.Acked, repeat: r})
}

// take takes up an inquiry, unless it is open already or there are too many. It reports whether it did.
func (qs *inquiries) take(q *inquiry) bool {
	p := q.pair
	if !qs.room(p, q.ports) {
		return false
	}
	if p.inquiries == nil {
		p.inquiries = map[ports]*inquiry{}
	}
	p.inquiries[q.ports] = q
	qs.open = append(qs.open, q)
	qs.pending++
	qs.bell.ring()
	return true
}

// room reports whether one about that connection of the pair can be taken up.
func (qs *inquiries) room(p *pair, conn ports) bool {
	return !p.local.DryRun && p.inquiries[conn] == nil && len(p.inquiries) < qs.params.DetoursMost &&
		qs.pending < inquiriesMost && len(qs.open) < rememberedMost && len(p.routes) >= 2 && !p.opened.IsZero()
}

// every is when to ask again.
func (qs *inquiries) every() time.Duration {
	if qs.pending > 0 && qs.pending <= few {
		return inquireSoon
	}
	return inquireEvery
}

// questions are the connections to ask about, by namespace. open says that there are
// inquiries, if only such as are kept so that they do not begin again.
func (qs *inquiries) questions() (by map[string][][2]netip.AddrPort, open bool) {
	by = map[string][][2]netip.AddrPort{}
	for _, q := range qs.open {
		if ns := q.pair.local.Netns; q.about == aboutConnection && q.pending() {
			by[ns] = append(by[ns], q.ends())
		}
	}
	return by, len(qs.open) > 0
}

// ends are the connection's addresses and ports.
func (q *inquiry) ends() [2]netip.AddrPort {
	r := q.pair.routes[0]
	return [2]netip.AddrPort{netip.AddrPortFrom(r.Local.Addr, q.ports[0]), netip.AddrPortFrom(r.Remote.Addr, q.ports[1])}
}

// settle forgets those that are settled, or whose pair is known no more, but for a while the
// connections that no path gets through.
func (qs *inquiries) settle(knows func(*pair) bool, now time.Time) {
	open := qs.open[:0]
	qs.pending = 0
	for _, q := range qs.open {
		pending := q.pending()
		kept := pending || q.State() == detect.Nowhere && now.Sub(q.Since()) < qs.params.DetourAgain
		if !knows(q.pair) || !kept {
			delete(q.pair.inquiries, q.ports)
			continue
		}
		open = append(open, q)
		if pending {
			qs.pending++
		}
	}
	clear(qs.open[len(open):])
	qs.open = open
}

// identify finds who decides about the connection, and its bucket.
func (q *inquiry) identify(now time.Time) {
	if q.about == aboutHandshake {
		q.side = dataplane.Ours // it has no side before it is answered
		return
	}
	proto := uint8(unix.IPPROTO_TCP)
	if q.about == aboutDatagrams {
		proto = unix.IPPROTO_UDP
	}
	if side, bucket, err := q.pair.side(proto, q.ports, now); err == nil {
		q.side, q.bucket = side, bucket
	}
}

// begin finds the path that the connection is on.
func (q *inquiry) begin(params *detect.Params, is detect.Progress, now time.Time) {
	p := q.pair
	q.begun = true
	path, ok := q.path()
	since, i := now, p.routes.at(path)
	if i >= 0 && q.about != aboutHandshake && p.lines[i].Unasked() {
		p.echo(i)
	}
	switch {
	case q.about == aboutHandshake:
		since = q.since
	case i >= 0 && !p.lines[i].MayTell(now):
		since = now.Add(-params.AckWithin) // nothing else will tell
	case q.about == aboutConnection:
		// What it has just sent may be acknowledged, too.
		since = slices.MaxFunc([]time.Time{q.since, now.Add(params.Silence - params.AckWithin)}, time.Time.Compare)
		if q.side == dataplane.Theirs {
			since = since.Add(params.Silence) // the other end goes first, if it asks too
		}
	}
	if q.about == aboutConnection {
		is.Acked = q.acked // what waits now may be another segment
	}
	q.Detour = detect.NewDetour(params, path, is, since)
	if !ok { // a flow that cannot be moved
		q.Abandon(now)
	}
}

// waitsThere reports whether a flow that this pod has opened is not asked about yet, as the other end's agent has tried
// it elsewhere: what its timer has sent there may be acknowledged.
func (q *inquiry) waitsThere(params *detect.Params, is detect.Progress, now time.Time) bool {
	if q.side != dataplane.Ours || !q.pair.triedThere(q.bucket, now) {
		return q.there != nil && q.there.State() == detect.Unfounded
	}
	if q.there == nil {
		d := detect.NewDetour(params, q.On, is, now)
		q.there = &d
	}
	q.there.Look(is, 1, nil, now)
	return q.there.State() != detect.Nowhere
}

// known is what is known of the connection, of which the kernel says that now. It reports whether that is all, as what
// telemetry tells of its end may come a moment later.
func (q *inquiry) known(is detect.Progress) (detect.Progress, bool) {
	if is.Open || q.about != aboutConnection {
		q.last = is
		return is, true
	}
	all := q.ended || !q.delivered.IsZero()
	is, q.ended = q.last, true
	is.Open, is.Delivered = false, q.delivered
	return is, all
}

// peerLeft reports whether the peer, which has opened the flow that this end tries elsewhere, has left the path itself
// meanwhile, with all of its flows: where they are is no trial of this end's.
func (q *inquiry) peerLeft() bool {
	if q.side != dataplane.Theirs || q.State() != detect.Trying {
		return false
	}
	followed, ok := q.choices()
	return ok && !slices.ContainsFunc(followed[:], func(c dataplane.Choice) bool { return c.Path == q.From })
}

// diverted reports whether the flow, which the peer has opened, is elsewhere than the peer has said last.
func (q *inquiry) diverted() bool {
	followed, ok := q.choices()
	return ok && q.side == dataplane.Theirs && followed[q.bucket].Diverted
}

// path is the one that the connection's bucket is on now.
func (q *inquiry) path() (index int, ok bool) {
	if q.about == aboutHandshake && !q.pair.opening.elsewhere() {
		return 0, true
	}
	choices, ok := q.choices()
	return choices[q.bucket].Path, ok
}

// choices are where the flows are of the end that decides about the connection's.
func (q *inquiry) choices() (choices [dataplane.Buckets]dataplane.Choice, ok bool) {
	plane, uid := q.pair.local.plane, q.pair.remote.UID
	err := error(nil)
	switch q.side {
	case dataplane.Ours:
		choices, err = plane.Choices(uid)
	case dataplane.Theirs:
		choices, err = plane.Followed(uid)
	default:
		return choices, false
	}
	return choices, err == nil
}
