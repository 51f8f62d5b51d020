package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// flowing is one flow between two pods, in one direction after its first packets, at a
// steady rate.
type flowing struct {
	got  atomic.Int64 // bytes that have come
	gap  atomic.Int64 // the longest time without any, in ns
	stop func()
}

// flow opens a flow from one pod to the other and has sender, one of the two, send so many
// bytes a second. It ends with the test.
func (b *bed) flow(proto, opener, other, sender string, rate int) *flowing {
	b.t.Helper()
	f := &flowing{}
	out, in := b.connect(proto, opener, other)
	if sender != opener {
		in, out = out, in
	}
	f.stop = func() { out.Close(); in.Close() }
	b.t.Cleanup(f.stop)
	go send(out, rate)
	go f.receive(in)
	return f
}

// connect opens a flow and returns both ends, the opener's first. Of UDP one datagram has
// gone each way.
func (b *bed) connect(proto, opener, other string) (here, there net.Conn) {
	b.t.Helper()
	from, to := b.pod(opener), b.pod(other)
	at := net.JoinHostPort(to.Addr().String(), "0")
	accepted := make(chan net.Conn, 1)
	var where net.Addr
	if err := netns.Do(to.Netns, func() error {
		if proto == "udp" {
			pc, err := net.ListenPacket(proto, at)
			if err != nil {
				return err
			}
			where = pc.LocalAddr()
			accepted <- &answering{PacketConn: pc}
			return nil
		}
		l, err := net.Listen(proto, at)
		if err != nil {
			return err
		}
		where = l.Addr()
		go func() {
			defer l.Close()
			if c, err := l.Accept(); err == nil {
				accepted <- c
			}
		}()
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	d := net.Dialer{Timeout: 20 * time.Second}
	switch a := netip.AddrPortFrom(from.Addr(), 0); proto {
	case "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(a)
	default:
		d.LocalAddr = net.TCPAddrFromAddrPort(a)
	}
	if err := netns.Do(from.Netns, func() (err error) {
		here, err = d.Dial(proto, where.String())
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	there = <-accepted
	if a, ok := there.(*answering); ok {
		if err := a.meet(here); err != nil {
			b.t.Fatal(err)
		}
	}
	return here, there
}

// answering is the end of a UDP flow that was called, once it knows by whom.
type answering struct {
	net.PacketConn
	caller net.Addr
}

// meet has a datagram go each way.
func (a *answering) meet(caller net.Conn) error {
	buf := make([]byte, 8)
	_, err := caller.Write([]byte("hello"))
	if err == nil {
		_, a.caller, err = a.ReadFrom(buf)
	}
	if err == nil {
		_, err = a.Write([]byte("hello"))
	}
	if err == nil {
		_, err = caller.Read(buf)
	}
	return err
}

func (a *answering) Read(p []byte) (int, error) {
	n, _, err := a.ReadFrom(p)
	return n, err
}

func (a *answering) Write(p []byte) (int, error) { return a.WriteTo(p, a.caller) }

func (a *answering) RemoteAddr() net.Addr { return a.caller }

// send sends until the flow is closed.
func send(out io.Writer, rate int) {
	begin, sent, chunk := time.Now(), 0, make([]byte, min(max(rate/1000, 200), 1200))
	for {
		n, err := out.Write(chunk)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		sent += max(n, 1) // a datagram that the kernel refuses is lost
		if ahead := time.Duration(float64(sent)/float64(rate)*float64(time.Second)) - time.Since(begin); ahead > 0 {
			time.Sleep(ahead)
		}
	}
}

// receive counts what comes until the flow is closed.
func (f *flowing) receive(in io.Reader) {
	buf, last := make([]byte, 256<<10), time.Now()
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		f.gap.Store(max(f.gap.Load(), int64(time.Since(last))))
		last = time.Now()
		f.got.Add(int64(n))
	}
}

// more waits until n more bytes have come.
func (f *flowing) more(b *bed, what string, n int64) {
	b.t.Helper()
	from := f.got.Load()
	b.await(fmt.Sprintf("%d bytes %s", n, what), func() bool { return f.got.Load() >= from+n })
}

// longest is the longest time without a byte since it was last asked.
func (f *flowing) longest() time.Duration { return time.Duration(f.gap.Swap(0)) }

var _ net.Conn = (*answering)(nil)

// within runs a step with its own testing.T.
func (b *bed) within(name string, step func()) {
	outer := b.t
	outer.Run(name, func(t *testing.T) {
		b.t = t
		defer func() { b.t = outer }()
		step()
	})
}
