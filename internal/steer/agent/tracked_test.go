package agent

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/conntrack"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
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

// TestStrays: entries of what was on the default network are looked for when it is a second old at
// least, however soon they are looked for anyway: before, a handshake is left alone, as it may go on.
func TestStrays(t *testing.T) {
	now := time.Unix(0, 0)
	p := &pair{}
	for name, sooner := range map[string]func(*untracked){
		"nothing":      func(*untracked) {},
		"others moved": func(u *untracked) { u.add(p) },
		"others came":  func(u *untracked) { u.stray(p) },
		"looked once":  func(u *untracked) { u.add(p); u.take(now, false) },
	} {
		for wait := range 15 {
			u := newUntracked(newJournal(Config{Now: func() time.Time { return now }}))
			sooner(u)
			came, looked := now.Add(time.Duration(wait)*epoch), time.Time{}
			for last := now.Add(5 * time.Second); now.Before(last); now = now.Add(epoch) {
				if now.Equal(came) {
					u.stray(p)
				}
				if len(u.take(now, false)) > 0 {
					looked = now
				}
			}
			if looked.Before(came.Add(untrackAgain)) {
				t.Errorf("%s, after %d epochs: looked last %v after it came", name, wait, looked.Sub(came))
			}
			if len(u.due) > 0 {
				t.Errorf("%s: it is looked for for ever", name)
			}
		}
	}
}

// TestInvalidIsDropped: hosts drop what their connection tracking calls invalid, as
// kube-proxy has them do (iptables mode). Connections leave the default network and come
// back, by the agents' will and as the agents have died, and none of their packets is
// invalid.
func TestInvalidIsDropped(t *testing.T) {
	t.Parallel()
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

// strictBed is a pair whose hosts drop what their connection tracking calls invalid.
func strictBed(t *testing.T, name string) *bed {
	t.Helper()
	b := newBed(t, name, "routed-bgp", "vxlan")
	for _, h := range b.state.Hosts {
		b.runIn(h.Netns, "iptables", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
	}
	b.start("h1", nil)
	b.start("h2", nil)
	b.carried("routed-bgp")
	b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
	return b
}

// TestInvalidOfHaste: flows that come back to the default network before what they had left behind was
// looked for once more meet entries of before. These go too.
func TestInvalidOfHaste(t *testing.T) {
	b := strictBed(t, "t-invh")
	const rate = 50e6
	up, down := b.flow("tcp", "a", "b", "a", rate), b.flow("tcp", "a", "b", "b", rate)
	up.more(b, "up on the default network", 30e6)
	for range 100 {
		for _, network := range []string{"vxlan", "routed-bgp"} {
			b.agents["h1"].wish.set(network)
			time.Sleep(60 * time.Millisecond)
		}
	}
	b.await("flows to return", func() bool { return b.agents["h1"].on("a", "b") == "routed-bgp" })
	up.more(b, "up at last", 30e6)
	down.more(b, "down at last", 30e6)
	for name, r := range b.agents {
		events, _ := r.journal.since(0)
		for _, e := range events {
			if e.Kind == string(decide.Failover) {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	for _, h := range b.state.Hosts {
		t.Logf("%s has dropped as invalid: %v", h.Name, b.dropped(h.Netns))
	}
	t.Logf("longest gaps: up %v, down %v", up.longest(), down.longest())
}

// TestInvalidOfReturn: hosts that track very much take long to look for what flows have left behind. Flows that
// come back to the default network before such a look has ended meet nothing of before, on either host, as
// they come when both looks have ended. The other host tracks more, so that its look ends last.
func TestInvalidOfReturn(t *testing.T) {
	t.Parallel()
	b := strictBed(t, "t-invr")
	track(t, b.state.Hosts[0].Netns, 5000)
	track(t, b.state.Hosts[1].Netns, 200000)
	const rate = 50e6
	var all []*flowing
	for n := range 4 {
		sender := []string{"a", "b"}[n%2]
		f := b.flow("tcp", "a", "b", sender, rate)
		f.more(b, "on the default network from "+sender, 3e6)
		for _, network := range []string{"vxlan", "routed-bgp"} {
			b.agents["h1"].wish.set(network)
			b.await("flows to be on "+network, func() bool { return b.agents["h1"].on("a", "b") == network })
			f.more(b, "on "+network+" from "+sender, 3e6)
		}
		f.more(b, "back from "+sender, 30e6)
		f.stop()
		all = append(all, f)
	}
	for _, h := range b.state.Hosts {
		t.Logf("%s has dropped as invalid: %v", h.Name, b.dropped(h.Netns))
	}
	for name, r := range b.agents {
		events, _ := r.journal.since(0)
		for _, e := range events {
			if e.Kind == string(decide.Failover) || e.Kind == EventSuspect {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	for _, f := range all {
		t.Logf("longest gap: %v", f.longest())
	}
}

// track has a host track so many connections of others.
func track(t *testing.T, host string, n int) {
	t.Helper()
	if err := netns.Do(host, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer h.Close()
		for i := range n {
			from, to := net.IP{198, 18, byte(i >> 8), byte(i)}, net.IP{198, 19, 0, 1}
			if err := h.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, &netlink.ConntrackFlow{
				FamilyType: unix.AF_INET, TimeOut: 3600, ProtoInfo: &netlink.ProtoInfoTCP{State: 3},
				Forward: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: from, DstIP: to, SrcPort: 1000, DstPort: 80},
				Reverse: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: to, DstIP: from, SrcPort: 80, DstPort: 1000},
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidOfNewIsDropped: a connection that begins while its pair is on another network opens on
// the default one. It lives when it comes back there, as the agents have died.
func TestInvalidOfNewIsDropped(t *testing.T) {
	t.Parallel()
	b := strictBed(t, "t-invn")
	first := b.flow("tcp", "a", "b", "a", 1e6)
	b.agents["h1"].wish.set("vxlan")
	b.await("flows to leave", func() bool { return b.agents["h1"].on("a", "b") == "vxlan" })
	first.more(b, "on vxlan", 1e5)
	time.Sleep(3 * untrackAgain) // what the move has left behind is forgotten by then
	const rate = 50e6
	up, down := b.flow("tcp", "a", "b", "a", rate), b.flow("tcp", "a", "b", "b", rate)
	up.more(b, "up on vxlan", 60e6)
	down.more(b, "down on vxlan", 60e6)
	time.Sleep(2 * untrackAgain)
	b.stop("h1")
	b.stop("h2")
	sent := b.transmitted(b.pod("a"), "eth0")
	b.await("the lease to end", func() bool { return b.transmitted(b.pod("a"), "eth0") > sent+1000 })
	up.more(b, "up without agents", 30e6)
	down.more(b, "down without agents", 30e6)
	for _, h := range b.state.Hosts {
		t.Logf("%s has dropped as invalid: %v", h.Name, b.dropped(h.Netns))
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
