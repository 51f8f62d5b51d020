package agent

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// detour is a bucket of the pair's own flows that leaves the path where it is assigned.
type detour struct {
	// from and to are the paths' indexes.
	from, to int
	out      bool
	bar      detect.Bar
}

// detours are those of a pair, by bucket.
type detours map[uint8]*detour

// of is that of a bucket, made where there is none.
func (ds *detours) of(bucket uint8) *detour {
	if *ds == nil {
		*ds = detours{}
	}
	if (*ds)[bucket] == nil {
		(*ds)[bucket] = &detour{}
	}
	return (*ds)[bucket]
}

// refused counts the buckets that keep off the path.
func (ds detours) refused(from int, now time.Time) (n int) {
	for _, d := range ds {
		if d.from == from && d.bar.Left(now) > 0 {
			n++
		}
	}
	return n
}

// end has buckets return whose time is over: only trying tells whether their connections get
// through again. It reports whether some do, but for those that are being asked about.
func (ds detours) end(params *detect.Params, asked func(bucket uint8) bool, now time.Time) (some bool) {
	for b, d := range ds {
		switch {
		case d.bar.Left(now) > 0:
		case d.out && !asked(b):
			d.out, some = false, true
		case !d.out && d.bar.Over(now) > params.BarForgotten:
			delete(ds, b)
		}
	}
	return some
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
	key := ports{e.LocalPort, e.RemotePort}
	if p.inquiries[key] != nil || len(p.inquiries) >= qs.params.DetoursMost ||
		len(qs.open) >= inquiriesMost || len(p.routes) < 2 || p.opened.IsZero() {
		return
	}
	q := &inquiry{pair: p, ports: key, bucket: e.Bucket % dataplane.Buckets}
	if p.inquiries == nil {
		p.inquiries = map[ports]*inquiry{}
	}
	p.inquiries[key] = q
	qs.open = append(qs.open, q)
	qs.bell.ring()
}

// questions are the connections to ask about, by namespace. open says that there are
// inquiries, if only such as are kept so that they do not begin again.
func (qs *inquiries) questions() (asked map[string][][2]netip.AddrPort, open bool) {
	asked = map[string][][2]netip.AddrPort{}
	for _, q := range qs.open {
		if ns := q.pair.local.Netns; !q.begun || !q.Over() {
			asked[ns] = append(asked[ns], q.ends())
		}
	}
	return asked, len(qs.open) > 0
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
		asked := !q.begun || !q.Over() || q.State() == detect.Nowhere && now.Sub(q.Since()) < qs.params.DetourAgain
		if knows(q.pair) && asked {
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
	side, row, err := p.local.plane.Side(p.remote.UID, unix.IPPROTO_TCP, q.ports[0], q.ports[1])
	if err == nil {
		q.side, q.bucket = side, row.Bucket(q.bucket)
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
