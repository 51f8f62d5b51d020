package proof

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// search looks for a packet that fares differently, by following packets that are made to
// reach flows of either, first those that only one of them has, and packets that are made to be
// taken by different flows in both.
type search struct {
	Options
	inA, inB *walk.Pipeline
	makers   []*witness.Maker
	forks    *forks
	tried    int
	spent    int
	// aimed is what packets must be to meet what the two have not in common.
	aimed *needs
	// limits says that limits of a switch count, and that flows of one priority overlap: equality takes
	// for granted that none is met, and that the same flow is taken.
	limits bool
}

func (l *lockstep) search(o Options) *search {
	s := &search{Options: o, inA: walk.Through(l.a.Pipeline), inB: walk.Through(l.b.Pipeline)}
	s.makers = []*witness.Maker{witness.New(s.inA, o.Random), witness.New(s.inB, o.Random)}
	l.prefer(s)
	s.forks = l.forks(o.Random, s.makers[0], s.makers[1])
	return s
}

// prefer has packets reach the flows that the two have not in common, or where something was not
// shown.
func (l *lockstep) prefer(s *search) {
	s.makers[0].Prefer(l.singular(l.a))
	s.makers[1].Prefer(l.singular(l.b))
}

// mostWork is how much packets may have to do, as a mean (see walk.Walk): those of pipelines that
// people run have a tenth of that.
const mostWork = 1 << 17

// refute tries packets until so many were tried, or had too much to do.
func (s *search) refute(most int) *Witness {
	for until := s.spent + most*mostWork; s.tried < most && s.spent < until; s.tried++ {
		c, forB := s.next()
		t := trial{s.inA, s.inB, forB, s.Strict, s.limits, &s.spent}
		if w := t.of(c); w != nil {
			s.tried++
			return t.plainest(c, w)
		}
	}
	return nil
}

// next is a packet to try, and whether it was made for B.
func (s *search) next() (c witness.Case, forB bool) {
	n := s.tried
	if n%4 > 1 {
		if c, forB, ok := s.forks.next(); ok {
			return c, forB
		}
	}
	return s.makers[n%2].Make(), n%2 == 1
}

// trial follows packets through both pipelines, B first where they were made for it. limits says
// that it counts if a packet meets a limit of a switch in one of the two.
type trial struct {
	inA, inB              *walk.Pipeline
	first, strict, limits bool
	// spent is how much the packets that were followed had to do (see walk.Walk).
	spent *int
}

// arriving is a packet by a port that a switch of Open vSwitch may have: its numbers have 16
// bits, and those above are reserved (OFPP_MAX).
func arriving(packet pipeline.Match) pipeline.Match {
	const last, reserved, low = 0xfeff, 0xffffff00, 0x7fff
	in := packet.Get(pipeline.InPort)
	if in.Value.Lo <= last || in.Value.Lo >= reserved {
		return packet
	}
	return packet.With(pipeline.InPort, pipeline.Value{Lo: in.Value.Lo & low}, in.Mask)
}

// of is the case as a witness, if it fares differently.
func (t trial) of(c witness.Case) *Witness {
	x, y := t.inA, t.inB
	if t.first {
		x, y = y, x
	}
	packet, oracle := walk.NewPacket(c.Packet), c.Oracle()
	wx := x.Follow(packet, oracle)
	again := oracle.Again()
	wy := y.Follow(packet, again)
	*t.spent += wx.Work + wy.Work
	if len(wx.Undefined)+len(wy.Undefined) > 0 {
		if !t.whichever(x, y, packet, again) {
			ok := false
			if !t.limits {
				return nil
			}
			if wx, wy, ok = t.byOrder(x, y, packet, again); !ok {
				return nil
			}
		}
	} else if !t.tellsApart(x, y, wx, wy) {
		return nil
	}
	if t.first {
		wx, wy = wy, wx
	}
	return &Witness{Packet: packet, Answers: append(oracle.Said, again.Said...), A: wx, B: wy, InA: t.inA, InB: t.inB}
}

