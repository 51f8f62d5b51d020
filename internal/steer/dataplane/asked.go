package dataplane

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Asked is a flow of datagrams that a pod has opened, and the peer has answered before.
type Asked struct {
	UID           string // the peer's
	Local, Remote uint16 // ports
	// Unanswered is how many datagrams have gone since one last came, 255 for more.
	Unanswered int
}

// askedMost bounds how many of them are listed.
const askedMost = 1024

// isAsked reports whether a flow is one, and has sent lately.
func isAsked(k bpfFlow, v bpfFlowState, idle time.Duration) bool {
	return k.Proto == unix.IPPROTO_UDP && v.Role == roleOwner && v.Claimed != oneWay && idle < lively
}

// seenNow is the time in the unit of a flow's state.
func seenNow() uint32 { return uint32(coarse() >> bpfLimitSEEN_SHIFT) }

// idle is how long no packet of the flow was seen.
func (v bpfFlowState) idle(now uint32) time.Duration {
	return time.Duration(int32(now-v.Seen)) * seenUnit
}

// Asked lists the flows of datagrams that are answered: a part, of very many.
func (f *Flows) Asked() (out []Asked, err error) {
	now := seenNow()
	for i := range uint32(2) { // the second is there while the table is exchanged
		var t *ebpf.Map
		if err := f.outer.Lookup(i, &t); errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		err := each(t, func(k bpfFlow, v bpfFlowState) {
			if gen, ok := f.peers[k.Peer]; ok && gen == k.Generation && isAsked(k, v, v.idle(now)) && len(out) < askedMost {
				out = append(out, Asked{f.uids[k.Peer], k.Local, k.Remote, int(v.Unanswered)})
			}
		})
		if err := errors.Join(err, t.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Unanswered is how many datagrams of the flow with these ports have gone since one last came, 255 for more. ok
// is false where this pod has not opened it, or it was never answered.
func (p *Plane) Unanswered(uid string, local, remote uint16) (n int, ok bool, err error) {
	state, err := p.state(uid, unix.IPPROTO_UDP, local, remote)
	return int(state.Unanswered), err == nil && state.Role == roleOwner && state.Claimed != oneWay, err
}
