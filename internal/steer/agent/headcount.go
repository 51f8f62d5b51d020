package agent

import (
	"context"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
)

const (
	// countEvery is how often connections are looked at, where that is quickly done.
	countEvery = 250 * time.Millisecond
	// countShare is how many times as long as a look took none is taken after it.
	countShare = 9
)

// headcount is a pair's connections as they were last counted. It belongs to countAll.
type headcount struct {
	// was is what each had carried, by the kernel's number for it, and now what it has.
	was, now map[uint64]carried
	// conns carry traffic. total is what all have delivered since the last count, and
	// limited what those have whose application has nothing more to send; received is
	// what came in.
	conns                    int
	total, limited, received float64
	// known: some were there at the last count; fresh: others were not.
	known, fresh bool
	// at is when it was counted, and span how long the count before was ago.
	at   time.Time
	span time.Duration
	// own are the pair's own connections by the row of their class; changes are those whose
	// row is another, or not said yet.
	own     [flow.Rows]tallied
	changes []change
	// others: the peer's own bulk has carried something since the last count.
	others bool
	// places are how many connections have each place of a row, of those that carried something between the last two
	// counts and may be the local pod's own.
	places [flow.Rows][flow.Width]int
}

// tallied is what was counted of some connections, as in headcount.
type tallied struct {
	conns                    int
	total, limited, received float64
}

// carried is what a connection has carried, in bytes and segments with data: what the other
// end has acknowledged, and what has come in.
type carried struct {
	ports           ports
	acked, received uint64
	out, in         uint32
	class           decide.Learner
	// said is the class of which the data plane was told, and own that the local pod has
	// opened the connection.
	said decide.Class
	own  bool
	// placed is when telemetry was last told whose choices the connection goes by.
	placed time.Time
}

// change is a connection that goes by another row than before, or of which it is not known yet by whose choices.
type change struct {
	id    uint64
	ports ports
	class decide.Class
	gone  bool
}

// placedFor is how long it is taken to be known by which of the peer's rows a connection goes that it has opened.
const placedFor = time.Second

// changesMost bounds those of one count, as each takes some microseconds under the lock.
const changesMost = 256

// begin begins a count.
func (h *headcount) begin(now time.Time) {
	span := countEvery
	if !h.at.IsZero() {
		span = now.Sub(h.at)
	}
	*h = headcount{was: h.now, now: make(map[uint64]carried, len(h.now)), at: now, span: span}
}

// see counts a connection. The kernel's own flag tells of the best sample ever
// (tcp_rate_gen), so it is the queue that is looked at: unsent data, or a window
// that is full.
func (h *headcount) see(s sockdiag.Socket, by *decide.ClassParams) {
	if min(s.SentAgo, s.ReceivedAgo) < quiet {
		h.conns++
	}
	was, known := h.was[s.ID]
	h.known, h.fresh = h.known || known, h.fresh || !known
	moved := float64(s.BytesAcked - min(was.acked, s.BytesAcked))
	came := float64(s.BytesReceived - min(was.received, s.BytesReceived))
	limited := s.Unsent == 0 && s.Unacked < s.Window
	h.total += moved
	h.received += came
	if limited {
		h.limited += moved
	}
	is := was
	is.ports, is.acked, is.received, is.out, is.in = ports{s.Local.Port(), s.Remote.Port()}, s.BytesAcked, s.BytesReceived,
		s.DataOut, s.DataIn
	if known {
		is.class = was.class.Learn(decide.Look{For: h.span, Sent: moved, Received: came, Waits: !limited,
			SegmentsOut: float64(s.DataOut - was.out), SegmentsIn: float64(s.DataIn - was.in)}, by)
	}
	h.now[s.ID] = is
	h.place(s.ID, is, 1)
	h.sort(s.ID, is, moved, came, limited)
}

