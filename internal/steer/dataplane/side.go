package dataplane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/flow"
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

// Side returns who decides where the flow with these ports goes, and the row of its bucket.
// proto is the number of its protocol, as in IP.
func (p *Plane) Side(uid string, proto uint8, local, remote uint16) (Side, flow.Row, error) {
	state, err := p.state(uid, proto, local, remote)
	switch {
	case err != nil:
		return Neither, 0, err
	case state.Role == roleOwner:
		return Ours, flow.Row(state.Row), nil
	case state.Role == roleFollow:
		return Theirs, flow.Row(state.Row), nil
	}
	return Neither, 0, nil
}

// state looks up what is known of a flow; its role is none where nothing is.
func (p *Plane) state(uid string, proto uint8, local, remote uint16) (state bpfFlowState, err error) {
	key, err := p.flow(uid, proto, local, remote)
	if err != nil {
		return state, err
	}
	for i := range uint32(2) { // the second is there while the table is exchanged
		var table *ebpf.Map
		err := p.objs.PwFlows.Lookup(i, &table)
		if err == nil {
			err = errors.Join(table.Lookup(key, &state), table.Close())
		}
		if err == nil {
			return state, nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return bpfFlowState{}, fmt.Errorf("look up flow to %s: %w", uid, err)
		}
	}
	return bpfFlowState{}, nil
}

// AdmitOneWay takes a flow of datagrams that nobody answers for one that is answered, so that it
// goes where the choices say. First at the end that gets it: it reports whether the flow's
// announcement has come there over the default network. Doing it twice changes nothing.
func (p *Plane) AdmitOneWay(uid string, local, remote uint16) (bool, error) {
	key, err := p.flow(uid, unix.IPPROTO_UDP, local, remote)
	if err != nil {
		return false, err
	}
	admitted, err := p.objs.PwAdmit.Run(&ebpf.RunOptions{Context: key})
	if err != nil {
		return false, fmt.Errorf("admit flow to %s: %w", uid, err)
	}
	return admitted == 1, nil
}

// flow is a flow's key in the table.
func (p *Plane) flow(uid string, proto uint8, local, remote uint16) (bpfFlow, error) {
	id, ok := p.ids[uid]
	if !ok {
		return bpfFlow{}, fmt.Errorf("look up flow to %s: %w", uid, errUnknown)
	}
	return bpfFlow{Peer: id, Generation: generation(uid), Local: local, Remote: remote, Proto: proto}, nil
}

// AssignRow has the flow with these ports, which this pod has opened, go by a row of the
// choices: where that row has its bucket. The peer's data plane follows by itself. It reports
// whether there is such a flow; doing it twice changes nothing.
func (p *Plane) AssignRow(uid string, proto uint8, local, remote uint16, row flow.Row) (bool, error) {
	key, err := p.flow(uid, proto, local, remote)
	if err != nil {
		return false, err
	}
	found, err := p.objs.PwAssignRow.Run(&ebpf.RunOptions{Context: bpfRowOrder{Flow: key, Row: uint32(row)}})
	if err != nil {
		return false, fmt.Errorf("assign row to flow to %s: %w", uid, err)
	}
	return found == 1, nil
}
