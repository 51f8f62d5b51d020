package dataplane

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// layout1 is the data plane of a pod as versions with layout 1 had it, and the part of
// their agents that touched it: it adopts what is pinned, knows the other pod by IPv4, as
// number 0, and renews its lease until stop.
type layout1 struct {
	t     testing.TB
	netns string
	dir   string
	uid   string // the other pod's
	home  Pair
	paths []Path // with one pair of addresses each
	lease time.Duration
	maps  map[string]*ebpf.Map
	coll  *ebpf.Collection
	end   chan struct{}
	wg    sync.WaitGroup
}

// lease1 is long enough for a busy machine, and short enough to wait for.
const lease1 = 400 * time.Millisecond

func (b *bed) openLayout1(pod int) *layout1 {
	b.t.Helper()
	peer := b.peer(pod)
	o := &layout1{t: b.t, netns: b.pods[pod], dir: b.former(pod), uid: peer.UID, home: stable(pod), paths: peer.Paths,
		lease: lease1}
	o.open("testdata/layout-1.o")
	return o
}

// open attaches the programs of an object.
func (o *layout1) open(object string) {
	t := o.t
	t.Helper()
	o.end = make(chan struct{})
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range spec.Maps {
		if name[0] != '.' {
			m.Pinning = ebpf.PinByName
		}
	}
	for name, v := range map[string]any{"stable_ifindex": uint32(o.index("eth0")), "lease_ns": uint64(o.lease)} {
		if err := spec.Variables[name].Set(v); err != nil {
			t.Fatal(err)
		}
	}
	if o.coll, err = ebpf.NewCollectionWithOptions(spec,
		ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: o.dir}}); err != nil {
		t.Fatal(err)
	}
	o.maps = o.coll.Maps
	o.peer()
	o.beat()
	o.hook("eth0", "in", ebpf.AttachTCXIngress, link.Head())
	for _, path := range o.paths {
		o.hook(path.Dev, "path_in", ebpf.AttachTCXIngress, link.Head())
	}
	o.hook("eth0", "out", ebpf.AttachTCXEgress, link.Tail())
	o.wg.Go(func() {
		for {
			select {
			case <-o.end:
				return
			case <-time.After(50 * time.Millisecond):
				o.beat()
			}
		}
	})
}

func (o *layout1) index(dev string) (n int) {
	if err := netns.Do(o.netns, func() error {
		i, err := net.InterfaceByName(dev)
		if err == nil {
			n = i.Index
		}
		return err
	}); err != nil {
		o.t.Fatal(err)
	}
	return n
}

// former is where versions with layout 1 pin a pod's data plane.
func (b *bed) former(pod int) string { return filepath.Join(b.dir, fmt.Sprintf("former-%d", pod)) }

func (o *layout1) hook(dev, prog string, at ebpf.AttachType, where link.Anchor) {
	o.t.Helper()
	pin := filepath.Join(o.dir, "link-"+dev+"-"+prog)
	if err := netns.Do(o.netns, func() error {
		if old, err := link.LoadPinnedLink(pin, nil); err == nil {
			defer old.Close()
			return old.Update(o.coll.Programs[prog])
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: o.index(dev), Program: o.coll.Programs[prog], Attach: at,
			Anchor: where})
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Pin(pin)
	}); err != nil {
		o.t.Fatalf("layout 1 in %s: %s on %s: %v", o.netns, prog, dev, err)
	}
}

// put writes a value whose fields are in native order.
func (o *layout1) put(name string, key uint32, fields ...any) {
	var v []byte
	for _, f := range fields {
		var err error
		if v, err = binary.Append(v, binary.NativeEndian, f); err != nil {
			o.t.Error(err)
		}
	}
	v = append(v, make([]byte, int(o.maps[name].ValueSize())-len(v))...)
	if err := o.maps[name].Put(key, v); err != nil {
		o.t.Errorf("layout 1: enter %s: %v", name, err)
	}
}

