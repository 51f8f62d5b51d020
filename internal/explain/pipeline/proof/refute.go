package proof

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/walk"
	"pathwise.dev/pathwise/internal/explain/pipeline/witness"
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
}

func (l *lockstep) search(o Options) *search {
	s := &search{Options: o, inA: walk.Through(l.a.Pipeline), inB: walk.Through(l.b.Pipeline)}
	s.makers = []*witness.Maker{witness.New(s.inA, o.Random), witness.New(s.inB, o.Random)}
	s.makers[0].Prefer(l.singular(l.a))
	s.makers[1].Prefer(l.singular(l.b))
	s.forks = l.forks(o.Random, s.makers[0], s.makers[1])
	return s
}

// refute tries packets until so many were tried.
func (s *search) refute(most int) *Witness {
	for ; s.tried < most; s.tried++ {
		c, forB := s.next()
		t := trial{s.inA, s.inB, forB, s.Strict}
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

// trial follows packets through both pipelines, B first where they were made for it.
type trial struct {
	inA, inB      *walk.Pipeline
	first, strict bool
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
	if !tellsApart(x, y, wx, wy, t.strict) {
		return nil
	}
	if t.first {
		wx, wy = wy, wx
	}
	return &Witness{Packet: packet, Answers: append(oracle.Said, again.Said...), A: wx, B: wy, InA: t.inA, InB: t.inB}
}

// plainest leaves out of a packet what it need not have to fare differently.
func (t trial) plainest(c witness.Case, w *Witness) *Witness {
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
func tellsApart(inX, inY *walk.Pipeline, x, y *walk.Walk, strict bool) bool {
	for _, w := range []*walk.Walk{x, y} {
		if !w.Understood() || len(w.Undefined) > 0 {
			return false
		}
		for _, p := range w.Passes {
			if p.Failed != "" {
				return false
			}
		}
	}
	return seen(inX, x, strict) != seen(inY, y, strict)
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
		default:
			fmt.Fprintf(&b, "%s %s\n", e.Text, p.Left(e.Packet))
		}
	}
	return b.String()
}
