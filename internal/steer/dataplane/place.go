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
func (p *Plane) learn(r rows) {
	now := p.cfg.Now()
	for k, v := range r.peers4 {
		p.used[v.Id] = true
		p.note(v.Id, addr4(k), false)
		p.near.adopt(addrOf4(k), v.Id, now)
	}
	for k, v := range r.peers6 {
		p.used[v.Id] = true
		p.note(v.Id, addr6(k), false)
	}
	for k, v := range r.rev4 {
		p.note(v.Id, addr4(k), true)
		p.nearRev.adopt(addrOf4(k), v.Id*MaxPaths+v.Path, now)
	}
	for k, v := range r.rev6 {
		p.note(v.Id, addr6(k), true)
	}
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

// release takes the hints to a peer that has gone out of its addresses' slots.
func (p *Plane) release(id uint32, gone place) {
	now := p.cfg.Now()
	for _, a := range gone.stable {
		p.near.leave(word(a), id, p.others(&p.near, a, false), now)
	}
	for _, a := range gone.paths {
		for n := range uint32(MaxPaths) {
			if a.Is4() {
				p.nearRev.leave(word(a), id*MaxPaths+n, p.others(&p.nearRev, a, true), now)
			}
		}
	}
}

// others is the hint for an address that nobody has: 0, but where another's has its slot.
func (p *Plane) others(d *doubled, gone netip.Addr, path bool) uint32 {
	slot := d.slot(word(gone))
	for _, at := range p.places {
		of := at.stable
		if path {
			of = at.paths
		}
		if slices.ContainsFunc(of, func(a netip.Addr) bool { return d.slot(word(a)) == slot && (a.Is4() || !path) }) {
			return inHash
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

// adopt learns from the maps which rows are in use. Their peers are known again
// once SetPeer names them; Forget removes those that it does not. If the lease has run
// out, flows begin at home.
func (p *Plane) adopt(lasting bool) error {
	r, err := p.rows()
	if err != nil {
		return err
	}
	p.learn(r)
	p.remakeHints(r)
	if !lasting {
		// Nobody knows what has become of the paths since: flows begin at home.
		for id, used := range p.used {
			if used {
				p.settleHome(uint32(id))
			}
		}
	}
	return nil
}

// Forget removes the peers that SetPeer has not named since Open.
func (p *Plane) Forget() error {
	known := map[uint32]bool{}
	for _, id := range p.ids {
		known[id] = true
	}
	var errs []error
	for id, used := range p.used {
		if used && !known[uint32(id)] {
			errs = append(errs, p.remove(uint32(id)))
		}
	}
	return errors.Join(errs...)
}
