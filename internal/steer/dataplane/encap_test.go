package dataplane

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostile makes network 2 one that translation cannot cross: it drops what its
// connection tracking calls invalid, and clears the DSCP.
func (b *bed) hostile() {
	b.t.Helper()
	b.nft("add table inet t", "add counter inet t invalid", "add counter inet t outer", "add counter inet t wrong",
		"add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f iifname { "p1n2", "p2n2" } ct state invalid counter name invalid drop`,
		`add rule inet t f iifname { "p1n2", "p2n2" } ip dscp set 0`,
		`add rule inet t f iifname { "p1n2", "p2n2" } ip protocol udp udp sport 52170 udp dport 52170 counter name outer accept`,
		`add rule inet t f iifname { "p1n2", "p2n2" } ip protocol != icmp counter name wrong`)
}

// TestEncap: flows of all kinds over an encapsulated path, at 200 Mbit/s, back
// and forth, with offload on and off and strict reverse path filtering. Fails
// without the path's flag, or if several UDP datagrams in one are wrapped.
func TestEncap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ offload, strict string }{{"on", "0"}, {"off", "0"}, {"on", "1"}} {
		t.Run("offload "+c.offload+" strict "+c.strict, func(t *testing.T) {
			b := newBedMTU(t, [3]int{1400, 1450, 1440})
			b.encap = true
			b.hostile()
			for pod := 1; pod <= 2; pod++ {
				b.run(pod, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter="+c.strict)
				b.open(pod)
				for _, dev := range []string{"eth0", "net1", "net2"} {
					b.run(pod, "ethtool", "-K", dev, "tx", c.offload, "tso", c.offload, "gso", c.offload, "gro", c.offload)
				}
			}
			b.encapsulated()
			b.encapsulatedDatagrams(c.offload == "on")
			if out := b.run(1, "ping", "-c3", "-i0.05", "-W1", "10.90.2.2"); !strings.Contains(out, " 0% packet loss") {
				t.Error(out)
			}
			if n := b.count("invalid") + b.count("wrong"); n != 0 || b.count("outer") < 100 {
				t.Errorf("%d packets that were not encapsulated, %d that were", n, b.count("outer"))
			}
			for pod := 1; pod <= 2; pod++ {
				if e := b.planes[pod].Events(); e.Errors != 0 || e.Strangers != 0 || e.NoPath != 0 || e.ICMP != 0 {
					t.Errorf("pod %d: %+v", pod, e)
				}
			}
		})
	}
}

func (b *bed) encapsulated() {
	for i, reverse := range []bool{false, true} {
		b.move(1, 0)
		s := b.bulk(fmt.Sprintf("10.90.2.2:%d", 7001+i), 25e6, reverse)
		for _, path := range []int{2, 0, 2, 1, 2} {
			b.move(1, path)
			before := b.bytes(1+i, path)
			if err := s.more(10e6); err != nil {
				b.t.Fatalf("reverse %v, to path %d: %v; %+v", reverse, path, err, b.planes[1].Events())
			}
			if n := b.bytes(1+i, path) - before; n < 5e6 {
				b.t.Errorf("reverse %v, path %d carried %d bytes", reverse, path, n)
			}
		}
		s.stop()
	}
}

func (b *bed) encapsulatedDatagrams(segment bool) {
	t := b.t
	conn := b.echo("udp", "10.90.2.2:7010", "10.90.2.2:7010")
	b.move(1, 0)
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	for _, size := range []int{1, 100, 1372} {
		before, _ := b.crossed(1, 2)
		if err := exchange(conn, strings.Repeat("x", size)); err != nil {
			t.Errorf("a datagram of %d bytes: %v", size, err)
		}
		if n, _ := b.crossed(1, 2); n != before+1 {
			t.Errorf("a datagram of %d bytes: %d packets crossed the path", size, n-before)
		}
	}
	if segment {
		setOption(t, conn, option{level: unix.IPPROTO_UDP, name: unix.UDP_SEGMENT}, 1000)
		if err := send(conn, strings.Repeat("segments", 1250)); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if got, err := receive(conn, 3*time.Second); err != nil || len(got) != 1000 {
				t.Fatalf("segment %d: %d bytes, %v", i, len(got), err)
			}
		}
		if n := b.planes[1].Events().TooBig; n != 1 {
			t.Errorf("%d packets stayed on the default network, expected the one of several datagrams", n)
		}
	}
}

// TestEncapNeeded: translation does not cross that network.
func TestEncapNeeded(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1440})
	b.hostile()
	b.open(1)
	b.open(2)
	s := b.bulk("10.90.2.2:7001", 25e6, false)
	if err := s.more(1e6); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	if err := s.within(5e6, time.Second); err == nil {
		t.Error("a translated flow crossed the network: what is tested here?")
	}
}