// peer enters the other pod, in the structs of dataplane.h of then.
func (o *layout1) peer() {
	home, paths := o.home, o.paths
	gen, mine, theirs := generation(o.uid), word(home.Local), word(home.Remote)
	row := []any{[4]uint32{0, gen, lower(home), theirs.W[0]}, mine.W, [56]byte{}}
	hints := [2 * 8192]uint32{}
	hint := func(a uint32) uint32 { return a * 0x9E3779B1 >> 19 }
	hints[hint(theirs.W[0])] = 1
	for _, path := range paths {
		at := path.Pairs[0]
		local, remote, dev := word(at.Local), word(at.Remote), uint32(o.index(path.Dev))
		flag := flags(path)
		row = append(row, local.W, remote.W, [2]uint32{diff(home, at), dev}, uint16(path.MTU), [14]byte{uint8(flag)})
		i := uint32(path.Index)
		rev := []any{[8]uint32{0, gen, lower(home), i, dev, diff(at, home), flag, remote.W[0]}, local.W, mine.W, theirs.W}
		o.put("rev4", remote.W[0], rev...)
		o.put("near_rev", i, rev...)
		hints[8192+hint(remote.W[0])] = i + 1
	}
	o.put("peers4", theirs.W[0], row...)
	o.put("near", 0, row...)
	o.put("filter", 0, hints[:])
}

// beat is Plane.RenewLease of then: after the lease's end choices are under a later epoch.
func (o *layout1) beat() {
	v, err := o.maps["heartbeat"].LookupBytes(uint32(0))
	if err != nil {
		o.t.Error(err)
		return
	}
	expired := coarse()-native64(v) >= uint64(o.lease)
	putNative64(v, coarse())
	if err := o.maps["heartbeat"].Put(uint32(0), v); err != nil {
		o.t.Error(err)
	}
	if row := o.row(); expired && row[0]&7 != 0 {
		o.choose(row[0]&^0x18 | (row[0]+0x10)&0x18)
	}
}

func (o *layout1) row() []byte {
	row, err := o.maps["own"].LookupBytes(uint32(0))
	if err != nil {
		o.t.Error(err)
		return make([]byte, Buckets)
	}
	return row
}

func (o *layout1) choose(c uint8) {
	row := [Buckets]uint8{}
	for i := range row {
		row[i] = c
	}
	o.put("own", 0, row[:])
}

// to is Plane.Switch of then.
func (o *layout1) to(path uint8) {
	if c := o.row()[0]; c&7 != path {
		o.choose(path | (c+8)&0x18 | 0x20)
	}
}

// sent is what has gone over a path.
func (o *layout1) sent(path uint32) uint64 {
	v, err := o.maps["sent"].LookupBytes(path)
	if err != nil {
		o.t.Error(err)
		return 0
	}
	return native64(v)
}

// stop ends the agent, and leaves what it has pinned.
func (o *layout1) stop() {
	close(o.end)
	o.wg.Wait()
	o.coll.Close()
}

// layout1Env tells a process that it is an agent of a version with layout 1.
const layout1Env = "PATHWISE_STEER_LAYOUT1"

// layout1Order is what it is told: the pod, its peer, and the path to move flows to.
type layout1Order struct {
	Object, Netns, Dir, UID string
	Local, Remote           netip.Addr
	Paths                   []layout1Path
	To                      uint8
}

type layout1Path struct {
	Index         int
	Dev           string
	MTU           int
	Local, Remote netip.Addr
}

// TestLayout1Process is an agent of a version with layout 1, for tests that kill it: it
// attaches its data plane, or adopts that of its predecessor, moves flows, says so, and
// renews its lease until it is ended.
func TestLayout1Process(t *testing.T) {
	text := os.Getenv(layout1Env)
	if text == "" {
		return // no child
	}
	var order layout1Order
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	o := &layout1{t: t, netns: order.Netns, dir: order.Dir, uid: order.UID,
		home: Pair{Local: order.Local, Remote: order.Remote}, lease: DefaultLease}
	for _, p := range order.Paths {
		o.paths = append(o.paths, Path{Index: p.Index, Dev: p.Dev, MTU: p.MTU, Pairs: []Pair{{p.Local, p.Remote}}})
	}
	o.open(order.Object)
	o.to(order.To)
	if _, err := os.Stdout.WriteString("open\n"); err != nil {
		t.Fatal(err)
	}
	select {}
}
