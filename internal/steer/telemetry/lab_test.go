package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Two namespaces joined by veth. The client's end is eth0 in both.
const (
	client  = "pw-t-tele-c"
	server  = "pw-t-tele-s"
	server4 = "10.99.7.2"
	server6 = "fd00:99:7::2"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buildPair makes the namespaces for the time of the test.
func buildPair(t testing.TB) {
	t.Helper()
	must(t, netns.Prepare())
	t.Cleanup(func() {
		if err := errors.Join(netns.Delete(client), netns.Delete(server), netns.Release()); err != nil {
			t.Error(err)
		}
	})
	must(t, errors.Join(netns.Create(client), netns.Create(server)))
	fd, err := netns.LinkFd(server)
	must(t, err)
	defer fd.Close()
	h, err := netns.Netlink(client)
	must(t, err)
	must(t, h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0",
		PeerNamespace: netlink.NsFd(fd.Fd())}))
	h.Close()
	for name, addrs := range map[string][]string{client: {"10.99.7.1/24", "fd00:99:7::1/64"},
		server: {server4 + "/24", server6 + "/64"}} {
		h, err := netns.Netlink(name)
		must(t, err)
		l, err := h.LinkByName("eth0")
		must(t, err)
		for _, a := range addrs {
			addr, err := netlink.ParseAddr(a)
			must(t, err)
			addr.Flags = unix.IFA_F_NODAD
			must(t, h.AddrAdd(l, addr))
		}
		must(t, h.LinkSetUp(l))
		h.Close()
	}
}

// pins mounts a bpffs of the test's own and names a directory in it.
func pins(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("bpf", dir, "bpf", 0, "mode=0700"))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "telemetry")
}

func root(t testing.TB) string {
	t.Helper()
	dir, err := CgroupRoot()
	must(t, err)
	return dir
}

// attach makes a collector that goes, pins and all, with the test.
func attach(t testing.TB, pinDir string) *Collector {
	t.Helper()
	c, err := Attach(root(t), pinDir)
	must(t, err)
	t.Cleanup(func() { c.Remove() })
	return c
}

// serve listens in the server's namespace and hands over what connects.
func serve(t testing.TB, address string) (port string, accepted <-chan net.Conn) {
	t.Helper()
	var l net.Listener
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	must(t, netns.Do(server, func() (err error) {
		l, err = lc.Listen(context.Background(), "tcp", net.JoinHostPort(address, "0"))
		return err
	}))
	t.Cleanup(func() { l.Close() })
	out := make(chan net.Conn, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			out <- conn
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, out
}

// connection is both ends of a TCP connection from client to server.
type connection struct{ c, s net.Conn }

func (k connection) client() net.Conn { return k.c }
func (k connection) server() net.Conn { return k.s }

// connect opens a connection; the listener is dual-stack, so that the server's
// socket is IPv6 with mapped addresses where the client uses IPv4.
func connect(t testing.TB, to string) connection {
	t.Helper()
	port, accepted := serve(t, "::")
	var k connection
	must(t, netns.Do(client, func() (err error) {
		k.c, err = net.DialTimeout("tcp", net.JoinHostPort(to, port), 10*time.Second)
		return err
	}))
	k.s = <-accepted
	t.Cleanup(func() { k.c.Close(); k.s.Close() })
	return k
}

// connectMapped is connect by an IPv6 socket to a mapped address.
func connectMapped(t testing.TB) connection {
	t.Helper()
	port, accepted := serve(t, server4)
	var p uint16
	fmt.Sscan(port, &p)
	var k connection
	must(t, netns.Do(client, func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "mapped")
		defer f.Close()
		if err := unix.Connect(fd,
			&unix.SockaddrInet6{Port: int(p), Addr: netip.MustParseAddr("::ffff:" + server4).As16()}); err != nil {
			return err
		}
		k.c, err = net.FileConn(f)
		return err
	}))
	k.s = <-accepted
	t.Cleanup(func() { k.c.Close(); k.s.Close() })
	return k
}

