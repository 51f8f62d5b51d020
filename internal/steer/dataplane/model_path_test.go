package dataplane

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// The model of the program on a path's ingress, and of what is written to packets.

// pathIn is that program.
func (w *world) pathIn(b []byte, c chance) effect {
	e := effect{verdict: verdictNext, frame: bytes.Clone(b)}
	h := readFrame(b)
	if !h.ok {
		return e
	}
	if h.proto == 6 && !marked(h.dscp) {
		return w.former(e, b, &h)
	}
	if h.failure {
		w.quoted(&e, &h, c)
		return e
	}
	tag, encap := wrappedIn(b, &h)
	if !encap && !marked(h.dscp) {
		return w.former(e, b, &h)
	}
	p, pa, n := w.on(h.src)
	if p == nil || !pa.onDev || h.dst != pa.pair.Local || encap != pa.encap {
		return w.refuse(e, encap, Events{Strangers: 1})
	}
	if encap {
		congested := b[15]&3 == 3
		if len(b) < 14+EncapOverhead+20 {
			return w.refuse(e, encap, Events{Strangers: 1})
		}
		e.frame = append(e.frame[:14], e.frame[14+EncapOverhead:]...)
		h = readFrame(e.frame)
		if !h.ok || h.src != p.stable.Remote || h.dst != p.stable.Local {
			return w.refuse(e, encap, Events{Strangers: 1})
		}
		if congested {
			congest(e.frame)
		}
	}
	syn := h.proto == 6 && h.opens
	if !h.whole || syn && !w.says(p, choiceTakes) {
		return w.refuse(e, encap, Events{Strangers: 1})
	}
	found, exact, other := h.genuine(pa.keys, sayData, !p.lower())
	if encap {
		found = false
		for _, k := range pa.keys.accept() {
			found = found || tag == h.tag(k, sayData, !p.lower())
		}
		exact = found
	}
	f := bpfFlow{Peer: p.id, Generation: p.gen, Local: h.dport, Remote: h.sport, Proto: h.proto}
	if !found {
		return w.refuse(e, encap, Events{Forged: 1})
	}
	w.touch(&e, f)
	role := w.flows[f].role
	if syn || !admitted(role) {
		role = w.openFromPath(&e, f, either(syn, roleNone, role), exact && w.says(p, choiceTakes))
	}
	if role == roleNone {
		full := e.events.Full
		e = w.refuse(e, encap, Events{Unadmitted: 1})
		e.events.Full = full // there was no room for it
		if exact && e.verdict == verdictDrop && w.may(&e, c) {
			e.frame, e.verdict = p.recall(e.frame, &h)
		}
		return e
	}
	if part, _ := w.part(&e, f); !encap && h.dscp == others && part.dscp != other {
		if !exact {
			return w.refuse(e, encap, Events{Forged: 1})
		}
		exact = false
		w.set(&e, f, func(p *partOf) { p.dscp = other })
	}
	if role == roleAnswered {
		w.assume(&e, f, roleFollow)
	}
	if !w.unseen(&e, &h, c) {
		w.learn(&e, f, &h, n)
	}
	w.answered(&e, f, role <= roleOwner)
	if h.closes != 0 {
		w.set(&e, f, func(p *partOf) { p.closed |= h.closes })
	}
	e.received, e.alive = &moved{p.id, n, uint32(len(e.frame) - 14)}, exact
	if !encap {
		translate(e.frame, &h, p.stable.Remote, p.stable.Local)
		write16(e.frame, &h, unmark(h.dscp, other), false, 0)
	}
	w.deliver(&e, role == roleFollowNew || w.isOneWay(&e, f))
	return e
}

// openFromPath is the role of this end in a flow that is not admitted, once a packet of it has
// come by a path: none where it may not.
func (w *world) openFromPath(e *effect, f bpfFlow, role uint8, may bool) uint8 {
	switch {
	case !may:
		return roleNone
	case role == roleFollowNew:
		return role
	case role == roleOwnerNew:
		role = w.assume(e, f, roleOwner)
	default:
		role = w.assume(e, f, roleFollowNew)
	}
	w.set(e, f, func(p *partOf) { p.claimed = begunElsewhere })
	return role
}

