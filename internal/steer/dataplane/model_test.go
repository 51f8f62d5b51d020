package dataplane

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// The data plane as a plain function: given what the maps hold and a frame, what a
// program makes of it. TestPrograms and FuzzPrograms hold dataplane.bpf.c against it. It
// knows one way where the programs have two, for plain packets and for any.

// pathOf is a path to a peer, as both directions see it, of one family.
type pathOf struct {
	pair   Pair
	keys   Keys
	mtu    int
	encap  bool
	mac    []byte // destination and source; nil leaves it to the kernel
	onDev  bool   // it is on the interface on which the frames of a test run are
	exists bool
}

// peerOf is a peer, of one family.
type peerOf struct {
	id     uint32
	gen    uint32
	stable Pair
	keys   Keys
	paths  [MaxPaths]pathOf
	// others: its data plane knows of DSCPs that are told by the tag.
	others bool
}

func (p *peerOf) lower() bool { return p.stable.Local.Less(p.stable.Remote) }

// partOf is a flow's part; stale is whether nothing was said for long, paused whether nothing came or went for half a
// minute, and idle for minutes.
type partOf struct {
	role, closed, dscp, row uint8
	marks                   uint16
	stale, paused, idle     bool
	claimed                 uint8
}

// world is what the maps hold.
type world struct {
	peers       []*peerOf
	own, follow map[uint32][Buckets]uint8
	flows       map[bpfFlow]partOf
	held        map[uint32]uint32
	room        uint32 // for flows of a peer
	alive       bool
	lenient     bool
	spent       bool // what strangers can cause is used up for now
	toStable    bool // arrivals are handed to the stable interface
	mac         [6]byte
	elsewhere   []netip.Addr
}

// chance is what a program's doing depends on that the model does not follow: whether
// the flow was looked up in this tick already, and whether it is time to say again what
// was said often, or whether there is room again for what strangers can cause.
type chance struct{ recent, due, room bool }

// effect is what a program does.
type effect struct {
	verdict  uint32
	frame    []byte
	flow     *bpfFlow // the one that has changed
	part     *partOf  // what it is now
	took     bool     // it was not there before
	turned   bool     // its role was said, if only again
	events   Events
	sent     *moved
	received *moved
	alive    bool // what was received is a sign of life
	wanted   netip.Addr
	// used is what was asked of chance.
	used chance
}

// moved is what is counted of a packet.
type moved struct{ id, path, bytes uint32 }

// headers is what the programs read of a frame.
type headers struct {
	ok, v6, fragment, whole bool // whole: a packet that can be steered
	src, dst                netip.Addr
	proto, dscp             uint8
	id                      uint16
	l4                      int
	sport, dport            uint16
	opens, accepts          bool
	closes                  uint8
	failure                 bool // an ICMP error
}

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }

// readIP reads an IP header; ok is whether there is a whole one.
func readIP(b []byte, v6 bool) (h headers) {
	switch {
	case v6 && len(b) >= 40:
		return headers{ok: true, v6: true, src: netip.AddrFrom16([16]byte(b[8:])), dst: netip.AddrFrom16([16]byte(b[24:])),
			proto: b[6], dscp: uint8(be16(b) >> 6 & 63), id: be16(b[2:]), l4: 40}
	case !v6 && len(b) >= 20:
		return headers{ok: true, src: netip.AddrFrom4([4]byte(b[12:])), dst: netip.AddrFrom4([4]byte(b[16:])),
			proto: b[9], dscp: b[1] >> 2, id: be16(b[4:]), l4: int(b[0]&15) * 4, fragment: be16(b[6:])&0x3fff != 0}
	}
	return h
}

