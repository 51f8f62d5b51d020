package agent

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/conntrack"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// TestLeft: what is where both ends have it stays, whichever end was seen first.
func TestLeft(t *testing.T) {
	a, z := netip.MustParseAddr("10.0.1.2"), netip.MustParseAddr("10.0.2.2")
	w := whereabouts{}
	for i := range w.own {
		w.own[i].Path, w.followed[i].Path = i%2, i/2%2
		if flow.RowOf(uint8(i)) == 1 {
			w.own[i].Path, w.followed[i].Path = i%2*(i/4%2), 0 // of all places, some are elsewhere in one row alone
		}
	}
	for path := range 3 {
		w.path = path
		t1 := tracked{{a, z}: w}
		for port := uint16(1); port < 500; port++ {
			b := flow.Bucket(port, 80, protocolTCP)
			c := conntrack.Connection{From: netip.AddrPortFrom(a, port), To: netip.AddrPortFrom(z, 80)}
			back := conntrack.Connection{From: c.To, To: c.From}
			want := false
			for _, b := range []uint8{b, flow.Row(1).Bucket(b)} {
				at := dataplane.Choice{Path: path}
				want = want || w.own[b] != at || w.followed[b] != at
			}
			if got := t1.left(c); got != want || t1.left(back) != want {
				t.Fatalf("port %d, path %d, bucket %d: %v, back %v, expected %v", port, path, b, got, t1.left(back), want)
			}
			if t1.left(conntrack.Connection{From: c.From, To: netip.AddrPortFrom(a, 80)}) {
				t.Fatal("a connection of no pair has left")
			}
		}
	}
}

// TestInvalidIsDropped: hosts drop what their connection tracking calls invalid, as
// kube-proxy has them do (iptables mode). Connections leave the default network and come
// back, by the agents' will and as the agents have died, and none of their packets is
// invalid.
func TestInvalidIsDropped(t *testing.T) {
	b := newBed(t, "t-inv", "routed-bgp", "vxlan")
	for _, h := range b.state.Hosts {
		// Acknowledgments without data are counted apart: they are 40 to 80 bytes long.
		for _, alone := range [][]string{
			{"-p", "tcp", "--tcp-flags", "SYN,FIN,RST", "NONE", "-m", "length", "--length", "40:80"}, nil} {
			b.runIn(h.Netns, slices.Concat([]string{"iptables", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID"},
				alone, []string{"-j", "DROP"})...)
		}
	}
	b.start("h1", nil)
	b.start("h2", nil)
	b.carried("routed-bgp")
	b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
	const rate = 50e6 // 400 Mbit/s: at a low rate the windows still fit
	up, down := b.flow("tcp", "a", "b", "a", rate), b.flow("tcp", "a", "b", "b", rate)
	before := map[string]uint64{}
	both := func(what string) {
		up.more(b, "up "+what, 30e6)
		down.more(b, "down "+what, 30e6)
	}
	both("on the default network")
	for range 2 {
		for name, r := range b.agents {
			before[name] = r.forgotten()
		}
		b.agents["h1"].wish.set("vxlan")
		for name, r := range b.agents {
			b.await(name+" to forget what has left", func() bool { return r.forgotten() >= before[name]+2 })
		}
		both("on vxlan")
		b.agents["h1"].wish.set("routed-bgp")
		b.await("flows to return", func() bool { return b.agents["h1"].on("a", "b") == "routed-bgp" })
		both("back on the default network")
	}
	b.agents["h1"].wish.set("vxlan")
	b.await("flows to leave", func() bool { return b.agents["h1"].on("a", "b") == "vxlan" })
	both("on vxlan")
	b.stop("h1")
	b.stop("h2")
	sent := b.transmitted(b.pod("a"), "eth0")
	b.await("the lease to end", func() bool { return b.transmitted(b.pod("a"), "eth0") > sent+1000 })
	both("without agents")
	for _, h := range b.state.Hosts {
		// Until the other end is told of a move, it acknowledges on the old path what went over
		// the new one, more than the old one's entry has seen sent (tcp_in_window: ACK over
		// upper bound). The next acknowledgment says the same, on the new path. Of data, resets
		// and ends of connections nothing may be dropped: where entries stay, they all are, and
		// the connection hangs.
		const unseen = 100
		n := b.dropped(h.Netns)
		if len(n) != 2 || n[0] > unseen || n[1] > 0 {
			t.Errorf("%s has dropped as invalid: acknowledgments, others %v", h.Name, n)
		}
		t.Logf("%s has dropped as invalid: acknowledgments, others %v", h.Name, n)
	}
	t.Logf("longest gaps: up %v, down %v", up.longest(), down.longest())
}

// forgotten is how many tracked connections the agent had its host forget.
func (r *running) forgotten() uint64 { return r.untracked.forgotten.Load() }

// dropped is how many packets each rule of the host has dropped.
func (b *bed) dropped(host string) (out []int) {
	b.t.Helper()
	for line := range strings.Lines(b.runIn(host, "iptables", "-nvxL", "FORWARD")) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "DROP" {
			n, err := strconv.Atoi(f[0])
			if err != nil {
				b.t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}
