package dataplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// downgrade has the first version of this layout take over a pod's data plane, as it did:
// it adopts the maps that are pinned by its names, makes those that are not, and puts its
// programs in place of ours. It knows the other pod as number 0.
func (b *bed) downgrade(pod int) *ebpf.Collection {
	b.t.Helper()
	p := b.planes[pod]
	spec, err := ebpf.LoadCollectionSpec("testdata/layout-2.o")
	if err != nil {
		b.t.Fatal(err)
	}
	sizes := map[string]uint32{"near": uint32(p.room), "near_rev": uint32(p.room) * MaxPaths,
		"slots": 1 << slotBits(p.room), "slots_rev": 2 << slotBits(p.room)}
	made := len(sizes)
	for name, n := range entries(p.room) {
		sizes[pinOfMap(name)] = n
	}
	maps := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if name[0] == '.' {
			continue
		}
		dir := p.cfg.PinDir
		if n, ok := sizes[name]; ok {
			m.MaxEntries, dir = n, p.sized(p.room)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			made--
		}
		if maps[name], err = openMap(m, filepath.Join(dir, name)); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { maps[name].Close() })
	}
	if made != 0 {
		b.t.Errorf("%d maps are not adopted that should be", -made)
	}
	for name, v := range p.constants(p.room) {
		if err := spec.Variables[name].Set(v); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := maps["slots"].Put(p.near.slot(word(stable(pod).Remote)), uint32(1)); err != nil {
		b.t.Fatal(err)
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: maps})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	pins, err := filepath.Glob(filepath.Join(p.cfg.PinDir, "link-*"))
	if err != nil || len(pins) != 4 {
		b.t.Fatalf("links %v, %v", pins, err)
	}
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		defer l.Close()
		if err := l.Update(c.Programs[pin[strings.LastIndex(pin, "-")+1:]]); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		b.t.Error(err)
	}
	delete(b.planes, pod)
	return c
}

// TestVersionsOfALayout: the first version of this layout takes a steered flow over from ours
// and ours from it, and the flow stays on its path. Fails if maps are pinned by other names.
func TestVersionsOfALayout(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	b.watch()
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	b.move(1, 2)
	steered := func(what string) {
		t.Helper()
		before, _ := b.crossed(2, 2)
		for range 5 {
			if err := exchange(conn, what); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if after, _ := b.crossed(2, 2); after < before+5 {
			t.Errorf("%s: %d packets came back over the path", what, after-before)
		}
	}
	steered("ours")
	b.downgrade(1)
	steered("the first version")
	b.open(1)
	steered("ours again")
	old, err := filepath.Glob(filepath.Join(b.planes[1].sized(b.planes[1].room), "near*"))
	if err != nil || len(old) != 0 {
		t.Errorf("its maps are left: %v, %v", old, err)
	}
	for pod, p := range b.planes {
		if e := p.Events(); e != (Events{}) {
			t.Errorf("pod %d: %+v", pod, e)
		}
	}
	if bare, resets := b.seen("untranslated"), b.seen("resets"); bare+resets != 0 {
		t.Errorf("%d packets untranslated, %d resets", bare, resets)
	}
}

// TestNamesSayWhose: what bpftool lists of the data plane begins with pw_, as no other's does.
func TestNamesSayWhose(t *testing.T) {
	p := newBed(t).open(1)
	if !strings.HasPrefix(p.table.Name, "pw_") {
		t.Errorf("tables of flows are called %s", p.table.Name)
	}
	for _, prog := range []*ebpf.Program{p.objs.PwEgress, p.objs.PwIngress, p.objs.PwPathIngress} {
		info, err := prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		names := []string{info.Name}
		ids, _ := info.MapIDs()
		for _, id := range ids {
			m, err := ebpf.NewMapFromID(id)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			about, err := m.Info()
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, about.Name)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "pw_") {
				t.Errorf("%s, of %s: expected pw_", name, info.Name)
			}
		}
		if len(ids) < 10 {
			t.Errorf("%s has %d maps", info.Name, len(ids))
		}
	}
}
