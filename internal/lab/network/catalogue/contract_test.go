package catalogue_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/topo"
)

// cniPath is where "make plugins" puts plugins and flanneld.
func cniPath(t *testing.T) []string {
	t.Helper()
	root, err := filepath.Abs("../../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", root+":"+os.Getenv("PATH"))
	return lab.DefaultCNIPath(filepath.Join(root, "pathwise"))
}

// up builds a lab that goes with the test.
func up(t *testing.T, n network.Network, spec lab.Spec) *lab.Lab {
	t.Helper()
	return upAll(t, []network.Network{n}, spec)
}

// upAll is up for several networks.
func upAll(t *testing.T, nets []network.Network, spec lab.Spec) *lab.Lab {
	t.Helper()
	// Not t.TempDir: it has the test's name in it, and a socket's path has 108 bytes.
	dir, err := os.MkdirTemp("", "Test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	store := lab.Store{Root: filepath.Join(dir, "store")}
	opts := lab.Options{CNIPath: cniPath(t), Owned: true}
	if os.Getenv(insideVariable) != "" {
		opts.Timeout = lab.GuestTimeout
	}
	l, err := store.UpAll(context.Background(), spec, nets, opts)
	if err != nil {
		t.Fatalf("lab up: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("lab down: %v", err)
		}
		left, err := filepath.Glob("/run/netns/pw-" + spec.Name + "-*")
		if err != nil || len(left) > 0 {
			t.Errorf("namespaces left: %v %v", left, err)
		}
		if _, err := os.Stat(store.Root); !os.IsNotExist(err) {
			t.Errorf("store left: %v", err)
		}
		if pids := marked(t, store.Root); len(pids) > 0 {
			t.Errorf("processes left: %v", pids)
		}
	})
	return l
}

// marked lists processes that carry the lab's mark.
func marked(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains(string(env), "PATHWISE_LAB="+root) {
			out = append(out, e.Name())
		}
	}
	return out
}

// TestContract tries every cell of the qualitative table for real, in the one
// and the two host placement, for every network of the catalogue.
func TestContract(t *testing.T) {
	for i, n := range catalogue.All() {
		info := n.Info()
		t.Run(info.Name, func(t *testing.T) {
			if miss := network.NewMachine(cniPath(t)).Missing(info.Needs); len(miss) > 0 {
				if elsewhere(t, miss) || hardware(t, miss) {
					return
				}
				t.Fatalf("this machine lacks %v: run make setup plugins", miss)
			}
			// Two pods on the first host, one on the second.
			l := up(t, n, lab.Spec{Name: fmt.Sprintf("t-net%d", i), Hosts: 2,
				Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 1}, {Name: "c", Host: 2}}})
			pods, hosts := l.Pods(), l.Hosts()
			own, err := differs(l, pods[0], hosts[0])
			if err != nil || own != info.Row.OwnNamespace {
				t.Errorf("own namespace: got %v (%v), the table says %v", own, err, info.Row.OwnNamespace)
			}
			reach(t, l, "pod of the same host", info.Row.ReachIntra, pods[0], pods[1].Netns, pods[1].Service,
				pods[1].Listen)
			if l.Plug().Mode != network.SharePod { // pods of two hosts are in two groups, without a way between them
				reach(t, l, "pod of another host", info.Row.ReachInter, pods[0], pods[2].Netns, pods[2].Service,
					pods[2].Listen)
				reach(t, l, "and back", info.Row.ReachInter, pods[2], pods[0].Netns, pods[0].Service, pods[0].Listen)
			}
			reach(t, l, "own host", info.Row.ReachOwnHost, pods[0], hosts[0].Netns,
				netip.AddrPortFrom(hosts[0].Addr.Addr(), 7001), 7001)
			reach(t, l, "outside", info.Row.ReachOutside, pods[0], l.Underlay(),
				netip.AddrPortFrom(l.Gateway().Addr(), 7002), 7002)
			checkMTU(t, l, info)
			if ok, _ := info.Supports(topo.OneHost); ok != info.Row.ReachIntra {
				t.Errorf("one-host support %v contradicts the table", ok)
			}
			if ok, _ := info.Supports(topo.TwoHosts); ok != info.Row.ReachInter {
				t.Errorf("two-hosts support %v contradicts the table", ok)
			}
		})
	}
}

// hardware reports whether the network wants a card that this machine has not,
// which no set-up brings.
func hardware(t *testing.T, missing []network.Missing) bool {
	t.Helper()
	for _, m := range missing {
		if m.Kind == network.Hardware {
			t.Logf("not tried: this machine lacks %v", m)
			return true
		}
	}
	return false
}

// reach tries an exchange, which the table says works or does not. What is to work
// is tried again: on a busy machine an answer may take longer than a refusal is waited for.
func reach(t *testing.T, l *lab.Lab, what string, want bool, from topo.Pod, ns string, target netip.AddrPort,
	listen uint16) {
	t.Helper()
	err := exchange(l, from, ns, target, listen)
	for try := 0; want && err != nil && try < 3; try++ {
		err = exchange(l, from, ns, target, listen)
	}
	expect(t, what, want, err)
}

