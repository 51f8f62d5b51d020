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

// detour is a bucket of the pair's own flows that leaves the path where it is assigned.
type detour struct {
	// from and to are the paths' indexes.
	from, to int
	out      bool
	bar      detect.Bar
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
	detect.Detour
}

// inquiries are those that are open, of all pairs.
type inquiries struct {
	open []*inquiry
	bell bell
}

const (
	// inquireEvery is how often the kernel is asked about connections that may not get through.
	inquireEvery = 5 * time.Millisecond
	// inquiriesMost bounds them, of all pairs: each costs some ten microseconds each time. When
	// a path fails for all, thousands of timers fire, and nothing is to be learnt from each.
	inquiriesMost = 64
)

// inquire takes up that a connection's retransmission timer has fired.
func (a *Agent) inquire(p *pair, e telemetry.Event) {
	key := ports{e.LocalPort, e.RemotePort}
	if p.inquiries[key] != nil || len(p.inquiries) >= a.pairParams.DetoursMost ||
		len(a.inquiries.open) >= inquiriesMost || len(p.routes) < 2 || p.opened.IsZero() || a.cfg.DryRun {
		return
	}
	q := &inquiry{pair: p, ports: key, bucket: e.Bucket % dataplane.Buckets}
	if p.inquiries == nil {
		p.inquiries = map[ports]*inquiry{}
	}
	p.inquiries[key] = q
	a.inquiries.open = append(a.inquiries.open, q)
	a.inquiries.bell.ring()
}

