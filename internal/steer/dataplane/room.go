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
	return map[string]uint32{"peers4": n, "peers6": n, "rev4": n * MaxPaths, "rev6": n * MaxPaths,
		"near": n, "near_rev": n * MaxPaths, "own": n, "follow": n, "order": n, "sent": n * MaxPaths,
		"received": n * MaxPaths, "slots": 1 << slotBits(room), "slots_rev": 2 << slotBits(room), "held": n}
}

// slotBits is the logarithm of the number of slots for stable addresses: eight for each
// peer, so that few share one.
func slotBits(room int) int { return max(bits.Len(uint(room-1)), 1) + 3 }

// load loads the programs with the maps for so many peers, which are pinned in dir.
func (p *Plane) load(room int, dir string) error {
	spec, err := loadBpf()
	if err != nil {
		return fmt.Errorf("read object: %w", err)
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
	stripLines(spec)
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
	if old.Out != nil {
		return old.Close()
	}
	return nil
}

// stripLines takes the lines of the source out of the programs: the kernel would keep
// them, for each pod again, for logs alone.
func stripLines(spec *ebpf.CollectionSpec) {
	for _, prog := range spec.Programs {
		for i, ins := range prog.Instructions {
			prog.Instructions[i] = ins.WithSource(nil)
		}
	}
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
		pin := filepath.Join(p.cfg.PinDir, name)
		if n, ok := sizes[name]; ok {
			m.MaxEntries, pin = n, filepath.Join(dir, name)
		}
		opened, err := openMap(m, pin)
		if err != nil {
			return out, fmt.Errorf("map %s: %w", name, err)
		}
		out[name] = opened
	}
	p.table = spec.Maps["flows"].InnerMap
	return out, firstTable(out["flows"], p.table)
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
	}{{p.objs.Own, &p.mem.own}, {p.objs.Follow, &p.mem.follow}, {p.objs.Order, &p.mem.order}, {p.objs.Sent, &p.mem.sent},
		{p.objs.Received, &p.mem.received}, {p.objs.Slots, &p.mem.slots}, {p.objs.SlotsRev, &p.mem.slotsRev},
		{p.objs.Held, &p.mem.held},
		{p.objs.Elsewhere, &p.mem.elsewhere}, {p.objs.Wanted, &p.mem.wanted}, {p.objs.Heartbeat, &p.mem.heartbeat},
		{p.objs.Events, &p.mem.events}} {
		mem, err := m.from.Memory()
		if err != nil {
			return fmt.Errorf("map memory: %w", err)
		}
		*m.to = mem
	}
	return nil
}