// refuse drops a packet; where another layout may know it, it is left to that, as it
// came. What is wrapped tells its layout.
func (w *world) refuse(e effect, encap bool, why Events) effect {
	if w.lenient && !encap {
		return e
	}
	e.verdict, e.events = verdictDrop, why
	return e
}

// may is whether strangers may cause one thing more.
func (w *world) may(e *effect, c chance) bool {
	e.used.room = true
	return !w.spent || c.room
}

// recall turns a packet of a flow that is not known into a note to its sender.
func (p *peerOf) recall(b []byte, h *headers) ([]byte, uint32) {
	n := shape{src: p.stable.Local, dst: p.stable.Remote, tos: 7 << 2, frag: 0x4000, proto: h.proto, sport: h.dport,
		dport: h.sport}
	if !h.v6 && h.l4 != 34 {
		return b, verdictDrop
	}
	n.id = uint16(tagOf(p.keys.Send, n.sport, n.dport, n.proto, sayForgotten, p.lower()))
	_, _, reply := icmpOf(!h.v6)
	if n.typ = reply; h.proto != 6 && h.proto != 17 {
		n.dport = 0 // its number
	}
	out := n.build()
	copy(out, b[:12])
	if h.proto == 6 {
		t := out[h.l4:]
		copy(t[4:], b[h.l4+8:h.l4+12])
		copy(t[8:], b[h.l4+4:h.l4+8])
		t[13], t[14], t[15] = 0x10, 4, 0
		n.sum(out, h.l4)
	}
	return out, verdictRedirect
}

func (w *world) deliver(e *effect, unseen bool) {
	if w.toStable || unseen {
		copy(e.frame, w.mac[:])
		e.verdict = verdictRedirect
	}
}

// wrappedIn is whether a packet is one of the encapsulated mode, and its tag.
func wrappedIn(b []byte, h *headers) (uint64, bool) {
	if h.v6 || h.proto != 17 || !h.whole || h.l4 != 34 || h.sport != 52170 || h.dport != 52170 || len(b) < 54 ||
		be16(b[42:]) != 0x5077 || b[44] != 2 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[46:]), true
}

// former is what becomes of what looks like layout 1's, and of all else.
func (w *world) former(e effect, b []byte, h *headers) effect {
	wrapped := !h.v6 && h.proto == 17 && h.whole && h.sport == 52170 && h.dport == 52170 && len(b) >= h.l4+10 &&
		be16(b[h.l4+8:]) == 0x5057
	if wrapped || h.dscp&7 == 3 {
		return w.refuse(e, false, Events{Strangers: 1})
	}
	return e
}

// wrapIn puts a frame's packet into another.
func wrapIn(b []byte, pair Pair, tag uint64) []byte {
	o := make([]byte, EncapOverhead)
	o[0], o[1], o[6], o[8], o[9] = 0x45, b[15]&3, 0x40, 64, 17
	binary.BigEndian.PutUint16(o[2:], uint16(len(b)-14+len(o)))
	copy(o[12:], pair.Local.AsSlice())
	copy(o[16:], pair.Remote.AsSlice())
	binary.BigEndian.PutUint16(o[10:], ^sum16(o[:20]))
	binary.BigEndian.PutUint16(o[20:], 52170)
	binary.BigEndian.PutUint16(o[22:], 52170)
	binary.BigEndian.PutUint16(o[24:], uint16(len(b)-14+len(o)-20))
	binary.BigEndian.PutUint16(o[28:], 0x5077)
	o[30] = 2
	binary.LittleEndian.PutUint64(o[32:], tag)
	return append(append(bytes.Clone(b[:14]), o...), b[14:]...)
}