// TestEncapEdges: IPv6, congestion marks, and others' use of the port.
func TestEncapEdges(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1440})
	b.encap = true
	b.open(1)
	two := b.open(2)
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
		"add rule inet t f udp dport 52170 ip ecn ect0 ip ecn set ce")
	server := b.receiver(2, "10.90.2.2:7001")
	setOption(t, server, option{level: unix.IPPROTO_IP, name: unix.IP_RECVTOS}, 1)
	conn, err := b.dial(1, "udp", "10.90.2.2:7001")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 0, 3, 1} { // RFC 6040, section 4.2
		setOption(t, conn, tos(false, 0), []int{0, 0, 2, 1}[i])
		if err := send(conn, "a packet"); err != nil {
			t.Fatal(err)
		}
		got, from := classSeen(t, server)
		if got != want {
			t.Errorf("packet %d: class %#x, expected %#x", i, got, want)
		}
		if _, err := server.WriteToUDPAddrPort([]byte("an answer"), from); err != nil {
			t.Fatal(err)
		}
		if _, err := receive(conn, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		b.move(1, 2)
	}
	six := b.echo("udp6", "[fd90:2::2]:7002", "[fd90:2::2]:7002")
	for range 3 {
		if err := exchange(six, "IPv6 stays native"); err != nil {
			t.Error(err)
		}
	}
	// An application's own packets to that port, and a stranger's that look like ours.
	own := b.receiver(2, "10.92.2.2:52170")
	for i, c := range []struct {
		from int
		msg  string
		want bool
	}{{52170, "an application's own", true}, {7003, "Pw\x02\x00" + "another port", true},
		{52170, "Pw\x02\x00" + strings.Repeat("x", 100), false}} {
		stray, err := b.dial(1, "udp", "10.92.2.2:52170", from(&net.UDPAddr{IP: net.IPv4(10, 92, 1, 2), Port: c.from}))
		if err != nil {
			t.Fatal(err)
		}
		before := two.Events().Strangers
		if err := send(stray, c.msg); err != nil {
			t.Fatal(err)
		}
		if _, err := receive(own, 500*time.Millisecond); (err == nil) != c.want {
			t.Errorf("packet %d to the port: delivered %v, expected %v", i, err == nil, c.want)
		}
		if n := two.Events().Strangers - before; (n == 0) != c.want {
			t.Errorf("packet %d to the port: %d strangers", i, n)
		}
		stray.Close()
	}
}

// TestEncapTooBigOnTheWay: the error quotes the outer packet; the socket is told
// of what fits into it.
func TestEncapTooBigOnTheWay(t *testing.T) {
	for _, strict := range []string{"0", "1"} {
		b := newBedMTU(t, [3]int{1400, 1450, 1440})
		b.encap = true
		b.run(1, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter="+strict)
		b.open(1)
		b.open(2)
		s := b.bulk("10.90.2.2:7001", 25e6, false)
		b.move(1, 2)
		if err := s.more(1e6); err != nil {
			t.Fatal(err)
		}
		b.run(0, "ip", "link", "set", "p2n2", "mtu", "1300")
		if err := s.more(5e6); err != nil {
			t.Errorf("black hole: %v; %+v", err, b.planes[1].Events())
		}
		if n := b.planes[1].Events().ICMP; n == 0 {
			t.Error("no error was translated")
		}
		if route := b.run(1, "ip", "route", "get", "10.90.2.2"); !strings.Contains(route, "mtu 1260") {
			t.Errorf("the stack has not learnt the size: %s", route)
		}
	}
}

// TestTunnelInPod: the pod has a tunnel of its own over the stable addresses.
// A translated path carries it; what cannot be encapsulated twice stays native.
func TestTunnelInPod(t *testing.T) {
	b := newBed(t)
	b.encap = true
	for pod := 1; pod <= 2; pod++ {
		b.open(pod)
		b.run(pod, "ip", "link", "add", "vx", "type", "vxlan", "id", "5", "dstport", "4789", "srcport", "4789", "4790",
			"local", stable(pod).Local.String(), "remote", stable(pod).Remote.String())
		b.run(pod, "ip", "link", "set", "vx", "mtu", "1300", "up")
		b.run(pod, "ip", "addr", "add", fmt.Sprintf("10.99.0.%d/24", pod), "dev", "vx")
	}
	s, conn := b.bulk("10.99.0.2:7001", 25e6, false), b.echo("tcp", "10.99.0.2:7002", "10.99.0.2:7002")
	for _, path := range []int{0, 1, 2, 0, 1} {
		b.move(1, path)
		before, refused := b.bytes(1, path), b.planes[1].Events()
		if err := s.more(1e6); err != nil {
			t.Errorf("to path %d: %v; %+v", path, err, b.planes[1].Events())
		}
		if err := exchange(conn, "a single packet"); err != nil {
			t.Errorf("to path %d: %v", path, err)
		}
		if n := b.bytes(1, path) - before; (n > 5e5) != (path < 2) {
			t.Errorf("path %d carried %d bytes", path, n)
		}
		now := b.planes[1].Events()
		if single, several := now.NoPath-refused.NoPath, now.TooBig-refused.TooBig; (single > 0) != (path == 2) ||
			(several > 0) != (path == 2) {
			t.Errorf("path %d refused %d packets and %d of several segments", path, single, several)
		}
	}
	for pod := 1; pod <= 2; pod++ {
		if e := b.planes[pod].Events(); e.Errors != 0 {
			t.Errorf("pod %d: %+v", pod, e)
		}
	}
}

// TestEncapSize: what the outer headers cost is counted.
func TestEncapSize(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1439})
	b.encap = true
	one := b.open(1)
	b.open(2)
	if known, err := one.Known(b.peer(1)); err != nil || !known {
		t.Errorf("a peer with IPv6, which the path does not carry, is not known: %v", err)
	}
	b.encap = false
	if known, err := one.Known(b.peer(1)); err != nil || known {
		t.Errorf("a peer whose path is not encapsulated any more is known as it is: %v", err)
	}
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	for size, crosses := range map[int]bool{1371: true, 1372: false} {
		before, _ := b.crossed(1, 2)
		if err := exchange(conn, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		if after, _ := b.crossed(1, 2); (after > before) != crosses {
			t.Errorf("a datagram of %d bytes: %d packets crossed the path", size, after-before)
		}
	}
	if n := one.Events().TooBig; n != 1 {
		t.Errorf("%d packets too big, expected 1", n)
	}
}