// usual is the packet with a TTL as hosts send it.
func usual(packet pipeline.Match) pipeline.Match {
	const ttl = 64
	if had := packet.Get(pipeline.NWTTL); !had.Mask.IsZero() {
		return packet.With(pipeline.NWTTL, pipeline.Value{Lo: ttl}, had.Mask)
	}
	return packet
}

// plainest leaves out of a packet what it need not have to fare differently, and has it come by a
// port that there may be and with a TTL that it may have.
func (t trial) plainest(c witness.Case, w *Witness) *Witness {
	for _, plainer := range []func(pipeline.Match) pipeline.Match{arriving, usual} {
		by := c
		by.Packet = plainer(c.Packet)
		if found := t.of(by); found != nil {
			c, w = by, found
		}
	}
	for i := 0; i < len(c.Packet); {
		switch c.Packet[i].Base { // what each packet has
		case pipeline.InPort, pipeline.EthType, pipeline.NWProto, pipeline.NWTTL:
			i++
			continue
		}
		less := c
		less.Packet = pipeline.Sound(append(slices.Clone(c.Packet[:i]), c.Packet[i+1:]...))
		if found := t.of(less); found != nil && len(less.Packet) < len(c.Packet) {
			c, w = less, found
		} else {
			i++
		}
	}
	return w
}

// singular are the flows that the other pipeline has not, or has with other actions, and
// those where something was not shown.
func (l *lockstep) singular(s *side) map[*pipeline.Flow]bool {
	out := map[*pipeline.Flow]bool{}
	lines := map[int]bool{}
	for _, r := range l.obstacles {
		lines[r.LineA] = lines[r.LineA] || s == l.a
		lines[r.LineB] = lines[r.LineB] || s == l.b
	}
	for _, t := range s.tables {
		for _, e := range t.all {
			if e.flow != nil && (e.partner == nil || e.partner.text != e.text || lines[e.flow.Line] && e.flow.Line > 0) {
				out[e.flow] = true
			}
		}
	}
	return out
}

// tellsApart reports whether two walks of a packet are seen to differ, beyond doubt.
func (t trial) tellsApart(inX, inY *walk.Pipeline, x, y *walk.Walk) bool {
	n := 0
	for _, w := range []*walk.Walk{x, y} {
		if !w.Understood() {
			return false
		}
		if failed(w) {
			n++
		}
	}
	if n > 1 || n == 1 && !t.limits {
		return false
	}
	return seen(inX, x, t.strict) != seen(inY, y, t.strict)
}

// failed reports whether a limit of a switch was met.
func failed(w *walk.Walk) bool {
	return slices.ContainsFunc(w.Passes, func(p *walk.Pass) bool { return p.Failed != "" })
}

// seen is all that is observed of a walk.
func seen(p *walk.Pipeline, w *walk.Walk, strict bool) string {
	var b strings.Builder
	for _, e := range w.Events() {
		switch {
		case e.Kind == walk.Choice:
		case e.Kind == walk.Lookup && !strict && !strings.Contains(e.Text, "nat"):
		case e.Kind == walk.Lookup || e.Kind == walk.Commit: // of its header, the tracker sees no more
			var m pipeline.Match
			for _, t := range e.Packet.Terms(p.Words) {
				if walk.Header(t.Base) {
					m = append(m, t)
				}
			}
			fmt.Fprintf(&b, "%s %s\n", e.Text, p.PrintTerms(m))
		case e.Kind == walk.Learn && e.Learned != nil: // of what it is made of
			fmt.Fprint(&b, e.Text)
			for _, from := range e.Learned.From {
				fmt.Fprintf(&b, " %x", e.Packet.Get(from.Field.Base).And(from.Mask()))
			}
			fmt.Fprintln(&b)
		case e.Kind == walk.Controller || e.Kind == walk.TTL: // which is told where it came from
			fmt.Fprintf(&b, "%s %x %s\n", e.Text, e.Packet.Get(pipeline.InPort).Lo, p.Left(e.Packet))
		default:
			fmt.Fprintf(&b, "%s %s\n", e.Text, p.Left(e.Packet))
		}
	}
	return b.String()
}
