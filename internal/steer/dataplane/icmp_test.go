package dataplane

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestICMPErrorsReachTheSocket: ICMP errors about steered packets reach the socket that sent
// them, which is told of the stable address. Fails if pw_path_ingress leaves errors, or
// takes those of Linux routers for steered packets.
func TestICMPErrorsReachTheSocket(t *testing.T) {
	for _, strict := range []string{"0", "1"} {
		b := newBed(t)
		b.run(1, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter="+strict)
		b.open(1)
		b.open(2)
		for _, c := range []struct {
			network, at             string
			recv, ttl               option
			router                  string
			exceeded, refused, code uint8
		}{
			{"udp", "10.90.2.2:7001", option{unix.IPPROTO_IP, unix.IP_RECVERR, 1}, option{unix.IPPROTO_IP, unix.IP_TTL, 1},
				"10.92.1.1", 11, 3, 3},
			{"udp6", "[fd90:2::2]:7001", option{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1},
				option{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 1}, "fd92:1::1", 3, 1, 4},
		} {
			b.move(1, 0)
			server := b.serve(2, c.network, c.at)
			conn, err := b.dial(1, c.network, c.at, c.recv)
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
			dst := netip.MustParseAddrPort(c.at).Addr()
			setOption(t, conn, c.ttl, 1)
			expectError(t, conn, icmpError{errno: syscall.EHOSTUNREACH, typ: c.exceeded, offender: netip.MustParseAddr(c.router),
				quoteTo: dst})
			setOption(t, conn, c.ttl, 64)
			server.Close()
			sent, _ := b.crossed(1, 2)
			expectError(t, conn, icmpError{errno: syscall.ECONNREFUSED, typ: c.refused, code: c.code, offender: dst,
				quoteTo: dst})
			if after, _ := b.crossed(1, 2); after == sent {
				t.Errorf("%s: the refused packet did not take path 2", c.network)
			}
		}
	}
}

func setOption(t testing.TB, c net.Conn, o option, v int) {
	t.Helper()
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := rc.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), o.level, o.name, v) }); cerr != nil ||
		err != nil {
		t.Fatal(cerr, err)
	}
}

func expectError(t testing.TB, c net.Conn, want icmpError) {
	t.Helper()
	want.payload = "about this one"
	if err := errors.Join(c.SetDeadline(time.Time{}), send(c, want.payload)); err != nil {
		t.Fatal(err)
	}
	got, err := socketError(t, c)
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nexpected %+v", got, err, want)
	}
}

// TestICMPQuotesWhatWasSent: the quoted packet is as the pod sent it: addresses, DSCP, and
// all checksums, for UDP and TCP, where the sender has computed them. Fails if
// restore leaves any of these.
func TestICMPQuotesWhatWasSent(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for _, dev := range []string{"eth0", "net2"} {
		b.run(1, "ethtool", "-K", dev, "tx", "off", "tso", "off", "gso", "off")
	}
	raws := map[bool]net.PacketConn{}
	for v6, at := range map[bool][2]string{false: {"ip4:icmp", "10.90.1.2"}, true: {"ip6:ipv6-icmp", "fd90:1::2"}} {
		if err := netns.Do(b.pods[1], func() (err error) {
			raws[v6], err = net.ListenPacket(at[0], at[1])
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raws[v6].Close() })
	}
	for _, network := range []string{"udp4", "tcp4", "udp6", "tcp6"} {
		v6 := network[3] == '6'
		at, raw := either(v6, "[fd90:2::2]:7001", "10.90.2.2:7001"), raws[v6]
		b.move(1, 0)
		conn := b.echo(network, at, at)
		if err := exchange(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		b.move(1, 2)
		if v6 {
			setOption(t, conn, option{level: unix.IPPROTO_IPV6, name: unix.IPV6_UNICAST_HOPS}, 1)
		} else {
			setOption(t, conn, option{level: unix.IPPROTO_IP, name: unix.IP_TTL}, 1)
		}
		if err := send(conn, "an odd payload, for the checksum"); err != nil {
			t.Fatal(err)
		}
		quote := readError(t, raw, v6)
		if err := checkQuote(quote, v6); err != "" {
			t.Errorf("%s: %s: % x", network, err, quote)
		}
		conn.Close()
	}
}

// readError reads the time-exceeded error's quote.
func readError(t *testing.T, raw net.PacketConn, v6 bool) []byte {
	t.Helper()
	if err := raw.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	for {
		n, _, err := raw.ReadFrom(buf)
		if err != nil {
			t.Fatalf("no ICMP error arrived: %v", err)
		}
		if typ := buf[0]; n > 8 && (!v6 && typ == 11 || v6 && typ == 3) {
			return buf[8:n]
		}
	}
}

func checkQuote(q []byte, v6 bool) string {
	var pseudo []byte
	var proto byte
	if v6 {
		if q[0] != 0x60 || q[1]&0xf0 != 0 {
			return "the traffic class is not zero"
		}
		pseudo, proto = q[8:40], q[6]
		q = q[40:]
	} else {
		if q[1] != 0 {
			return "the DSCP is not zero"
		}
		if sum16(q[:20]) != 0xffff {
			return "the header's checksum is wrong"
		}
		pseudo, proto = q[12:20], q[9]
		q = q[20 : 20+int(binary.BigEndian.Uint16(q[2:]))-20]
	}
	src, _ := netip.AddrFromSlice(pseudo[:len(pseudo)/2])
	dst, _ := netip.AddrFromSlice(pseudo[len(pseudo)/2:])
	want := either(v6, stable6(1), stable(1))
	if (Pair{src, dst}) != want {
		return "the addresses are " + src.String() + " and " + dst.String()
	}
	all := append(append([]byte{}, pseudo...), 0, proto, byte(len(q)>>8), byte(len(q)))
	if sum16(append(all, q...)) != 0xffff {
		return "the transport's checksum is wrong"
	}
	return ""
}

// sum16 is the ones' complement sum (RFC 1071).
func sum16(b []byte) uint16 {
	var s uint32
	for i, v := range b {
		s += uint32(v) << (8 * (1 - i%2))
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}
