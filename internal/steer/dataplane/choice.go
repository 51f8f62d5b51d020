package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Set is a set of buckets: bit n represents bucket n.
type Set uint64

// All is every bucket.
const All = ^Set(0)

// Share returns about share (0 to 1) of the buckets of each row, the same ones each time, and
// at least one.
func Share(share float64) Set {
	n := min(max(int(share*flow.Width+0.5), 0), flow.Width)
	if share > 0 {
		n = max(n, 1)
	}
	some := Set(1)<<n - 1
	return some&InRow(0) | some<<flow.Width
}

// InRow is the set of a row's buckets.
func InRow(row flow.Row) Set { return (Set(1)<<flow.Width - 1) << (int(row) * flow.Width) }

// Len is the number of buckets.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Has reports whether bucket n is in the set.
func (s Set) Has(n uint8) bool { return s>>n&1 == 1 }

// Choice is what the data plane does with a bucket of flows.
type Choice struct {
	// Path is the path's index; 0 is the default network.
	Path int
	// Notified: followed flows: their owner's agent has said so.
	Notified bool
	// Diverted: followed flows: moved away from the path that was told.
	Diverted bool
}

func decode(c uint8) Choice {
	return Choice{Path: int(c & choicePath), Notified: c&choiceNotified != 0, Diverted: c&choiceDiverted != 0}
}

// errUnknown is returned for a peer that SetPeer has not named.
var errUnknown = errors.New("the data plane does not know the peer")

// Switch moves the flows that this pod has opened to the peer, in the buckets of
// the set, to a path. The flows' other direction moves when the peer's agent is told
// (Follow); packets are taken on any path meanwhile. It takes no system call. Buckets
// that are on the path already stay as they are, so doing it twice changes nothing. It
// returns the buckets that moved.
func (p *Plane) Switch(uid string, set Set, path int) (Set, error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("switch to %s: %w", uid, errUnknown)
	}
	if path < 0 || path >= MaxPaths {
		return 0, fmt.Errorf("switch to %s: path %d: expected 0 to %d", uid, path, MaxPaths-1)
	}
	row := row64(p.mem.owner, id)
	var moved Set
	for b, old := range row {
		if set>>b&1 == 0 || int(old&choicePath) == path {
			continue
		}
		moved |= 1 << b
		row[b] = uint8(path) | old&(choiceOpens|choiceTakes)
	}
	if moved != 0 {
		write(p.mem.owner, id*Buckets, row[:])
		p.renumber(id, 0)
	}
	return moved, nil
}

// Beginnings are where flows with a peer may begin.
type Beginnings uint8

// The beginnings. Elsewhere is on the path where their bucket is.
const (
	AtHome         Beginnings = iota // on the default network
	TakenElsewhere                   // so here, and what the peer begins elsewhere is taken
	Elsewhere                        // elsewhere, at either end
)

// Begin says where flows with the peer may begin: elsewhere while the default network is known to fail, where
// policy is the same on the networks, and as long as the lease runs. Both ends have to be told.
func (p *Plane) Begin(uid string, where Beginnings) error {
	id, ok := p.ids[uid]
	if !ok {
		return fmt.Errorf("say where flows with %s begin: %w", uid, errUnknown)
	}
	var first [1]byte
	read(p.mem.owner, id*Buckets, first[:])
	now := first[0]&^(choiceOpens|choiceTakes) | [...]uint8{0, choiceTakes, choiceOpens | choiceTakes}[where%3]
	if now != first[0] {
		write(p.mem.owner, id*Buckets, []byte{now})
	}
	return nil
}

// Beginnings says where flows with the peer may begin.
func (p *Plane) Beginnings(uid string) (Beginnings, error) {
	id, ok := p.ids[uid]
	if !ok {
		return AtHome, fmt.Errorf("read where flows with %s begin: %w", uid, errUnknown)
	}
	var first [1]byte
	read(p.mem.owner, id*Buckets, first[:])
	switch {
	case first[0]&choiceOpens != 0:
		return Elsewhere, nil
	case first[0]&choiceTakes != 0:
		return TakenElsewhere, nil
	}
	return AtHome, nil
}

// row64 is the peer's row of own or follow.
func row64(m *ebpf.Memory, id uint32) (row [Buckets]uint8) {
	read(m, id*Buckets, row[:])
	return row
}

// renumber gives this end's choices a number above all that it ever gave them, and above
// after: wall clock time, so that it grows also where nothing is kept.
func (p *Plane) renumber(id uint32, after uint64) {
	now := uint64(p.cfg.Now().UnixNano())
	put64(p.mem.notices, id*noticeSize, max(get64(p.mem.notices, id*noticeSize)+1, after+1, now))
}

// Number is the number of this end's latest choices for the peer: it grows with each
// Switch, also from one agent to the next. 0 is none yet.
func (p *Plane) Number(uid string) (uint64, error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("read number of choices for %s: %w", uid, errUnknown)
	}
	return get64(p.mem.notices, id*noticeSize), nil
}