// readFrame reads a frame. Offsets are from the frame's begin.
func readFrame(b []byte) (h headers) {
	if t := be16(b[12:]); t != 0x0800 && t != 0x86dd {
		return h
	}
	h = readIP(b[14:], be16(b[12:]) == 0x86dd)
	// A header that lies about itself is nobody's: the stack drops it.
	if h.ok && (b[14]>>4 != 4 && !h.v6 || b[14]>>4 != 6 && h.v6 || h.l4 < 20) {
		return headers{}
	}
	h.l4 += 14
	if !h.ok || h.fragment || len(b) < h.l4+8 {
		return h
	}
	t := b[h.l4:]
	switch h.proto {
	case 6:
		if len(t) < 20 {
			return h
		}
		h.sport, h.dport = be16(t), be16(t[2:])
		h.opens, h.accepts = t[13]&0x12 == 2, t[13]&0x12 == 0x12
		h.closes = t[13]&1*closedIn | t[13]>>2&1*closedReset
	case 17:
		h.sport, h.dport, h.opens = be16(t), be16(t[2:]), true
	case either(h.v6, uint8(58), uint8(1)):
		request, reply := either(h.v6, uint8(128), uint8(8)), either(h.v6, uint8(129), uint8(0))
		h.failure = h.v6 && t[0] >= 1 && t[0] <= 4 || !h.v6 && (t[0] == 3 || t[0] == 11 || t[0] == 12)
		h.opens, h.accepts = t[0] == request, t[0] == reply
		if !h.opens && !h.accepts {
			return h
		}
		h.sport, h.dport = be16(t[4:]), be16(t[4:])
	default:
		return h
	}
	h.whole = true
	return h
}

// classes are the DSCPs that survive steering: CLASSES of dataplane.h.
func classes() []uint8 { return []uint8{0, 1, 2, 4, 10, 18, 34, 46} }

// others is the mark of the DSCPs that are told by the tag.
const others = 2<<3 | 7

// isOther is whether a DSCP is: those that standards may name, but the network's own.
func isOther(dscp uint8) bool {
	return dscp < 64 && dscp%2 == 0 && dscp != 48 && dscp != 56 && bytes.IndexByte(classes(), dscp) < 0
}

// classOf is the mark for an application's DSCP, 0 for none.
func classOf(dscp uint8) uint8 {
	if i := bytes.IndexByte(classes(), dscp); i >= 0 {
		return uint8(i)<<3 | 7
	}
	return either[uint8](isOther(dscp), others, 0)
}

// added is what the DSCP adds to the tag.
func added(dscp uint8) uint16 { return either(isOther(dscp), uint16(dscp)<<10, 0) }

func marked(dscp uint8) bool         { return dscp&7 == 7 }
func unmark(dscp, other uint8) uint8 { return either(other != 0, other, classes()[dscp>>3]) }
func admitted(role uint8) bool       { return role == roleOwner || role >= roleAnswered }

func (h *headers) tag(k Key, say uint8, lower bool) uint64 {
	return tagOf(k, h.sport, h.dport, h.proto, say, lower)
}

// ahead is by how much a packet's tag is above the one that key makes.
func (h *headers) ahead(k Key, say uint8, lower bool) uint16 {
	return h.id - uint16(h.tag(k, say, lower))
}

// genuine is whether it is accepted, whether it is exactly the one, and the DSCP that it
// tells.
func (h *headers) genuine(keys Keys, say uint8, lower bool) (found, exact bool, other uint8) {
	for _, k := range keys.accept() {
		d := h.ahead(k, say, lower)
		if h.dscp == others {
			if other = uint8(d >> 10); other != 0 && !isOther(other) {
				continue
			}
			d &= 1023
		}
		switch {
		case d == 0:
			return true, true, other
		case d < 128 && !h.v6:
			return true, false, other
		}
	}
	return false, false, 0
}

// accept is what the maps have of Accept.
func (k Keys) accept() (out []Key) {
	for _, key := range k.Accept {
		if key != (Key{}) {
			out = append(out, key)
		}
	}
	return out
}

func (w *world) peer(stable netip.Addr) *peerOf {
	for _, p := range w.peers {
		if p.stable.Remote == stable {
			return p
		}
	}
	return nil
}

// on is the peer and the path that an address is on.
func (w *world) on(remote netip.Addr) (*peerOf, *pathOf, uint32) {
	for _, p := range w.peers {
		for n := range p.paths {
			if pa := &p.paths[n]; pa.exists && pa.pair.Remote == remote {
				return p, pa, uint32(n)
			}
		}
	}
	return nil, nil, 0
}

const begunElsewhere = uint8(bpfClaimedBEGUN_ELSEWHERE)

