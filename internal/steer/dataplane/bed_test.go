package dataplane

import (
	"flag"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestMain has four tests at a time run of those that are marked as parallel, as these wait more than they work.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// bed is two pods, a and b, and a router m between them:
//
//	network 0 (eth0)  routed by m, 10.90.POD.2, fd90:POD::2, MTU 1500
//	network 1 (net1)  a bridge in m, 10.91.0.POD, fd91::POD, MTU 1450
//	network 2 (net2)  routed by m, 10.92.POD.2, fd92:POD::2, MTU 9000
//
// Devices in m are called after network and pod: p1n0.
type bed struct {
	t      testing.TB
	prefix string
	pods   []string
	dir    string
	planes map[int]*Plane
	mtu    [3]int
	lease  time.Duration
	encap  bool // of network 2
	eight  bool // the pods' data planes are told that the other one knows eight DSCPs
	// flowsOf is how many flows a pod may have.
	flowsOf int
	// peers is how many peers a pod may have, 16 if it is 0.
	peers int
}

func newBed(t testing.TB) *bed {
	t.Helper()
	return newBedMTU(t, [3]int{1500, 1450, 9000})
}

func newBedMTU(t testing.TB, mtu [3]int) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and eBPF")
	}
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &bed{t: t, prefix: fmt.Sprintf("pw-t-%d-%x", os.Getpid(), crc32.ChecksumIEEE([]byte(dir))), dir: dir,
		planes: map[int]*Plane{}, mtu: mtu, lease: time.Hour}
	b.pods = []string{b.prefix + "-m", b.prefix + "-a", b.prefix + "-b"}
	for _, ns := range b.pods {
		if err := netns.Create(ns); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(ns); err != nil {
				t.Error(err)
			}
		})
	}
	if err := unix.Mount("bpf", b.dir, "bpf", 0, "mode=0700"); err != nil {
		t.Fatalf("mount bpf file system: %v", err)
	}
	t.Cleanup(func() {
		for _, p := range b.planes {
			if err := p.Remove(); err != nil {
				t.Error(err)
			}
		}
		if err := unix.Unmount(b.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b.run(0, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.all.accept_dad=0",
		"net.ipv6.conf.default.accept_dad=0")
	b.run(0, "ip", "link", "add", "br1", "type", "bridge")
	b.run(0, "ip", "link", "set", "br1", "mtu", fmt.Sprint(mtu[1]), "up")
	for pod := 1; pod <= 2; pod++ {
		b.run(pod, "sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0",
			"net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
		for n := range mtu {
			b.plug(pod, n, mtu[n])
		}
	}
	return b
}

func (b *bed) plug(pod, n, mtu int) {
	b.t.Helper()
	b.plugAs(pod, n, mtu, 0)
}

// plugAs connects a pod to a network by an interface of that number; 0 is any.
func (b *bed) plugAs(pod, n, mtu, index int) {
	b.t.Helper()
	var as []string
	if index != 0 {
		as = []string{"index", fmt.Sprint(index)}
	}
	dev, peer := []string{"eth0", "net1", "net2"}[n], fmt.Sprintf("p%dn%d", pod, n)
	add := append([]string{"ip", "link", "add", dev}, as...)
	b.run(pod, append(add, "mtu", fmt.Sprint(mtu), "type", "veth", "peer", "name", peer, "mtu", fmt.Sprint(mtu), "netns",
		b.pods[0])...)
	b.run(pod, "ip", "link", "set", dev, "up")
	b.run(0, "ip", "link", "set", peer, "up")
	if n == 1 {
		b.run(0, "ip", "link", "set", peer, "master", "br1")
		b.run(pod, "ip", "addr", "add", fmt.Sprintf("10.91.0.%d/24", pod), "dev", dev)
		b.run(pod, "ip", "addr", "add", fmt.Sprintf("fd91::%d/64", pod), "dev", dev, "nodad")
		return
	}
	for family, net := range map[string]string{"-4": fmt.Sprintf("10.9%d.%d.%%d/24", n, pod),
		"-6": fmt.Sprintf("fd9%d:%d::%%d/64", n, pod)} {
		all := map[string]string{"-4": fmt.Sprintf("10.9%d.0.0/16", n), "-6": fmt.Sprintf("fd9%d::/16", n)}[family]
		gw, _, _ := net2(fmt.Sprintf(net, 1))
		b.run(0, "ip", family, "addr", "add", fmt.Sprintf(net, 1), "dev", peer, "nodad")
		b.run(pod, "ip", family, "addr", "add", fmt.Sprintf(net, 2), "dev", dev, "nodad")
		if n == 0 {
			all = "default"
		}
		b.run(pod, "ip", family, "route", "add", all, "via", gw)
	}
}

func net2(cidr string) (string, int, error) {
	p, err := netip.ParsePrefix(cidr)
	return p.Addr().String(), p.Bits(), err
}

// run runs a command in pod (0 is the router) and fails the test if it fails.
func (b *bed) run(pod int, argv ...string) string {
	b.t.Helper()
	out, err := b.try(pod, argv...)
	if err != nil {
		b.t.Fatalf("pod %d: %v: %v: %s", pod, argv, err, out)
	}
	return out
}

func (b *bed) try(pod int, argv ...string) (string, error) {
	var out, stderr deadPipe
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := netns.Start(b.pods[pod], cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return out.String() + stderr.String(), err
}

// deadPipe collects output.
type deadPipe struct{ b []byte }

func (d *deadPipe) Write(p []byte) (int, error) { d.b = append(d.b, p...); return len(p), nil }
func (d *deadPipe) String() string              { return string(d.b) }

func stable(pod int) Pair {
	return Pair{netip.MustParseAddr(fmt.Sprintf("10.90.%d.2", pod)), netip.MustParseAddr(fmt.Sprintf("10.90.%d.2", 3-pod))}
}

func stable6(pod int) Pair {
	return Pair{netip.MustParseAddr(fmt.Sprintf("fd90:%d::2", pod)), netip.MustParseAddr(fmt.Sprintf("fd90:%d::2", 3-pod))}
}

// peer is the other pod as the plane of this one is told of it.
func (b *bed) peer(pod int) Peer {
	a := netip.MustParseAddr
	return Peer{UID: fmt.Sprintf("pod-%d", 3-pod), DSCP: !b.eight, Pairs: []Pair{stable(pod), stable6(pod)},
		Keys: keysOf(0),
		Paths: []Path{
			{Index: 1, Dev: "net1", MTU: b.mtu[1], Keys: keysOf(1), Pairs: []Pair{
				{a(fmt.Sprintf("10.91.0.%d", pod)), a(fmt.Sprintf("10.91.0.%d", 3-pod))},
				{a(fmt.Sprintf("fd91::%d", pod)), a(fmt.Sprintf("fd91::%d", 3-pod))}}},
			{Index: 2, Dev: "net2", MTU: b.mtu[2], Encap: b.encap, Keys: keysOf(2), Pairs: []Pair{
				{a(fmt.Sprintf("10.92.%d.2", pod)), a(fmt.Sprintf("10.92.%d.2", 3-pod))},
				{a(fmt.Sprintf("fd92:%d::2", pod)), a(fmt.Sprintf("fd92:%d::2", 3-pod))}}},
		}}
}

func (b *bed) config(pod int) Config {
	return Config{Netns: b.pods[pod], Dev: "eth0", PathDevs: []string{"net1", "net2"},
		PinDir: filepath.Join(b.dir, fmt.Sprint(pod)), Peers: max(b.peers, 16), Flows: b.flowsOf, Lease: b.lease}
}

// open attaches the data plane to a pod and tells it of the other.
func (b *bed) open(pod int) *Plane {
	b.t.Helper()
	p, err := Open(b.config(pod))
	if err != nil {
		b.t.Fatalf("open plane of pod %d: %v", pod, err)
	}
	if err := p.SetPeer(b.peer(pod)); err != nil {
		b.t.Fatalf("set peer of pod %d: %v", pod, err)
	}
	if old := b.planes[pod]; old != nil {
		if err := old.Close(); err != nil {
			b.t.Error(err)
		}
	}
	b.planes[pod] = p
	return p
}

// move switches all flows that pod has opened, and tells the other pod's plane as
// agents do.
func (b *bed) move(pod, path int) {
	b.t.Helper()
	b.lead(pod, path)
	b.tell(pod)
}

// lead switches all flows that pod has opened, and tells nobody.
func (b *bed) lead(pod, path int) {
	b.t.Helper()
	if _, err := b.planes[pod].Switch(fmt.Sprintf("pod-%d", 3-pod), All, path); err != nil {
		b.t.Fatal(err)
	}
}

// tell tells the other pod's plane where pod's flows are.
func (b *bed) tell(pod int) {
	b.t.Helper()
	if b.planes[3-pod] == nil {
		return
	}
	number, said := b.says(pod)
	if _, err := b.planes[3-pod].Follow(fmt.Sprintf("pod-%d", pod), number, said); err != nil {
		b.t.Fatal(err)
	}
}

// says is what pod's agent would say.
func (b *bed) says(pod int) (uint64, Said) {
	b.t.Helper()
	uid := fmt.Sprintf("pod-%d", 3-pod)
	choices, err := b.planes[pod].Choices(uid)
	if err != nil {
		b.t.Fatal(err)
	}
	number, err := b.planes[pod].Number(uid)
	if err != nil {
		b.t.Fatal(err)
	}
	return number, Tells(choices)
}

// crossed returns the packets that pod's plane sent and received over a path.
func (b *bed) crossed(pod, path int) (sent, received uint64) {
	b.t.Helper()
	uid := fmt.Sprintf("pod-%d", 3-pod)
	m, err := b.planes[pod].Meter(uid, path)
	if err != nil {
		b.t.Fatal(err)
	}
	_, r, err := b.planes[pod].Tallies(uid, path)
	if err != nil {
		b.t.Fatal(err)
	}
	return m.Sent(), r.Packets
}

// either is yes where so, and else no.
func either[T any](so bool, yes, no T) T {
	if so {
		return yes
	}
	return no
}
