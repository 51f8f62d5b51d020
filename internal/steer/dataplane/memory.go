package dataplane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Memory is the kernel memory in bytes that the data plane takes: its maps, the tables of
// flows among them, and its programs, as the kernel accounts for them (memlock in
// /proc/PID/fdinfo, which says for maps what they have allocated, since Linux 6.4). Any
// goroutine may ask.
func (p *Plane) Memory() (uint64, error) {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	var sum uint64
	counted := map[ebpf.MapID]bool{}
	for _, prog := range []*ebpf.Program{p.objs.PwIngress, p.objs.PwEgress, p.objs.PwPathIngress, p.objs.PwAssignRow,
		p.objs.PwAdmit} {
		info, err := prog.Info()
		if err != nil {
			return 0, fmt.Errorf("read program: %w", err)
		}
		size, _ := info.Memlock()
		jited, err := info.JitedSize() // not in memlock
		if err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
			return 0, fmt.Errorf("read program: %w", err)
		}
		sum += size + uint64(jited)
	}
	for _, m := range p.maps() {
		if err := weigh(m, counted, &sum); err != nil {
			return 0, err
		}
	}
	for i := range uint32(2) {
		var t *ebpf.Map
		if err := p.objs.PwFlows.Lookup(i, &t); errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		} else if err != nil {
			return 0, fmt.Errorf("look up table of flows: %w", err)
		}
		if err := errors.Join(weigh(t, counted, &sum), t.Close()); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// weigh adds what a map takes, once.
func weigh(m *ebpf.Map, counted map[ebpf.MapID]bool, sum *uint64) error {
	info, err := m.Info()
	if err != nil {
		return fmt.Errorf("read map: %w", err)
	}
	id, _ := info.ID()
	if size, ok := info.Memlock(); ok && !counted[id] {
		*sum += size
	}
	counted[id] = true
	return nil
}

// maps are the data plane's, by name.
func (p *Plane) maps() map[string]*ebpf.Map {
	o := &p.objs
	return map[string]*ebpf.Map{bpfMapPwPeers4: o.PwPeers4, bpfMapPwPeers6: o.PwPeers6, bpfMapPwRev4: o.PwRev4,
		bpfMapPwRev6: o.PwRev6, bpfMapPwRows: o.PwRows, bpfMapPwRevRows: o.PwRevRows, bpfMapPwOwner: o.PwOwner,
		bpfMapPwFollower: o.PwFollower, bpfMapPwNotices: o.PwNotices, bpfMapPwSent: o.PwSent,
		bpfMapPwReceived: o.PwReceived, bpfMapPwHints: o.PwHints, bpfMapPwRevHints: o.PwRevHints,
		bpfMapPwFlowCount: o.PwFlowCount, bpfMapPwCandidates: o.PwCandidates, bpfMapPwMisses: o.PwMisses,
		bpfMapPwHeartbeat: o.PwHeartbeat, bpfMapPwEvents: o.PwEvents, bpfMapPwFlowCache: o.PwFlowCache,
		bpfMapPwFlows: o.PwFlows, bpfMapPwSyns: o.PwSyns}
}
