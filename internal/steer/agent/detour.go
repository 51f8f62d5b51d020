package agent

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// Echoes and probes pass where one port, TCP alone or large packets do not, and so do the
// pair's other packets. What such a fault fails is known to the connection alone: its
// retransmission timer fires, again and again. So a connection is asked itself: it is moved
// to another path, with its bucket, and stays if it is acknowledged there.

// inquirer finds a path for connections that do not get through on theirs.
type inquirer struct {
	*journal
	members   *members
	mover     *mover
	escape    *escape
	teller    *teller
	params    *detect.Params
	clock     clock
	inquiries inquiries
}

// inquireAll follows inquiries up until ctx ends: apart from the loop, as the kernel is asked.
func (iq *inquirer) inquireAll(ctx context.Context) error {
	for ctx.Err() == nil {
		iq.members.Lock()
		questions, open := iq.inquiries.questions()
		iq.members.Unlock()
		if !open {
			select {
			case <-iq.inquiries.bell:
			case <-ctx.Done():
			}
			continue
		}
		for name, ends := range questions {
			found, err := sockdiag.Find(name, ends)
			if err != nil {
				iq.cfg.Log.Debug("connections not looked up", "netns", name, "error", err)
			}
			iq.answers(name, found)
		}
		iq.members.Lock()
		iq.countReplies()
		iq.followHandshakes()
		iq.inquiries.settle(iq.members.knows, iq.cfg.Now())
		iq.members.Unlock()
		select {
		case <-time.After(inquireEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// answers takes what the kernel says of the connections of a namespace.
func (iq *inquirer) answers(name string, found []sockdiag.Socket) {
	by := map[[2]netip.AddrPort]sockdiag.Socket{}
	for _, s := range found {
		by[[2]netip.AddrPort{s.Local, s.Remote}] = s
	}
	iq.members.Lock()
	defer iq.members.Unlock()
	now := iq.cfg.Now()
	for _, q := range iq.inquiries.open {
		if q.pair.local.Netns == name && iq.members.knows(q.pair) {
			s, ok := by[q.ends()]
			iq.answer(q, detect.Progress{Open: ok, Waiting: s.Unacked > 0, Acked: s.BytesAcked, Sent: int(s.DataOut),
				Busy: s.Busy, Trip: s.SRTT, Timer: s.RTO, Tries: int(s.Backoff)}, now)
		}
	}
}

// answer takes what the kernel says of one connection.
func (iq *inquirer) answer(q *inquiry, is detect.Progress, now time.Time) {
	p := q.pair
	if !q.begun {
		q.begin(iq.params, is, now)
	}
	if q.Over() {
		return
	}
	was := q.On
	if path, ok := q.path(); !ok || path != was {
		q.Abandon(now)
		return
	}
	i := p.routes.at(q.From)
	if i < 0 { // it is gone
		q.Abandon(now)
		return
	}
	from := &p.lines[i].accidents
	tries := 1
	if q.established() {
		tries = from.TriesOf(iq.params, is, iq.around(q, is, now), now)
	}
	if moves := q.Look(is, tries, p.otherPaths(q.From), now); moves && q.replies != nil && q.side == dataplane.Theirs {
		iq.askOwner(p, q, now)
	} else if moves {
		iq.redirect(p, q, was, now)
	}
	if q.established() && q.Accident(is) {
		from.Add(iq.params, now)
	}
	switch {
	case q.State() == detect.Nowhere && q.replies != nil:
		q.replies.Nowhere()
	case q.State() == detect.Nowhere && q.syn != nil:
		p.handshakes.unserved.add(service{unix.IPPROTO_TCP, q.ports[1]}, now)
	case q.State() == detect.Nowhere:
		p.nowhere, p.excused = now, nil
	case q.State() == detect.Proven:
		iq.proven(p, q, is, now)
	}
}

// around is what is known of the path that the connection is asked about.
func (iq *inquirer) around(q *inquiry, is detect.Progress, now time.Time) (a detect.Around) {
	p := q.pair
	i, deaf := p.routes.at(q.From), iq.params.Deaf
	ln, hp := &p.lines[i], p.host.paths[p.routes[i].Network]
	if ln.Telling(now) { // else it is not waited for an acknowledgment
		deaf = is.Deaf(iq.params)
	}
	// Else others may fill a queue in which it waits, or nothing comes as all have left.
	a.Silent = ln.silence.Lasts(deaf, now) && (hp == nil || !iq.members.passes(hp, p, deaf, now)) &&
		!p.hasLeft(i, iq.params.Silence)
	for _, other := range p.inquiries {
		a.Ahead = a.Ahead || other != q && other.begun && other.From == q.From && other.State() == detect.Trying &&
			now.Sub(other.Since()) < iq.params.AckWithin
	}
	return a
}

// otherPaths are the paths that a connection on one of them may try, the best known first.
func (p *pair) otherPaths(from int) (out []int) {
	if at := p.on().Index; at != from && p.usable(at) {
		out = append(out, at)
	}
	for _, r := range p.routes {
		if r.Index != from && r.Index != p.on().Index && p.usable(r.Index) {
			out = append(out, r.Index)
		}
	}
	return out
}

// usable reports whether nothing bad is known of the path with that index.
func (p *pair) usable(index int) bool {
	i := p.routes.at(index)
	if i < 0 {
		return false
	}
	hp := p.host.paths[p.routes[i].Network]
	return hp != nil && !hp.Down() && hp.unfit == "" && !p.lines[i].Down()
}

// redirect has the connection's bucket be on the path that its inquiry says.
func (iq *inquirer) redirect(p *pair, q *inquiry, was int, now time.Time) {
	set := dataplane.Set(1) << q.bucket
	if q.side == dataplane.Theirs {
		iq.mover.divert(p, set, was, q.On, now)
		return
	}
	d := p.detours.of(q.bucket)
	d.from, d.to, d.out = q.From, q.On, q.On != q.From
	d.opens = d.out && (d.opens || q.syn != nil)
	iq.mover.replace(p, now)
	if q.syn != nil {
		iq.rebegin(p, now)
	}
}

// askOwner has the agent that decides about a flow of datagrams try it on another path, once: which of the two ways is
// lost is not known, and only that agent moves both.
func (iq *inquirer) askOwner(p *pair, q *inquiry, now time.Time) {
	i, to := p.routes.at(q.From), p.routes.at(q.On)
	iq.note(Event{Kind: EventSuspect, Pair: p.name, To: p.routes[i].Network, Reason: fmt.Sprintf(
		"datagrams from port %d to %d are not answered on %s, though probes pass: the agent of %s is to try %s",
		q.ports[0], q.ports[1], p.routes[i].Network, p.host.name, p.routes[to].Network)})
	iq.teller.tellUnpassed(p, q)
	q.replies.Nowhere()
	q.Abandon(now)
}

// proven acts on a connection that gets through on another path at once: it stays there.
// Where its path refuses most of the pair's connections, or nothing else passes there either, the
// pair leaves that path. After no path got it through for a while, it only happened to be
// elsewhere as that ended: it returns, and tells by itself if its path still fails: then it stays.
func (iq *inquirer) proven(p *pair, q *inquiry, is detect.Progress, now time.Time) {
	i, to := p.routes.at(q.From), p.routes.at(q.On)
	if i < 0 || to < 0 || !p.usable(q.From) { // it has failed for all
		return
	}
	if p.excuses(q.ports, time.Duration(iq.params.DetourTrust)*iq.params.DetourAgain, now) {
		was := q.On
		q.On = q.From
		iq.redirect(p, q, was, now)
		return
	}
	from := p.routes[i].Network
	iq.note(Event{Kind: EventSuspect, Pair: p.name, To: from, Reason: q.saidOf(from, p.routes[to].Network)})
	if q.side == dataplane.Theirs {
		iq.teller.tellUnpassed(p, q)
	} else {
		d := p.detours.of(q.bucket)
		d.from, d.to, d.out = q.From, q.On, true
		d.bar.Raise(iq.params, now)
	}
	switch {
	case q.replies != nil: // a program that had paused answers wherever they are
		return
	case q.syn != nil:
		iq.handshakeProven(p, q, i, now)
		return
	}
	ln := &p.lines[i]
	refused := p.detours.refused(q.From, now)
	if !ln.accidents.Refuses(iq.params, refused, p.conns, is, iq.around(q, is, now), now) {
		return
	}
	if ln.bar.Left(now) == 0 {
		ln.bar.Raise(iq.params, now)
		iq.escape.leavePath(p, i, now, now.Sub(q.Since()))
	}
}

// ports are a connection's within its pair: the local and the remote one.
type ports [2]uint16

// inquiry is the question whether one connection gets through.
type inquiry struct {
	pair *pair
	ports
	bucket uint8
	// side says who decides about the flow; it is known once begun.
	side  dataplane.Side
	begun bool
	// replies are those to a flow of datagrams, and syn is the first packet of a connection that waits for its answer;
	// neither is there of an established connection.
	replies *detect.Replies
	syn     *dataplane.SYN
	detect.Detour
}

// established reports whether it is about a connection that both ends know.
func (q *inquiry) established() bool { return q.replies == nil && q.syn == nil }

// saidOf tells what was found of an inquiry that proved its path not to get its packets through.
func (q *inquiry) saidOf(from, to string) string {
	what := "the connection from port %d to %d does not get through on %s, and does on %s, though probes pass on both"
	switch {
	case q.replies != nil:
		what = "datagrams from port %d to %d are not answered on %s, and are on %s, though probes pass on both"
	case q.syn != nil:
		what = "the connection from port %d to %d does not begin on %s, and does on %s, though probes pass on both"
	}
	return fmt.Sprintf(what, q.ports[0], q.ports[1], from, to)
}

// inquiries are those that are open, of all pairs.
type inquiries struct {
	params *detect.Params
	open   []*inquiry
	bell   bell
}

const (
	// inquireEvery is how often the kernel is asked about connections that may not get through.
	inquireEvery = 5 * time.Millisecond
	// inquiriesMost bounds them, of all pairs: each costs some ten microseconds each time. When
	// a path fails for all, thousands of timers fire, and nothing is to be learnt from each.
	inquiriesMost = 64
)

// add takes up that a connection's retransmission timer has fired.
func (qs *inquiries) add(p *pair, e telemetry.Event) {
	qs.take(&inquiry{pair: p, ports: ports{e.LocalPort, e.RemotePort}, bucket: e.Bucket % dataplane.Buckets})
}

// take takes up an inquiry, unless it is open already or there are too many. It reports whether it did.
func (qs *inquiries) take(q *inquiry) bool {
	p := q.pair
	if p.inquiries[q.ports] != nil || len(p.inquiries) >= qs.params.DetoursMost ||
		len(qs.open) >= inquiriesMost || len(p.routes) < 2 || p.opened.IsZero() {
		return false
	}
	if p.inquiries == nil {
		p.inquiries = map[ports]*inquiry{}
	}
	p.inquiries[q.ports] = q
	qs.open = append(qs.open, q)
	qs.bell.ring()
	return true
}

// questions are the connections to ask about, by namespace. open says that there are
// inquiries, if only such as are kept so that they do not begin again.
func (qs *inquiries) questions() (by map[string][][2]netip.AddrPort, open bool) {
	by = map[string][][2]netip.AddrPort{}
	for _, q := range qs.open {
		if ns := q.pair.local.Netns; q.established() && (!q.begun || !q.Over()) {
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
	for _, q := range qs.open {
		unsettled := !q.begun || !q.Over() || q.State() == detect.Nowhere && now.Sub(q.Since()) < qs.params.DetourAgain
		if knows(q.pair) && unsettled {
			open = append(open, q)
			continue
		}
		delete(q.pair.inquiries, q.ports)
	}
	clear(qs.open[len(open):])
	qs.open = open
}

// begin finds the path that the connection is on.
func (q *inquiry) begin(params *detect.Params, is detect.Progress, now time.Time) {
	p := q.pair
	q.begun = true
	proto := uint8(unix.IPPROTO_TCP)
	if q.replies != nil {
		proto = unix.IPPROTO_UDP
	}
	side, row, err := p.local.plane.Side(p.remote.UID, proto, q.ports[0], q.ports[1])
	if q.syn != nil {
		side = dataplane.Ours // it has no side before it is answered
	}
	if err == nil {
		q.side, q.bucket = side, row.Bucket(q.bucket)
	}
	path, ok := q.path()
	if i := p.routes.at(path); i >= 0 && !p.lines[i].Telling(now) && q.syn == nil {
		now = now.Add(-params.AckWithin) // nothing else will tell
	}
	q.Detour = detect.NewDetour(params, path, is, now)
	if !ok { // a flow that cannot be moved
		q.Abandon(now)
	}
}

// path is the one that the connection's bucket is on now.
func (q *inquiry) path() (index int, ok bool) {
	plane, uid := q.pair.local.plane, q.pair.remote.UID
	if q.syn != nil && !q.pair.opening.elsewhere() {
		return 0, true
	}
	var choices [dataplane.Buckets]dataplane.Choice
	var err error
	switch q.side {
	case dataplane.Ours:
		choices, err = plane.Choices(uid)
	case dataplane.Theirs:
		choices, err = plane.Followed(uid)
	default:
		return 0, false
	}
	return choices[q.bucket].Path, err == nil
}
