package dataplane

import (
	"bytes"
	"iter"
	"net/netip"
)

// Candidates is the stable addresses of pods that could be peers, as data planes know them:
// the same for all pods of a host. 2^17 bits are enough for 20,000 pods: one in seven of
// all other addresses is taken for one of theirs, and is a miss for nothing.
type Candidates struct{ bits []byte }

// NewCandidates returns that of the addresses.
func NewCandidates(addrs iter.Seq[netip.Addr]) Candidates {
	bits := make([]byte, 1<<(32-bpfLimitCANDIDATE_SHIFT-3))
	for a := range addrs {
		h := hashed(word(a)) >> bpfLimitCANDIDATE_SHIFT
		bits[h>>3] |= 1 << (h & 7) // words of 64 bits, little endian as all of bpfel
	}
	return Candidates{bits}
}

// SetCandidates names the pods that could be peers. Traffic with those that SetPeer has
// not entered is told by Misses.
func (p *Plane) SetCandidates(e Candidates) {
	had := make([]byte, len(e.bits))
	read(p.mem.candidates, 0, had)
	if !bytes.Equal(had, e.bits) {
		write(p.mem.candidates, 0, e.bits)
	}
}

// Misses lists candidates that the pod has sent to and that are no peer's,
// since it was last asked. Some may be of others, as they are told by a hash; and of many
// at once some are told only when more is sent.
func (p *Plane) Misses() (out []netip.Addr) {
	var all [missSlots * addrSize]byte
	read(p.mem.misses, 0, all[:])
	for i := range missSlots {
		raw := [16]byte(all[i*addrSize:])
		if raw == [16]byte{} {
			continue
		}
		write(p.mem.misses, uint32(i*addrSize), make([]byte, addrSize))
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
	for _, at := range p.places {
		out = append(out, at.stable...)
	}
	return out
}