func expect(t *testing.T, what string, want bool, err error) {
	t.Helper()
	if (err == nil) != want {
		t.Errorf("%s: reached %v (%v), the table says %v", what, err == nil, err, want)
	}
}

// differs reports whether the pod's namespace is not that of any other.
func differs(l *lab.Lab, pod topo.Pod, host topo.Host) (bool, error) {
	if pod.Netns == host.Netns {
		return false, nil
	}
	return l.Pods()[0].Netns != l.Pods()[1].Netns, nil
}

// exchange sends bytes over TCP and UDP from a pod to a listener in namespace ns
// and wants them back.
func exchange(l *lab.Lab, from topo.Pod, ns string, target netip.AddrPort, listen uint16) error {
	if !target.IsValid() {
		return fmt.Errorf("no address")
	}
	// A wildcard UDP socket answers from the address nearest to the sender, so
	// the listener takes the target's own, unless that is translated on the way.
	at := netip.AddrPortFrom(target.Addr(), listen)
	if target.Port() != listen {
		at = netip.AddrPortFrom(whole(target.Addr()), listen)
	}
	stop, err := echo(l, ns, at)
	if err != nil {
		return err
	}
	defer stop()
	for _, proto := range []string{"tcp", "udp"} {
		err := l.Do(from, func() error {
			c, err := net.DialTimeout(family(proto, target), target.String(), 400*time.Millisecond)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
				return err
			}
			if _, err := c.Write([]byte("pathwise")); err != nil {
				return err
			}
			buf := make([]byte, 8)
			if _, err := io.ReadFull(c, buf); err != nil {
				return err
			}
			if string(buf) != "pathwise" {
				return fmt.Errorf("got %q back", buf)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", proto, err)
		}
	}
	return nil
}

// family is the network of package net, tcp4 or udp6, of the address.
func family(proto string, a netip.AddrPort) string {
	return fmt.Sprintf("%s%d", proto, topo.FamilyOf(a.Addr()))
}

// whole is the unspecified address of the family.
func whole(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// echo serves TCP and UDP in namespace ns.
func echo(l *lab.Lab, ns string, addr netip.AddrPort) (stop func(), err error) {
	var tcp net.Listener
	var udp net.PacketConn
	err = l.Do(topo.Pod{Netns: ns}, func() (err error) {
		if tcp, err = net.Listen(family("tcp", addr), addr.String()); err != nil {
			return err
		}
		udp, err = net.ListenPacket(family("udp", addr), addr.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			udp.WriteTo(buf[:n], from)
		}
	}()
	return func() { tcp.Close(); udp.Close() }, nil
}

// checkMTU wants the MTU that the catalogue states, packets that fill it to pass
// both ways, and larger ones to be refused.
func checkMTU(t *testing.T, l *lab.Lab, info network.Info) {
	t.Helper()
	if !info.Row.ReachInter || l.Plug().Publish { // a published port answers no ping
		return
	}
	a, c := l.Pods()[0], l.Pods()[2]
	want := topo.DefaultMTU - info.Overhead
	if a.Attachments[0].MTU != want {
		t.Errorf("MTU %d, the catalogue says %d", a.Attachments[0].MTU, want)
	}
	const headers = 20 + 8 // IPv4 and ICMP
	for _, dir := range [][2]topo.Pod{{a, c}, {c, a}} {
		for _, size := range []int{8, want - headers} {
			_, err := ping(l, dir[0], dir[1], size)
			for try := 0; err != nil && try < 3; try++ { // on a busy machine one may be lost
				_, err = ping(l, dir[0], dir[1], size)
			}
			if err != nil {
				t.Errorf("%s to %s, %d bytes: %v", dir[0].Name, dir[1].Name, size, err)
			}
		}
		if _, err := ping(l, dir[0], dir[1], want-headers+1); err == nil {
			t.Errorf("%s to %s: a packet above the MTU passed", dir[0].Name, dir[1].Name)
		}
	}
}

func ping(l *lab.Lab, from, to topo.Pod, size int) ([]byte, error) {
	res, err := l.Exec(context.Background(), from, "ping", "-c1", "-W2", "-Mdo", "-s", strconv.Itoa(size),
		to.Service.Addr().String())
	return res.Stdout, err
}

// TestCNI runs a user's own configuration list through the network cni.
func TestCNI(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.conflist")
	text := `{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"macvlan","master":"${DEV}","mtu":${MTU},
		"ipam":{"type":"host-local","ranges":[[{"subnet":"${PODS}"}]]}}]}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := catalogue.Find("cni:" + path)
	if err != nil {
		t.Fatal(err)
	}
	l := up(t, n, lab.Spec{Name: "t-cni", Hosts: 2, Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}})
	reach(t, l, "pod of another host", true, l.Pods()[0], l.Pods()[1].Netns, l.Pods()[1].Service, l.Pods()[1].Listen)
}