// send moves n bytes from client to server and waits until they are there.
func (k connection) send(t testing.TB, n int) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, k.s, int64(n))
		done <- err
	}()
	chunk := make([]byte, 64<<10)
	for left := n; left > 0; {
		m, err := k.c.Write(chunk[:min(left, len(chunk))])
		must(t, err)
		left -= m
	}
	must(t, <-done)
}

// exchange sends a byte there and back.
func (k connection) exchange(t testing.TB) {
	t.Helper()
	b := make([]byte, 1)
	for _, end := range []struct{ from, to net.Conn }{{k.c, k.s}, {k.s, k.c}} {
		_, err := end.from.Write(b)
		must(t, err)
		_, err = io.ReadFull(end.to, b)
		must(t, err)
	}
}

// settle waits until all that the client has sent is acknowledged.
func (k connection) settle(t testing.TB) {
	t.Helper()
	eventually(t, "all is acknowledged", func() bool { return tcpInfo(t, k.c).Unacked == 0 })
}

// tcpInfo is the kernel's account of a socket.
func tcpInfo(t testing.TB, conn net.Conn) *unix.TCPInfo {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	var info *unix.TCPInfo
	must(t, raw.Control(func(fd uintptr) {
		var e error
		info, e = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		must(t, e)
	}))
	return info
}

// finish ends the connection from the client's side and waits until the
// client's socket is closed, its file still open: then its counters are final.
func (k connection) finish(t testing.TB) *unix.TCPInfo {
	t.Helper()
	must(t, k.c.(*net.TCPConn).CloseWrite())
	must(t, k.s.Close())
	var info *unix.TCPInfo
	eventually(t, "the client's socket closes", func() bool {
		info = tcpInfo(t, k.c)
		return info.State == unix.BPF_TCP_CLOSE
	})
	return info
}

func ports(k connection) (local, remote uint16) {
	return uint16(k.c.LocalAddr().(*net.TCPAddr).Port), uint16(k.c.RemoteAddr().(*net.TCPAddr).Port)
}

// drop makes the server lose incoming packets at random, per cent of them; not
// small ones, so that the ends still find each other's link addresses.
func drop(t testing.TB, percent int32) (undo func()) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R0, asm.R1, 0, asm.Word), // __sk_buff.len
			asm.JLT.Imm(asm.R0, 200, "pass"),
			asm.FnGetPrandomU32.Call(),
			asm.Mod.Imm32(asm.R0, 100),
			asm.JLT.Imm32(asm.R0, percent, "drop"),
			asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"), // TCX_NEXT
			asm.Return(),
			asm.Mov.Imm(asm.R0, 2).WithSymbol("drop"), // TCX_DROP
			asm.Return(),
		}})
	must(t, err)
	defer prog.Close()
	var l link.Link
	must(t, netns.Do(server, func() error {
		dev, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		l, err = link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: prog, Attach: ebpf.AttachTCXIngress})
		return err
	}))
	var gone bool
	undo = func() {
		if !gone {
			gone = true
			l.Close()
		}
	}
	t.Cleanup(undo)
	return undo
}

// eventually waits for what the kernel does in its own time.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// read is Read merged over everything that is not filtered out.
func read(t testing.TB, c *Collector, keep func(Flow) bool) (sum Figures, flows []Flow) {
	t.Helper()
	r, err := c.Read()
	must(t, err)
	for _, f := range r.Flows {
		if keep == nil || keep(f) {
			sum.add(f.Figures)
			flows = append(flows, f)
		}
	}
	return sum, flows
}

// netstat reads a counter of the client's namespace, as nstat shows it.
func netstat(t testing.TB, name string) (value uint64) {
	t.Helper()
	must(t, netns.Do(client, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/netstat")
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i := 0; i+1 < len(lines); i += 2 { // names, then values
			names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
			if n := slices.Index(names, name); n > 0 {
				value, err = strconv.ParseUint(values[n], 10, 64)
				return err
			}
		}
		return fmt.Errorf("no counter %s", name)
	}))
	return value
}
