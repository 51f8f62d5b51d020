package openshift_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network/openshift"
	"pathwise.dev/pathwise/internal/topo"
)

// live is traffic that goes on while flows change.
type live struct {
	t  *testing.T
	l  *lab.Lab
	wg sync.WaitGroup
	// stop ends what sends, and then what receives.
	stop context.Context
	// opened are connections that were made, asked and answered; failed those that were not.
	opened, failed atomic.Int64
	// sent and taken are bytes of the stream, and garbled those out of order.
	sent, taken, garbled atomic.Int64
	// arrived counts datagrams by what they say of their sender.
	mu      sync.Mutex
	arrived map[string]int
	said    error
}

func (v *live) wrong(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said == nil {
		v.said = err
	}
}

// each runs fn in the pod, on a thread of its own, until it ends.
func (v *live) each(p topo.Pod, fn func() error) {
	v.wg.Go(func() {
		if err := v.l.Do(p, fn); err != nil {
			v.wrong(fmt.Errorf("in pod %s: %w", p.Name, err))
		}
	})
}

// paced calls fn so many times a second until the traffic stops.
func (v *live) paced(rate int, fn func() error) error {
	every := time.Second / time.Duration(rate)
	for next := time.Now(); v.stop.Err() == nil; next = next.Add(every) {
		time.Sleep(time.Until(next))
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}

// listen takes connections in a pod, and has serve see each of them.
func (v *live) listen(p topo.Pod, serve func(net.Conn)) netip.AddrPort {
	var in net.Listener
	err := v.l.Do(p, func() (err error) {
		in, err = net.Listen("tcp4", netip.AddrPortFrom(p.Addr(), 0).String())
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { in.Close() })
	go func() {
		for {
			conn, err := in.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return in.Addr().(*net.TCPAddr).AddrPort()
}

// echo answers what it is told, and closes.
func echo(conn net.Conn) {
	defer conn.Close()
	_, _ = io.Copy(conn, conn)
}

// open makes new connections at a rate, each of which asks and is answered.
func (v *live) open(from topo.Pod, to netip.AddrPort, rate int) {
	v.each(from, func() error {
		return v.paced(rate, func() error {
			if err := ask1(to); err != nil {
				v.failed.Add(1)
				v.wrong(err)
				return nil
			}
			v.opened.Add(1)
			return nil
		})
	})
}

// ask1 opens a connection from the namespace that it is called in, and wants its answer.
func ask1(to netip.AddrPort) error {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp4", to.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	got := make([]byte, 5)
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		return fmt.Errorf("answer %q: %w", got, err)
	}
	return nil
}

// pattern is what the stream consists of, over and over.
func pattern() []byte {
	out := make([]byte, 2500)
	for i := range out {
		out[i] = byte(i % 251)
	}
	return out
}

// stream has one connection send 20 Mbit/s, and its other end look at each byte.
func (v *live) stream(from, to topo.Pod) {
	over := make(chan struct{})
	addr := v.listen(to, func(conn net.Conn) {
		defer close(over)
		got, want := make([]byte, 2500), pattern()
		for {
			n, err := io.ReadFull(conn, got)
			v.taken.Add(int64(n))
			if !bytes.Equal(got[:n], want[:n]) {
				v.garbled.Add(1)
			}
			if err != nil {
				return
			}
		}
	})
	v.each(from, func() error {
		conn, err := net.Dial("tcp4", addr.String())
		if err != nil {
			return err
		}
		chunk := pattern()
		err = v.paced(1000, func() error {
			n, err := conn.Write(chunk)
			v.sent.Add(int64(n))
			return err
		})
		err = errors.Join(err, conn.Close())
		<-over
		return err
	})
}

// datagrams has a pod send them from an address that it may or may not have.
func (v *live) datagrams(who string, from topo.Pod, as netip.Addr, to netip.AddrPort) {
	v.each(from, func() error {
		conn, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(as, 0)), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer conn.Close()
		return v.paced(300, func() error {
			_, _ = conn.Write([]byte(who)) // refused by the other end's kernel or not
			return nil
		})
	})
}

// collect counts the datagrams that reach a pod.
func (v *live) collect(p topo.Pod) netip.AddrPort {
	var in *net.UDPConn
	err := v.l.Do(p, func() (err error) {
		in, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Addr(), 0)))
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { in.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			v.mu.Lock()
			v.arrived[string(buf[:n])]++
			v.mu.Unlock()
		}
	}()
	return in.LocalAddr().(*net.UDPAddr).AddrPort()
}

// count is how many datagrams of a sender have arrived.
func (v *live) count(who string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.arrived[who]
}

