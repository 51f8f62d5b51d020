package dataplane

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// crowdEnv is how many pods TestMemory has: 110 are those of a node.
const crowdEnv = "PW_STEER_TEST_PODS"

// What ordinary traffic of a pod is, and what its data plane may take for it: 110 pods
// have 64 MiB.
const (
	ordinaryPeers, ordinaryFlows = 10, 200
	mayTake                      = 64 << 20 / 110
)

// TestMemory: the data planes of a host's pods take little memory, that grows with flows
// and is given back.
func TestMemory(t *testing.T) {
	pods := 20
	if s := os.Getenv(crowdEnv); s != "" {
		var err error
		if pods, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	namespaces, dir := crowdOf(t, pods)
	before := meminfo(t)
	var planes []*Plane
	begin := time.Now()
	for i, ns := range namespaces {
		planes = append(planes, openCrowded(t, ns, filepath.Join(dir, fmt.Sprint(i))))
	}
	took := time.Since(begin)
	empty := memoryOf(t, planes)
	for _, p := range planes {
		p.ordinary(t)
	}
	full, after := memoryOf(t, planes), meminfo(t)
	t.Logf("%d pods, %v each to begin: %d KiB each without flows, %d KiB with %d peers and %d flows", pods,
		(took / time.Duration(pods)).Round(time.Millisecond), empty/pods>>10, full/pods>>10, ordinaryPeers, ordinaryFlows)
	for _, what := range []string{"MemAvailable", "Slab", "Percpu", "VmallocUsed"} {
		t.Logf("%s: %+d KiB, %+d each", what, after[what]-before[what], (after[what]-before[what])/pods)
	}
	if full/pods > mayTake {
		t.Errorf("a pod's data plane takes %d octets of kernel memory, expected %d at most", full/pods, mayTake)
	}
	p := planes[0]
	some := memoryOf(t, planes[:1])
	for i := range 20000 {
		p.put4(t, peerUID(0), uint16(1+i), 80, 6, roleOwner)
		if i%1000 == 0 {
			sweepOnce(t, p)
		}
	}
	many := memoryOf(t, planes[:1])
	if grown := many - some; grown < 20000*32 || grown > 20000*200 {
		t.Errorf("20,000 flows took %d octets more", grown)
	}
}

// sweepOnce has the plane make room.
func sweepOnce(t *testing.T, p *Plane) {
	t.Helper()
	flows, err := p.Flows()
	if err != nil {
		t.Fatal(err)
	}
	defer flows.Close()
	if _, err := flows.Sweep(); err != nil {
		t.Fatal(err)
	}
}

// crowdOf makes the namespaces of many pods on two networks, and a directory for pins.
func crowdOf(t *testing.T, pods int) (namespaces []string, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and eBPF")
	}
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for i := range pods {
		ns := fmt.Sprintf("pw-t-%d-mem%d", os.Getpid(), i)
		if err := netns.Create(ns); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(ns); err != nil {
				t.Error(err)
			}
		})
		for _, dev := range []string{"eth0", "net1", "net2"} {
			cmd := exec.Command("ip", "link", "add", dev, "type", "veth", "peer", "name", "x"+dev)
			if err := netns.Start(ns, cmd); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		namespaces = append(namespaces, ns)
	}
	return namespaces, dir
}

func openCrowded(t *testing.T, ns, dir string) *Plane {
	t.Helper()
	p, err := Open(Config{Netns: ns, Dev: "eth0", PathDevs: []string{"net1", "net2"}, PinDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func peerUID(i int) string { return fmt.Sprintf("peer-%d", i) }

// crowdPeer is peer i of a pod, of both families.
func crowdPeer(i int) Peer {
	hi, lo := byte(i>>8), byte(i)
	four := func(net byte, pod [2]byte) netip.Addr { return netip.AddrFrom4([4]byte{10, net, pod[0], pod[1]}) }
	six := func(net byte, pod [2]byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: net, 13: 1, 14: pod[0], 15: pod[1]})
	}
	self, peer := [2]byte{255, 1}, [2]byte{hi, lo}
	pairs := func(net byte) []Pair {
		return []Pair{{four(net, self), four(net, peer)}, {six(net, self), six(net, peer)}}
	}
	return Peer{UID: peerUID(i), Pairs: pairs(90), Keys: keysOf(0), Paths: []Path{
		{Index: 1, Dev: "net1", MTU: 1500, Keys: keysOf(1), Pairs: pairs(91)},
		{Index: 2, Dev: "net2", MTU: 1500, Keys: keysOf(2), Pairs: pairs(92)}}}
}

// ordinary enters the peers and the flows of a pod's ordinary traffic.
func (p *Plane) ordinary(t *testing.T) {
	t.Helper()
	for i := range ordinaryPeers {
		if err := p.SetPeer(crowdPeer(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range ordinaryFlows {
		p.put4(t, peerUID(i%ordinaryPeers), uint16(30000+i), 443, 6, roleOwner)
	}
}

func memoryOf(t *testing.T, planes []*Plane) (sum int) {
	t.Helper()
	for _, p := range planes {
		n, err := p.Memory()
		if err != nil {
			t.Fatal(err)
		}
		sum += int(n)
	}
	return sum
}

// meminfo is /proc/meminfo, in KiB.
func meminfo(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) > 1 {
			out[strings.TrimSuffix(words[0], ":")], _ = strconv.Atoi(words[1])
		}
	}
	return out
}
