package conntrack

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestSentTo: of a connection that the namespace hands to another port it is known to which the peer sends; of one that
// it leaves as it is, of one that it has opened and of none it is the same.
func TestSentTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	var ns [2]string
	for i := range ns {
		ns[i] = fmt.Sprintf("pw-t-sent-%d-%d", os.Getpid(), i)
		if err := netns.Create(ns[i]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(ns[i]); err != nil {
				t.Error(err)
			}
		})
	}
	run := func(argv ...string) {
		t.Helper()
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	run("ip", "-n", ns[0], "link", "add", "e", "type", "veth", "peer", "name", "e", "netns", ns[1])
	for i := range ns {
		run("ip", "-n", ns[i], "addr", "add", fmt.Sprintf("10.90.1.%d/24", i+1), "dev", "e")
		run("ip", "-n", ns[i], "addr", "add", fmt.Sprintf("fd90::%d/64", i+1), "dev", "e", "nodad")
		run("ip", "-n", ns[i], "link", "set", "e", "up")
		run("ip", "-n", ns[i], "link", "set", "lo", "up")
	}
	for _, tool := range []string{"iptables", "ip6tables"} {
		run("ip", "netns", "exec", ns[1], tool, "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "7001",
			"-j", "REDIRECT", "--to-ports", "7002")
	}
	for _, addr := range []string{"10.90.1.2", "fd90::2"} {
		var l net.Listener
		if err := netns.Do(ns[1], func() (err error) {
			l, err = net.Listen("tcp", net.JoinHostPort(addr, "7002"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, port := range []uint16{7001, 7002} {
			to := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
			var c net.Conn
			if err := netns.Do(ns[0], func() (err error) {
				c, err = net.Dial("tcp", to.String())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
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
