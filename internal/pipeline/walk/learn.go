package walk

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// mayHaveLearnt is why it is not known what becomes of a packet in a table.
const mayHaveLearnt = "the packet may have had a flow learnt here, or not"

// learn has the switch learn a flow, be it by what a packet of another length does: it follows both. The packet
// itself meets it in its next pass, as lookups of one pass are in the tables as they were when it began
// (xlate_learn_action of ofproto/ofproto-dpif-xlate.c).
func (w *walker) learn(a pipeline.Action) {
	f := w.packet.learns(a)
	w.spend(workOfStep)
	w.step(Step{Event: &Event{Kind: Learn, Text: w.text(a), Learned: a.Learned, Flow: f, Packet: w.copied()}})
	switch {
	case a.Dst.Field != nil:
		w.unknown(w.text(a), "whether a flow is learnt depends on what has been learnt")
	case a.Learned.Limit > 0 || w.Several(): // with the numbers of several bridges, flows are others
		w.limited = append(w.limited, a)
	default:
		w.learnt = append(w.learnt, f)
	}
}

// learns is the flow that a switch learns from the packet (learn_execute of lib/learn.c).
func (p *Packet) learns(a pipeline.Action) *pipeline.Flow {
	l, f := a.Learned, a.Learned.Model
	f.Table = a.Table
	if l.FinIdle > 0 || l.FinHard > 0 {
		f.Actions = append(f.Actions, pipeline.Action{Kind: pipeline.FinTimeout, Text: finTimeout(l)})
	}
	for _, s := range l.Specs {
		v := s.Value
		if s.Src.Field != nil {
			v = p.read(s.Src)
		}
		switch s.Kind {
		case pipeline.Output:
			if port := pipeline.Port(v.Lo); v.Hi == 0 && named(port) {
				f.Actions = append(f.Actions, pipeline.Action{Kind: pipeline.Output, Port: port})
			}
		case pipeline.Load:
			bits := s.Dst.Mask().Right(s.Dst.Shift())
			f.Actions = append(f.Actions, pipeline.Action{Kind: pipeline.Load, Dst: s.Dst, Value: v.And(bits), Mask: bits})
		default:
			b, mask := s.Dst.Field.Base, s.Dst.Mask()
			f.Match = f.Match.Without(b, mask).With(b, v.Left(s.Dst.Shift()).And(mask), mask)
		}
	}
	return &f
}

// named reports whether a flow that is learnt may send packets out of a port of that number.
func named(port pipeline.Port) bool {
	switch port {
	case pipeline.PortIn, pipeline.PortFlood, pipeline.PortAll, pipeline.PortLocal:
		return true
	}
	return port < pipeline.PortMax
}

// finTimeout is the action by which a flow that was learnt ends soon after its connection.
func finTimeout(l *pipeline.Learned) string {
	switch {
	case l.FinHard == 0:
		return fmt.Sprintf("fin_timeout(idle_timeout=%d)", l.FinIdle)
	case l.FinIdle == 0:
		return fmt.Sprintf("fin_timeout(hard_timeout=%d)", l.FinHard)
	}
	return fmt.Sprintf("fin_timeout(idle_timeout=%d,hard_timeout=%d)", l.FinIdle, l.FinHard)
}

// renew has the next pass meet what was learnt in those before.
func (w *walker) renew() {
	for _, a := range w.limited {
		if w.doubtful == nil {
			w.doubtful = map[pipeline.Table]bool{}
		}
		w.doubtful[a.Table] = true
	}
	w.limited = nil
	if len(w.learnt) == 0 {
		return
	}
	flows, differ := slices.Clone(w.Flows), map[pipeline.Table]bool{}
	for _, f := range w.learnt {
		differ[f.Table] = true
		i := slices.IndexFunc(flows, func(o *pipeline.Flow) bool {
			return o.Table == f.Table && o.Priority == f.Priority && slices.Equal(o.Match, f.Match) && len(o.Carried) == 0
		})
		if i < 0 {
			flows = append(flows, f)
		} else {
			flows[i] = f.InPlaceOf(flows[i])
		}
	}
	w.Pipeline, w.learnt = w.Instead(w.With(flows), differ), nil
}
