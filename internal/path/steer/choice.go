package steer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

// Set is a set of buckets: bit n stands for bucket n.
type Set uint64

// All is every bucket.
const All = ^Set(0)

// Share returns about share (0 to 1) of the buckets, the same ones each time.
func Share(share float64) Set {
	n := min(max(int(share*Buckets+0.5), 0), Buckets)
	if n == Buckets {
		return All
	}
	return Set(1)<<n - 1
}

// Len is the number of buckets.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Has reports whether bucket n is in the set.
func (s Set) Has(n uint8) bool { return s>>n&1 == 1 }

// Choice is what the data plane does with a bucket of flows.
type Choice struct {
	// Path is the path's index; 0 is the default network.
	Path int
	// Epoch counts the choices, modulo 4, as the packets' marks do.
	Epoch uint8
	// Told: followed flows: their owner has said so.
	Told bool
}

// Bits of a choice, as in steer.h.
const (
	choiceValid    = 1 << 17
	choiceDiverted = 1 << 18
	choiceShift    = 20
)

func decode(w uint32) Choice {
	return Choice{Path: int(w & 0xff), Epoch: uint8(w >> 8 & 3), Told: w&choiceValid != 0}
}

// errUnknown is returned for a peer that SetPeer has not named.
var errUnknown = errors.New("the data plane does not know the peer")

// Switch moves the flows that this pod has opened to the peer, in the buckets of
// the set, to a path. The peer's data plane follows as soon as a packet of such
// a flow arrives. It takes no system call. Buckets that are on the path already
// stay as they are, so doing it twice changes nothing. It returns the buckets
// that moved.
func (p *Plane) Switch(uid string, set Set, path int) (Set, error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("switch to %s: %w", uid, errUnknown)
	}
	if path < 0 || path >= MaxPaths {
		return 0, fmt.Errorf("switch to %s: path %d: expected 0 to %d", uid, path, MaxPaths-1)
	}
	row := p.row64(id)
	var moved Set
	for b, old := range row {
		if set>>b&1 == 0 || int(old&rowPath) == path {
			continue
		}
		moved |= 1 << b
		row[b] = uint8(path) | (old+rowNext)&rowEpoch | rowTell
	}
	if moved != 0 {
		write(p.mem.own, id*Buckets, row[:])
	}
	return moved, nil
}

// Settle ends the marking of packets on the default network: the peer has
// confirmed the choice. It returns what stands in the way, if there is something.
func (p *Plane) Settle(uid string) error {
	id, ok := p.ids[uid]
	if !ok {
		return fmt.Errorf("settle %s: %w", uid, errUnknown)
	}
	row := p.row64(id)
	for b := range row {
		row[b] &^= rowTell
	}
	write(p.mem.own, id*Buckets, row[:])
	return nil
}

// renew counts the epoch on by two where flows are not on the default network:
// there the peer heard nothing while the lease was out, and hears nothing now.
func (p *Plane) renew(id uint32) {
	row := p.row64(id)
	for b, old := range row {
		if old&rowPath != 0 {
			row[b] = old&^rowEpoch | (old+2*rowNext)&rowEpoch
		}
	}
	write(p.mem.own, id*Buckets, row[:])
}

// Parts of a byte of own: struct row of steer.h.
const (
	rowPath  = 7
	rowNext  = 1 << 3 // one epoch
	rowEpoch = 3 << 3
	rowTell  = 1 << 5
)

// row64 is the peer's row of own.
func (p *Plane) row64(id uint32) (row [Buckets]uint8) {
	read(p.mem.own, id*Buckets, row[:])
	return row
}

// Choices returns where the flows are that this pod has opened, by bucket.
func (p *Plane) Choices(uid string) (out [Buckets]Choice, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return out, fmt.Errorf("read choices for %s: %w", uid, errUnknown)
	}
	for b, c := range p.row64(id) {
		out[b] = Choice{Path: int(c & rowPath), Epoch: c & rowEpoch >> 3}
	}
	return out, nil
}

// Followed returns where the flows are that the peer has opened, by bucket.
func (p *Plane) Followed(uid string) (out [Buckets]Choice, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return out, fmt.Errorf("read choices for %s: %w", uid, errUnknown)
	}
	for b := range out {
		out[b] = decode(get32(p.mem.follow, (id*Buckets+uint32(b))*stride))
	}
	return out, nil
}

// Follow enters what the peer's agent said about flows that the peer has opened:
// by a notice, where no packet of theirs can say so. Older news than what is
// known changes nothing, as in the data plane.
func (p *Plane) Follow(uid string, said map[uint8]Choice) error {
	id, ok := p.ids[uid]
	if !ok {
		return fmt.Errorf("follow %s: %w", uid, errUnknown)
	}
	for b, c := range said {
		if b >= Buckets || c.Path < 0 || c.Path >= MaxPaths {
			return fmt.Errorf("follow %s: bucket %d, path %d: out of range", uid, b, c.Path)
		}
		off := (id*Buckets + uint32(b)) * stride
		had := get32(p.mem.follow, off)
		ahead := (c.Epoch - uint8(had>>8)) & 3
		if had&choiceValid == 0 || ahead == 1 || ahead == 2 {
			word := uint32(c.Path) | uint32(c.Epoch&3)<<8 | choiceValid
			put64(p.mem.follow, off, coarse()>>choiceShift<<32|uint64(word))
		}
	}
	return nil
}

