package dataplane

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
)

// Widening is a data plane for more peers, on its way: the programs are loaded again,
// with larger maps. That takes a large part of a second, and needs nothing of the Plane;
// Exchange then puts it in place, in milliseconds.
type Widening struct {
	room      int
	constants map[string]any
	// shared are maps that stay, as the flows', and sized those for more peers.
	shared, sized map[string]*ebpf.Map
	objs          bpfObjects
}

// NearlyFull reports whether it is time to make room for more peers: three quarters are
// taken, and there may be more.
func (p *Plane) NearlyFull() bool {
	return p.room < p.cfg.Peers && len(p.places) >= p.room-p.room/growth
}

// NeedsRoom reports whether SetPeer would have to make room first for a peer with that
// stable address, which takes as long as loading programs.
func (p *Plane) NeedsRoom(a netip.Addr) bool {
	if p.room >= p.cfg.Peers || slices.Contains(p.used, false) {
		return false
	}
	_, err := p.row(a)
	return errors.Is(err, ebpf.ErrKeyNotExist)
}

// Widen begins to make room for more peers. Load it, and then Exchange or Close it.
func (p *Plane) Widen() (*Widening, error) {
	room := min(p.room*growth, p.cfg.Peers)
	w := &Widening{room: room, constants: p.constants(room), shared: map[string]*ebpf.Map{}, sized: map[string]*ebpf.Map{}}
	sizes := entries(room)
	for name, m := range p.maps() {
		if _, ok := sizes[name]; ok {
			continue
		}
		clone, err := m.Clone()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("map %s: %w", name, err), w.Close())
		}
		w.shared[name] = clone
	}
	return w, nil
}

// Load loads it. It pins nothing: what is killed meanwhile leaves nothing.
func (w *Widening) Load() error {
	spec, err := loadObject()
	if err != nil {
		return err
	}
	all := map[string]*ebpf.Map{}
	for name, m := range w.shared {
		all[name] = m
	}
	for name, n := range entries(w.room) {
		spec.Maps[name].MaxEntries = n
		m, err := ebpf.NewMap(spec.Maps[name])
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		w.sized[name], all[name] = m, m
	}
	if w.objs, err = assemble(spec, w.constants, all); err != nil {
		return fmt.Errorf("load data plane for %d peers: %w", w.room, err)
	}
	return nil
}

// Close lets go of what is not in place.
func (w *Widening) Close() error {
	var errs []error
	for _, maps := range []map[string]*ebpf.Map{w.shared, w.sized} {
		for _, m := range maps {
			errs = append(errs, m.Close())
		}
	}
	if w.objs.PwEgress != nil {
		errs = append(errs, w.objs.Close())
	}
	return errors.Join(errs...)
}

// errOvertaken is returned where there is more room already.
var errOvertaken = errors.New("there is as much room already")

// Exchange puts it in place: larger maps, with all that the old ones hold, and the programs
// that use them, hook by hook. Flows are in maps that stay. What is killed on the way
// leaves the old maps in use, or the new ones complete; what fails leaves the plane with
// those that are in use.
func (p *Plane) Exchange(w *Widening) error {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	if w.room <= p.room {
		return errors.Join(errOvertaken, w.Close())
	}
	dir := filepath.Join(p.cfg.PinDir, growing)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return errors.Join(fmt.Errorf("create pin directory: %w", err), w.Close())
	}
	for name, m := range w.sized {
		if err := m.Pin(filepath.Join(dir, pinOfMap(name))); err != nil {
			return errors.Join(fmt.Errorf("pin map %s: %w", name, err), w.Close())
		}
	}
	old, err := p.copied()
	if err != nil {
		return errors.Join(err, w.Close())
	}
	was := Plane{objs: p.objs, mem: p.mem, room: p.room, used: p.used, near: p.near, nearRev: p.nearRev}
	p.objs = bpfObjects{} // which take would close
	objs := w.objs
	w.objs = bpfObjects{}
	err = errors.Join(p.take(objs, w.room), w.Close())
	if err == nil {
		err = p.fill(old)
	}
	if err == nil {
		err = os.Rename(dir, p.sized(w.room))
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("make room for %d peers: %w", w.room, err), p.objs.Close(), os.RemoveAll(dir))
		p.objs, p.mem, p.room, p.used, p.near, p.nearRev = was.objs, was.mem, was.room, was.used, was.near, was.nearRev
		return err
	}
	err = p.attach(p.objs.bpfPrograms)
	if err := errors.Join(err, was.objs.Close()); err != nil {
		return fmt.Errorf("attach data plane for %d peers: %w", w.room, err)
	}
	return p.tidy()
}

