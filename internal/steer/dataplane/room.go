package dataplane

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// firstRoom is for how many peers there is room at first. Each takes some 3 KiB of
// kernel memory, used or not, so a pod begins with few and is given more.
const firstRoom = 32

// growth is by how much there is more room each time.
const growth = 4

// roomPins begins the name of the directory with the maps that hold so many peers.
const roomPins = "peers-"

// growing is that directory until its maps are complete.
const growing = "growing"

// sized is where the maps for so many peers are pinned.
func (p *Plane) sized(room int) string {
	return filepath.Join(p.cfg.PinDir, roomPins+strconv.Itoa(room))
}

// roomIn is for how many peers the pinned maps are; 0 where there are none.
func roomIn(dir string) (room int, err error) {
	pins, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list pins: %w", err)
	}
	for _, pin := range pins {
		if n, ok := strings.CutPrefix(pin.Name(), roomPins); ok {
			if n, err := strconv.Atoi(n); err == nil {
				room = max(room, n)
			}
		}
	}
	return room, nil
}

// entries is how long the maps are that hold something of each peer.
func entries(room int) map[string]uint32 {
	n := uint32(room)
	return map[string]uint32{bpfMapPwPeers4: n, bpfMapPwPeers6: n, bpfMapPwRev4: n * MaxPaths,
		bpfMapPwRev6: n * MaxPaths, bpfMapPwRows: 2 * n, bpfMapPwRevRows: 2 * n * MaxPaths, bpfMapPwOwner: n,
		bpfMapPwFollower: n, bpfMapPwNotices: n, bpfMapPwSent: n * MaxPaths, bpfMapPwReceived: n * MaxPaths,
		bpfMapPwHints: 1 << slotBits(room), bpfMapPwRevHints: 2 << slotBits(room), bpfMapPwFlowCount: n}
}

// slotBits is the logarithm of the number of slots for stable addresses: eight for each
// peer, so that few share one.
func slotBits(room int) int { return max(bits.Len(uint(room-1)), 1) + 3 }

// load loads the programs with the maps for so many peers, which are pinned in dir.
func (p *Plane) load(room int, dir string) error {
	spec, err := loadObject()
	if err != nil {
		return err
	}
	maps, err := p.openMaps(spec, room, dir)
	defer func() {
		for _, m := range maps {
			m.Close()
		}
	}()
	if err != nil {
		return err
	}
	objs, err := assemble(spec, p.constants(room), maps)
	if err != nil {
		return err
	}
	return p.take(objs, room)
}

// constants are the programs', with maps for so many peers.
func (p *Plane) constants(room int) map[string]any {
	stable := p.devs[p.cfg.Dev]
	var mac [6]byte
	copy(mac[:], stable.HardwareAddr)
	var redirect uint8
	if !p.InPlace {
		redirect = 1
	}
	return map[string]any{"stable_ifindex": uint32(stable.Index), "stable_mac": mac,
		"to_stable_dev": redirect, "lease_ns": uint64(p.cfg.Lease), "slot_shift": uint32(32 - slotBits(room)),
		"slot_rev_shift": uint32(31 - slotBits(room)), "flows_per_peer": uint32(max(p.cfg.Flows/2, 1))}
}

// assemble loads the programs with the maps.
func assemble(spec *ebpf.CollectionSpec, constants map[string]any, maps map[string]*ebpf.Map) (
	objs bpfObjects, err error) {
	for name, v := range constants {
		if err := spec.Variables[name].Set(v); err != nil {
			return objs, fmt.Errorf("set %s: %w", name, err)
		}
	}
	return objs, spec.LoadAndAssign(&objs, &ebpf.CollectionOptions{MapReplacements: maps})
}

// take uses other programs and maps from now on.
func (p *Plane) take(objs bpfObjects, room int) error {
	old := p.objs
	p.objs, p.room = objs, room
	if err := p.mapMemory(); err != nil {
		return err
	}
	p.used = append(p.used, make([]bool, room-len(p.used))...)
	if old.PwEgress != nil {
		return old.Close()
	}
	return nil
}

// loadObject reads the object, and takes the lines of the source out of the programs: the
// kernel would keep them, for each pod again, for logs alone.
func loadObject() (*ebpf.CollectionSpec, error) {
	spec, err := loadBpf()
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	for _, prog := range spec.Programs {
		for i, ins := range prog.Instructions {
			prog.Instructions[i] = ins.WithSource(nil)
		}
	}
	spec.Maps[".rodata"].Name = "pw_rodata" // as the kernel shows it
	return spec, nil
}

// openMaps opens the maps that are pinned, and makes and pins those that are not.
func (p *Plane) openMaps(spec *ebpf.CollectionSpec, room int, dir string) (map[string]*ebpf.Map, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create pin directory: %w", err)
	}
	out, sizes := map[string]*ebpf.Map{}, entries(room)
	for name, m := range spec.Maps {
		if strings.HasPrefix(name, ".") {
			continue // the programs' constants
		}
		in := p.cfg.PinDir
		if n, ok := sizes[name]; ok {
			m.MaxEntries, in = n, dir
		}
		opened, err := openMap(m, filepath.Join(in, pinOfMap(name)))
		if err != nil {
			return out, fmt.Errorf("map %s: %w", name, err)
		}
		out[name] = opened
	}
	p.table = spec.Maps[bpfMapPwFlows].InnerMap
	return out, firstTable(out[bpfMapPwFlows], p.table)
}

func openMap(spec *ebpf.MapSpec, pin string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(pin, nil)
	switch {
	case err == nil:
		if err := spec.Compatible(m); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if m, err = ebpf.NewMap(spec); err != nil {
		return nil, err
	}
	if err := m.Pin(pin); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (p *Plane) mapMemory() error {
	for _, m := range []struct {
		from *ebpf.Map
		to   **ebpf.Memory
	}{{p.objs.PwOwner, &p.mem.owner}, {p.objs.PwFollower, &p.mem.follower}, {p.objs.PwNotices, &p.mem.notices},
		{p.objs.PwSent, &p.mem.sent}, {p.objs.PwReceived, &p.mem.received}, {p.objs.PwHints, &p.mem.hints},
		{p.objs.PwRevHints, &p.mem.revHints}, {p.objs.PwFlowCount, &p.mem.flowCount},
		{p.objs.PwCandidates, &p.mem.candidates}, {p.objs.PwMisses, &p.mem.misses}, {p.objs.PwHeartbeat, &p.mem.heartbeat},
		{p.objs.PwEvents, &p.mem.events}, {p.objs.PwSyns, &p.mem.syns}} {
		mem, err := m.from.Memory()
		if err != nil {
			return fmt.Errorf("map memory: %w", err)
		}
		*m.to = mem
	}
	p.near = doubled{p.objs.PwRows, p.mem.hints, 32 - slotBits(p.room), map[uint32]places{}}
	p.nearRev = doubled{p.objs.PwRevRows, p.mem.revHints, 31 - slotBits(p.room), map[uint32]places{}}
	return nil
}
