package startup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// echo pings from a pod.
type echo struct {
	v4, v6 *icmp.PacketConn
	id     int
}

// newEcho opens raw sockets in the pod. They stay in its namespace whichever
// thread uses them.
func newEcho(g workload.Ground, pod topo.Pod) (*echo, error) {
	e := &echo{id: os.Getpid() & 0xffff}
	err := g.Do(pod, func() (err error) {
		if e.v4, err = icmp.ListenPacket("ip4:icmp", "0.0.0.0"); err != nil {
			return err
		}
		e.v6, err = icmp.ListenPacket("ip6:ipv6-icmp", "::")
		if errors.Is(err, unix.EAFNOSUPPORT) {
			err = nil // a kernel without IPv6
		}
		return err
	})
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("open raw socket in pod %s: %w", pod.Name, err)
	}
	return e, nil
}

// Close closes the sockets.
func (e *echo) Close() {
	for _, c := range []*icmp.PacketConn{e.v4, e.v6} {
		if c != nil {
			c.Close()
		}
	}
}

// ping sends an echo request every millisecond and returns when the first was answered.
func (e *echo) ping(ctx context.Context, pod topo.Pod) (time.Time, error) {
	conn, target := e.v4, pod.Addr()
	if pod.Service.Addr().Is6() {
		target = pod.Address(topo.IPv6)
	}
	if target.Is6() {
		conn = e.v6
	}
	if conn == nil {
		return time.Time{}, fmt.Errorf("ping %v: this kernel has no IPv6", target)
	}
	answered := make(chan time.Time, 1)
	go func() {
		// Ends with an answer, or when the socket's deadline has come.
		if at, ok := e.await(conn, target); ok {
			answered <- at
		}
	}()
	defer conn.SetReadDeadline(time.Now())
	tick := time.NewTicker(spacing)
	defer tick.Stop()
	for seq := 1; ; seq++ {
		// A failed send is no answer: the route may not be there yet.
		failed := e.send(conn, target, seq)
		select {
		case at := <-answered:
			return at, nil
		case <-ctx.Done():
			return time.Time{}, errors.Join(context.Cause(ctx), failed)
		case <-tick.C:
		}
	}
}

func (e *echo) send(conn *icmp.PacketConn, target netip.Addr, seq int) error {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: e.id, Seq: seq & 0xffff}}
	if target.Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest
	}
	raw, err := m.Marshal(nil) // the kernel fills in ICMPv6's checksum
	if err != nil {
		return fmt.Errorf("encode echo request: %w", err)
	}
	if _, err := conn.WriteTo(raw, &net.IPAddr{IP: target.AsSlice()}); err != nil {
		return fmt.Errorf("send echo request: %w", err)
	}
	return nil
}

// await returns when an answer from the target has come; not ok if the
// socket's deadline or end came first.
func (e *echo) await(conn *icmp.PacketConn, target netip.Addr) (at time.Time, ok bool) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return at, false
		}
		at = time.Now()
		addr, isIP := from.(*net.IPAddr)
		if !isIP {
			continue
		}
		if got, valid := netip.AddrFromSlice(addr.IP); valid && got.Unmap() == target && e.answers(buf[:n], target) {
			return at, true
		}
	}
}

// answers reports whether the packet is an echo reply to one of our requests.
func (e *echo) answers(raw []byte, target netip.Addr) bool {
	protocol, reply := 1, icmp.Type(ipv4.ICMPTypeEchoReply)
	if target.Is6() {
		protocol, reply = 58, ipv6.ICMPTypeEchoReply
	}
	m, err := icmp.ParseMessage(protocol, raw)
	if err != nil || m.Type != reply {
		return false
	}
	body, ok := m.Body.(*icmp.Echo)
	return ok && body.ID == e.id
}

// knock connects to the pod's published port every millisecond and returns when
// the first attempt was answered. A refusal is an answer as well: nothing
// listens in the pod, and it is the pod's kernel that says so.
func knock(ctx context.Context, g workload.Ground, client, pod topo.Pod) (time.Time, error) {
	tick := time.NewTicker(spacing)
	defer tick.Stop()
	for {
		var at time.Time
		err := g.Do(client, func() error {
			// connect(2) on this thread: net.Dialer would use others, outside the namespace.
			err := connectTo(pod.Service)
			at = time.Now()
			return err
		})
		if err == nil || errors.Is(err, unix.ECONNREFUSED) {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// connectTo makes and closes one TCP connection, within 50 milliseconds.
func connectTo(target netip.AddrPort) error {
	family := unix.AF_INET
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().Unmap().As4()}
	if target.Addr().Is6() {
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: int(target.Port()), Addr: target.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	// Bounds connect as well (socket(7)).
	limit := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return fmt.Errorf("set timeout: %w", err)
	}
	if err := unix.Connect(fd, to); err != nil {
		return fmt.Errorf("connect to %v: %w", target, err)
	}
	return nil
}
