package dataplane

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
)

// TestOffloadedFlows: every kind of flow with checksum and segmentation offload
// on and off, on the default network and on the paths. Fails if rewrite does not
// leave what the checksum field means to the kernel's helper.
func TestOffloadedFlows(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ eth0, paths string }{{"on", "on"}, {"off", "off"}, {"off", "on"}, {"on", "off"}} {
		t.Run(fmt.Sprintf("eth0 %s, paths %s", c.eth0, c.paths), func(t *testing.T) {
			b := newBedMTU(t, [3]int{1450, 1450, 9000})
			for pod := 1; pod <= 2; pod++ {
				b.open(pod)
				for dev, on := range map[string]string{"eth0": c.eth0, "net1": c.paths, "net2": c.paths} {
					b.run(pod, "ethtool", "-K", dev, "rx", on, "tx", on, "tso", on, "gso", on, "gro", on)
				}
			}
			b.everywhere(7001 + i)
			for _, to := range []string{"10.90.2.2:7100", "[fd90:2::2]:7100"} {
				b.move(1, 0)
				s := b.bulk(to, 50e6, false)
				for _, path := range []int{1, 2, 0, 2, 1} {
					b.move(1, path)
					before := b.bytes(1, path)
					// More than sockets hold that was sent over the last path.
					if err := s.more(10e6); err != nil {
						t.Errorf("%s to path %d: %v", to, path, err)
					}
					if n := b.bytes(1, path) - before; n < 1e6 {
						t.Errorf("%s: %d bytes crossed path %d", to, n, path)
					}
				}
				s.stop()
			}
			b.datagrams()
			for pod := 1; pod <= 2; pod++ {
				if e := b.planes[pod].Events(); e.Errors != 0 || e.Strangers != 0 {
					t.Errorf("pod %d: %+v", pod, e)
				}
				if s := b.run(pod, "nstat", "-as"); strings.Contains(s, "InCsumErrors") {
					t.Errorf("pod %d saw checksum errors: %s", pod, s)
				}
			}
		})
	}
}

// datagrams sends UDP without checksum and, where it can, several datagrams as
// one (udp(7), UDP_SEGMENT).
func (b *bed) datagrams() {
	t := b.t
	b.nft("add table inet t", "add counter inet t zero", "add chain inet t f { type filter hook forward priority 0; }",
		"add rule inet t f ip daddr 10.92.2.2 udp dport 7200 udp checksum 0 counter name zero")
	zero := b.echo("udp4", "10.90.2.2:7200", "10.90.2.2:7200", option{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1})
	b.move(1, 0)
	for _, path := range []int{0, 1, 2} {
		b.move(1, path)
		if err := exchange(zero, "without checksum"); err != nil {
			t.Errorf("zero checksum over path %d: %v", path, err)
		}
	}
	if n := b.count("zero"); n != 1 {
		t.Errorf("%d packets without checksum crossed path 2, expected 1", n)
	}
	for _, to := range []string{"10.90.2.2:7300", "[fd90:2::2]:7300"} {
		b.move(1, 0)
		conn := b.echo("udp", to, to)
		if err := exchange(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		setOption(t, conn, option{level: unix.IPPROTO_UDP, name: unix.UDP_SEGMENT}, 1000)
		for path := range 3 {
			b.move(1, path)
			before, _ := b.crossed(1, path)
			msg := strings.Repeat("segments", 1250)
			if err := conn.SetDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if err := send(conn, msg); errors.Is(err, unix.EIO) {
				break // Linux before 6.11, without checksum offload (udp_send_skb)
			} else if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if got, err := receive(conn, 3*time.Second); err != nil || got != msg[:1000] {
					t.Fatalf("%s path %d: segment %d: %d bytes, %v", to, path, i, len(got), err)
				}
			}
			if n, _ := b.crossed(1, path); n-before != 10 {
				t.Errorf("%s path %d: counted %d segments, expected 10", to, path, n-before)
			}
		}
	}
}