// assume gives a flow a new part: what is known of its end stays, but where it begins.
func (w *world) assume(e *effect, f bpfFlow, role uint8) uint8 {
	was, known := w.flows[f], false
	if e.flow != nil {
		was, known = *e.part, true
	} else if _, known = w.flows[f]; !known {
		if role == roleNone {
			return role
		}
		if w.held[f.Peer] >= either(f.Proto == 6, w.room, w.room-w.room/4) {
			e.events.Full++
			return roleNone
		}
		e.took = true
	}
	now := partOf{role: role, row: was.row, claimed: was.claimed}
	if role == roleFollowNew && was.claimed == begunElsewhere {
		now.claimed = 0
	}
	if known && admitted(role) {
		now.closed, now.dscp = was.closed, was.dscp
	}
	e.flow, e.part, e.turned = &f, &now, true
	return role
}

// part is the flow's, also what this packet has made of it.
func (w *world) part(e *effect, f bpfFlow) (partOf, bool) {
	if e.flow != nil {
		return *e.part, true
	}
	p, ok := w.flows[f]
	return p, ok
}

// set changes a flow that is known.
func (w *world) set(e *effect, f bpfFlow, change func(*partOf)) {
	if p, ok := w.part(e, f); ok {
		change(&p)
		e.flow, e.part = &f, &p
	}
}

// touch notes that a flow lives. Of TCP the model does not follow it.
func (w *world) touch(e *effect, f bpfFlow) {
	if f.Proto != 6 {
		w.set(e, f, func(p *partOf) { p.paused, p.idle = false, false })
	}
}

// isOneWay is whether nobody has answered a flow that agents have admitted.
func (w *world) isOneWay(e *effect, f bpfFlow) bool {
	part, _ := w.part(e, f)
	return f.Proto == 17 && part.claimed == oneWay
}

// answered notes that a flow is none of one way, if this packet is an answer.
func (w *world) answered(e *effect, f bpfFlow, answers bool) {
	if answers && w.isOneWay(e, f) {
		w.set(e, f, func(p *partOf) { p.claimed = 1 })
	}
}

// out is the program on eth0's egress.
func (w *world) out(b []byte, c chance) effect {
	e := effect{verdict: verdictNext, frame: bytes.Clone(b)}
	h := readFrame(b)
	p := w.peer(h.dst)
	if p == nil {
		e.wanted = w.want(b, &h)
		return e
	}
	f := bpfFlow{Peer: p.id, Generation: p.gen, Local: h.sport, Remote: h.dport, Proto: h.proto}
	mark, role := classOf(h.dscp), uint8(roleNone)
	if h.whole && mark != 0 && h.src == p.stable.Local {
		role = w.begin(&e, &h, f, c)
		w.answered(&e, f, role > roleOwner)
		if part := w.flows[f]; role == roleAnswered && !h.accepts && part.received() && !e.turned && !w.unseen(&e, &h, c) &&
			w.choose(&e, p, &h, roleFollow) != 0 {
			role = w.assume(&e, f, roleFollow)
		}
		n := w.choose(&e, p, &h, role)
		if part, _ := w.part(&e, f); role == roleOwnerNew && w.says(p, choiceOpens) || role == roleAnswered &&
			w.says(p, choiceTakes) && (w.says(p, choiceOpens) || part.claimed == begunElsewhere) {
			n = w.choose(&e, p, &h, role+1) // as one that is admitted
			if n != 0 && role == roleOwnerNew {
				e.events.Elsewhere++
			}
		}
		if n != 0 && w.cross(&e, p, &h, n, mark) {
			return e
		}
	} else if h.whole && mark == 0 && (h.proto == 6 || h.proto == 17) {
		e.events.DSCP++
	}
	e.sent = &moved{p.id, 0, uint32(len(b) - 14)}
	say := map[uint8]uint8{roleOwnerNew: sayOpen, roleOwner: saySettled, roleAnswered: sayAnswer}[role]
	if added(h.dscp) != 0 && !p.others {
		say = 0
	}
	if part, known := w.part(&e, f); known && say != 0 && (e.turned || !w.unseen(&e, &h, c)) && w.due(&e, f, part, c) {
		write16(e.frame, &h, mark, true, uint16(h.tag(p.keys.Send, say, p.lower()))+added(h.dscp))
	}
	return e
}

// says reports whether flows may begin on a path, or be taken from one.
func (w *world) says(p *peerOf, what uint8) bool { return w.alive && w.own[p.id][0]&what != 0 }