// inquireAll follows inquiries up until ctx ends: apart from the loop, as the kernel is asked.
func (a *Agent) inquireAll(ctx context.Context) error {
	for ctx.Err() == nil {
		asked, open := a.questions()
		if !open {
			select {
			case <-a.inquiries.bell:
			case <-ctx.Done():
			}
			continue
		}
		for name, ends := range asked {
			found, err := sockdiag.Find(name, ends)
			if err != nil {
				a.cfg.Log.Debug("connections not looked up", "netns", name, "error", err)
			}
			a.answers(name, found)
		}
		a.forgetInquiries()
		select {
		case <-time.After(inquireEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// questions are the connections to ask about, by namespace. open says that there are
// inquiries, if only such as are kept so that they do not begin again.
func (a *Agent) questions() (asked map[string][][2]netip.AddrPort, open bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked = map[string][][2]netip.AddrPort{}
	for _, q := range a.inquiries.open {
		if ns := q.pair.local.Netns; !q.begun || !q.Over() {
			asked[ns] = append(asked[ns], q.ends())
		}
	}
	return asked, len(a.inquiries.open) > 0
}

// ends are the connection's addresses and ports.
func (q *inquiry) ends() [2]netip.AddrPort {
	r := q.pair.routes[0]
	return [2]netip.AddrPort{netip.AddrPortFrom(r.Local.Addr, q.ports[0]), netip.AddrPortFrom(r.Remote.Addr, q.ports[1])}
}

// answers takes what the kernel says of the connections of a namespace.
func (a *Agent) answers(name string, found []sockdiag.Socket) {
	by := map[[2]netip.AddrPort]sockdiag.Socket{}
	for _, s := range found {
		by[[2]netip.AddrPort{s.Local, s.Remote}] = s
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	for _, q := range a.inquiries.open {
		if q.pair.local.Netns == name && a.knows(q.pair) {
			s, ok := by[q.ends()]
			a.answer(q, detect.Progress{Open: ok, Waiting: s.Unacked > 0, Acked: s.BytesAcked, Trip: s.SRTT, Timer: s.RTO}, now)
		}
	}
}

// knows reports whether the pair is still there.
func (a *Agent) knows(p *pair) bool {
	return a.pods[p.local.UID] == p.local && p.local.pairs[p.remote.UID] == p
}

// forgetInquiries forgets those that are settled, but for a while the connections that no
// path gets through.
func (a *Agent) forgetInquiries() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, open := a.cfg.Now(), a.inquiries.open[:0]
	for _, q := range a.inquiries.open {
		asked := !q.begun || !q.Over() || q.State() == detect.Nowhere && now.Sub(q.Since()) < a.pairParams.DetourAgain
		if a.knows(q.pair) && asked {
			open = append(open, q)
			continue
		}
		delete(q.pair.inquiries, q.ports)
	}
	clear(a.inquiries.open[len(open):])
	a.inquiries.open = open
}

// answer takes what the kernel says of one connection.
func (a *Agent) answer(q *inquiry, is detect.Progress, now time.Time) {
	p := q.pair
	if !q.begun {
		q.begin(&a.pairParams, is, now)
	}
	if q.Over() {
		return
	}
	was := q.On
	if path, ok := q.path(); !ok || path != was {
		q.Abandon(now)
		return
	}
	if q.Look(is, p.otherPaths(q.From), now) {
		a.redirect(p, q, was, now)
	}
	switch q.State() {
	case detect.Nowhere:
		p.nowhere = now
	case detect.Proven:
		a.proven(p, q, now)
	}
}

// begin finds the path that the connection is on.
func (q *inquiry) begin(params *detect.Params, is detect.Progress, now time.Time) {
	p := q.pair
	q.begun = true
	side, err := p.local.plane.Side(p.remote.UID, unix.IPPROTO_TCP, q.ports[0], q.ports[1])
	if err == nil {
		q.side = side
	}
	path, ok := q.path()
	if i := p.lineOf(path); i >= 0 && !p.lines[i].Telling(now) {
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
	i := p.lineOf(index)
	if i < 0 {
		return false
	}
	hp := p.host.paths[p.routes[i].Network]
	return hp != nil && !hp.Down() && hp.unfit == "" && !p.lines[i].Down()
}

// redirect has the connection's bucket be on the path that its inquiry says.
func (a *Agent) redirect(p *pair, q *inquiry, was int, now time.Time) {
	set := dataplane.Set(1) << q.bucket
	if q.side == dataplane.Theirs {
		if _, err := p.local.plane.DivertSome(p.remote.UID, set, was, q.On); err != nil {
			a.warn("%s: %v", p.name, err)
		}
		a.answersMoved(p)
		a.wake(p, set, now)
		return
	}
	d := p.detour(q.bucket)
	d.from, d.to, d.out = q.From, q.On, q.On != q.From
	a.replace(p, now)
}

// detour is that of a bucket, made where there is none.
func (p *pair) detour(bucket uint8) *detour {
	if p.detours == nil {
		p.detours = map[uint8]*detour{}
	}
	if p.detours[bucket] == nil {
		p.detours[bucket] = &detour{}
	}
	return p.detours[bucket]
}

// replace has the pair's own flows be where they are wanted now.
func (a *Agent) replace(p *pair, now time.Time) {
	moved, _, err := a.place(p)
	if err != nil {
		a.warn("%s: %v", p.name, err)
	}
	if moved != 0 {
		a.follow(p, moved, now)
	}
}

// proven acts on a connection that gets through on another path at once: it stays there.
// Where it is not the only one that its path refuses, or nothing else passes there either,
// the pair leaves that path. After no path got it through for a while, it only happened to be
// elsewhere as that ended: it returns, and tells by itself if its path still fails.
func (a *Agent) proven(p *pair, q *inquiry, now time.Time) {
	i, to := p.lineOf(q.From), p.lineOf(q.On)
	if i < 0 || to < 0 || !p.usable(q.From) { // it has failed for all
		return
	}
	if now.Sub(p.nowhere) < time.Duration(a.pairParams.DetourTrust)*a.pairParams.DetourAgain {
		was := q.On
		q.On = q.From
		a.redirect(p, q, was, now)
		return
	}
	from := p.routes[i].Network
	a.note(Event{Kind: EventSuspect, Pair: p.name, To: from, Reason: fmt.Sprintf(
		"the connection from port %d to %d does not get through on %s, and does on %s, though probes pass on both",
		q.ports[0], q.ports[1], from, p.routes[to].Network)})
	if q.side == dataplane.Theirs {
		a.tellUnpassed(p, q)
	} else {
		d := p.detour(q.bucket)
		d.from, d.to, d.out = q.From, q.On, true
		d.bar.Raise(&a.pairParams, now)
	}
	ln := &p.lines[i]
	refused := p.refused(q.From, now)
	if refused < a.pairParams.RefusesAt && refused < p.conns && !ln.silence.Lasts(a.pairParams.Deaf, now) {
		return
	}
	if ln.bar.Left(now) == 0 {
		ln.bar.Raise(&a.pairParams, now)
		a.leave(p, i, now, now.Sub(q.Since()))
	}
}

// lineOf is the place among the pair's paths of the one with that index; -1 if it is gone.
func (p *pair) lineOf(index int) int {
	for i, r := range p.routes {
		if r.Index == index {
			return i
		}
	}
	return -1
}

// refused counts the buckets that keep off the path.
func (p *pair) refused(from int, now time.Time) (n int) {
	for _, d := range p.detours {
		if d.from == from && d.bar.Left(now) > 0 {
			n++
		}
	}
	return n
}

// endDetours has buckets return whose time is over: only trying tells whether their
// connections get through again.
func (a *Agent) endDetours(p *pair, now time.Time) {
	changed := false
	for b, d := range p.detours {
		switch {
		case d.bar.Left(now) > 0:
		case d.out && !p.inquired(b):
			d.out, changed = false, true
		case !d.out && d.bar.Over(now) > a.pairParams.BarForgotten:
			delete(p.detours, b)
		}
	}
	if changed {
		a.replace(p, now)
	}
}

// inquired reports whether a connection in the bucket is being asked about.
func (p *pair) inquired(bucket uint8) bool {
	for _, q := range p.inquiries {
		if q.bucket == bucket && q.begun && !q.Over() {
			return true
		}
	}
	return false
}
