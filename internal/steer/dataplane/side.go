package dataplane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Side says who decides where a flow goes.
type Side uint8

// The sides.
const (
	// Neither: the flow is native, and takes the default network.
	Neither Side = iota
	// Ours: this pod has opened it; Switch moves it.
	Ours
	// Theirs: the peer has; its agent decides, and Divert moves this end's packets meanwhile.
	Theirs
)

// Side returns who decides where the flow with these ports goes. proto is the number of its
// protocol, as in IP.
func (p *Plane) Side(uid string, proto uint8, local, remote uint16) (Side, error) {
	id, ok := p.ids[uid]
	if !ok {
		return Neither, fmt.Errorf("look up flow to %s: %w", uid, errUnknown)
	}
	key := bpfFlow{Peer: id, Generation: generation(uid), Local: local, Remote: remote, Proto: proto}
	for i := range uint32(2) { // the second is there while the table is exchanged
		var table *ebpf.Map
		err := p.objs.PwFlows.Lookup(i, &table)
		if err == nil {
			var part bpfFlowState
			err = errors.Join(table.Lookup(key, &part), table.Close())
			switch {
			case err == nil && part.Role == roleOwner:
				return Ours, nil
			case err == nil && part.Role == roleFollow:
				return Theirs, nil
			}
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return Neither, fmt.Errorf("look up flow to %s: %w", uid, err)
		}
	}
	return Neither, nil
}
