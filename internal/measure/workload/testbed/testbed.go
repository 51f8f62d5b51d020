// Package testbed is a small real bed for tests of workloads: pods that are
// named network namespaces, joined pair by pair by veth, in which programs
// really run. It is no lab: there are no hosts, and no network is built.
package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// RequireRoot fails the test where it cannot run as root, or skips it if
// PATHWISE_ALLOW_SKIP is set: a skip that nobody asked for is a test that
// nobody runs.
func RequireRoot(t testing.TB) {
	t.Helper()
	const why = "namespaces need root"
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("PATHWISE_ALLOW_SKIP") != "":
		t.Skip(why)
	default:
		t.Fatal(why + ": run as root, or set PATHWISE_ALLOW_SKIP=1 to skip")
	}
}

// Ground implements workload.Ground for real.
type Ground struct {
	Pairs []workload.Pair
	// Self is the pathwise executable, for Launch.
	Self string
	// Dir is for the files of runs.
	Dir string

	t        testing.TB
	dir      string
	prefix   string
	names    []string
	launched []oci.Container
	launches int
	mu       sync.Mutex
}

// New makes a bed with that many pairs; it goes with the test.
func New(t testing.TB, pairs int) *Ground {
	t.Helper()
	RequireRoot(t)
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	// The directory first: cleanups run last to first, and close needs it.
	g := &Ground{t: t, dir: t.TempDir(), Dir: t.TempDir()}
	g.prefix = prefixOf(g.dir)
	t.Cleanup(g.close)
	for i := range pairs {
		client, server := g.pod(fmt.Sprintf("c%d", i+1)), g.pod(fmt.Sprintf("s%d", i+1))
		if err := g.join(&client, &server, i); err != nil {
			t.Fatal(err)
		}
		pair := workload.Pair{Client: client, Server: server}
		if err := g.awaitPassing(pair); err != nil {
			t.Fatal(err)
		}
		g.Pairs = append(g.Pairs, pair)
	}
	return g
}

// prefixOf is a beginning of names that no other bed uses: a test's directory is
// its own alone. Whether a name is free could not be seen, as beds come and go
// side by side.
func prefixOf(dir string) string {
	h := fnv.New32a()
	h.Write([]byte(dir))
	return fmt.Sprintf("pw-t-%08x", h.Sum32())
}

// Bed is the bed for Run.
func (g *Ground) Bed() workload.Bed {
	return workload.Bed{Pairs: g.Pairs, Ground: g, Dir: g.Dir}
}

func (g *Ground) close() {
	for _, c := range g.launched {
		if err := oci.Delete(context.Background(), c); err != nil {
			g.t.Error(err)
		}
	}
	for _, name := range g.names {
		if err := netns.Delete(name); err != nil {
			g.t.Error(err)
		}
	}
}

// pod makes a namespace for a pod.
func (g *Ground) pod(name string) topo.Pod {
	g.t.Helper()
	full := g.prefix + "-" + name
	if err := netns.Create(full); err != nil {
		g.t.Fatal(err)
	}
	g.names = append(g.names, full)
	return topo.Pod{Name: name, Host: 1, Netns: full, Listen: topo.ServicePort}
}

// join links two pods with addresses of the n-th /30 of 10.201.0.0/16.
func (g *Ground) join(a, b *topo.Pod, n int) error {
	dev := fmt.Sprintf("eth%d", n)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = dev
	if err := veth(attrs, *a, *b); err != nil {
		return err
	}
	for i, p := range []*topo.Pod{a, b} {
		addr := netip.AddrFrom4([4]byte{10, 201, byte(n >> 6), byte(n<<2 + i + 1)})
		if err := configure(p.Netns, dev, addr); err != nil {
			return err
		}
		p.Attachments = append(p.Attachments, topo.Attachment{Network: "veth", Dev: dev, Addr: addr, MTU: topo.DefaultMTU})
		p.Service = netip.AddrPortFrom(p.Addr(), p.Listen)
	}
	return nil
}

// awaitPassing returns when the server's kernel answers the client. On a busy
// machine the kernel notices a new link's carrier seconds late, and drops until
// then what is sent.
func (g *Ground) awaitPassing(p workload.Pair) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return network.Poll(ctx, 10*time.Millisecond, func() error {
		return g.Do(p.Client, func() error {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			limit := syscall.NsecToTimeval((100 * time.Millisecond).Nanoseconds()) // connect's too
			if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit); err != nil {
				return err
			}
			to := &syscall.SockaddrInet4{Port: 9, Addr: p.Server.Addr().As4()}
			if err := syscall.Connect(fd, to); !errors.Is(err, syscall.ECONNREFUSED) {
				return fmt.Errorf("pod %s does not answer pod %s: %w", p.Server.Name, p.Client.Name, err)
			}
			return nil
		})
	})
}

func veth(attrs netlink.LinkAttrs, a, b topo.Pod) error {
	h, err := netns.Netlink(a.Netns)
	if err != nil {
		return err
	}
	defer h.Close()
	target, err := netns.LinkFd(b.Netns)
	if err != nil {
		return err
	}
	defer target.Close()
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: attrs.Name, PeerNamespace: netlink.NsFd(target.Fd())}
	if err := h.LinkAdd(link); err != nil {
		return fmt.Errorf("join pods %s and %s: %w", a.Name, b.Name, err)
	}
	return nil
}

