package witness

import (
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// question is what the tracker was asked: about which header, in which zone.
type question struct {
	packet *words
	zone   [16]ref
}

// track has a copy go on with the tracker's answer: with the one that it had, if the zone has
// been asked about the header before, else with one of which nothing is known.
func (t *thread) track(a *pipeline.Action) {
	const most = 12
	defer t.untrack()
	if a.Track.Table == pipeline.NoTable {
		return
	}
	q := question{t.packet.lent(), t.zone(a.Track)}
	i := t.before(q)
	if i == len(t.asked) {
		if i == most {
			return
		}
		t.asked = append(t.asked, q)
	}
	saved := t.packet
	t.reassembled()
	trk := pipeline.Value{Lo: walk.Tracked}
	t.original()
	for _, b := range []pipeline.Base{pipeline.CTState, pipeline.CTMark, pipeline.CTLabel} {
		t.write(b, t.identity(answerBase(i, b)))
	}
	t.put(pipeline.CTState, trk, constant(trk))
	t.put(pipeline.CTZone, all(), func(i int) ref {
		if i < len(q.zone) {
			return q.zone[i]
		}
		return zero
	})
	for _, n := range a.Nested { // exec, which writes the connection's mark and label
		t.assign(n)
	}
	t.translate(a.Track.NAT)
	t.waiting = append(t.waiting, resumed{a.Track.Table, t.packet, a})
	t.packet = saved
}

// translate has the packet's addresses and ports be those that nat names.
func (t *thread) translate(nat string) {
	for _, term := range walk.Translation(nat) {
		if b := term.Base; b == pipeline.TPSrc || b == pipeline.TPDst {
			proto, known := t.value(pipeline.NWProto, t.p.Words.Full(pipeline.NWProto))
			if known && !walk.Ported(proto.Lo) {
				continue
			}
		}
		t.put(term.Base, term.Mask, constant(term.Value))
	}
}

// zone is the bits of the zone that is asked.
func (t *thread) zone(k *pipeline.Track) (out [16]ref) {
	bit := constant(pipeline.Value{Lo: uint64(k.Zone)})
	if k.From.Field != nil {
		w, at := t.get(k.From.Field.Base), k.From.Shift()
		bit = func(i int) ref {
			if i >= k.From.Bits {
				return zero
			}
			return w.bits[i+at]
		}
	}
	for i := range out {
		out[i] = bit(i)
	}
	return out
}

// before is the number of the question that is the same, or that of the next one.
func (t *thread) before(q question) int {
	for i, o := range t.asked {
		if t.sameBits(o.zone[:], q.zone[:]) && t.sameHeader(o.packet, q.packet) {
			return i
		}
	}
	return len(t.asked)
}

// sameHeader reports whether the headers of two packets are known to be the same.
func (t *thread) sameHeader(p, q *words) bool {
	for i := range pipeline.Bases {
		b := pipeline.Base(i)
		if p.at[b] == q.at[b] || !walk.Header(b) {
			continue
		}
		if x, y := t.of(p, b), t.of(q, b); x != y && !t.sameBits(x.bits[:], y.bits[:]) {
			return false
		}
	}
	return true
}

// sameBits reports whether bits are known to be the same.
func (t *thread) sameBits(x, y []ref) bool {
	for i := range x {
		if x[i] != y[i] && t.resolved(x[i]) != t.resolved(y[i]) {
			return false
		}
	}
	return true
}

// resolved is 0 or 1 where that is known of a bit, else the bit.
func (t *thread) resolved(r ref) ref {
	if r < first {
		return r
	}
	k, at := t.fact(int(r-first)/128), int(r-first)%128
	switch {
	case !k.Mask.Bit(at):
		return r
	case k.Value.Bit(at):
		return one
	}
	return zero
}

// oneInPieces: one of so many packets is a first fragment.
const oneInPieces = 8

// inPieces says, of a packet that is to be so somewhere, whether it is to come as a first fragment: more
// often where its ports are seen once it was tracked.
func (m *Maker) inPieces(cond pipeline.Match) bool {
	const often = 3
	ported := !cond.Get(pipeline.TPSrc).Mask.IsZero() || !cond.Get(pipeline.TPDst).Mask.IsZero()
	if ported && cond.Get(pipeline.CTState).Value.Lo&walk.Tracked != 0 {
		return m.random.IntN(often) == 0
	}
	return m.random.IntN(oneInPieces) == 0
}

// fragmented has the packet be a first fragment, if it is to be one, of which no lookup sees the ports
// until it is tracked.
func (t *thread) fragmented(is bool) {
	const fragment, bits = 1, 3
	t.pieces = is
	if !is || t.anywhere || !t.learnBits(int(pipeline.NWFrag), pipeline.Value{Lo: fragment}, pipeline.Value{Lo: bits}) {
		return
	}
	for _, b := range []pipeline.Base{pipeline.TPSrc, pipeline.TPDst} {
		t.write(b, &t.zeros)
	}
}

// reassembled has lookups see the packet whole.
func (t *thread) reassembled() {
	if !t.pieces || t.packet.at[pipeline.NWFrag] != nil {
		return
	}
	t.write(pipeline.NWFrag, &t.zeros)
	for _, b := range []pipeline.Base{pipeline.TPSrc, pipeline.TPDst} {
		if t.packet.at[b] == &t.zeros {
			t.write(b, nil)
		}
	}
}

// fragment has a later fragment be one that there is: it is a fragment, and has no ports.
func fragment(p *walk.Packet) {
	const fragment, later = 1, 2
	if p.Get(pipeline.NWFrag).Lo&later == 0 {
		return
	}
	p.Set(pipeline.NWFrag, pipeline.Value{Lo: fragment | later})
	for _, b := range []pipeline.Base{pipeline.TPSrc, pipeline.TPDst, pipeline.TCPFlags} {
		p.Set(b, pipeline.Value{})
	}
}
