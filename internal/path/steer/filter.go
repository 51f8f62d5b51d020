package steer

import "net/netip"

// filterShift is FILTER_SHIFT of steer.h: 8,192 bits, so that of 1,024 peers'
// addresses each bit stands for few.
const filterShift = 19

// filterWords is how many words of 64 bits that are.
const filterWords = 1 << (32 - filterShift) / 64

// admit lets packets of a peer's address past the filter.
func (p *Plane) admit(a netip.Addr) {
	n := slot(word(a))
	put64(p.mem.filter, n/64*8, get64(p.mem.filter, n/64*8)|1<<(n%64))
}

// sift makes the filter anew, of the peers that are entered. Bits that stay are
// never clear meanwhile. One too many costs a look-up.
func (p *Plane) sift() {
	var bits [filterWords]uint64
	set := func(a bpfAddr) { bits[slot(a)/64] |= 1 << (slot(a) % 64) }
	var k4 uint32
	var k6 bpfAddr
	var v bpfPeer
	four, six := p.objs.Peers4.Iterate(), p.objs.Peers6.Iterate()
	for four.Next(&k4, &v) {
		set(bpfAddr{W: [4]uint32{k4}})
	}
	for six.Next(&k6, &v) {
		set(k6)
	}
	if four.Err() != nil || six.Err() != nil {
		return // leave it as it was: that is never too narrow
	}
	for i, w := range bits {
		put64(p.mem.filter, uint32(i)*8, w)
	}
}

// slot is an address's bit, as maybe in packet.h finds it.
func slot(a bpfAddr) uint32 {
	return (a.W[0] ^ a.W[1] ^ a.W[2] ^ a.W[3]) * 0x9E3779B1 >> filterShift
}
