package agent

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// hostile makes a routed network one that translation cannot cross: its hosts drop
// what their connection tracking calls invalid, and clear the DSCP.
func (b *bed) hostile(network string) {
	b.t.Helper()
	var own []string
	for _, p := range b.state.Pods {
		if at, ok := p.On(network); ok {
			own = append(own, at.Addr.String())
		}
	}
	for _, h := range b.state.Hosts {
		b.runIn(h.Netns, "nft", fmt.Sprintf(`table ip pw-t {
			counter invalid { }
			counter bare { }
			counter wrapped { }
			chain f {
				type filter hook forward priority 0;
				ip saddr != { %s } accept
				ct state invalid counter name invalid drop
				ip dscp set 0
				meta l4proto tcp counter name bare
				udp sport 52170 udp dport 52170 counter name wrapped
			}
		}`, strings.Join(own, ", ")))
	}
}

// hostileCount is how many packets a counter of hostile has seen on all hosts.
func (b *bed) hostileCount(name string) (n int) {
	b.t.Helper()
	for _, h := range b.state.Hosts {
		text := b.runIn(h.Netns, "nft", "list", "counter", "ip", "pw-t", name)
		m := regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(text)
		if m == nil {
			b.t.Fatalf("counter %s of %s: %s", name, h.Netns, text)
		}
		own, _ := strconv.Atoi(m[1]) // digits
		n += own
	}
	return n
}

// TestEncapsulated: a network that translation cannot cross is told to be of no use;
// once both agents encapsulate there it carries flows at 200 Mbit/s and more, back and
// forth, and when they do no more the flows go home. None is lost.
func TestEncapsulated(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-enc", "macvlan", "routed-bgp")
	b.hostile("routed-bgp")
	a := b.start("h1", nil)
	b.start("h2", nil)
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	bulk := b.traffic("a", "b", stream.Client{Kind: stream.TCP, Connections: 2, Rate: 150e6})
	routed := func() PathStatus {
		for _, s := range a.Paths() {
			if s.Network == "routed-bgp" {
				return s
			}
		}
		return PathStatus{}
	}
	b.await("the network to be found out", func() bool {
		s := routed()
		return s.State == string(decide.Ineligible) && strings.Contains(s.Why, "does not carry the mark") &&
			strings.Contains(s.Why, "encapsulated it could")
	})
	if _, err := a.Order(Order{Local: "a", Remote: "b", Network: "routed-bgp"}); err == nil {
		t.Error("flows could be moved to a network that does not carry the mark")
	}
	encapsulate := func(networks ...string) {
		for _, h := range b.state.Hosts {
			b.tell(h.Name, func(c *Cluster) { c.Encapsulated = networks })
		}
	}
	encapsulate("routed-bgp")
	b.await("the path to be up", func() bool { s := routed(); return s.State == "up" && s.Encapsulated })
	if n := b.hostileCount("bare"); n != 0 {
		t.Errorf("%d TCP packets crossed the network as they were", n)
	}
	for range 3 {
		b.move("routed-bgp")
		before := b.hostileCount("wrapped")
		b.await("a thousand packets in UDP", func() bool { return b.hostileCount("wrapped") > before+1000 })
		b.await("small enough packets", func() bool { return b.routeTo("a", "b").MTU == a.pair("a", "b").routes[1].MTU() })
		b.move("macvlan")
	}
	if bare, invalid := b.hostileCount("bare"), b.hostileCount("invalid"); bare+invalid != 0 {
		t.Errorf("%d TCP packets were not in UDP, %d had no state", bare, invalid)
	}
	b.move("routed-bgp")
	encapsulate()
	b.await("flows to go home",
		func() bool { s := routed(); return s.State == string(decide.Ineligible) && a.on("a", "b") == "macvlan" })
	for _, l := range []*load{rr, bulk} {
		r := l.stop()
		if c := r.Counts; c.Connections.Lost > 0 || c.Connections.Opened != 2 || c.Corrupt > 0 {
			t.Errorf("connections: %+v, %d corrupt, %v", c.Connections, c.Corrupt, r.Errors.Reasons)
		}
	}
}