// grow makes room for more peers, at once.
func (p *Plane) grow() error {
	w, err := p.Widen()
	if err != nil {
		return err
	}
	if err := w.Load(); err != nil {
		return errors.Join(err, w.Close())
	}
	return p.Exchange(w)
}

// tidy removes the maps that are used no more, also those of other versions of this layout.
func (p *Plane) tidy() error {
	pins, err := os.ReadDir(p.cfg.PinDir)
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, pin := range pins {
		at := filepath.Join(p.cfg.PinDir, pin.Name())
		if pin.IsDir() && at != p.sized(p.room) {
			if err := os.RemoveAll(at); err != nil {
				return fmt.Errorf("remove pins: %w", err)
			}
		}
	}
	for _, former := range formerPins() {
		for _, dir := range []string{p.cfg.PinDir, p.sized(p.room)} {
			if err := os.Remove(filepath.Join(dir, former)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove pin: %w", err)
			}
		}
	}
	return nil
}

// rows is all that the maps hold of peers.
type rows struct {
	peers4 map[uint32]bpfPeer
	peers6 map[bpfAddr]bpfPeer
	rev4   map[uint32]bpfRev
	rev6   map[bpfAddr]bpfRev
	memory [6][]byte
}

// arrays are those with something of each peer that is no address.
func (p *Plane) arrays() [6]*ebpf.Memory {
	return [6]*ebpf.Memory{p.mem.owner, p.mem.follower, p.mem.notices, p.mem.sent, p.mem.received, p.mem.flowCount}
}

// copied is what there is now. The counters go on meanwhile: what passes until the
// programs are exchanged is not counted.
func (p *Plane) copied() (rows, error) {
	r, err := p.rows()
	if err != nil {
		return r, err
	}
	for i, m := range p.arrays() {
		r.memory[i] = make([]byte, m.Size())
		read(m, 0, r.memory[i])
	}
	return r, nil
}

// rows is what the maps hold of peers by their addresses.
func (p *Plane) rows() (r rows, err error) {
	var errs [4]error
	r.peers4, errs[0] = all[uint32, bpfPeer](p.objs.PwPeers4)
	r.peers6, errs[1] = all[bpfAddr, bpfPeer](p.objs.PwPeers6)
	r.rev4, errs[2] = all[uint32, bpfRev](p.objs.PwRev4)
	r.rev6, errs[3] = all[bpfAddr, bpfRev](p.objs.PwRev6)
	return r, errors.Join(errs[:]...)
}

// all lists a map, many entries at a time.
func all[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	out := map[K]V{}
	keys, values := make([]K, batch), make([]V, batch)
	var at ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&at, keys, values, nil)
		for i := range n {
			out[keys[i]] = values[i]
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) { // the end
			return out, nil
		}
		if err != nil { // a row that is not known would pass for a free one
			return nil, fmt.Errorf("list %v: %w", m, err)
		}
	}
}

// batch is how many entries of a map are read or written at a time.
const batch = 1024

// putAll writes entries of a map.
func putAll[K, V any](m *ebpf.Map, keys []K, values []V) error {
	for len(keys) > 0 {
		n := min(len(keys), batch)
		if _, err := m.BatchUpdate(keys[:n], values[:n], nil); err != nil {
			return err
		}
		keys, values = keys[n:], values[n:]
	}
	return nil
}

// fill enters it in other maps.
func (p *Plane) fill(r rows) error {
	for i, m := range p.arrays() {
		write(m, 0, r.memory[i])
	}
	var ids, paths []uint32
	peers4, revs4 := slices.Collect(maps.Keys(r.peers4)), slices.Collect(maps.Keys(r.rev4))
	peers6, revs6 := slices.Collect(maps.Keys(r.peers6)), slices.Collect(maps.Keys(r.rev6))
	near, nearRev := values(r.peers4, peers4), values(r.rev4, revs4)
	for _, v := range near { // the first place of each
		ids, p.near.places[v.Id] = append(ids, v.Id*2), places{}
	}
	for _, v := range nearRev {
		row := v.Id*MaxPaths + v.Path
		paths, p.nearRev.places[row] = append(paths, row*2), places{}
	}
	err := errors.Join(
		putAll(p.objs.PwPeers4, peers4, near), putAll(p.objs.PwRows, ids, near),
		putAll(p.objs.PwRev4, revs4, nearRev), putAll(p.objs.PwRevRows, paths, nearRev),
		putAll(p.objs.PwPeers6, peers6, values(r.peers6, peers6)), putAll(p.objs.PwRev6, revs6, values(r.rev6, revs6)))
	p.remakeHints(r)
	return err
}

// values are those of the keys.
func values[K comparable, V any](m map[K]V, keys []K) (out []V) {
	for _, k := range keys {
		out = append(out, m[k])
	}
	return out
}
