package dataplane

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Asked is a flow of datagrams that goes both ways, as one end of it sees it, or that this pod has begun.
type Asked struct {
	UID           string // the peer's
	Local, Remote uint16 // ports
	// Begins: nothing has come back yet. Elsewhere: what came back first has come by a path.
	Begins, Elsewhere bool
	flow.Unanswered
}

// askedMost bounds how many of them are listed.
const askedMost = 1024

// isAsked reports whether a flow is one, and had packets lately.
func isAsked(k bpfFlow, v bpfFlowState, idle time.Duration) bool {
	return k.Proto == unix.IPPROTO_UDP && (v.goesBothWays() || v.Role == roleOwnerNew) && idle < lively
}

// begunElsewhere reports whether the flow has begun on a path.
func (v bpfFlowState) begunElsewhere() bool {
	return bpfClaimed(v.Claimed) == bpfClaimedBEGUN_ELSEWHERE
}

func (v bpfFlowState) goesBothWays() bool {
	return (v.Role == roleOwner || v.Role == roleFollow) && v.Claimed != oneWay
}

func (v bpfFlowState) unanswered() flow.Unanswered {
	return flow.Unanswered{N: int(v.Unanswered & uint8(bpfLimitUNANSWERED_MOST)),
		Turn: v.Unanswered&uint8(bpfLimitUNANSWERED_TURN) != 0}
}

// seenNow is the time in the unit of a flow's state.
func seenNow() uint32 { return uint32(coarse() >> bpfLimitSEEN_SHIFT) }

// idle is how long no packet of the flow was seen.
func (v bpfFlowState) idle(now uint32) time.Duration {
	return time.Duration(int32(now-v.Seen)) * seenUnit
}

// Asked lists the flows of datagrams that are answered, and those that begin: a part, of very many.
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
				out = append(out, Asked{f.uids[k.Peer], k.Local, k.Remote, v.Role == roleOwnerNew, v.begunElsewhere(),
					v.unanswered()})
			}
		})
		if err := errors.Join(err, t.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Unanswered is that of the flow with these ports. ok is false where it does not go both ways.
func (p *Plane) Unanswered(uid string, local, remote uint16) (n flow.Unanswered, ok bool, err error) {
	state, err := p.state(uid, unix.IPPROTO_UDP, local, remote)
	return state.unanswered(), err == nil && state.goesBothWays(), err
}
