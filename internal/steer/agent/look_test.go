package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestLeftIsNotAwaited: what was on its way as flows left a network is answered where they are now, and
// the network is not suspected for it.
func TestLeftIsNotAwaited(t *testing.T) {
	b := newBed(t, "t-look", "routed-bgp", "vxlan", "macvlan")
	a := b.start("h1", nil)
	z := b.start("h2", nil)
	b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Think: 2 * time.Millisecond,
		Requests: stream.Sizes{Min: 64, Max: 600}})
	b.await("both ends to know the pair", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	b.impair("vxlan", impair.Impairment{Delay: 30 * time.Millisecond}, "a")
	a.wish.set("vxlan")
	b.await("traffic over vxlan", func() bool { n, _ := a.tallies("a", "b", "vxlan"); return n > 20 })
	time.Sleep(time.Second) // echoes have learnt the delay
	a.wish.set("macvlan")
	b.await("traffic over macvlan", func() bool { n, _ := a.tallies("a", "b", "macvlan"); return n > 20 })
	arose := func() time.Time {
		p := a.pair("a", "b")
		a.members.Lock()
		defer a.members.Unlock()
		return p.lines[p.routes.on("vxlan")].Arose()
	}
	time.Sleep(200 * time.Millisecond)
	last := arose()
	time.Sleep(time.Second)
	if !arose().Equal(last) {
		t.Error("the network that was left is still suspected")
	}
}
