package dataplane

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// former1 attaches to pod 1 what a version with layout 1 would have, as it did, with a
// lease that runs: its object is kept as it was. It knows no peer.
func (b *bed) former1() (dir string) {
	b.t.Helper()
	dir = filepath.Join(b.dir, "former")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpec("testdata/layout-1.o")
	if err != nil {
		b.t.Fatal(err)
	}
	for name, m := range spec.Maps {
		if name[0] != '.' {
			m.Pinning = ebpf.PinByName
		}
	}
	for name, v := range map[string]any{"stable_ifindex": uint32(b.index(1, "eth0")), "lease_ns": uint64(time.Hour)} {
		if err := spec.Variables[name].Set(v); err != nil {
			b.t.Fatal(err)
		}
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: dir}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	beat := make([]byte, c.Maps["heartbeat"].ValueSize())
	putNative64(beat, coarse())
	if err := c.Maps["heartbeat"].Put(uint32(0), beat); err != nil {
		b.t.Fatal(err)
	}
	for _, at := range []struct {
		dev, prog string
		hook      ebpf.AttachType
		where     link.Anchor
	}{{"eth0", "in", ebpf.AttachTCXIngress, link.Head()}, {"net1", "path_in", ebpf.AttachTCXIngress, link.Head()},
		{"net2", "path_in", ebpf.AttachTCXIngress, link.Head()}, {"eth0", "out", ebpf.AttachTCXEgress, link.Tail()}} {
		if err := netns.Do(b.pods[1], func() error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: b.index(1, at.dev), Program: c.Programs[at.prog],
				Attach: at.hook, Anchor: at.where})
			if err != nil {
				return err
			}
			defer l.Close()
			return l.Pin(filepath.Join(dir, "link-"+at.dev+"-"+at.prog))
		}); err != nil {
			b.t.Fatal(err)
		}
	}
	return dir
}

// TestFormerLayout: the data plane of another layout is there. Its lease is ended, ours
// works next to it, it is taken away when nothing has come over its paths for a while,
// and flows are steered all along. Fails if Open does not look for one.
func TestFormerLayout(t *testing.T) {
	b := newBed(t)
	dir := b.former1()
	b.open(2)
	cfg, now := b.config(1), time.Now()
	cfg.Former, cfg.Now = []string{dir, filepath.Join(b.dir, "none")}, func() time.Time { return now }
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.planes[1] = p
	if err := p.SetPeer(b.peer(1)); err != nil {
		t.Fatal(err)
	}
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	steady := func(what string, want int) {
		t.Helper()
		if n, err := p.Former(); err != nil || n != want {
			t.Fatalf("%s: %d former data planes, %v; expected %d", what, n, err, want)
		}
		for _, path := range []int{1, 2, 0} {
			b.move(1, path)
			before, _ := b.crossed(1, path)
			for range 3 {
				if err := exchange(conn, what); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if after, _ := b.crossed(1, path); after < before+3 {
				t.Errorf("%s: %d packets over path %d", what, after-before, path)
			}
		}
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "heartbeat"), nil)
	if err != nil {
		t.Fatal(err)
	}
	beat, err := m.LookupBytes(uint32(0))
	if m.Close(); err != nil || native64(beat) != 0 {
		t.Errorf("its lease was not ended: %v %v", beat, err)
	}
	steady("both are there", 1)
	now = now.Add(saysBye)
	steady("it has said so", 1)
	if outs, _ := filepath.Glob(filepath.Join(dir, "link-*-out")); len(outs) != 0 {
		t.Errorf("it still sends: %v", outs)
	}
	now = now.Add(stillComes)
	steady("nothing came", 0)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its pins are left: %v", err)
	}
	if e := p.Events(); e.Errors+e.Strangers+e.Forged+e.Unadmitted != 0 {
		t.Errorf("%+v", e)
	}
}

// TestGrow: room for more peers is made while a flow is steered, which loses nothing.
func TestGrow(t *testing.T) {
	b := newBed(t)
	b.peers = 1024
	one := b.open(1)
	b.open(2)
	s := b.bulk("10.90.2.2:7001", 25e6, false)
	if err := s.more(1e6); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	for i := range 300 {
		peer := benchPeer(i)
		peer.Pairs[0].Local = stable(1).Local
		if err := one.SetPeer(peer); err != nil {
			t.Fatalf("peer %d: %v", i, err)
		}
	}
	if one.room < 300 {
		t.Errorf("there is room for %d peers", one.room)
	}
	before := b.bytes(1, 2)
	if err := s.more(10e6); err != nil {
		t.Fatal(err)
	}
	if n := b.bytes(1, 2) - before; n < 5e6 {
		t.Errorf("%d bytes went over the path", n)
	}
	if pins, _ := filepath.Glob(filepath.Join(b.config(1).PinDir, roomPins+"*")); len(pins) != 1 {
		t.Errorf("pinned: %v", pins)
	}
	b.open(1) // the next agent finds the room
	if b.planes[1].room != one.room {
		t.Errorf("the next plane has room for %d peers", b.planes[1].room)
	}
	t.Logf("longest gap %v", s.longest())
}