// want is the address that the agent is told of. It is read before anything else: of
// IPv4, also where the header lies about itself, which does no harm.
func (w *world) want(b []byte, h *headers) netip.Addr {
	dst := h.dst
	switch t := be16(b[12:]); { // who is asked for is told too
	case t == 0x0806 && len(b) >= 42 && b[21] == 1:
		dst = netip.AddrFrom4([4]byte(b[38:]))
	case t == 0x86dd && len(b) >= 78 && b[20] == 58 && b[54] == 135 && b[14]>>4 == 6:
		dst = netip.AddrFrom16([16]byte(b[62:]))
	}
	if be16(b[12:]) == 0x0800 && len(b) >= 34 {
		dst = netip.AddrFrom4([4]byte(b[30:]))
	}
	for _, a := range w.elsewhere {
		if dst.IsValid() && w.peer(dst) == nil &&
			hashed(word(a))>>bpfLimitCANDIDATE_SHIFT == hashed(word(dst))>>bpfLimitCANDIDATE_SHIFT {
			return dst
		}
	}
	return netip.Addr{}
}

// unseen is whether the flow's part was told by the memory of this tick alone, in which
// nothing is said of it: only of TCP, and not where it begins or changes.
func (w *world) unseen(e *effect, h *headers, c chance) bool {
	if h.proto != 6 {
		return false
	}
	e.used.recent = true
	return c.recent
}

// received is whether the other end has surely received an answer: it was said a ninth time, or
// some time ago.
func (p partOf) received() bool { return p.marks > 8 || p.marks > 0 && p.stale }

// due is whether to say it: eight times, then once in a unit of the clock, a quarter of a second.
func (w *world) due(e *effect, f bpfFlow, p partOf, c chance) bool {
	if p.marks >= 8 && !p.stale {
		e.used.due = true
		if !c.due {
			return false
		}
	}
	w.set(e, f, func(p *partOf) { p.marks, p.stale = min(p.marks+1, 9), false })
	return true
}

// begin finds or makes this end's part in the flow of a packet that leaves.
func (w *world) begin(e *effect, h *headers, f bpfFlow, c chance) uint8 {
	tcp := h.proto == 6
	w.touch(e, f)
	was := w.flows[f]
	role := was.role
	// The other end may forget it soon.
	once := f.Proto != 17 || was.closed&surelyOn == 0 && was.claimed != oneWay
	if !tcp && admitted(role) && (was.idle || was.paused && once) {
		role = roleOwnerNew
		w.set(e, f, func(p *partOf) { p.role, p.marks = role, 0 })
	}
	if tcp && h.opens || role == roleNone && (tcp && !h.accepts && h.closes == 0 || !tcp && h.opens) {
		role = either[uint8](w.alive, roleOwnerNew, roleNone)
		role = w.assume(e, f, role)
		w.set(e, f, func(p *partOf) { p.row, p.claimed = 0, either[uint8](role == roleOwnerNew, 1, 0) })
	}
	if h.closes != 0 {
		end := uint8(closedOut)
		if h.closes&closedReset != 0 {
			end = closedReset
		}
		w.set(e, f, func(p *partOf) { p.closed |= end })
	}
	answers := h.proto == 17 || h.accepts
	if tcp {
		answers = !h.opens && h.closes&closedReset == 0
	}
	if role == roleFollowNew && answers {
		role = w.assume(e, f, roleAnswered)
	}
	return role
}

// choose is the path that the maps have the flow on.
func (w *world) choose(e *effect, p *peerOf, h *headers, role uint8) uint8 {
	rows := map[uint8]map[uint32][Buckets]uint8{roleOwner: w.own, roleFollow: w.follow}[role]
	part, _ := w.part(e, bpfFlow{Peer: p.id, Generation: p.gen, Local: h.sport, Remote: h.dport, Proto: h.proto})
	n := rows[p.id][flow.Row(part.row).Bucket(flow.Bucket(h.sport, h.dport, h.proto))] & choicePath
	if n != 0 && !w.alive {
		e.events.Lease++
		return 0
	}
	return n
}

