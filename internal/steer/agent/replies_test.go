package agent

import (
	"bytes"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestDatagramsMissReplies: datagrams that are answered no more where everything else passes go another way. A program
// that pauses or ends is no fault of a path.
func TestDatagramsMissReplies(t *testing.T) {
	b := newBed(t, "t-replies", "routed-bgp", "vxlan", "macvlan")
	b.barFirst = time.Second
	a, rr := b.asking()
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	since := 0
	seen := func(network string) (said, moved bool) {
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
		b.await("datagrams to miss their answers on "+network, func() bool { said, _ := seen(network); return said })
		b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
		b.await("all flows to be back", func() bool { return a.on("a", "b") == network })
		b.flows(network)
		if _, moved := seen(network); moved {
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
	if _, moved := seen("vxlan"); moved {
		t.Error("the pair left vxlan for a program that had paused")
	}
	checkLived(t, rr.stop(), udp.stop())
}

// TestDatagramsAreTriedAgain: where all networks have failed a flow of datagrams for a while, and one still does, it is
// tried elsewhere again.
func TestDatagramsAreTriedAgain(t *testing.T) {
	b := newBed(t, "t-tried", "routed-bgp", "vxlan", "macvlan")
	a, rr := b.asking()
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	time.Sleep(2 * time.Second) // so that it is known how they are answered
	since := a.journal.last().ID
	b.filter(b.pod("b").Netns, "input", "meta l4proto udp drop")
	p := a.pair("a", "b")
	b.await("no path to answer them", func() bool {
		a.members.Lock()
		defer a.members.Unlock()
		for _, q := range p.inquiries {
			if q.about == aboutDatagrams && q.State() == detect.Nowhere {
				return true
			}
		}
		return false
	})
	b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
	b.drops("b", "routed-bgp", "iifname DEV meta l4proto udp drop", 0)
	a.event(b, since, "them to be answered elsewhere", func(e Event) bool {
		return e.Kind == EventSuspect && strings.HasPrefix(e.Reason, "datagrams from port")
	})
	checkConnections(t, rr.stop())
}

// TestDatagramsOfSockperf: what sockperf sends, 500 datagrams a second, is answered but for a few as UDP
// alone fails on the network for the last half of its time.
func TestDatagramsOfSockperf(t *testing.T) {
	b := newBed(t, "t-sockperf", "routed-bgp", "vxlan", "macvlan")
	_, rr := b.asking()
	run := func(pod string, out io.Writer, args ...string) *exec.Cmd {
		cmd := exec.Command("sockperf", args...)
		cmd.Stdout = out
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := netns.Start(b.pod(pod).Netns, cmd); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	addr := b.pod("b").Addr().String()
	server := run("b", io.Discard, "sr", "-i", addr)
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() }) // it has no other end
	time.Sleep(300 * time.Millisecond)                                 // it listens
	var said bytes.Buffer
	client := run("a", &said, "ul", "-i", addr, "-t", "10", "--mps", "500", "--reply-every", "1", "-m", "200")
	time.Sleep(5 * time.Second)
	b.drops("b", "routed-bgp", "iifname DEV meta l4proto udp drop", 0)
	if err := client.Wait(); err != nil {
		t.Fatalf("sockperf: %v: %s", err, said.String())
	}
	b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
	found := regexp.MustCompile(`dropped messages = (\d+)`).FindStringSubmatch(said.String())
	if found == nil {
		t.Fatalf("sockperf says: %s", said.String())
	}
	t.Logf("%s of some 5000 datagrams were not answered", found[1])
	if n, err := strconv.Atoi(found[1]); err != nil || n > 500 || n == 0 {
		t.Errorf("%s datagrams were not answered: %v; expected those of a part of a second", found[1], err)
	}
	checkConnections(t, rr.stop())
}

// asking starts an agent on each host, and a connection of requests from pod a to b. It waits until both know the pair.
func (b *bed) asking() (a *running, rr *load) {
	b.t.Helper()
	a, z := b.start("h1", nil), b.start("h2", nil)
	rr = b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.await("both ends to know the pair", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	return a, rr
}
