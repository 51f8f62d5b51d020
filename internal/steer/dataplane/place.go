package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
)

// place is where a peer's rows are: by its stable addresses, and by those on paths. Kept
// so that a peer that leaves costs no look at all others.
type place struct{ stable, paths []netip.Addr }

// note notes a row of peer id.
func (p *Plane) note(id uint32, a netip.Addr, path bool) {
	at := p.places[id]
	to := &at.stable
	if path {
		to = &at.paths
	}
	if !slices.Contains(*to, a) {
		*to = append(*to, a)
		p.places[id] = at
	}
}

// learn notes the rows that are in the maps.
func (p *Plane) learn() error {
	r, err := p.rows()
	if err != nil {
		return err
	}
	for k, v := range r.peers4 {
		p.used[v.Id] = true
		p.note(v.Id, addr4(k), false)
	}
	for k, v := range r.peers6 {
		p.used[v.Id] = true
		p.note(v.Id, addr6(k), false)
	}
	for k, v := range r.rev4 {
		p.note(v.Id, addr4(k), true)
	}
	for k, v := range r.rev6 {
		p.note(v.Id, addr6(k), true)
	}
	return nil
}

// drop deletes the row by an address, if it is peer id's: both kinds begin with that.
func (p *Plane) drop(v4, v6 *ebpf.Map, a netip.Addr, id uint32) error {
	m, key := v6, any(word(a))
	if a.Is4() {
		m, key = v4, word(a).W[0]
	}
	row, err := m.LookupBytes(key)
	if err != nil || row == nil || native32(row) != id {
		return err
	}
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete row of %s: %w", a, err)
	}
	return nil
}

// release gives the slots of a peer that has gone to others whose addresses have the
// same ones: a packet of theirs must not pass for one of nobody's.
func (p *Plane) release(id uint32, gone place) {
	for _, a := range gone.stable {
		slot := p.slot(word(a))
		if get32(p.mem.slots, slot*stride) == id+1 {
			put32(p.mem.slots, slot*stride, p.other(slot))
		}
	}
	for _, a := range gone.paths {
		if !a.Is4() {
			continue
		}
		slot := p.slotRev(word(a))
		if i := get32(p.mem.revSlots, slot*stride); i != 0 && (i-1)/MaxPaths == id {
			put32(p.mem.revSlots, slot*stride, p.otherRev(slot))
		}
	}
}

// other is what the slot is to say: of another peer's address, or 0.
func (p *Plane) other(slot uint32) uint32 {
	for id, at := range p.places {
		for _, a := range at.stable {
			if p.slot(word(a)) == slot {
				return id + 1
			}
		}
	}
	return 0
}

// otherRev is other for a slot of addresses on paths. What it does not say is looked up.
func (p *Plane) otherRev(slot uint32) uint32 {
	for _, at := range p.places {
		for _, a := range at.paths {
			var r bpfRev
			if a.Is4() && p.slotRev(word(a)) == slot && p.objs.PwRev4.Lookup(word(a).W[0], &r) == nil {
				return r.Id*MaxPaths + r.Path + 1
			}
		}
	}
	return 0
}

// addr4 and addr6 are addresses as the maps' keys have them.
func addr4(k uint32) netip.Addr {
	var raw [4]byte
	putNative32(raw[:], k)
	return netip.AddrFrom4(raw)
}

func addr6(k bpfAddr) netip.Addr {
	var raw [16]byte
	for i, w := range k.W {
		putNative32(raw[i*4:], w)
	}
	return netip.AddrFrom16(raw)
}
