package dataplane

import (
	"errors"
	"net/netip"

	"github.com/cilium/ebpf"
)

// stride is the distance of small values: the kernel rounds an array's up to eight
// bytes (array_map_alloc).
const stride = 8

// admit lets packets of a peer's address past the filter.
func (p *Plane) admit(a netip.Addr, id uint32) { put32(p.mem.slots, p.slot(word(a))*stride, id+1) }

// sift makes the filter again, of the peers that are entered. Slots that stay are
// never empty meanwhile. One too many costs a look-up.
func (p *Plane) sift() {
	stable, paths := make([]uint32, 1<<slotBits(p.room)), make([]uint32, 2<<slotBits(p.room))
	var k4 uint32
	var k6 bpfAddr
	var v bpfPeer
	var r bpfRev
	four, six, rev := p.objs.PwPeers4.Iterate(), p.objs.PwPeers6.Iterate(), p.objs.PwRev4.Iterate()
	for four.Next(&k4, &v) {
		stable[p.slot(bpfAddr{W: [4]uint32{k4}})] = v.Id + 1
	}
	for six.Next(&k6, &v) {
		stable[p.slot(k6)] = v.Id + 1
	}
	for rev.Next(&k4, &r) {
		paths[p.slotRev(bpfAddr{W: [4]uint32{k4}})] = r.Id*MaxPaths + r.Path + 1
	}
	if four.Err() != nil || six.Err() != nil || rev.Err() != nil {
		return // leave it as it was: that is never too narrow
	}
	for m, words := range map[*ebpf.Memory][]uint32{p.mem.slots: stable, p.mem.revSlots: paths} {
		for i, w := range words {
			if off := uint32(i) * stride; get32(m, off) != w {
				put32(m, off, w)
			}
		}
	}
}

// slot is an address's, as the data plane finds it, and slotRev that of one on a path.
func (p *Plane) slot(a bpfAddr) uint32 { return hashed(a) >> (32 - slotBits(p.room)) }

func (p *Plane) slotRev(a bpfAddr) uint32 { return hashed(a) >> (31 - slotBits(p.room)) }

func hashed(a bpfAddr) uint32 { return (a.W[0] ^ a.W[1] ^ a.W[2] ^ a.W[3]) * 0x9E3779B1 }

// near is a peer's address in a row that is read by its number; 0 for IPv6.
func near(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	return word(a).W[0]
}

// nearPeer enters a row of peers4 by its number. A hash map replaces a value as a
// whole, an array is written while it is read: so the row is nobody's meanwhile.
func (p *Plane) nearPeer(row bpfPeer) error {
	if row.Remote == 0 {
		return nil
	}
	var had bpfPeer
	if err := p.objs.PwRows.Lookup(row.Id, &had); err != nil || had == row {
		return err
	}
	had.Remote = 0
	return errors.Join(p.objs.PwRows.Put(row.Id, had), p.objs.PwRows.Put(row.Id, row))
}

// nearRev is nearPeer for rev4.
func (p *Plane) nearRev(rev bpfRev) error {
	if rev.Remote == 0 {
		return nil
	}
	i := rev.Id*MaxPaths + rev.Path
	var had bpfRev
	if err := p.objs.PwRevRows.Lookup(i, &had); err != nil {
		return err
	}
	if had != rev {
		had.Remote = 0
		if err := errors.Join(p.objs.PwRevRows.Put(i, had), p.objs.PwRevRows.Put(i, rev)); err != nil {
			return err
		}
	}
	put32(p.mem.revSlots, p.slotRev(bpfAddr{W: [4]uint32{rev.Remote}})*stride, i+1)
	return nil
}

// farRev takes nothing more by its number from an address that is a peer's no longer.
func (p *Plane) farRev(rev bpfRev) error {
	i := rev.Id*MaxPaths + rev.Path
	var had bpfRev
	if err := p.objs.PwRevRows.Lookup(i, &had); err != nil || had.Remote != rev.Remote {
		return err
	}
	return p.objs.PwRevRows.Put(i, bpfRev{})
}

// far forgets a peer's rows.
func (p *Plane) far(id uint32) error {
	err := p.objs.PwRows.Put(id, bpfPeer{})
	for n := range uint32(MaxPaths) {
		err = errors.Join(err, p.objs.PwRevRows.Put(id*MaxPaths+n, bpfRev{}))
	}
	return err
}
