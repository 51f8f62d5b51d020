package dataplane

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Answer is what a SYN has brought.
type Answer uint8

// The answers.
const (
	// NoAnswer: nothing has come back yet.
	NoAnswer Answer = iota
	// AnsweredAtHome and AnsweredElsewhere: on the default network, or on another path.
	AnsweredAtHome
	AnsweredElsewhere
	// Ended: it was refused, or given up.
	Ended
)

// SYN is one that the pod has sent.
type SYN struct {
	Local, Remote uint16 // ports
	// Sent is when it was, of CLOCK_MONOTONIC.
	Sent   time.Duration
	Answer Answer
	// Packet is whole, from the IP header on. Its TCP checksum may be that of the pseudo-header alone, as a device
	// sums the rest.
	Packet []byte
}

// Bucket is that of its flow, as one begins: in the first row.
func (s SYN) Bucket() uint8 { return flow.Bucket(s.Local, s.Remote, unix.IPPROTO_TCP) }

// SYNs are those of connections with the peer that the pod has sent after a time of CLOCK_MONOTONIC and not after
// another, and what they have brought. Of very many they are a part.
func (p *Plane) SYNs(uid string, after, until time.Duration) (out []SYN, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return nil, fmt.Errorf("find SYNs to %s: %w", uid, errUnknown)
	}
	const size, at = uint32(unsafe.Sizeof(bpfSyn{})), uint32(unsafe.Offsetof(bpfSyn{}.At))
	const peer = uint32(unsafe.Offsetof(bpfSyn{}.Flow) + unsafe.Offsetof(bpfFlow{}.Peer))
	for i := range p.objs.PwSyns.MaxEntries() {
		sent := get64(p.mem.syns, i*size+at)
		if d := time.Duration(sent); d <= after || d > until || get32(p.mem.syns, i*size+peer) != id {
			continue
		}
		var s bpfSyn
		var raw [size]byte
		read(p.mem.syns, i*size, raw[:])
		if _, err := binary.Decode(raw[:], binary.NativeEndian, &s); err != nil {
			return nil, fmt.Errorf("decode SYN to %s: %w", uid, err)
		}
		// What was written meanwhile is of a connection that waits for nothing yet.
		if get64(p.mem.syns, i*size+at) != sent || s.Flow.Peer != id || s.Length > uint32(len(s.Packet)) {
			continue
		}
		answer, err := p.Answer(uid, s.Flow.Local, s.Flow.Remote)
		if err != nil {
			return nil, err
		}
		out = append(out, SYN{s.Flow.Local, s.Flow.Remote, time.Duration(sent), answer, s.Packet[:s.Length]})
	}
	return out, nil
}

// Answer is what the first packet of a connection with these ports has brought, which this pod has opened.
func (p *Plane) Answer(uid string, local, remote uint16) (Answer, error) {
	state, err := p.state(uid, unix.IPPROTO_TCP, local, remote)
	switch {
	case err != nil:
		return Ended, err
	case state.Role == roleOwnerNew && state.Closed == 0:
		return NoAnswer, nil
	case state.Role != roleOwner:
		return Ended, nil
	case state.begunElsewhere():
		return AnsweredElsewhere, nil
	}
	return AnsweredAtHome, nil
}