// again is how often a pod's kernel has sent the first packet of a connection once more.
func again(t *testing.T, l *lab.Lab, p topo.Pod) (n int) {
	t.Helper()
	err := l.Do(p, func() error {
		raw, err := os.ReadFile("/proc/thread-self/net/netstat")
		if err != nil {
			return err
		}
		lines := strings.Split(string(raw), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
			for j, name := range names {
				if name == "TCPSynRetrans" {
					_, err = fmt.Sscan(values[j], &n)
					return err
				}
			}
		}
		return errors.New("no TCPSynRetrans")
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// resent is how many first packets of connections a pod's kernel lost between the time and now:
// it sends them again after a second.
func resent(t *testing.T, l *lab.Lab, p topo.Pod, since time.Time) int {
	t.Helper()
	const first, around = time.Second, 100 * time.Millisecond
	until := time.Now()
	time.Sleep(time.Until(since.Add(first - around)))
	before := again(t, l, p)
	time.Sleep(time.Until(until.Add(first + 2*around)))
	return again(t, l, p) - before
}

// masquerade lets a pod send to another with the address of a third.
func masquerade(t *testing.T, l *lab.Lab, who, as, to topo.Pod) {
	t.Helper()
	for _, argv := range [][]string{{"ip", "addr", "replace", as.Addr().String() + "/32", "dev", "eth0"},
		{"ip", "neigh", "replace", to.Addr().String(), "lladdr", to.Attachments[0].MAC, "dev", "eth0"}} {
		if _, err := l.Exec(t.Context(), who, argv...); err != nil {
			t.Fatal(err)
		}
	}
}

// TestApplyUnderTraffic: as pipelines are shortened and changed back, on two hosts, no
// connection fails, a stream goes on byte by byte, and what the policy refuses is refused all
// the time: pods of another tenant, on this host and another, and a pod with another's address.
func TestApplyUnderTraffic(t *testing.T) {
	l := up(t, "t-sdn-live", openshift.Whole)
	both := []shortening{shorten(t, l, "h1"), shorten(t, l, "h2")}
	red, near, far := pod(t, l, "red1"), pod(t, l, "red2"), pod(t, l, "red3")
	blue, other := pod(t, l, "blue1"), pod(t, l, "blue3")
	masquerade(t, l, blue, red, near)
	stop, cancel := context.WithCancel(t.Context())
	defer cancel()
	v := &live{t: t, l: l, stop: stop, arrived: map[string]int{}}
	v.stream(red, near)
	to, beyond := v.listen(near, echo), v.listen(far, echo)
	for range 3 {
		v.open(red, to, 250)
	}
	v.open(red, beyond, 250)
	inbox := v.collect(near)
	v.datagrams("red", red, red.Addr(), inbox)
	v.datagrams("blue", blue, blue.Addr(), inbox)
	v.datagrams("blue elsewhere", other, other.Addr(), inbox)
	v.datagrams("false address", blue, red.Addr(), inbox)

	began, changing := time.Now(), 0
	phase := func(name string, change func(shortening)) {
		t.Helper()
		opened, taken, got := v.opened.Load(), v.taken.Load(), v.count("red")
		start := time.Now()
		for _, s := range both {
			change(s)
		}
		changing += resent(t, l, red, start)
		if v.opened.Load() == opened || v.taken.Load() == taken || v.count("red") == got {
			t.Errorf("%s: no traffic: %d connections, %d bytes, %d datagrams", name, opened, taken, got)
		}
	}
	phase("before", func(shortening) {})
	for round := range 2 {
		phase(fmt.Sprintf("shortened, round %d", round), func(s shortening) { s.apply(t) })
		phase(fmt.Sprintf("changed back, round %d", round), func(s shortening) { s.revert(t) })
	}
	took := time.Since(began)
	cancel()
	v.wg.Wait()

	t.Logf("%d connections, %.0f a second; %d bytes of the stream; %d datagrams of a pod that may", v.opened.Load(),
		float64(v.opened.Load())/took.Seconds(), v.taken.Load(), v.count("red"))
	if n := v.failed.Load(); n > 0 || v.said != nil {
		t.Errorf("%d connections failed: %v", n, v.said)
	}
	// A machine that does not keep up loses packets whatever the flows are.
	elsewhere := again(t, l, red) - changing
	t.Logf("first packets lost: %d while flows changed, %d in the rest of the time", changing, elsewhere)
	if changing > 0 && elsewhere == 0 {
		t.Errorf("the first packets of %d connections were lost while flows changed, and none else", changing)
	}
	if v.sent.Load() != v.taken.Load() || v.garbled.Load() > 0 {
		t.Errorf("the stream sent %d bytes, of which %d arrived, %d pieces garbled", v.sent.Load(), v.taken.Load(),
			v.garbled.Load())
	}
	for _, who := range []string{"blue", "blue elsewhere", "false address"} {
		if n := v.count(who); n > 0 {
			t.Errorf("%d datagrams of %s arrived", n, who)
		}
	}
}
