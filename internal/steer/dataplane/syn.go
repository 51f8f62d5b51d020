package dataplane

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"
)

// UnansweredSYNs are SYNs of connections with the peer that the pod has sent after a time of CLOCK_MONOTONIC, and that
// were not answered, from the IP header on. Their TCP checksums may be those of the pseudo-header alone, as a device
// sums the rest. Of very many they are a part.
func (p *Plane) UnansweredSYNs(uid string, after time.Duration) (out [][]byte, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return nil, fmt.Errorf("find SYNs to %s: %w", uid, errUnknown)
	}
	const size, at = uint32(unsafe.Sizeof(bpfSyn{})), uint32(unsafe.Offsetof(bpfSyn{}.At))
	for i := range p.objs.PwSyns.MaxEntries() {
		sent := get64(p.mem.syns, i*size+at)
		if time.Duration(sent) <= after {
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
		is, err := p.state(uid, s.Flow.Proto, s.Flow.Local, s.Flow.Remote)
		if err != nil {
			return nil, err
		}
		if is.Role == roleOwnerNew && is.Closed == 0 {
			out = append(out, s.Packet[:s.Length])
		}
	}
	return out, nil
}