// sort counts a connection by its class, and notes that its row is to be said.
func (h *headcount) sort(id uint64, is carried, moved, came float64, limited bool) {
	class := is.class.Class()
	news := class != decide.Unknown && class != is.said
	unplaced := moved+came > 0 && !is.own && h.at.Sub(is.placed) >= placedFor
	if (news || unplaced) && len(h.changes) < changesMost {
		h.changes = append(h.changes, change{id: id, ports: is.ports, class: class})
	}
	if is.said != class || moved+came == 0 {
		return
	}
	if !is.own {
		h.others = h.others || class == decide.Bulk
		return
	}
	t := &h.own[class.Row()]
	t.conns++
	t.total += moved
	t.received += came
	if limited {
		t.limited += moved
	}
}

// place counts a connection among those of its place, or with -1 no more.
func (h *headcount) place(id uint64, is carried, n int) {
	was := h.was[id]
	if (is.own || is.said == "") && (is.acked != was.acked || is.received != was.received) {
		h.places[is.said.Row()][flow.Bucket(is.ports[0], is.ports[1], protocolTCP)] += n
	}
}

// ended notes connections that were bulk and are gone: their ports may be another's soon.
func (h *headcount) ended() {
	for id, was := range h.was {
		if _, there := h.now[id]; !there && was.own && was.said == decide.Bulk {
			h.changes = append(h.changes, change{id: id, ports: was.ports, class: decide.Interactive, gone: true})
		}
	}
}

// bulkComes is how many bytes that came in between two counts are bulk: those of a few pages are fewer.
const bulkComes = 100_000

// counted takes over what was counted of the pair's connections. Whether a sender has more
// than it may send is known at its own end alone: of what is received the peer's agent tells.
func (p *pair) counted(h *headcount) {
	p.conns = h.conns
	if h.received > bulkComes {
		if h.at.Sub(p.came) > renew {
			p.fresh = h.at
		}
		p.came = h.at
	}
	weight := 1.0 // where all are new, what was known was of others
	if h.known {
		weight = 0.3
	}
	if h.total > 0 {
		p.sending.take(weight, h.limited/h.total)
	}
	if all := h.total + h.received; all > 0 {
		p.limited.take(weight, (h.limited+h.received*p.peerLimited)/all)
	}
	if h.others {
		p.others = h.at
	}
	for row, t := range h.own {
		c := &p.classes[row]
		if c.conns = t.conns; t.conns > 0 {
			follow := weight
			if c.live = h.at; !c.limited.known {
				follow = 1
			}
			c.limited.take(follow, (t.limited+t.received*p.peerLimited)/(t.total+t.received))
		}
	}
}

// assignRows has the data plane know the rows of connections whose class is another, and telemetry the buckets of these
// and of those that are new.
func (ct *counter) assignRows(p *pair) {
	if ct.cfg.DryRun || ct.survey.passive == nil {
		return
	}
	h := &p.heads
	h.ended()
	for _, c := range h.changes {
		if c.gone {
			ct.fault(p.name, ct.survey.passive.ForgetBucket(c.ports.of(p.telemetryPair())))
			continue
		}
		is := h.now[c.id]
		switch news := c.class != decide.Unknown && c.class != is.said; {
		case news && !p.staysInRow(c.ports, flow.Row(is.said.Row())): // else it is said with a later count
			own, err := p.local.plane.AssignRow(p.remote.UID, protocolTCP, c.ports[0], c.ports[1], flow.Row(c.class.Row()))
			ct.fault(p.name, err)
			h.place(c.id, is, -1)
			is.said, is.own = c.class, own
			h.place(c.id, is, 1)
		case h.at.Sub(is.placed) < placedFor:
			continue
		}
		ct.setBucket(p, &is)
		h.now[c.id] = is
	}
}

