package dataplane

import (
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
)

// stride is the distance of small values: the kernel rounds an array's up to eight
// bytes (array_map_alloc).
const stride = 8

// doubled are rows of a hash map that are in an array too, which programs read without a
// call. A hash map replaces a value as a whole; an array is written while programs read it
// (copy_map_value). So a row has two places in the array. The hint in the slot of the row's
// address names the place that is valid, and only the other one is written, before the hint.
// Reads are in order, as the place's address depends on the hint (memory-barriers.txt).
//
// A program that has read the hint just before it changes is still at the place that was
// left, so no place is written until that was quiescent ago. Where neither place is free,
// the hint says that the row is in the hash map alone, until SetPeer enters it again.
type doubled struct {
	rows   *ebpf.Map
	hints  *ebpf.Memory
	shift  int // of a hash, to a slot
	places map[uint32]places
}

// places are the two of a row: which one was named last, and when each was left.
type places struct {
	last uint32
	left [2]time.Time
}

// quiescent is far longer than a program runs, which nothing but interrupts delays, as
// bottom halves are off (__dev_queue_xmit, NET_RX_SOFTIRQ).
const quiescent = time.Second

// inHash is the hint of an address whose row is in the hash map alone: no place has it.
const inHash = ^uint32(0)

func (d *doubled) slot(a bpfAddr) uint32 { return hashed(a) >> d.shift }

// hintOf names a place of a row.
func hintOf(row, place uint32) uint32 { return row*2 + place + 1 }

// named is the place of the row that a slot's hint names, if it is one of the row's.
func (d *doubled) named(slot, row uint32) (place uint32, ok bool) {
	hint := get32(d.hints, slot*stride)
	return (hint - 1) % 2, hint != 0 && (hint-1)/2 == row
}

// enter enters a row by its number.
func enter[V comparable](d *doubled, a bpfAddr, row uint32, v V, now time.Time) error {
	slot := d.slot(a)
	if place, ok := d.named(slot, row); ok {
		var had V
		if err := d.rows.Lookup(row*2+place, &had); err != nil || had == v {
			return err
		}
	}
	at, again := d.places[row]
	hint, other := inHash, 1-at.last
	if again {
		at.left[at.last] = now
	}
	if now.Sub(at.left[other]) >= quiescent {
		if err := d.rows.Put(row*2+other, v); err != nil {
			return err
		}
		at.last, hint = other, hintOf(row, other)
	}
	put32(d.hints, slot*stride, hint)
	d.places[row] = at
	return nil
}

// adopt takes over which place of a row its address names. When the other was left is not known.
func (d *doubled) adopt(a bpfAddr, row uint32, now time.Time) {
	if place, ok := d.named(d.slot(a), row); ok {
		d.places[row] = places{last: place, left: [2]time.Time{now, now}}
	}
}

// leave takes nothing more by a row's number from an address. hint is what its slot says then.
func (d *doubled) leave(a bpfAddr, row, hint uint32, now time.Time) {
	slot := d.slot(a)
	if place, ok := d.named(slot, row); ok {
		at := d.places[row]
		at.left[place] = now
		d.places[row] = at
		put32(d.hints, slot*stride, hint)
	} else if get32(d.hints, slot*stride) == inHash {
		put32(d.hints, slot*stride, hint)
	}
}

// admit lets packets of a peer's address pass the hints.
func (p *Plane) admit(a netip.Addr) {
	if slot := p.near.slot(word(a)) * stride; get32(p.near.hints, slot) == 0 {
		put32(p.near.hints, slot, inHash)
	}
}

// remakeHints makes the hints again, of the rows that are entered. Slots that stay are never
// empty meanwhile.
func (p *Plane) remakeHints(r rows) {
	stable, paths := make([]uint32, 1<<slotBits(p.room)), make([]uint32, 2<<slotBits(p.room))
	hint := func(d *doubled, hints []uint32, a bpfAddr, row uint32) {
		slot := d.slot(a)
		if at, ok := d.places[row]; ok {
			hints[slot] = hintOf(row, at.last)
		} else if hints[slot] == 0 {
			hints[slot] = inHash
		}
	}
	for k, v := range r.peers4 {
		hint(&p.near, stable, addrOf4(k), v.Id)
	}
	for k := range r.peers6 {
		hint(&p.near, stable, k, noRow)
	}
	for k, v := range r.rev4 {
		hint(&p.nearRev, paths, addrOf4(k), v.Id*MaxPaths+v.Path)
	}
	for m, words := range map[*ebpf.Memory][]uint32{p.mem.hints: stable, p.mem.revHints: paths} {
		for i, w := range words {
			if off := uint32(i) * stride; get32(m, off) != w {
				put32(m, off, w)
			}
		}
	}
}

// noRow is the number of a row that is in the hash map alone, as those of IPv6.
const noRow = ^uint32(0) / 2

func hashed(a bpfAddr) uint32 { return (a.W[0] ^ a.W[1] ^ a.W[2] ^ a.W[3]) * 0x9E3779B1 }

func addrOf4(k uint32) bpfAddr { return bpfAddr{W: [4]uint32{k}} }

// remote4 is an address in a row that has a number; 0 for IPv6.
func remote4(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	return word(a).W[0]
}