// congest marks a packet that can say so (RFC 3168).
func congest(b []byte) {
	ecn := b[15] & 3
	if ecn != 1 && ecn != 2 {
		return
	}
	b[15] |= 3
	sum := uint32(be16(b[24:])) + 0xffff - uint32(3-ecn) // less what the field has more
	binary.BigEndian.PutUint16(b[24:], uint16(sum+sum>>16))
}

// mend makes the checksum at right after a change of what it is of (RFC 1624).
func mend(b []byte, at int, was, now []byte) {
	sum := uint32(^be16(b[at:]))
	for i := 0; i < len(was); i += 2 {
		sum += uint32(^be16(was[i:])) + uint32(be16(now[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[at:], ^uint16(sum))
}

// put16 changes 16 bits and the checksum at sum, if it is not 0.
func put16(b []byte, at int, v uint16, sum int) {
	was := bytes.Clone(b[at : at+2])
	binary.BigEndian.PutUint16(b[at:], v)
	if sum != 0 {
		mend(b, sum, was, b[at:at+2])
	}
}

// write16 gives a packet a DSCP, and a tag where there is one to write.
func write16(b []byte, h *headers, dscp uint8, tagged bool, tag uint16) {
	if h.v6 {
		first := be16(b[14:])&^(63<<6) | uint16(dscp)<<6
		if tagged {
			binary.BigEndian.PutUint16(b[16:], tag)
			first &^= 15 // of the flow label
		}
		binary.BigEndian.PutUint16(b[14:], first)
		return
	}
	put16(b, 14, uint16(b[14])<<8|uint16(b[15]&3|dscp<<2), 24)
	if tagged {
		put16(b, 18, tag, 24)
		put16(b, 20, be16(b[20:])|0x4000, 24)
	}
}

// sumAt is where a transport has its checksum over the addresses too, 0 for none.
func sumAt(proto uint8, v6 bool) int {
	switch {
	case proto == 6:
		return 16
	case proto == 17:
		return 6
	case proto == 58 && v6:
		return 2
	}
	return 0
}

// translate gives a packet other addresses.
func translate(b []byte, h *headers, src, dst netip.Addr) {
	at, n := 26, 8
	if h.v6 {
		at, n = 22, 32
	}
	was := bytes.Clone(b[at : at+n])
	copy(b[at:], append(src.AsSlice(), dst.AsSlice()...))
	if !h.v6 {
		mend(b, 24, was, b[at:at+n])
	}
	off := sumAt(h.proto, h.v6)
	if off == 0 {
		return
	}
	off += h.l4
	if h.proto == 17 {
		if be16(b[off:]) == 0 {
			return // it has none
		}
		defer func() {
			if be16(b[off:]) == 0 { // which would be none
				b[off], b[off+1] = 0xff, 0xff
			}
		}()
	}
	mend(b, off, was, b[at:at+n])
}

// quoted translates an error about a packet that was sent over a path.
func (w *world) quoted(e *effect, h *headers, c chance) {
	at := h.l4 + 8
	b := e.frame
	q := readIP(b[at:], h.v6)
	if !q.ok {
		return
	}
	if !marked(q.dscp) {
		w.unquoted(e, h)
		return
	}
	p, pa, _ := w.on(q.dst)
	if p == nil || q.src != pa.pair.Local || h.dst != pa.pair.Local {
		return
	}
	later := !h.v6 && be16(b[at+6:])&0x1fff != 0
	q.l4 += at
	if later || len(b) < q.l4+8 || !w.sent(p, pa, &q, b[q.l4:]) || !w.may(e, c) {
		e.verdict, e.events.Forged = verdictDrop, 1
		return
	}
	e.events.ICMP = 1
	restoreQuote(b, h, &q, at, p.stable)
	src := h.src
	if src == q.dst {
		src = p.stable.Remote
	}
	translate(b, h, src, p.stable.Local)
	dscp := h.dscp
	if marked(dscp) {
		dscp = 0
	}
	write16(b, h, dscp, false, 0)
	if src == p.stable.Remote {
		w.deliver(e, false)
	}
}

// sent is whether a quoted packet has the tag of one that this end sent.
func (w *world) sent(p *peerOf, pa *pathOf, q *headers, l4 []byte) bool {
	quotedPorts(q, l4)
	return q.ahead(pa.keys.Send, sayData, p.lower()) == 0
}

// quotedPorts reads what the tag of a quoted packet is of.
func quotedPorts(q *headers, l4 []byte) {
	q.sport, q.dport = be16(l4), be16(l4[2:])
	if q.proto == 1 || q.proto == 58 {
		q.sport, q.dport = be16(l4[4:]), be16(l4[4:])
	}
}

// restoreQuote makes a quoted packet the one that the pod sent.
func restoreQuote(b []byte, h, q *headers, at int, stable Pair) {
	icmp := h.l4 + 2
	pair := append(stable.Local.AsSlice(), stable.Remote.AsSlice()...)
	from := at + 12
	if h.v6 {
		from = at + 8
	}
	was := bytes.Clone(b[from : from+len(pair)])
	copy(b[from:], pair)
	if h.v6 {
		mend(b, icmp, was, pair)
		put16(b, at, be16(b[at:])&^(63<<6)|uint16(unmark(q.dscp, 0))<<6, icmp)
	} else { // its header's checksum keeps the sum, so the error's stays
		mend(b, at+10, was, pair)
		put16(b, at, uint16(b[at])<<8|uint16(b[at+1]&3|unmark(q.dscp, 0)<<2), at+10)
	}
	sum := q.l4 + sumAt(q.proto, h.v6)
	if sum == q.l4 || sum+2 > len(b) || q.proto == 17 && be16(b[sum:]) == 0 {
		return
	}
	old := bytes.Clone(b[sum : sum+2])
	mend(b, sum, was, pair)
	if q.proto == 17 && be16(b[sum:]) == 0 {
		b[sum], b[sum+1] = 0xff, 0xff
	}
	mend(b, icmp, old, b[sum:sum+2])
}

// unquoted makes an error about a wrapped packet one about what is in it, with a checksum
// of its own: what is cut off is not summed, so a wrong one is not told.
func (w *world) unquoted(e *effect, h *headers) {
	b := e.frame
	at := h.l4 + 8
	in := at + EncapOverhead
	if h.v6 || len(b) < in+28 || b[at]&15 != 5 || b[at+9] != 17 || be16(b[at+22:]) != 52170 || be16(b[at+28:]) != 0x5077 ||
		b[in]&15 != 5 {
		return
	}
	o, q := readIP(b[at:], false), readIP(b[in:], false)
	p, pa, _ := w.on(o.dst)
	if p == nil || !pa.encap || o.src != pa.pair.Local || h.dst != pa.pair.Local || q.src != p.stable.Local ||
		q.dst != p.stable.Remote {
		return
	}
	quotedPorts(&q, b[in+20:])
	if binary.LittleEndian.Uint64(b[at+32:]) != q.tag(pa.keys.Send, sayData, p.lower()) {
		return
	}
	e.events.ICMP = 1
	icmp := bytes.Clone(b[h.l4:at])
	if icmp[0] == 3 && icmp[1] == 4 { // too big; 0 is unknown (RFC 1191)
		binary.BigEndian.PutUint16(icmp[6:], uint16(max(int(be16(icmp[6:]))-EncapOverhead, 0)))
	}
	icmp[2], icmp[3] = 0, 0
	icmp = append(icmp, b[in:in+28]...)
	binary.BigEndian.PutUint16(icmp[2:], ^sum16(icmp))
	e.frame = append(bytes.Clone(b[:h.l4]), icmp...)
	put16(e.frame, 16, uint16(len(e.frame)-14), 24)
	was := bytes.Clone(e.frame[30:34])
	copy(e.frame[30:], p.stable.Local.AsSlice())
	mend(e.frame, 24, was, e.frame[30:34])
}
