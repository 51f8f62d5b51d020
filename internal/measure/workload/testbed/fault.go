package testbed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// Fault is what befalls the server of a pair while it is measured.
type Fault struct {
	Name string
	// Strike breaks the server, or the way to it, for good; only "cut" passes.
	Strike func(g *Ground, p workload.Pair) error
}

// Faults lists the ways in which a server can fail under load. That one says
// what is wrong from the beginning is another: Babble.
func Faults() []Fault {
	return []Fault{
		{"killed", func(g *Ground, p workload.Pair) error { return g.Signal(p.Server, syscall.SIGKILL) }},
		{"stopped", func(g *Ground, p workload.Pair) error { return g.Signal(p.Server, syscall.SIGSTOP) }},
		{"refused", func(g *Ground, p workload.Pair) error { return g.refuse(p.Server) }},
		{"lost", func(g *Ground, p workload.Pair) error { return g.swallow(p.Server) }},
		{"cut", func(g *Ground, p workload.Pair) error { return g.cut(p) }},
	}
}

// Signal sends a signal to every program in the pod.
func (g *Ground) Signal(pod topo.Pod, sig syscall.Signal) error {
	found := g.processes(pod.Netns)
	var errs []error
	for _, p := range found {
		pid, _, _ := strings.Cut(p, " ")
		n, err := strconv.Atoi(pid)
		errs = append(errs, err, syscall.Kill(n, sig))
	}
	if len(found) == 0 {
		return fmt.Errorf("send signal to pod %s: no program runs in it", pod.Name)
	}
	return errors.Join(errs...)
}

// filter sets an nftables rule for what comes into the pod.
func (g *Ground) filter(pod topo.Pod, rules ...string) error {
	script := "table inet fault { chain in { type filter hook input priority 0\n" + strings.Join(rules, "\n") + "\n}\n}\n"
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := g.Exec(ctx, pod, "nft", script); err != nil {
		return fmt.Errorf("set filter in pod %s: %w", pod.Name, err)
	}
	return nil
}

// refuse makes the pod's kernel answer every segment with a reset, and every
// datagram with port unreachable.
func (g *Ground) refuse(pod topo.Pod) error {
	return g.filter(pod, "meta l4proto tcp reject with tcp reset", "meta l4proto udp reject")
}

// swallow makes the pod's kernel drop whatever comes in.
func (g *Ground) swallow(pod topo.Pod) error { return g.filter(pod, "drop") }

// cut destroys the client's connections as they are, in its pod and by a reset at
// their other end; those begun later are fine. The server is held still meanwhile:
// a connection for each request lives for a millisecond, so that one that was seen
// is gone, or has its answer, before it could be destroyed.
func (g *Ground) cut(p workload.Pair) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := g.Signal(p.Server, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("hold server still: %w", err)
	}
	defer func() { _ = g.Signal(p.Server, syscall.SIGCONT) }() // without connections it may have ended
	for {
		res, err := g.Exec(ctx, p.Client, "ss", "-HKntu", "state", "established", "state", "unconnected")
		if err != nil {
			return fmt.Errorf("cut connections of pod %s: %w", p.Client.Name, err)
		}
		if len(res.Stdout) > 0 {
			return nil
		}
	}
}

// Babble starts a server in the pod that speaks no protocol: to a client that
// connects it sends random bytes without end, and it answers each datagram with
// three. It goes with the test.
func (g *Ground) Babble(pod topo.Pod) (netip.AddrPort, error) {
	var l net.Listener
	var u net.PacketConn
	err := netns.Do(pod.Netns, func() (err error) {
		var lc net.ListenConfig
		if l, err = lc.Listen(context.Background(), "tcp4", ":0"); err != nil {
			return err
		}
		u, err = lc.ListenPacket(context.Background(), "udp4", l.Addr().String())
		return err
	})
	if l != nil {
		g.t.Cleanup(func() { l.Close() })
	}
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("babble in pod %s: %w", pod.Name, err)
	}
	g.t.Cleanup(func() { u.Close() })
	go babbleStream(l)
	go babbleDatagrams(u)
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	return netip.AddrPortFrom(pod.Addr(), port), nil
}

func babbleStream(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			_, _ = io.Copy(conn, rand.Reader)
		}()
	}
}

func babbleDatagrams(u net.PacketConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := u.ReadFrom(buf)
		if err != nil {
			return
		}
		for range 3 {
			_, _ = rand.Read(buf[:n])
			_, _ = u.WriteTo(buf[:n], from)
		}
	}
}
