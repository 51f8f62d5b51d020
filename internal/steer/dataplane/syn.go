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
	Sent time.Duration
	// Packet is whole, from the IP header on. Its TCP checksum may be that of the pseudo-header alone, as a device
	// sums the rest.
	Packet []byte
}

// Bucket is that of its flow, as one begins: in the first row.
func (s SYN) Bucket() uint8 { return flow.Bucket(s.Local, s.Remote, unix.IPPROTO_TCP) }

// SYNs are those of connections with the peer that the pod has sent after a time of CLOCK_MONOTONIC and not after
// another. Of very many they are a part.
func (p *Plane) SYNs(uid string, after, until time.Duration) (out []SYN, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return nil, fmt.Errorf("find SYNs to %s: %w", uid, errUnknown)
	}
	for i := range p.objs.PwSyns.MaxEntries() * synsInSet {
		sent := get64(p.mem.syns, synSentAt(i))
		if d := time.Duration(sent); d <= after || d > until || get32(p.mem.syns, synAt(i)+synPeer) != id {
			continue
		}
		var s bpfSyn
		var raw [synSize]byte
		read(p.mem.syns, synAt(i), raw[:])
		if _, err := binary.Decode(raw[:], binary.NativeEndian, &s); err != nil {
			return nil, fmt.Errorf("decode SYN to %s: %w", uid, err)
		}
		// What was written meanwhile is of a connection that waits for nothing yet.
		if get64(p.mem.syns, synSentAt(i)) != sent || s.Flow.Peer != id || s.Length > uint32(len(s.Packet)) {
			continue
		}
		out = append(out, SYN{s.Flow.Local, s.Flow.Remote, time.Duration(sent), s.Packet[:s.Length]})
	}
	return out, nil
}

// synAt is where the map has a SYN, and synSentAt when that was sent.
func synAt(i uint32) uint32 {
	return i/synsInSet*synSetSize + uint32(unsafe.Offsetof(bpfSynSet{}.Syn)) + i%synsInSet*synSize
}

func synSentAt(i uint32) uint32 { return i/synsInSet*synSetSize + i%synsInSet*8 }

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
