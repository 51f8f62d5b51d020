package dataplane

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// Frames of all shapes, for the programs and their model.

// Programs of the data plane.
const (
	progOut = iota
	progIn
	progPathIn
)

// shaper makes frames of a world: mostly such as do something.
type shaper struct {
	r *rand.Rand
	w *world
}

// shape is what a frame is made of.
type shape struct {
	src, dst       netip.Addr
	proto, tos     uint8
	id, frag       uint16 // of IPv6: of the flow label, and 0
	sport, dport   uint16 // of ICMP echo: the identifier
	flags, typ     uint8  // of TCP; of ICMP
	options        []byte // of IPv4, or extension headers of IPv6, the first as nexthdr
	next           uint8  // the first of the extension headers
	tcp            []byte // options of TCP
	payload        []byte
	noSum, badSum  bool
	lyingUDPLength bool
	becomes        Pair // of UDP: between these, from Local, its checksum would be 0
}

func (s *shaper) oneIn(n int) bool        { return s.r.IntN(n) == 0 }
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
func (s *shaper) bytes(n int) []byte      { return fillRandom(s.r, make([]byte, n)) }
func poolPorts() []uint16                 { return []uint16{7000, 7001, 80, encapPort} }
func (s *shaper) port() uint16            { return pick(s.r, poolPorts()...) }
func (s *shaper) peer() *peerOf           { return pick(s.r, s.w.peers...) }
func (s *shaper) path(p *peerOf) *pathOf  { return &p.paths[1+s.r.IntN(5)] }
func etherType(a netip.Addr) (b [2]byte) {
	return either(a.Is4(), [2]byte{8, 0}, [2]byte{0x86, 0xdd})
}
func icmpOf(v4 bool) (proto, ask, re byte) {
	return either(v4, byte(1), byte(58)), either(v4, byte(8), byte(128)), either(v4, byte(0), byte(129))
}

const encapPort = 52170