// setBucket has telemetry know the connection's bucket, and who has opened it, if the data plane does.
func (ct *counter) setBucket(p *pair, is *carried) {
	is.placed = p.heads.at
	side, bucket, err := p.knownSide(protocolTCP, is.ports, is.placed)
	switch conn := is.ports.of(p.telemetryPair()); {
	case err != nil:
		ct.fault(p.name, err)
	case side == dataplane.Theirs, side == dataplane.Ours && bucket != flow.Bucket(is.ports[0], is.ports[1], protocolTCP):
		ct.fault(p.name, ct.survey.passive.SetBucket(conn, bucket, side == dataplane.Theirs))
	case side == dataplane.Ours: // its ports may have been another's
		ct.fault(p.name, ct.survey.passive.ForgetBucket(conn))
	}
	is.own = is.own || side == dataplane.Ours
}

// staysInRow reports whether a connection is not to go by the other row's choices now: what is found out about it, and
// where it gets through, is known of the bucket where it is.
func (p *pair) staysInRow(conn ports, row flow.Row) bool {
	if q := p.inquiries[conn]; q != nil && q.pending() {
		return true
	}
	d := p.detours[row.Bucket(flow.Bucket(conn[0], conn[1], protocolTCP))]
	return d != nil && d.out
}

// share is a part of a pair's traffic, from 0 to 1, followed; known after the first
// measurement.
type share struct {
	part  float64
	known bool
}

// take follows a measurement by a weight from 0 to 1; the first one is taken as it is.
func (s *share) take(weight, measured float64) {
	s.part += weight * (measured - s.part)
	s.known = true
}

// countable are the pairs of a pod whose connections are to be counted.
type countable struct {
	pod   *pod
	pairs map[netip.Addr]*pair // by the peer's stable address
}

// counter counts the TCP connections of pairs.
type counter struct {
	*journal
	members   *members
	survey    *survey
	untracked *untracked
}

// countAll looks at the TCP connections of pairs with traffic, until ctx ends: how
// many there are is the load that a policy looks a table up by, and whether they
// have more to send than they may is whether a path could give them more. The
// kernel looks at every connection of the machine to list those of a pod, so it is
// only asked about pods of which it tells, by other means, that they use TCP, and
// all this takes a tenth of a processor at most.
func (ct *counter) countAll(ctx context.Context) error {
	tick := time.NewTimer(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next := countEvery
		for _, c := range ct.countables(ct.cfg.Now()) {
			begin := ct.cfg.Now()
			ct.countConnections(c)
			rest := countShare * ct.cfg.Now().Sub(begin)
			next = max(next-rest, 0)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(rest):
			}
		}
		tick.Reset(max(next, time.Millisecond))
	}
}

// countables are the pods to ask about now.
func (ct *counter) countables(now time.Time) (out []countable) {
	ct.members.Lock()
	defer ct.members.Unlock()
	for _, l := range ct.members.pods {
		recent, pairs := false, map[netip.Addr]*pair{}
		for _, p := range l.pairs {
			recent = recent || now.Sub(p.active) < quiet && (ct.survey.passive == nil || p.conns > 0 || p.lines.usesTCP(now))
			pairs[p.routes[0].Remote.Addr] = p
		}
		if recent {
			out = append(out, countable{l, pairs})
		}
	}
	return out
}

// countConnections counts those of a pod.
func (ct *counter) countConnections(c countable) {
	now, by := ct.cfg.Now(), decide.DefaultClasses()
	for _, p := range c.pairs {
		p.heads.begin(now)
	}
	err := sockdiag.Each(c.pod.Netns, func(s sockdiag.Socket) {
		if p := c.pairs[s.Remote.Addr().Unmap()]; p != nil {
			p.heads.see(s, &by)
		}
	})
	if err != nil {
		ct.cfg.Log.Debug("connections not counted", "pod", c.pod.Name, "error", err)
		return
	}
	ct.members.Lock()
	defer ct.members.Unlock()
	for _, p := range c.pairs {
		p.counted(&p.heads)
		if ct.members.knows(p) {
			ct.assignRows(p)
			if p.heads.fresh && len(p.routes) > 1 {
				ct.untracked.begin(p)
			}
		}
		p.places = p.heads.places
	}
}
