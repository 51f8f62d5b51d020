package agent

import (
	"fmt"
	"hash/maphash"
	"net/netip"

	"pathwise.dev/pathwise/internal/topo"
)

// tally counts keys by their hashes: what is equal is counted as one, and once in a great while so is
// what is not. It has no pointers, and keeps no keys.
type tally[K comparable] struct {
	seed  maphash.Seed
	slots []count
	// used are the slots of all hashes that were ever counted, and several the hashes that are
	// counted more than once.
	used, several int
}

type count struct{ hash, n uint32 }

// newTally has room for n keys, and for half as many that come as others go.
func newTally[K comparable](n int) tally[K] {
	size := 64
	for size < 2*n {
		size *= 2
	}
	return tally[K]{seed: maphash.MakeSeed(), slots: make([]count, size)}
}

// room reports whether n more can be counted: what has gone keeps its own.
func (t *tally[K]) room(n int) bool { return 4*(t.used+n) <= 3*len(t.slots) }

// slot is that of a key.
func (t *tally[K]) slot(k K) *count {
	h, mask := maphash.Comparable(t.seed, k), len(t.slots)-1
	hash := uint32(h>>32) | 1 // 0 is a free slot's
	for at := int(h) & mask; ; at = (at + 1) & mask {
		switch s := &t.slots[at]; s.hash {
		case hash:
			return s
		case 0:
			s.hash = hash
			t.used++
			return s
		}
	}
}

func (t *tally[K]) add(k K) {
	s := t.slot(k)
	if s.n++; s.n == 2 {
		t.several++
	}
}

// remove takes away one that was added.
func (t *tally[K]) remove(k K) {
	s := t.slot(k)
	if s.n--; s.n == 1 {
		t.several--
	}
}

// many reports whether there may be several of a key that is there.
func (t *tally[K]) many(k K) bool { return t.slot(k).n > 1 }

// register counts the UIDs and the addresses of pods.
type register struct {
	pods  []topo.Pod
	uids  tally[string]
	addrs tally[netip.Addr]
	// What it took last, until that is forgotten: the pods before, and what tells those that it has from them.
	was   []topo.Pod
	since changes
}

// vet takes the cluster's pods, unless it is to be refused. Those that it has were checked.
func (r *register) vet(c Cluster) error {
	if err := c.checkHosts(); err != nil {
		return err
	}
	x := changed(r.pods, c.Pods)
	for _, at := range x.came {
		if err := CheckPod(c.Pods[at]); err != nil {
			return fmt.Errorf("pods[%d] (%q): %w", at, c.Pods[at].Name, err)
		}
	}
	if r.take(c.Pods, x); r.uids.several > 0 {
		return c.checkUIDs()
	}
	return nil
}

// take counts the pods, by what tells them from those that it has.
func (r *register) take(pods []topo.Pod, x changes) {
	r.was, r.pods, r.since = r.pods, pods, x
	addrs := 0
	for _, at := range x.came {
		eachAddr(&pods[at], func(int, netip.Addr) { addrs++ })
	}
	if !r.uids.room(len(x.came)) || !r.addrs.room(addrs) {
		r.whole()
		return
	}
	for _, at := range x.gone {
		r.count(&r.was[at], r.uids.remove, r.addrs.remove)
	}
	for _, at := range x.came {
		r.count(&pods[at], r.uids.add, r.addrs.add)
	}
}

// whole counts all.
func (r *register) whole() {
	addrs := 0
	for i := range r.pods {
		eachAddr(&r.pods[i], func(int, netip.Addr) { addrs++ })
	}
	r.uids, r.addrs = newTally[string](len(r.pods)), newTally[netip.Addr](addrs)
	for i := range r.pods {
		r.count(&r.pods[i], r.uids.add, r.addrs.add)
	}
}

// count has a pod's UID, if it has one, and its addresses be counted.
func (r *register) count(p *topo.Pod, uid func(string), addr func(netip.Addr)) {
	if p.UID != "" {
		uid(p.UID)
	}
	eachAddr(p, func(_ int, a netip.Addr) { addr(a) })
}

// between is what tells pods from those before, which it knows of what it took last.
func (r *register) between(was, now []topo.Pod) changes {
	if oneMemory(was, r.was) && oneMemory(now, r.pods) {
		return r.since
	}
	return changed(was, now)
}

// forget lets go of what it had before.
func (r *register) forget() { r.was, r.since = nil, changes{} }

// eachAddr has every address that a pod has, by the attachment's place.
func eachAddr(p *topo.Pod, do func(n int, a netip.Addr)) {
	for n := range p.Attachments {
		at := &p.Attachments[n]
		if at.Addr.IsValid() {
			do(n, at.Addr.Unmap())
		}
		if at.Addr6.IsValid() && at.Addr6 != at.Addr {
			do(n, at.Addr6)
		}
	}
}