// Renumber gives the choices a number above after, as the peer knows one that is higher
// than ours, or does not do as the latest says.
func (p *Plane) Renumber(uid string, after uint64) error {
	id, ok := p.ids[uid]
	if !ok {
		return fmt.Errorf("renumber choices for %s: %w", uid, errUnknown)
	}
	p.renumber(id, after)
	return nil
}

// Choices returns where the flows are that this pod has opened, by bucket.
func (p *Plane) Choices(uid string) ([Buckets]Choice, error) { return p.choices(p.mem.owner, uid) }

// Followed returns where the flows are that the peer has opened, by bucket.
func (p *Plane) Followed(uid string) ([Buckets]Choice, error) { return p.choices(p.mem.follower, uid) }

func (p *Plane) choices(m *ebpf.Memory, uid string) (out [Buckets]Choice, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return out, fmt.Errorf("read choices for %s: %w", uid, errUnknown)
	}
	for b, c := range row64(m, id) {
		out[b] = decode(c)
	}
	return out, nil
}

// settleHome puts all flows of a pair on the default network.
func (p *Plane) settleHome(id uint32) {
	write(p.mem.owner, id*Buckets, make([]byte, Buckets))
	write(p.mem.follower, id*Buckets, make([]byte, Buckets))
	p.renumber(id, 0)
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

func tally(m *ebpf.Memory, off uint32) Tally {
	var b [tallyOpened]byte
	read(m, off, b[:])
	return Tally{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:]),
		time.Duration(binary.NativeEndian.Uint64(b[16:]))}
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
	// Strangers are packets that look steered and came from no known peer, or in a form
	// in which none are steered, such as fragments. They were dropped.
	Strangers uint64 `json:"strangers"`
	// ICMP are errors from routers on a path, translated.
	ICMP uint64 `json:"icmp"`
	// Forged are packets that look like a peer's but have not its tag. They were
	// dropped on paths, and moved nothing on the default network.
	Forged uint64 `json:"forged"`
	// Unadmitted are steered packets of flows that the default network has not been
	// seen to admit. They were dropped.
	Unadmitted uint64 `json:"unadmitted"`
	// Full are times when there was no room to tell a flow apart: it stays native.
	Full uint64 `json:"full"`
	// DSCP are packets that stayed on the default network because the mark has no room for
	// the DSCP that their application gave.
	DSCP uint64 `json:"dscp"`
	// Elsewhere are packets that opened a flow on a path, as the default network failed.
	Elsewhere uint64 `json:"elsewhere"`
}

// Add adds the counts of another data plane.
func (e *Events) Add(o Events) {
	e.Errors += o.Errors
	e.TooBig += o.TooBig
	e.NoPath += o.NoPath
	e.Lease += o.Lease
	e.Strangers += o.Strangers
	e.ICMP += o.ICMP
	e.Forged += o.Forged
	e.Unadmitted += o.Unadmitted
	e.Full += o.Full
	e.DSCP += o.DSCP
	e.Elsewhere += o.Elsewhere
}

// Events returns the counts since the data plane was first loaded.
func (p *Plane) Events() Events {
	n := func(e bpfEvent) uint64 { return get64(p.mem.events, uint32(e)*8) }
	return Events{Errors: n(bpfEventEV_ERROR), TooBig: n(bpfEventEV_TOO_BIG), NoPath: n(bpfEventEV_NO_PATH),
		Lease: n(bpfEventEV_LEASE), Strangers: n(bpfEventEV_STRANGER), ICMP: n(bpfEventEV_ICMP),
		Forged: n(bpfEventEV_FORGED), Unadmitted: n(bpfEventEV_UNADMITTED), Full: n(bpfEventEV_FULL),
		DSCP: n(bpfEventEV_DSCP), Elsewhere: n(bpfEventEV_ELSEWHERE)}
}

// Peers lists the UIDs of the peers that SetPeer has named, sorted.
func (p *Plane) Peers() []string { return slices.Sorted(maps.Keys(p.ids)) }

// clear zeroes a peer's rows. What the peer said last is kept from no other pod.
func (p *Plane) clear(id uint32) {
	p.settleHome(id)
	put64(p.mem.notices, id*noticeSize+noticeReceived, 0)
	put32(p.mem.flowCount, id*stride, 0)
	write(p.mem.sent, id*MaxPaths*tallySize, make([]byte, MaxPaths*tallySize))
	write(p.mem.received, id*MaxPaths*tallySize, make([]byte, MaxPaths*tallySize))
}

// The arrays are as long as load made them and ids are below Peers, so access
// stays inside; a panic here is a fault of this package.

func read(m *ebpf.Memory, off uint32, b []byte) {
	if _, err := m.ReadAt(b, int64(off)); err != nil {
		panic(fmt.Sprintf("dataplane: read map at %d: %v", off, err))
	}
}

func write(m *ebpf.Memory, off uint32, b []byte) {
	if _, err := m.WriteAt(b, int64(off)); err != nil {
		panic(fmt.Sprintf("dataplane: write map at %d: %v", off, err))
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
	putNative64(b[:], v)
	write(m, off, b[:])
}

func putNative64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }

func native64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

func putNative32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }

func native32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
