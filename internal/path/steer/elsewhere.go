package steer

import (
	"net/netip"
	"slices"
)

// elsewhereShift is ELSEWHERE_SHIFT of steer.h, which leaves 2^17 bits: of 20,000 pods'
// addresses one in seven of all others is taken for one, and told of for nothing.
const elsewhereShift = 15

// SetElsewhere names the stable addresses of pods that could be peers. Traffic with those
// that SetPeer has not entered is told by Wanted.
func (p *Plane) SetElsewhere(addrs []netip.Addr) {
	bits := make([]byte, 1<<(32-elsewhereShift-3))
	for _, a := range addrs {
		h := hashed(word(a)) >> elsewhereShift
		bits[h>>3] |= 1 << (h & 7) // words of 64 bits, little endian as all of bpfel
	}
	had := make([]byte, len(bits))
	read(p.mem.elsewhere, 0, had)
	if !slices.Equal(had, bits) {
		write(p.mem.elsewhere, 0, bits)
	}
}

// wantedSlots is WANTED of steer.h, and addrSize the size of an address there.
const wantedSlots, addrSize = 64, 16

// Wanted lists addresses of elsewhere that the pod has sent to and that are no peer's,
// since it was last asked. Some may be of others, as they are told by a hash; and of many
// at once some are told only when more is sent.
func (p *Plane) Wanted() (out []netip.Addr) {
	var all [wantedSlots * addrSize]byte
	read(p.mem.wanted, 0, all[:])
	for i := range wantedSlots {
		raw := [16]byte(all[i*addrSize:])
		if raw == [16]byte{} {
			continue
		}
		write(p.mem.wanted, uint32(i*addrSize), make([]byte, addrSize))
		out = append(out, unword(raw))
	}
	return out
}

// unword is an address that the data plane has written.
func unword(raw [16]byte) netip.Addr {
	if [12]byte(raw[4:]) == [12]byte{} {
		return netip.AddrFrom4([4]byte(raw[:4]))
	}
	return netip.AddrFrom16(raw)
}

// Entered lists the stable addresses of the peers that the maps hold.
func (p *Plane) Entered() (out []netip.Addr) {
	for k := range all[uint32, bpfPeer](p.objs.Peers4) {
		var raw [4]byte
		putNative32(raw[:], k)
		out = append(out, netip.AddrFrom4(raw))
	}
	for k := range all[bpfAddr, bpfPeer](p.objs.Peers6) {
		var raw [16]byte
		for i, w := range k.W {
			putNative32(raw[i*4:], w)
		}
		out = append(out, netip.AddrFrom16(raw))
	}
	return out
}
