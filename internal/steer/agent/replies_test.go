package agent

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestDatagramsMissReplies: datagrams that are answered no more where everything else passes go another way. A program
// that pauses or ends is no fault of a path.
func TestDatagramsMissReplies(t *testing.T) {
	b := newBed(t, "t-replies", "routed-bgp", "vxlan", "macvlan")
	b.barFirst = time.Second
	a, z := b.start("h1", nil), b.start("h2", nil)
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.await("both ends to know the pair", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	since := 0
	told := func(network string) (said, moved bool) {
		events, _ := a.journal.since(since)
		for _, e := range events {
			said = said || e.Kind == EventSuspect && e.To == network && strings.HasPrefix(e.Reason, "datagrams from port")
			moved = moved || e.Kind == string(decide.Failover) || e.Kind == string(decide.Fallback)
		}
		return said, moved
	}
	for _, network := range []string{"routed-bgp", "vxlan"} {
		b.move(network)
		time.Sleep(2 * time.Second) // so that it is known how they are answered
		since = a.journal.last().ID
		b.drops("b", network, "iifname DEV meta l4proto udp drop", 0)
		b.await("datagrams to miss their answers on "+network, func() bool { said, _ := told(network); return said })
		b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
		b.await("all flows to be back", func() bool { return a.on("a", "b") == network })
		b.flows(network)
		if _, moved := told(network); moved {
			t.Errorf("the pair left %s for its datagrams", network)
		}
	}
	since = a.journal.last().ID
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := udp.server.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond)
	}
	b.await("all flows to be back", func() bool { return a.on("a", "b") == "vxlan" })
	b.flows("vxlan")
	if _, moved := told("vxlan"); moved {
		t.Error("the pair left vxlan for a program that had paused")
	}
	checkLived(t, rr.stop(), udp.stop())
}
