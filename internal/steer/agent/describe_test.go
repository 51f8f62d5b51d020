package agent

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// largeEnv is how many pods elsewhere the tests of a large cluster have.
const largeEnv = "PW_AGENT_TEST_PODS"

func largePods(t *testing.T) int {
	t.Helper()
	s := os.Getenv(largeEnv)
	if s == "" {
		return 20000
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// enlarge adds pods to a cluster, on hosts of forty with an agent each, attached as the
// pod is. Every tenth has an IPv6 address.
func enlarge(c *Cluster, like topo.Pod, pods int) {
	most := 0
	for _, h := range c.Hosts {
		most = max(most, h.Index)
	}
	c.Hosts = slices.Clone(c.Hosts)
	for i := range pods {
		if i%40 == 0 {
			most++
			c.Hosts = append(c.Hosts, topo.Host{Index: most, Name: fmt.Sprintf("far-%d", most)})
			c.Pods = append(c.Pods, far(like, i, most, true))
		}
		c.Pods = append(c.Pods, far(like, i, most, false))
	}
}

// far is pod i of a cluster elsewhere.
func far(like topo.Pod, i, host int, agent bool) topo.Pod {
	p := topo.Pod{Name: fmt.Sprintf("far-%d", i), UID: fmt.Sprintf("5f0c2c1e-0000-4000-8000-%012d", i), Host: host,
		Netns: fmt.Sprintf("pw-far-%d", i)}
	base := 0
	if agent {
		p.Name, p.UID, p.Agent, base = "agent-"+p.Name, "agent-"+p.UID, true, 128
	}
	for n, at := range like.Attachments {
		at.Addr = netip.AddrFrom4([4]byte{172, byte(16 + n), byte(i>>8) + byte(base), byte(i)})
		if i%10 == 9 && !agent {
			at.Addr = netip.AddrFrom16([16]byte{0: 0xfd, 1: byte(n), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
		}
		p.Attachments = append(p.Attachments, at)
	}
	return p
}

// used is the processor time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// worst is the longest that the agent's lock was held, of so many tries, less what the
// machine made of it: the least counts, as others run on it too.
func (r *running) worst(ctx context.Context, tries int, try func()) (least wait) {
	held := r.held(ctx)
	least.lock = time.Hour
	for range tries {
		held()
		try()
		if w := held(); w.lock < least.lock {
			least = w
		}
	}
	return least
}

// TestDescribeLargeCluster: tens of thousands of pods elsewhere do not keep an agent from
// starting, cost next to nothing while there is no traffic with them, and hold its loop
// for no more than a few milliseconds when the description changes.
func TestDescribeLargeCluster(t *testing.T) {
	n := largePods(t)
	b := newBed(t, "t-lrg", "routed-bgp", "vxlan")
	begin := time.Now()
	b.start("h2", nil)
	small, before := time.Since(begin), heap()
	for _, h := range []string{"h1", "h2"} {
		b.tell(h, func(c *Cluster) { enlarge(c, b.pod("a"), n) })
	}
	listed := heap() - before
	begin = time.Now()
	a := b.start("h1", nil)
	large := time.Since(begin)
	b.await("the other agent to read it", func() bool {
		r := b.agents["h2"]
		r.members.Lock()
		defer r.members.Unlock()
		return len(r.members.Cluster.Pods) > n
	})
	took := heap() - before - listed
	t.Logf("%d pods elsewhere: started in %v, with two in %v; description %d KiB, both agents %d KiB more", n, large, small, listed>>10, took>>10)
	if took > 2*n*640 {
		t.Errorf("two agents took %d octets for %d pods", took, n)
	}
	a.members.Lock()
	pairs, entered := len(a.members.pods[b.pod("a").UID].pairs), len(a.members.pods[b.pod("a").UID].plane.Entered())
	a.members.Unlock()
	if pairs > 1 || entered > 1 {
		t.Errorf("%d pairs and %d peers are entered without traffic", pairs, entered)
	}

	// Idle.
	idle, since := used(t), time.Now()
	time.Sleep(3 * time.Second)
	share := float64(used(t)-idle) / float64(time.Since(since))
	t.Logf("two idle agents: %.1f %% of a processor", 100*share)
	if share > 0.2 {
		t.Errorf("two idle agents take %.0f %% of a processor", 100*share)
	}

	// Traffic with one pod, and changes meanwhile.
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	begin = time.Now()
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	t.Logf("a pair opened %v after its first packet", time.Since(begin))
	b.move("vxlan")
	i := 0
	w := a.worst(t.Context(), 5, func() {
		i++
		b.tell("h1", func(c *Cluster) { c.Pods[len(c.Pods)-1].UID = fmt.Sprintf("other-%d", i) })
		want := fmt.Sprintf("other-%d", i)
		b.await("the change to be read", func() bool {
			a.members.Lock()
			defer a.members.Unlock()
			return a.members.description.has(want)
		})
		time.Sleep(300 * time.Millisecond)
	})
	t.Logf("a change of the description: lock %v", w)
	b.flows("vxlan")
}
