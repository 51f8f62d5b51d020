package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// TestOneWayIsSteered: datagrams that sockperf sends, and nobody answers, go where the policy says,
// leave a network that fails, and what is lost of them shows.
func TestOneWayIsSteered(t *testing.T) {
	b := newBed(t, "t-oneway", "routed-bgp", "vxlan", "macvlan")
	a, z := b.start("h1", nil), b.start("h2", nil)
	addr := b.pod("b").Addr().String()
	for i, line := range []string{"sockperf sr -i " + addr, "sockperf tp -i " + addr + " -t 600 --mps 1000 -m 200"} {
		b.inPod([]string{"b", "a"}[i], strings.Fields(line)...)
		time.Sleep(300 * time.Millisecond) // the server listens
	}
	came := func(network string) uint64 { _, n := z.tallies("b", "a", network); return n }
	b.await("datagrams on the default network", func() bool { return came("routed-bgp") > 500 })
	a.wish.set("vxlan")
	over := func(network string) {
		t.Helper()
		was := came(network)
		b.await("datagrams over "+network, func() bool { return came(network) > was+2000 })
	}
	over("vxlan")
	// Some packets of before it was admitted aside, all go there.
	was := came("routed-bgp")
	over("vxlan")
	if n := came("routed-bgp") - was; n > 100 {
		t.Errorf("%d datagrams came over the default network meanwhile", n)
	}
	status := func(network string) PathStatus {
		ps := a.Paths()
		i := slices.IndexFunc(ps, func(p PathStatus) bool { return p.Pair == "a>b" && p.Network == network })
		if i < 0 {
			return PathStatus{}
		}
		return ps[i]
	}
	b.impair("vxlan", impair.Impairment{LossIngress: 0.3}, "b")
	b.await("the loss to show", func() bool { return status("vxlan").Retrans > 0.15 })
	b.impair("vxlan", impair.Impairment{}, "b")
	b.await("the loss to end", func() bool { return status("vxlan").Retrans < 0.02 })
	since := a.journal.last().ID
	b.impair("vxlan", impair.Impairment{DropIngress: true, DropEgress: true}, "b", "agent-h2")
	a.event(b, since, "the failure to be found", func(e Event) bool { return e.Kind == string(decide.Failover) })
	elsewhere := came("routed-bgp") + came("macvlan")
	b.await("datagrams elsewhere", func() bool { return came("routed-bgp")+came("macvlan") > elsewhere+1000 })
}

// TestCounts: what did not arrive is told by two counts of one network that lie far enough apart.
func TestCounts(t *testing.T) {
	var c counts
	for _, step := range []struct {
		name    string
		network string
		sent    uint64
		came    uint32
		lost    float64
	}{
		{"the first says nothing", "x", 1000, 10, 0},
		{"all arrived", "x", 1100, 110, 0},
		{"too few", "x", 1110, 110, 0},
		{"half of them", "x", 1200, 160, 0.5},
		{"more than was sent is what was on its way", "x", 1300, 270, 0},
		{"another network", "y", 5, 4000000000, 0},
		{"the count runs over", "y", 1<<32 + 5, 4000000000, 1},
		{"and goes on", "y", 1<<32 + 1005, 4000001000, 0},
	} {
		c.asking = arrival{network: step.network, sent: step.sent}
		if c.take(step.came); c.lost != step.lost {
			t.Errorf("%s: lost %v, expected %v", step.name, c.lost, step.lost)
		}
	}
}