// cross sends a packet over a path, if it fits.
func (w *world) cross(e *effect, p *peerOf, h *headers, n, mark uint8) bool {
	pa := &p.paths[n]
	size := len(e.frame) - 14
	if pa.encap {
		size += EncapOverhead
	}
	switch {
	case !pa.exists:
		e.events.NoPath++
		return false
	case size > pa.mtu:
		e.events.TooBig++
		return false
	case added(h.dscp) != 0 && !p.others && !pa.encap:
		e.events.DSCP++
		return false
	}
	e.sent = &moved{p.id, uint32(n), uint32(len(e.frame) - 14)}
	e.verdict = verdictRedirect
	tag := h.tag(pa.keys.Send, sayData, p.lower())
	if pa.encap {
		e.frame = wrapIn(e.frame, pa.pair, tag)
	} else {
		translate(e.frame, h, pa.pair.Local, pa.pair.Remote)
		write16(e.frame, h, mark, true, uint16(tag)+added(h.dscp))
	}
	copy(e.frame, pa.mac)
	return true
}

// in is the program on eth0's ingress.
func (w *world) in(b []byte) effect {
	e := effect{verdict: verdictNext, frame: bytes.Clone(b)}
	h := readFrame(b)
	p := w.peer(h.src)
	if !h.ok || p == nil {
		return e
	}
	e.received, e.alive = &moved{p.id, 0, uint32(len(b) - 14)}, true
	if !h.whole {
		return e
	}
	f := bpfFlow{Peer: p.id, Generation: p.gen, Local: h.dport, Remote: h.sport, Proto: h.proto}
	syn, say, other := h.proto == 6 && h.opens, uint8(0), uint8(0)
	for _, k := range p.keys.accept() {
		for s := uint8(sayOpen); s <= sayForgotten && say == 0 && marked(h.dscp); s++ {
			if _, exact, tells := h.genuine(Keys{Accept: [4]Key{k}}, s, !p.lower()); exact {
				say, other = s, tells
			}
		}
	}
	if say != 0 {
		w.received(&e, f, syn, p.lower(), say)
		if say == sayForgotten {
			e.verdict = verdictDrop // all that it was for
			return e
		}
		write16(e.frame, &h, unmark(h.dscp, other), false, 0)
	} else if syn {
		w.assume(&e, f, roleNone)
	}
	w.touch(&e, f)
	part, _ := w.part(&e, f)
	w.answered(&e, f, part.role <= roleOwner)
	if h.closes != 0 {
		w.set(&e, f, func(p *partOf) { p.closed |= h.closes })
	}
	if say != 0 {
		w.learn(&e, f, &h, 0)
	}
	return e
}

// learn has the answers of the peer's flow go where the flow comes by.
func (w *world) learn(e *effect, f bpfFlow, h *headers, n uint32) {
	part, known := w.part(e, f)
	if !known || part.role < roleAnswered {
		return
	}
	choice := func(row uint8) uint8 {
		return w.follow[f.Peer][flow.Row(row).Bucket(flow.Bucket(h.sport, h.dport, h.proto))]
	}
	own, other := choice(part.row), choice(1-part.row)
	if own&choiceDiverted == 0 && uint32(own&choicePath) != n && uint32(other&choicePath) == n {
		w.set(e, f, func(p *partOf) { p.row = 1 - p.row })
	}
}

// received is what a word of the other end makes of this end's part.
func (w *world) received(e *effect, f bpfFlow, syn, lower bool, say uint8) {
	role := w.flows[f].role
	switch {
	case say == sayAnswer && role == roleOwnerNew:
		w.assume(e, f, roleOwner)
	case say == sayForgotten && admitted(role) && role != roleOwner && f.Proto == 6:
		w.assume(e, f, roleNone)
	case say == sayForgotten && admitted(role):
		w.assume(e, f, roleOwnerNew)
	case say == saySettled && role == roleAnswered:
		w.assume(e, f, roleFollow)
	case say == saySettled && role == roleNone:
		w.assume(e, f, roleFollowNew)
	case say != sayOpen:
	case !syn && lower && (role == roleOwner || role == roleOwnerNew):
		w.assume(e, f, roleOwnerNew)
	case !syn && admitted(role) && role != roleOwner:
		w.assume(e, f, roleAnswered)
	default:
		w.assume(e, f, roleFollowNew)
	}
}
