package flannel_test

import (
	"context"
	"errors"
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
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/flannel"
	"pathwise.dev/pathwise/internal/topo"
)

// up builds a lab with the network, a pod on each host and a second one on the
// first, and skips the test on a machine that cannot.
func up(t *testing.T, store lab.Store, n network.Network, spec lab.Spec) *lab.Lab {
	t.Helper()
	bin, err := filepath.Abs("../../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	cniPath := []string{filepath.Join(bin, "cni")}
	if missing := network.NewMachine(cniPath).Missing(n.Info().Needs); len(missing) > 0 {
		t.Skipf("this machine lacks %v", missing)
	}
	for h := 1; h <= spec.Hosts; h++ {
		spec.Pods = append(spec.Pods, lab.PodSpec{Name: "p" + strconv.Itoa(h), Host: h})
	}
	spec.Pods = append(spec.Pods, lab.PodSpec{Name: "near", Host: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := store.Up(ctx, spec, n, lab.Options{CNIPath: cniPath, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v, daemons ready %v later", l.Built.Round(time.Millisecond), l.Waited.Round(time.Millisecond))
	return l
}

func TestBackends(t *testing.T) {
	for _, backend := range []string{flannel.VXLAN, flannel.HostGW, flannel.UDP} {
		t.Run(backend, func(t *testing.T) {
			store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
			outside := traces(t)
			n := flannel.New(backend)
			l := up(t, store, n, lab.Spec{Name: "t-fl-" + backend, Hosts: 2})
			t.Cleanup(func() { down(t, store, l, outside) })
			checkAddresses(t, l, n.Info())
			checkReach(t, l, n.Info().Row)
			checkCrossing(t, l)
		})
	}
}

// TestJumbo has three hosts, so that each converges with more than one peer,
// and an underlay MTU that the network must make use of.
func TestJumbo(t *testing.T) {
	for _, backend := range []string{flannel.VXLAN, flannel.UDP} {
		t.Run(backend, func(t *testing.T) {
			store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
			outside := traces(t)
			n := flannel.New(backend)
			l := up(t, store, n, lab.Spec{Name: "t-fj-" + backend, Hosts: 3, MTU: 9000})
			t.Cleanup(func() { down(t, store, l, outside) })
			checkAddresses(t, l, n.Info())
			pods := l.Pods()
			for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
				from, to := pods[pair[0]], pods[pair[1]]
				size := strconv.Itoa(from.Attachments[0].MTU - 28)
				if err := ping(t, l, from, to.Addr(), "-M", "do", "-s", size); err != nil {
					t.Errorf("%s to %s with packets of the MTU: %v", from.Name, to.Name, err)
				}
			}
		})
	}
}

// TestFails tells a wrong set-up from a slow one.
func TestFails(t *testing.T) {
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	_, err := store.Up(t.Context(),
		lab.Spec{Name: "t-fl-small", Hosts: 1, PodRange: netip.MustParsePrefix("10.77.0.0/23")},
		flannel.New(flannel.VXLAN), lab.Options{})
	if err == nil || !strings.Contains(err.Error(), "too small for flannel") {
		t.Errorf("pod range of two subnets: got %v", err)
	}
	if left, err := store.List(); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func checkAddresses(t *testing.T, l *lab.Lab, info network.Info) {
	t.Helper()
	own, err := netns.InodeOf("self")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l.Pods() {
		h := l.Hosts()[p.Host-1]
		if !h.Pods.Contains(p.Addr()) {
			t.Errorf("pod %s of host %s has %v, want an address of %v", p.Name, h.Name, p.Addr(), h.Pods)
		}
		if want := uplinkMTU(t, l, h) - info.Overhead; p.Attachments[0].MTU != want {
			t.Errorf("pod %s has MTU %d, want %d", p.Name, p.Attachments[0].MTU, want)
		}
		ino, err := netns.Inode(p.Netns)
		if host, hostErr := netns.Inode(h.Netns); err != nil || hostErr != nil || ino == host || ino == own {
			t.Errorf("pod %s has no namespace of its own: %v, %v", p.Name, err, hostErr)
		}
	}
}

func uplinkMTU(t *testing.T, l *lab.Lab, h topo.Host) int {
	t.Helper()
	nl, err := l.Netlink(h.Netns)
	if err != nil {
		t.Fatal(err)
	}
	link, err := nl.LinkByName(h.Dev)
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().MTU
}

// checkReach tries what the network's row claims.
func checkReach(t *testing.T, l *lab.Lab, row network.Quality) {
	t.Helper()
	a, b, near := l.Pods()[0], l.Pods()[1], l.Pods()[2]
	for _, c := range []struct {
		what  string
		from  topo.Pod
		to    netip.Addr
		claim bool
	}{
		{"a pod of its host", a, near.Addr(), row.ReachIntra},
		{"a pod of the other host", a, b.Addr(), row.ReachInter},
		{"a pod of the other host, backwards", b, a.Addr(), row.ReachInter},
		{"its own host", a, l.Hosts()[0].Addr.Addr(), row.ReachOwnHost},
		{"an address that is no host", a, l.Gateway().Addr(), row.ReachOutside},
	} {
		if err := ping(t, l, c.from, c.to); (err == nil) != c.claim {
			t.Errorf("pod %s reaches %s: %v, but the network claims %v", c.from.Name, c.what, err, c.claim)
		}
	}
	// Pods see one another's own addresses; the world outside sees the host's.
	if got, err := transfer(l, b.Netns, netip.AddrPortFrom(b.Addr(), 7777), a.Netns, 1<<20); err != nil ||
		got != a.Addr() {
		t.Errorf("TCP from %s to %s: got %v, %v, want source %v", a.Name, b.Name, got, err, a.Addr())
	}
	host := l.Hosts()[1].Addr.Addr()
	if got, err := transfer(l, l.Underlay(), netip.AddrPortFrom(l.Gateway().Addr(), 7777), b.Netns, 1<<20); err != nil ||
		got != host {
		t.Errorf("TCP from %s to the gateway: got %v, %v, want source %v", b.Name, got, err, host)
	}
}

// checkCrossing sends a known amount and finds it on the devices claimed.
func checkCrossing(t *testing.T, l *lab.Lab) {
	t.Helper()
	const size = 4 << 20
	devices := l.Plug().Crossing
	if len(devices) != len(l.Hosts()) {
		t.Fatalf("got %d crossing devices for %d hosts", len(devices), len(l.Hosts()))
	}
	a, b := l.Pods()[0], l.Pods()[1]
	for _, way := range []struct{ from, to topo.Pod }{{a, b}, {b, a}} {
		before := counters(t, l, devices)
		if _, err := transfer(l, way.to.Netns, netip.AddrPortFrom(way.to.Addr(), 7778), way.from.Netns, size); err != nil {
			t.Errorf("TCP from %s to %s: %v", way.from.Name, way.to.Name, err)
			continue
		}
		after := counters(t, l, devices)
		sender, receiver := way.from.Host-1, way.to.Host-1
		if sent := after[sender].tx - before[sender].tx; sent < size {
			t.Errorf("%s: %s sent %d bytes, want %d and more", way.from.Name, devices[sender].Name, sent, size)
		}
		if got := after[receiver].rx - before[receiver].rx; got < size {
			t.Errorf("%s: %s received %d bytes, want %d and more", way.to.Name, devices[receiver].Name, got, size)
		}
	}
}

type count struct{ rx, tx uint64 }

func counters(t *testing.T, l *lab.Lab, devices []network.Device) []count {
	t.Helper()
	var out []count
	for _, d := range devices {
		nl, err := l.Netlink(d.Netns)
		if err != nil {
			t.Fatal(err)
		}
		link, err := nl.LinkByName(d.Name)
		if err != nil {
			t.Fatalf("crossing device %s: %v", d.Name, err)
		}
		out = append(out, count{link.Attrs().Statistics.RxBytes, link.Attrs().Statistics.TxBytes})
	}
	return out
}

func ping(t *testing.T, l *lab.Lab, from topo.Pod, to netip.Addr, flags ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	argv := append([]string{"ping", "-n", "-q", "-c", "1", "-W", "2"}, flags...)
	_, err := l.Exec(ctx, from, append(argv, to.String())...)
	return err
}

// transfer sends size bytes from the client's namespace to a server at addr in
// its own, and returns the address that the server saw them come from.
func transfer(l *lab.Lab, server string, addr netip.AddrPort, client string, size int64) (netip.Addr, error) {
	var ln net.Listener
	err := netns.Do(server, func() (err error) {
		ln, err = net.Listen("tcp", addr.String())
		return err
	})
	if err != nil {
		return netip.Addr{}, err
	}
	defer ln.Close()
	sent := make(chan error, 1)
	go func() { sent <- send(client, addr, size) }()
	if err := ln.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return netip.Addr{}, err
	}
	conn, err := ln.Accept()
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return netip.Addr{}, err
	}
	got, err := io.Copy(io.Discard, conn)
	if err := errors.Join(err, <-sent); err != nil {
		return netip.Addr{}, err
	}
	if got != size {
		return netip.Addr{}, fmt.Errorf("got %d bytes of %d", got, size)
	}
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	return from.Addr(), err
}

func send(client string, addr netip.AddrPort, size int64) error {
	var conn net.Conn
	err := netns.Do(client, func() (err error) {
		conn, err = net.DialTimeout("tcp", addr.String(), 10*time.Second)
		return err
	})
	if err != nil {
		return err
	}
	_, err = conn.Write(make([]byte, size))
	return errors.Join(err, conn.Close())
}

// traces lists what lies where flannel and CNI plugins keep state by default.
func traces(t *testing.T) string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/run/flannel/*", "/var/lib/cni/*/*", "/run/netns/pw-t-f[lj]-*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return strings.Join(out, " ")
}

// down removes the lab and looks for what it may have left.
func down(t *testing.T, store lab.Store, l *lab.Lab, before string) {
	t.Helper()
	dir, inodes := l.Dir(), map[uint64]bool{}
	for _, ns := range append(netnsOf(l), l.Underlay()) {
		ino, err := netns.Inode(ns)
		if err != nil {
			t.Error(err)
		}
		inodes[ino] = true
	}
	if err := l.Down(context.Background()); err != nil {
		t.Errorf("down: %v", err)
	}
	if now := traces(t); now != before {
		t.Errorf("left behind: %s; before: %s", now, before)
	}
	if _, err := os.Stat(store.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %s (%v)", store.Root, err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue // a thread of this one may yet be on its way out
		}
		cmd, _ := os.ReadFile(filepath.Join(p, "cmdline")) // the process may be gone
		ino, err := netns.InodeOf(filepath.Base(p))
		if (err == nil && inodes[ino]) || strings.Contains(string(cmd), dir) {
			t.Errorf("left running: %s %q", p, cmd)
		}
	}
}

func netnsOf(l *lab.Lab) []string {
	var out []string
	for _, h := range l.Hosts() {
		out = append(out, h.Netns)
	}
	for _, p := range l.Pods() {
		out = append(out, p.Netns)
	}
	return out
}