// Divert moves the flows that the peer has opened away from a path that has
// failed, until the peer says where they go: what it says next is newer.
func (p *Plane) Divert(uid string, from, to int) error {
	id, ok := p.ids[uid]
	if !ok {
		return fmt.Errorf("divert %s: %w", uid, errUnknown)
	}
	if to < 0 || to >= MaxPaths {
		return fmt.Errorf("divert %s: path %d: expected 0 to %d", uid, to, MaxPaths-1)
	}
	for b := uint32(0); b < Buckets; b++ {
		off := (id*Buckets + b) * stride
		if had := get32(p.mem.follow, off); had&choiceValid != 0 && int(had&0xff) == from {
			put32(p.mem.follow, off, had&^0xff|uint32(to)|choiceDiverted)
		}
	}
	return nil
}

// Opened counts the packets of flows that the pod has opened to the peer; it is
// good for telling whether there are some.
func (p *Plane) Opened(uid string) (uint64, error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("read tallies of %s: %w", uid, errUnknown)
	}
	var n uint64
	for path := range uint32(MaxPaths) {
		n += get64(p.mem.sent, (id*MaxPaths+path)*tallySize+tallyOpened)
	}
	return n, nil
}

// Tally counts packets (segments, where the kernel sends several as one) and bytes.
type Tally struct {
	Packets, Bytes uint64
	// Last is, by CLOCK_MONOTONIC, when the latest went that wants an answer: of a
	// flow that this pod has opened, and no mere acknowledgment. Of what was
	// received, it is when the latest came: up to a tick of the kernel's clock (1 to
	// 10 ms) too early, but never earlier than what was sent before it.
	Last time.Duration
}

// Tallies returns what went to the peer over the path and what came from it,
// since the peer was entered.
func (p *Plane) Tallies(uid string, path int) (sent, received Tally, err error) {
	id, ok := p.ids[uid]
	if !ok || path < 0 || path >= MaxPaths {
		return Tally{}, Tally{}, fmt.Errorf("read tallies of %s, path %d: %w", uid, path, errUnknown)
	}
	off := (id*MaxPaths + uint32(path)) * tallySize
	return tally(p.mem.sent, off), tally(p.mem.received, off), nil
}

// Of struct tally: its size, and where of what was sent the packets of flows are
// that were opened here.
const (
	tallySize   = 32
	tallyOpened = 24
)

func tally(m *ebpf.Memory, off uint32) Tally {
	var b [tallyOpened]byte
	read(m, off, b[:])
	return Tally{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:]), time.Duration(binary.NativeEndian.Uint64(b[16:]))}
}

// Events are the data plane's counts of what is out of the ordinary.
type Events struct {
	// Errors are packets dropped because they could not be rewritten.
	Errors uint64 `json:"errors"`
	// TooBig are packets larger than their path's MTU, which stayed on the default network.
	TooBig uint64 `json:"too_big"`
	// NoPath are packets whose path is not there any more, or cannot take them;
	// they stayed on the default network.
	NoPath uint64 `json:"no_path"`
	// Lease are packets that stayed on the default network because no agent lives.
	Lease uint64 `json:"lease"`
	// Strangers are steered packets that came from no known peer, and were dropped.
	Strangers uint64 `json:"strangers"`
	// ICMP are errors from routers on a path, translated.
	ICMP uint64 `json:"icmp"`
}

// Events returns the counts since the data plane was first loaded.
func (p *Plane) Events() Events {
	n := func(i uint32) uint64 { return get64(p.mem.events, i*8) }
	return Events{Errors: n(0), TooBig: n(1), NoPath: n(2), Lease: n(3), Strangers: n(4), ICMP: n(5)}
}

// Peers lists the UIDs of the peers that SetPeer has named, sorted.
func (p *Plane) Peers() []string { return slices.Sorted(maps.Keys(p.ids)) }

// clear zeroes a peer's rows.
func (p *Plane) clear(id uint32) {
	write(p.mem.own, id*Buckets, make([]byte, Buckets))
	write(p.mem.follow, id*Buckets*stride, make([]byte, Buckets*stride))
	write(p.mem.sent, id*MaxPaths*tallySize, make([]byte, MaxPaths*tallySize))
	write(p.mem.received, id*MaxPaths*tallySize, make([]byte, MaxPaths*tallySize))
}

// stride is the distance of two choices: the kernel rounds an array's values up
// to eight bytes (array_map_alloc).
const stride = 8

// The arrays are as long as load made them and ids are below Peers, so access
// stays inside; a panic here is a fault of this package.

func read(m *ebpf.Memory, off uint32, b []byte) {
	if _, err := m.ReadAt(b, int64(off)); err != nil {
		panic(fmt.Sprintf("steer: read map at %d: %v", off, err))
	}
}

func write(m *ebpf.Memory, off uint32, b []byte) {
	if _, err := m.WriteAt(b, int64(off)); err != nil {
		panic(fmt.Sprintf("steer: write map at %d: %v", off, err))
	}
}

func get32(m *ebpf.Memory, off uint32) uint32 {
	var b [4]byte
	read(m, off, b[:])
	return binary.NativeEndian.Uint32(b[:])
}

func put32(m *ebpf.Memory, off, v uint32) {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	write(m, off, b[:])
}

func get64(m *ebpf.Memory, off uint32) uint64 {
	var b [8]byte
	read(m, off, b[:])
	return binary.NativeEndian.Uint64(b[:])
}

func put64(m *ebpf.Memory, off uint32, v uint64) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	write(m, off, b[:])
}

func native32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
