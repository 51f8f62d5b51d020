package conntrack

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestSentTo: of a connection that the namespace hands to another port it is known to which the peer sends; of one that
// it leaves as it is, of one that it has opened and of none it is the same.
func TestSentTo(t *testing.T) {
	ns := [2]string{create(t, "sent-0"), create(t, "sent-1")}
	run(t, ns[0], "ip", "link", "add", "e", "type", "veth", "peer", "name", "e", "netns", ns[1])
	for i := range ns {
		run(t, ns[i], "ip", "addr", "add", fmt.Sprintf("10.90.1.%d/24", i+1), "dev", "e")
		run(t, ns[i], "ip", "addr", "add", fmt.Sprintf("fd90::%d/64", i+1), "dev", "e", "nodad")
		run(t, ns[i], "ip", "link", "set", "e", "up")
		run(t, ns[i], "ip", "link", "set", "lo", "up")
	}
	for _, tool := range []string{"iptables", "ip6tables"} {
		run(t, ns[1], tool, "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "7001",
			"-j", "REDIRECT", "--to-ports", "7002")
	}
	for _, addr := range []string{"10.90.1.2", "fd90::2"} {
		l := listen(t, ns[1], net.JoinHostPort(addr, "7002"))
		for _, port := range []uint16{7001, 7002} {
			to := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
			c, err := dial(t, ns[0], to.String(), 30*time.Second) // IPv6 first looks for duplicates of addresses
			if err != nil {
				t.Fatal(err)
			}
			back, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer back.Close()
			ends := func(c net.Conn) (local, remote netip.AddrPort) {
				return c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
			}
			here, there := ends(back)
			if got, err := SentTo(ns[1], here, there); err != nil || got != to {
				t.Errorf("%v to %v, handed to %v: %v, %v", there, to, here, got, err)
			}
			other := netip.AddrPortFrom(there.Addr(), there.Port()^1)
			if got, err := SentTo(ns[1], here, other); err != nil || got != here {
				t.Errorf("of a connection that there is not: %v, %v", got, err)
			}
			here, there = ends(c)
			if got, err := SentTo(ns[0], here, there); err != nil || got != here {
				t.Errorf("at the other end: %v, %v; expected %v", got, err, here)
			}
		}
	}
}
