package dataplane

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// echo starts an echo server in pod 2 and connects to it from pod 1.
func (b *bed) echo(network, listen, to string, opts ...option) net.Conn {
	b.t.Helper()
	return b.echoFrom(1, network, listen, to, opts...)
}

// echoFrom starts an echo server in the other pod and calls it at to.
func (b *bed) echoFrom(pod int, network, listen, to string, opts ...option) net.Conn {
	b.t.Helper()
	b.serve(3-pod, network, listen)
	conn, err := b.dial(pod, network, to, opts...)
	if err != nil {
		b.t.Fatalf("dial %s: %v", to, err)
	}
	return conn
}

// serve starts an echo server and returns what stops it.
func (b *bed) serve(pod int, network, listen string) io.Closer {
	b.t.Helper()
	var l io.Closer
	err := netns.Do(b.pods[pod], func() error {
		if strings.HasPrefix(network, "udp") {
			pc, err := net.ListenPacket(network, listen)
			if err == nil {
				l = pc
				go echoPackets(pc)
			}
			return err
		}
		ln, err := net.Listen(network, listen)
		if err == nil {
			l = ln
			go echoStreams(ln)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Close() })
	return l
}

func echoPackets(pc net.PacketConn) {
	buf := make([]byte, 65536)
	for {
		n, from, err := pc.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err == nil {
			_, _ = pc.WriteTo(buf[:n], from) // a lost echo is what tests look for
		}
	}
}

func echoStreams(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(c, c); c.Close() }()
	}
}

// option is a socket option: level, name, value (int or []byte).
type option struct {
	level, name int
	value       any
}

// dial connects from a pod. Options are set before; with one of them, a local
// address in place of the value binds.
func (b *bed) dial(pod int, network, to string, opts ...option) (conn net.Conn, err error) {
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, rc syscall.RawConn) error {
		var err error
		return errors.Join(rc.Control(func(fd uintptr) {
			for _, o := range opts {
				switch v := o.value.(type) {
				case int:
					err = errors.Join(err, unix.SetsockoptInt(int(fd), o.level, o.name, v))
				case []byte:
					err = errors.Join(err, unix.SetsockoptString(int(fd), o.level, o.name, string(v)))
				}
			}
		}), err)
	}}
	for _, o := range opts {
		if local, ok := o.value.(net.Addr); ok {
			d.LocalAddr = local
		} else if patience, ok := o.value.(time.Duration); ok {
			d.Timeout = patience
		}
	}
	err = netns.Do(b.pods[pod], func() (err error) {
		conn, err = d.DialContext(context.Background(), network, to)
		return err
	})
	if err == nil {
		b.t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// from is the option of a local address.
func from(a net.Addr) option { return option{value: a} }

// receiver is a UDP socket that answers nothing.
func (b *bed) receiver(pod int, listen string) *net.UDPConn {
	b.t.Helper()
	var pc net.PacketConn
	if err := netns.Do(b.pods[pod], func() (err error) {
		pc, err = net.ListenPacket("udp", listen)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { pc.Close() })
	return pc.(*net.UDPConn)
}

// tos sets the DSCP and ECN bits of a socket.
func tos(v6 bool, v int) option {
	if v6 {
		return option{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, v}
	}
	return option{unix.IPPROTO_IP, unix.IP_TOS, v}
}

// exchange sends a message and reads it back, with some patience for UDP.
func exchange(c net.Conn, msg string) error {
	if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(msg)); err != nil {
		return err
	}
	got := make([]byte, len(msg))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != msg {
		return errors.New("the echo differs")
	}
	return nil
}

// bulk is a TCP stream between the pods at a steady rate.
type bulk struct {
	got, gap atomic.Int64
	stop     func()
}

// bulk connects from pod 1 to pod 2, where listen is, and sends that way, or
// back if reverse, at some bytes a second.
func (b *bed) bulk(listen string, rate int, reverse bool) *bulk {
	b.t.Helper()
	s := &bulk{}
	var ln net.Listener
	if err := netns.Do(b.pods[2], func() (err error) {
		ln, err = net.Listen("tcp", listen)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { ln.Close() })
	out, err := b.dial(1, "tcp", listen)
	if err != nil {
		b.t.Fatal(err)
	}
	in, err := ln.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { in.Close() })
	s.stop = func() { in.Close(); out.Close() }
	if reverse {
		in, out = out, in
	}
	go func() {
		begin, sent, chunk := time.Now(), 0, make([]byte, 32<<10)
		for {
			if ahead := time.Duration(sent-rate/1000)*time.Second/time.Duration(rate) - time.Since(begin); ahead > 0 {
				time.Sleep(ahead)
			}
			n, err := out.Write(chunk)
			if err != nil {
				return
			}
			sent += n
		}
	}()
	go func() {
		buf, last := make([]byte, 256<<10), time.Now()
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			s.gap.Store(max(s.gap.Load(), int64(time.Since(last))))
			last = time.Now()
			s.got.Add(int64(n))
		}
	}()
	return s
}

// longest returns the longest time without data since it was last asked.
func (s *bulk) longest() time.Duration { return time.Duration(s.gap.Swap(0)) }

// more waits until n more bytes have come, and fails if they do not.
func (s *bulk) more(n int64) error { return s.within(n, 10*time.Second) }

func (s *bulk) within(n int64, patience time.Duration) error {
	from, deadline := s.got.Load(), time.Now().Add(patience)
	for s.got.Load() < from+n {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d bytes came in %v, expected %d", s.got.Load()-from, patience, n)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// nft runs statements in the router, one for each argument.
func (b *bed) nft(statements ...string) {
	b.t.Helper()
	for _, s := range statements {
		b.run(0, "nft", s)
	}
}

// count reads the packets of a named counter in the router's table inet t.
func (b *bed) count(name string) (n int) {
	b.t.Helper()
	_, rest, _ := strings.Cut(b.run(0, "nft", "list counter inet t "+name), "packets ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		b.t.Fatalf("counter %s: %v", name, err)
	}
	return n
}

// icmpError is what a socket's error queue holds.
type icmpError struct {
	errno             syscall.Errno
	typ, code         uint8
	info              uint32
	offender, quoteTo netip.Addr
	payload           string
}

// socketError waits for an ICMP error on a socket that has asked for them (ip(7), IP_RECVERR).
func socketError(t testing.TB, c net.Conn) (e icmpError, err error) {
	t.Helper()
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf, oob := make([]byte, 2048), make([]byte, 512)
	var n, oobn int
	var to unix.Sockaddr
	deadline := time.Now().Add(3 * time.Second)
	for {
		if cerr := rc.Control(func(fd uintptr) {
			n, oobn, _, to, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		}); cerr != nil {
			t.Fatal(cerr)
		}
		if err == nil {
			break
		} else if time.Now().After(deadline) {
			return e, fmt.Errorf("no ICMP error came: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	e.payload = string(buf[:n])
	switch a := to.(type) {
	case *unix.SockaddrInet4:
		e.quoteTo = netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		e.quoteTo = netip.AddrFrom16(a.Addr)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		d := m.Data
		if m.Header.Type != unix.IP_RECVERR && m.Header.Type != unix.IPV6_RECVERR || len(d) < 32 {
			continue
		}
		e.errno, e.typ, e.code, e.info = syscall.Errno(native32(d)), d[5], d[6], native32(d[8:])
		if binary.NativeEndian.Uint16(d[16:]) == unix.AF_INET {
			e.offender, _ = netip.AddrFromSlice(d[20:24])
		} else {
			e.offender, _ = netip.AddrFromSlice(d[24:40])
		}
	}
	return e, nil
}
