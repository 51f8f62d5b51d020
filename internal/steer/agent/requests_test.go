package agent

import (
	"net"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// answers has a pod answer each datagram to the address, until the test ends.
func (b *bed) answers(pod, addr string) {
	b.t.Helper()
	var c net.PacketConn
	if err := netns.Do(b.pod(pod).Netns, func() (err error) {
		c, err = net.ListenPacket("udp", addr)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from) // who asks sees that it was not
		}
	}()
}

// asks sends a datagram from a port of its own, and reports whether it was answered in time.
func (b *bed) asks(pod, addr string, patience time.Duration) bool {
	b.t.Helper()
	var c net.Conn
	if err := netns.Do(b.pod(pod).Netns, func() (err error) {
		c, err = net.Dial("udp", addr)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	_, err := c.Write([]byte("question"))
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(patience))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = c.Read(make([]byte, 64))
	return err == nil
}

// TestRequestsAreTriedElsewhere: where the default network drops the requests of a resolver, or their answers, each of
// which is a flow of its own, and passes all else, a few are lost, and those after them answered elsewhere.
func TestRequestsAreTriedElsewhere(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"udp dport 4053 drop", "udp sport 4053 drop"} {
		t.Run(rule, func(t *testing.T) {
			b, _ := openingBed(t, "t-requests", "routed-bgp", "vxlan", "macvlan")
			a := b.agents["h1"]
			addr := net.JoinHostPort(b.pod("b").Addr().String(), "4053")
			b.answers("b", addr)
			f := b.busy("a0")
			for range 40 {
				if !b.asks("a0", addr, 5*time.Second) {
					t.Fatal("not answered though all is well")
				}
				time.Sleep(25 * time.Millisecond)
			}
			since := a.journal.last().ID
			b.filter(b.state.Hosts[1].Netns, "forward", rule)
			lost, row := 0, 0
			for range 60 {
				if row++; !b.asks("a0", addr, 500*time.Millisecond) {
					lost, row = lost+1, 0
				}
				if row == 10 {
					break
				}
			}
			if row < 10 || lost > 20 {
				t.Errorf("%d requests were lost, and the latest %d answered", lost, row)
			}
			t.Logf("%d requests were lost", lost)
			f.more(b, "meanwhile", 1e5)
			a.event(b, since, "the reason", func(e Event) bool {
				return e.Kind == EventSuspect && strings.Contains(e.Reason, "requests to port 4053 are not answered on routed-bgp")
			})
		})
	}
}

// TestRequestsAreAnsweredNowhere: a server that has gone is not the network's fault: the pair is where it was, soon.
func TestRequestsAreAnsweredNowhere(t *testing.T) {
	t.Parallel()
	b, _ := openingBed(t, "t-gone", "routed-bgp", "vxlan", "macvlan")
	a := b.agents["h1"]
	addr := net.JoinHostPort(b.pod("b").Addr().String(), "4053")
	b.answers("b", addr)
	f := b.busy("a0")
	for range 40 {
		b.asks("a0", addr, 5*time.Second)
		time.Sleep(25 * time.Millisecond)
	}
	b.filter(b.pod("b").Netns, "input", "udp dport 4053 drop")
	p, tried := a.pair("a0", "b"), false
	b.await("the question to be asked, and to end", func() bool {
		b.asks("a0", addr, 100*time.Millisecond)
		a.members.Lock()
		defer a.members.Unlock()
		tried = tried || p.trial != nil
		return tried && p.trial == nil
	})
	f.more(b, "meanwhile", 1e5)
	a.members.Lock()
	defer a.members.Unlock()
	if p.lines[0].bar.Left(a.cfg.Now()) > 0 || p.detours.open() || !p.home() {
		t.Errorf("the pair is not where it was: %+v", p.assignments())
	}
}