func configure(ns, dev string, addr netip.Addr) error {
	h, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	prefix := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(30, 32)}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: prefix}); err != nil {
		return fmt.Errorf("set address of %s: %w", dev, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", dev, err)
	}
	return nil
}

// Exec implements workload.Ground.
func (g *Ground) Exec(ctx context.Context, pod topo.Pod, argv ...string) (program.Result, error) {
	path, err := network.FindProgram(argv[0])
	if err != nil {
		return program.Result{}, &program.Error{Argv: argv, Err: err}
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := netns.Start(pod.Netns, cmd); err != nil {
		return program.Result{}, &program.Error{Argv: argv, Err: err}
	}
	err = cmd.Wait()
	res := program.Result{Stdout: stdout.Bytes(), User: cmd.ProcessState.UserTime(),
		System: cmd.ProcessState.SystemTime(), Wall: time.Since(begin)}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return res, &program.Error{Argv: argv, Stderr: stderr.String(), Err: err}
	}
	return res, nil
}

// Do implements workload.Ground.
func (g *Ground) Do(pod topo.Pod, fn func() error) error { return netns.Do(pod.Netns, fn) }

// Launch implements workload.Ground: the new pod is joined to the first client.
func (g *Ground) Launch(ctx context.Context, _ int, r oci.Runtime) (oci.Launch, error) {
	if r != oci.Runc {
		return oci.Launch{}, fmt.Errorf("launch pod: a testbed has no %s: use a lab", r)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	out := oci.Launch{Requested: time.Now()}
	n := g.launches + 64 // beyond the pairs' links
	g.launches++
	pod := g.pod(fmt.Sprintf("l%d", n))
	client := g.Pairs[0].Client
	if err := g.join(&client, &pod, n); err != nil {
		return out, err
	}
	out.Pod, out.Network = pod, time.Since(out.Requested)
	c := oci.Container{ID: pod.Netns, Dir: filepath.Join(g.dir, pod.Name), Netns: netns.Path(pod.Netns),
		Cgroup: "/" + pod.Netns, Self: g.Self}
	if _, err := oci.Start(ctx, c); err != nil {
		return out, err
	}
	g.launched = append(g.launched, c)
	out.Runtime = time.Since(out.Requested) - out.Network
	return out, nil
}

// Processes lists the programs that run in the bed's pods, as "pid command". One
// that is dying has no command line any more, and is not listed.
func (g *Ground) Processes() []string { return g.processes(g.names...) }

// processes lists those in some of the namespaces.
func (g *Ground) processes(namespaces ...string) []string {
	var out []string
	for _, name := range namespaces {
		want, err := netns.Inode(name)
		if err != nil {
			continue
		}
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			if ino, err := netns.InodeOf(e.Name()); err == nil && ino == want {
				argv, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
				if len(argv) == 0 { // exit_mm() comes before exit_task_namespaces()
					continue
				}
				out = append(out, e.Name()+" "+strings.ReplaceAll(string(argv), "\x00", " "))
			}
		}
	}
	return out
}

// Kill ends, as a crash would, every program in the pod whose command line
// contains what.
func (g *Ground) Kill(what string) error {
	var errs []error
	for _, p := range g.Processes() {
		pid, argv, _ := strings.Cut(p, " ")
		if strings.Contains(argv, what) {
			n, err := strconv.Atoi(pid)
			errs = append(errs, err, syscall.Kill(n, syscall.SIGKILL))
		}
	}
	return errors.Join(errs...)
}

// Lose makes the network lose silently what the server of the pair sends while
// fn runs: the frames carry a hardware address that nobody has.
func (g *Ground) Lose(pair int, fn func()) error {
	server := g.Pairs[pair].Server
	h, err := netns.Netlink(server.Netns)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(server.Attachments[0].Dev)
	if err != nil {
		return fmt.Errorf("find link: %w", err)
	}
	wrong := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: g.Pairs[pair].Client.Addr().AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	if err := h.NeighSet(wrong); err != nil {
		return fmt.Errorf("set neighbour: %w", err)
	}
	fn()
	if err := h.NeighDel(wrong); err != nil {
		return fmt.Errorf("delete neighbour: %w", err)
	}
	return nil
}

// Meter records when it was told of the window.
type Meter struct {
	Told         []string
	Begun, Ended time.Time
	// OnBegin and OnEnd are called then; nil means nothing.
	OnBegin, OnEnd func()
}

// Begin implements workload.Meter.
func (m *Meter) Begin() {
	m.Told, m.Begun = append(m.Told, "begin"), time.Now()
	if m.OnBegin != nil {
		m.OnBegin()
	}
}

// End implements workload.Meter.
func (m *Meter) End() {
	m.Told, m.Ended = append(m.Told, "end"), time.Now()
	if m.OnEnd != nil {
		m.OnEnd()
	}
}

// AddrPort parses an address that is known to be good.
func AddrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
