package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

func hostPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, stamp.Port) }

// injection is what a process without privileges sends from a pod.
type injection struct {
	To      []netip.AddrPort
	Packets [][]byte
}

func (o injection) run() error {
	const nobody = 65534
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		return err
	}
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, to := range o.To {
		for _, p := range o.Packets {
			if _, err := c.WriteToUDPAddrPort(p, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// inject sends packets from a pod as nobody.
func (b *bed) inject(p topo.Pod, packets [][]byte, to ...netip.AddrPort) {
	b.t.Helper()
	cmd := b.child(p, orders{Inject: &injection{To: to, Packets: packets}})
	if err := netns.Start(p.Netns, cmd); err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.t.Fatal(err)
	}
}

// tap captures the UDP payloads that leave a pod for an address while during runs.
func (b *bed) tap(p topo.Pod, dev string, to netip.AddrPort, during func()) (out [][]byte) {
	b.t.Helper()
	var fd int
	err := netns.Do(p.Netns, func() error {
		link, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8)
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all)); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	defer unix.Close(fd)
	during()
	buf, dst := make([]byte, 65536), to.Addr().As4()
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return out
		}
		q := buf[:n]
		if n < 28 || q[0]>>4 != 4 || q[9] != unix.IPPROTO_UDP || [4]byte(q[16:20]) != dst ||
			uint16(q[22])<<8|uint16(q[23]) != to.Port() {
			continue
		}
		out = append(out, append([]byte(nil), q[int(q[0]&15)*4+8:]...))
	}
}

// TestReplayOnAnotherNetwork: a notice captured on one network, where it does not
// even arrive, is played by a process without privileges of a third pod from its
// own address on each network, within the time in which notices are fresh. None is
// obeyed, and none keeps another from being.
func TestReplayOnAnotherNetwork(t *testing.T) {
	b := newBedOf(t,
		lab.Spec{Name: "t-agt-play", Agents: true,
			Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}, {Name: "c", Host: 1}}}, "vxlan", "macvlan")
	a, z := b.start("h1", nil), b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pairs to open", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	self, target, third := b.pod("agent-h1"), b.pod("agent-h2"), b.pod("c")
	own, _ := self.On("vxlan")
	there, _ := target.On("vxlan")
	elsewhere, _ := target.On("macvlan")
	taken := func() (delivered, sent, refused uint64) {
		z.members.Lock()
		delivered = z.stats.noticesTaken
		z.members.Unlock()
		a.members.Lock()
		sent = a.wires.notices
		a.members.Unlock()
		for _, c := range z.Health().Reflectors {
			refused += c.Elsewhere + c.Replayed + c.Stale
		}
		return delivered, sent, refused
	}
	hole := fmt.Sprintf("table ip hole { chain c { type filter hook input priority 0; iifname %q udp dport %d drop; }; }", there.Dev, stamp.Port)
	for try, done := 0, false; !done; try++ {
		if try == 20 {
			t.Fatal("the agents are never quiet")
		}
		b.runIn(target.Netns, "nft", hole)
		want := "vxlan"
		if a.on("a", "b") == want {
			want = "macvlan"
		}
		captured := b.tap(self, own.Dev, hostPort(there.Addr), func() {
			a.wish.set(want)
			b.await("flows on "+want, func() bool { return a.on("a", "b") == want })
			time.Sleep(150 * time.Millisecond)
		})
		b.runIn(target.Netns, "nft", "delete table ip hole")
		if len(captured) == 0 {
			continue
		}
		before, sent, refused := taken()
		b.inject(third, captured, hostPort(elsewhere.Addr), hostPort(there.Addr))
		b.inject(third, captured, hostPort(elsewhere.Addr), hostPort(there.Addr))
		time.Sleep(200 * time.Millisecond)
		after, now, more := taken()
		if now != sent {
			continue // its own came meanwhile
		}
		done = true
		if n := uint64(len(captured)); after != before || more-refused < 4*n {
			t.Errorf("of %d packets played four times, %d notices were obeyed and %d refused", n, after-before, more-refused)
		}
		if c := z.Health().Reflectors["macvlan"]; c.Elsewhere < 2*uint64(len(captured)) {
			t.Errorf("on another network: %+v", c)
		}
	}
	for _, e := range []*running{a, z} {
		events, _ := e.journal.since(0)
		for _, e := range events {
			if strings.Contains(e.Reason, "the clock of") {
				t.Errorf("a replay passes for a clock: %s", e.Reason)
			}
		}
	}
	udp.stop()
}