// TestWhatCannotBeSteeredIsNative: what cannot be steered, or says how it wants to be treated,
// stays on the default network and arrives: fragments, extension headers, a DSCP that
// the mark cannot tell.
// Fails if parse takes first fragments for whole packets, or out ignores the DSCP.
func TestWhatCannotBeSteeredIsNative(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for _, c := range []struct {
		name, to string
		size     int
		opts     []option
	}{
		{"fragments", "10.90.2.2:7001", 20000, nil},
		{"fragments", "[fd90:2::2]:7001", 20000, nil},
		{"destination options", "[fd90:2::2]:7001", 100,
			[]option{{unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, []byte{0, 0, 1, 4, 0, 0, 0, 0}}}},
		{"network control", "10.90.2.2:7001", 100, []option{tos(false, 0xc0)}},
		{"network control", "[fd90:2::2]:7001", 100, []option{tos(true, 0xc0)}},
	} {
		b.move(1, 0)
		server := b.serve(2, "udp", c.to)
		conn, err := b.dial(1, "udp", c.to)
		if err != nil {
			t.Fatal(err)
		}
		if err := exchange(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		b.move(1, 2)
		if err := exchange(conn, "steered"); err != nil {
			t.Fatal(err)
		}
		for _, o := range c.opts {
			setBytes(t, conn, o)
		}
		before, _ := b.crossed(1, 2)
		if err := exchange(conn, strings.Repeat("x", c.size)); err != nil {
			t.Errorf("%s to %s: %v", c.name, c.to, err)
		}
		if after, _ := b.crossed(1, 2); after != before {
			t.Errorf("%s to %s: %d packets were steered", c.name, c.to, after-before)
		}
		server.Close()
	}
}

func setBytes(t testing.TB, c net.Conn, o option) {
	t.Helper()
	if v, ok := o.value.(int); ok {
		setOption(t, c, o, v)
		return
	}
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := rc.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), o.level, o.name, string(o.value.([]byte)))
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// TestTrafficClassIsKept: the receiver sees the traffic class that the sender has set:
// the mark is gone, ECN (RFC 3168) is kept, an application's DSCP too. Fails if
// header writes the whole byte, or pw_path_ingress leaves the mark.
func TestTrafficClassIsKept(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for _, to := range []string{"10.90.2.2:7001", "[fd90:2::2]:7001"} {
		v6 := to[0] == '['
		server := b.receiver(2, to)
		want := option{level: unix.IPPROTO_IP, name: unix.IP_RECVTOS}
		if v6 {
			want = option{level: unix.IPPROTO_IPV6, name: unix.IPV6_RECVTCLASS}
		}
		setOption(t, server, want, 1)
		for path := range 3 {
			b.move(1, path)
			conn, err := b.dial(1, "udp", to)
			if err != nil {
				t.Fatal(err)
			}
			for i, class := range []int{0, 0, 1, 2, 3, 0xb8, 0xb9, 0x04, 0x08, 0x10, 10 << 2, 18 << 2, 34<<2 | 2, 0xc0, 5 << 2,
				8 << 2, 8<<2 | 1, 12 << 2, 8 << 2, 56 << 2, 62<<2 | 2} {
				setOption(t, conn, tos(v6, 0), class)
				before, _ := b.crossed(1, path)
				if err := send(conn, "a packet"); err != nil {
					t.Fatal(err)
				}
				got, from := classSeen(t, server)
				if got != class {
					t.Errorf("%s path %d: sent class %#x, seen %#x", to, path, class, got)
				}
				after, _ := b.crossed(1, path)
				if native := class == 0xc0 || class == 5<<2 || class == 56<<2; i > 1 && native == (after > before) && path > 0 {
					t.Errorf("%s path %d: class %#x: %d packets were steered", to, path, class, after-before)
				}
				if _, err := server.WriteToUDPAddrPort([]byte("an answer"), from); err != nil {
					t.Fatal(err)
				}
				if _, err := receive(conn, 3*time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// classSeen receives a packet and returns its traffic class and sender.
func classSeen(t *testing.T, c *net.UDPConn) (int, netip.AddrPort) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf, oob := make([]byte, 64), make([]byte, 64)
	_, n, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if m.Header.Type == unix.IP_TOS || m.Header.Type == unix.IPV6_TCLASS {
			return int(m.Data[0]), from
		}
	}
	t.Fatal("no traffic class came with the packet")
	return 0, from
}