func fillRandom(r *rand.Rand, b []byte) []byte {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// transport gives a shape a protocol, ports, flags and payload.
func (s *shaper) transport(h *shape) {
	h.sport, h.dport = s.port(), s.port()
	h.payload = s.bytes(pick(s.r, 0, 0, 1, s.r.IntN(64), s.r.IntN(64), s.r.IntN(700), 1340+s.r.IntN(130)))
	proto, ask, re := icmpOf(h.src.Is4())
	switch n := s.r.IntN(20); {
	case n < 10:
		h.proto, h.flags = 6, pick(s.r, 0x10, 0x18, 0x10, 0x02, 0x12, 0x11, 0x04, 0x14, uint8(s.r.Uint32()))
		if s.oneIn(2) {
			h.tcp = s.bytes(4 * s.r.IntN(11))
		}
	case n < 15:
		h.proto, h.noSum, h.lyingUDPLength = 17, s.oneIn(6), s.oneIn(15)
	case n < 19:
		h.proto, h.typ = proto, pick(s.r, ask, re, ask, re, uint8(s.r.Uint32()))
		h.dport = h.sport
	default:
		h.proto = uint8(s.r.Uint32())
	}
	h.badSum = s.oneIn(12)
	h.tos = pick(s.r, append(classes(), 8, 16, 62, 12)...)<<2 | uint8(s.r.IntN(4))
	if s.oneIn(5) {
		h.tos = uint8(s.r.Uint32())
	}
	h.id, h.frag = uint16(s.r.Uint32()), pick(s.r, uint16(0), 0x4000)
	if s.oneIn(20) { // first, later, tiny, with the reserved bit
		h.frag = pick(s.r, 0x2000, 0x2000|uint16(s.r.IntN(200)), uint16(s.r.IntN(8192)), uint16(s.r.Uint32()))
	}
	if s.oneIn(12) && h.src.Is4() {
		h.options = s.bytes(4 * (1 + s.r.IntN(10)))
	} else if s.oneIn(12) {
		h.next = pick(s.r, uint8(0), 43, 44, 60, 51, 135)
		h.options = s.bytes(8 * (1 + s.r.IntN(3)))
		h.options[0], h.options[1] = h.proto, uint8(len(h.options)/8-1)
	}
}

// tagged gives it the tag of a packet from p, mostly the right one.
func (s *shaper) tagged(h *shape, p *peerOf, keys Keys, say uint8, lower bool) uint64 {
	k := keys.Accept[0]
	add := uint16(0)
	switch s.r.IntN(16) {
	case 0, 1:
		k = pick(s.r, keys.Accept[1], keys.Accept[2], Key{})
	case 2, 3:
		add = uint16(1 + s.r.IntN(200))
	case 4:
		k = p.keys.Accept[0]
	case 5:
		k = Key(s.bytes(16))
	case 6:
		lower = !lower
	case 7:
		say = uint8(s.r.IntN(6))
	}
	mark := pick(s.r, classOf(0), classOf(0), others, uint8(s.r.IntN(8))<<3|7)
	if mark == others {
		add += uint16(pick(s.r, 0, 8, 8, 16, s.r.IntN(64))) << 10
	}
	t := tagOf(k, h.sport, h.dport, h.proto, say, lower) + uint64(add)
	h.id = uint16(t)
	h.frag |= 0x4000
	h.tos = h.tos&3 | mark<<2
	return t
}

// stranger is sometimes in place of an address.
func (s *shaper) stranger(a netip.Addr) netip.Addr {
	if !s.oneIn(25) {
		return a
	}
	p := s.peer()
	b := pick(s.r, p.stable.Local, p.stable.Remote, s.path(p).pair.Local, s.path(p).pair.Remote, s.w.elsewhere[0],
		netip.AddrFrom4([4]byte(s.bytes(4))))
	if b.IsValid() && b.Is4() == a.Is4() {
		return b
	}
	return a
}

// next is a program and a frame for it.
func (s *shaper) next() (prog int, b []byte) {
	p := s.peer()
	prog = pick(s.r, progOut, progOut, progIn, progPathIn, progPathIn)
	switch prog {
	case progOut:
		h := shape{src: s.stranger(p.stable.Local), dst: s.stranger(p.stable.Remote)}
		s.transport(&h)
		h.becomes = s.edge(s.path(p).pair)
		b = h.build()
	case progIn:
		h := shape{src: s.stranger(p.stable.Remote), dst: s.stranger(p.stable.Local)}
		s.transport(&h)
		if !s.oneIn(4) {
			s.tagged(&h, p, p.keys, pick(s.r, uint8(sayOpen), sayAnswer, saySettled, sayForgotten), !p.lower())
		}
		b = h.build()
	default:
		b = s.onPath(p)
	}
	if s.oneIn(4) {
		b = s.mutate(b)
	}
	if s.oneIn(40) {
		prog = s.r.IntN(3)
	}
	if s.oneIn(100) {
		binary.BigEndian.PutUint16(b[12:], pick(s.r, 0x0800, 0x86dd, 0x0806, 0x8100, 0x0040, uint16(s.r.Uint32())))
	}
	return prog, b
}

// onPath is a frame that arrives on a path.
func (s *shaper) onPath(p *peerOf) []byte {
	pa := s.path(p)
	if !pa.exists {
		pa = &p.paths[1]
	}
	if s.oneIn(4) {
		return s.failure(p, pa)
	}
	if pa.encap != s.oneIn(12) {
		return s.wrapped(p, pa, 1)
	}
	h := shape{src: s.stranger(pa.pair.Remote), dst: s.stranger(pa.pair.Local)}
	s.transport(&h)
	if h.proto == 17 && s.oneIn(8) { // what is answered has a checksum of 0, or all ones
		h.sport = ^sum16(append(append(p.stable.Local.AsSlice(), p.stable.Remote.AsSlice()...), 0, 17, 0, 8, byte(h.dport>>8),
			byte(h.dport), 0, 8))
	}
	if !s.oneIn(10) {
		s.tagged(&h, p, pa.keys, sayData, !p.lower())
	}
	h.becomes = s.edge(Pair{p.stable.Remote, p.stable.Local})
	return h.build()
}

// edge is sometimes the pair, where translation is to meet a checksum of 0.
func (s *shaper) edge(pair Pair) Pair {
	if s.oneIn(8) {
		return pair
	}
	return Pair{}
}

// wrapped is a frame of the encapsulated mode.
func (s *shaper) wrapped(p *peerOf, pa *pathOf, depth int) []byte {
	h := shape{src: s.stranger(p.stable.Remote), dst: s.stranger(p.stable.Local)}
	s.transport(&h)
	was := h
	tag := s.tagged(&h, p, pa.keys, sayData, !p.lower())
	inner := was.build()
	if s.oneIn(10) {
		inner = append(s.mutate(inner), 0, 0)
	}
	if s.oneIn(25) && depth < 3 {
		inner = s.wrapped(p, pa, depth+1)
	}
	if pair := (Pair{s.stranger(pa.pair.Remote), s.stranger(pa.pair.Local)}); pair.Local.Is4() && pair.Remote.Is4() {
		b := wrapIn(inner, pair, tag)
		b[15] = b[15]&^3 | uint8(s.r.IntN(4))
		binary.BigEndian.PutUint16(b[24:], 0)
		binary.BigEndian.PutUint16(b[24:], ^sum16(b[14:34]))
		return b
	}
	return inner
}

// failure is an ICMP error about a packet that went over a path, mostly.
func (s *shaper) failure(p *peerOf, pa *pathOf) []byte {
	q := shape{src: s.stranger(pa.pair.Local), dst: s.stranger(pa.pair.Remote)}
	s.transport(&q)
	q.becomes = s.edge(p.stable)
	var quote []byte
	if pa.encap && !s.oneIn(10) {
		q.src, q.dst = s.stranger(p.stable.Local), s.stranger(p.stable.Remote)
		was := q
		tag := s.tagged(&q, p, Keys{Accept: [4]Key{pa.keys.Send, pa.keys.Send, pa.keys.Send}}, sayData, p.lower())
		quote = wrapIn(was.build(), pa.pair, tag)
	} else {
		s.tagged(&q, p, Keys{Accept: [4]Key{pa.keys.Send, pa.keys.Send, pa.keys.Send}}, sayData, p.lower())
		quote = q.build()
	}
	quote = quote[14:]
	if s.oneIn(3) {
		quote = quote[:min(len(quote), 20+s.r.IntN(80))]
	}
	router := netip.MustParseAddr("10.99.0.1")
	if !pa.pair.Local.Is4() {
		router = netip.MustParseAddr("fd99::1")
	}
	h := shape{src: pick(s.r, router, pa.pair.Remote), dst: s.stranger(pa.pair.Local),
		tos: pick(s.r, 0, 0xc0, 7<<2, uint8(s.r.Uint32()))}
	h.proto, _, _ = icmpOf(h.dst.Is4())
	h.typ = pick(s.r, uint8(3), 11, 12)
	if h.proto == 58 {
		h.typ = uint8(1 + s.r.IntN(4))
	}
	h.payload, h.badSum = quote, s.oneIn(15)
	h.sport, h.dport = 0, pick(s.r, 0, 30, 1400, uint16(s.r.Uint32()))
	if s.oneIn(20) && h.src.Is4() {
		h.options = s.bytes(8)
	}
	b := h.build()
	b[14+len(h.options)+either(h.src.Is4(), 21, 41)] = pick(s.r, uint8(0), 4, 4, 1)
	if !h.badSum {
		h.sum(b, len(b)-8-len(quote))
	}
	return b
}

// mutate changes single bytes, puts some in, or cuts.
func (s *shaper) mutate(b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + s.r.IntN(3) {
		at := 14 + s.r.IntN(max(min(len(b)-14, 110), 1))
		at = min(at, len(b)-1)
		switch s.r.IntN(6) {
		case 0, 1:
			b[at] ^= 1 << s.r.IntN(8)
		case 2:
			b[at] = uint8(s.r.Uint32())
		case 3:
			b = bytes.Join([][]byte{b[:at], s.bytes(1 + s.r.IntN(8)), b[at:]}, nil)
		case 4:
			b = append(b[:at], b[min(at+1+s.r.IntN(8), len(b)):]...)
		default:
			b = b[:max(14, s.r.IntN(len(b)+1))]
		}
		if len(b) < 14 {
			b = append(b, make([]byte, 14-len(b))...)
		}
	}
	return b
}

// build makes the frame.
func (h *shape) build() []byte {
	b := make([]byte, 12, 14+60+60+len(h.payload))
	t := etherType(h.src)
	b = append(b, t[:]...)
	var ip []byte
	next := h.proto
	if h.src.Is4() {
		ip = make([]byte, 20)
		ip[0], ip[1], ip[8], ip[9] = 0x45+uint8(len(h.options)/4), h.tos, 64, h.proto
		binary.BigEndian.PutUint16(ip[4:], h.id)
		binary.BigEndian.PutUint16(ip[6:], h.frag)
		copy(ip[12:], append(h.src.AsSlice(), h.dst.AsSlice()...))
		ip = append(ip, h.options...)
	} else {
		if h.options != nil {
			next = h.next
		}
		ip = append([]byte{0x60 | h.tos>>4, h.tos << 4, byte(h.id >> 8), byte(h.id), 0, 0, next, 64},
			append(h.src.AsSlice(), h.dst.AsSlice()...)...)
		ip = append(ip, h.options...)
	}
	b = append(b, ip...)
	l4 := len(b)
	b = append(append(b, h.header()...), h.payload...)
	if h.src.Is4() {
		binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
		binary.BigEndian.PutUint16(b[24:], ^sum16(b[14:l4]))
	} else {
		binary.BigEndian.PutUint16(b[18:], uint16(len(b)-54))
	}
	if h.lyingUDPLength {
		b[l4+5] ^= 9
	}
	if h.becomes.Local.IsValid() && h.proto == 17 && len(h.payload) > 1 {
		b[l4+8], b[l4+9] = 0, 0
		(&shape{src: h.becomes.Local, dst: h.becomes.Remote, proto: 17}).sum(b, l4)
		copy(b[l4+8:], b[l4+6:l4+8])
		b[l4+6], b[l4+7] = 0, 0
	}
	if !h.noSum {
		h.sum(b, l4)
	}
	if h.badSum && l4+8 < len(b) {
		b[len(b)-1]++
	}
	return b
}

// header is the transport's, without a checksum.
func (h *shape) header() []byte {
	p := []byte{byte(h.sport >> 8), byte(h.sport), byte(h.dport >> 8), byte(h.dport)}
	switch h.proto {
	case 6:
		p = append(p, 0, 0, 0, 1, 0, 0, 0, 1, uint8(5+len(h.tcp)/4)<<4, h.flags, 1, 0, 0, 0, 0, 0)
		return append(p, h.tcp...)
	case 17:
		n := len(h.payload) + 8
		return append(p, byte(n>>8), byte(n), 0, 0)
	case 1, 58:
		return append([]byte{h.typ, 0, 0, 0}, p...)
	}
	return p
}

// sum makes the transport's checksum right, in a frame whose transport begins at l4.
func (h *shape) sum(b []byte, l4 int) {
	v6 := !h.src.Is4()
	off := sumAt(h.proto, v6)
	if h.proto == 1 && !v6 {
		off = 2
	}
	if off == 0 || l4+off+2 > len(b) {
		return
	}
	b[l4+off], b[l4+off+1] = 0, 0
	all := append([]byte{}, b[l4:]...)
	if h.proto != 1 {
		n := len(b) - l4
		all = append(append(append(h.src.AsSlice(), h.dst.AsSlice()...), 0, h.proto, byte(n>>8), byte(n)), all...)
	}
	c := ^sum16(all)
	if c == 0 && h.proto == 17 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[l4+off:], c)
}
