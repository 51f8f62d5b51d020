package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// openingBed is two pods on h1, one on h2 where nginx serves, and agents that are told that flows
// may begin elsewhere.
func openingBed(t *testing.T, name string, networks ...string) (b *bed, url string) {
	t.Helper()
	b = newBedOf(t, lab.Spec{Name: name, Agents: true, Pods: []lab.PodSpec{{Name: "a0", Host: 1}, {Name: "a1", Host: 1},
		{Name: "b", Host: 2}}}, networks...)
	for _, h := range b.state.Hosts {
		// As kube-proxy has hosts do: they have not seen connections begin that began elsewhere.
		b.runIn(h.Netns, "iptables", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
		b.tell(h.Name, func(c *Cluster) { c.OpenElsewhere = true })
		b.start(h.Name, nil)
	}
	addr := b.pod("b").Addr().String()
	dir := b.nginx(addr)
	if err := os.WriteFile(filepath.Join(dir, "small"), []byte("small"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.inPod("b", "nginx", "-p", dir, "-c", dir+"/nginx.conf")
	url = "http://" + addr + ":8080/small"
	b.await("nginx to serve", func() bool { return b.fetch("a0", url, "1") == nil })
	return b, url
}

// fetch has a pod make a connection of its own for a file.
func (b *bed) fetch(pod, url, patience string) error {
	cmd := exec.Command("wget", "-q", "-t", "1", "-T", patience, "-O", "/dev/null", url)
	if err := netns.Start(b.pod(pod).Netns, cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// busy gives a pair traffic, and waits until both ends have confirmed it.
func (b *bed) busy(pod string) *flowing {
	b.t.Helper()
	f := b.flow("tcp", pod, "b", pod, 1e5)
	b.await("the pair to open", func() bool { return b.agents["h1"].opened(pod, "b") && b.agents["h2"].opened("b", pod) })
	return f
}

// fail has the default network drop what the pod of h2 and its agent send and get.
func (b *bed) fail() {
	b.impair(b.state.Spec.Networks[0], impair.Impairment{DropIngress: true, DropEgress: true}, "b", "agent-h2")
}

// TestConnectionsBeginElsewhere: while the default network fails, programs of others connect
// over another one: of a pair with traffic, of one that has none, and of one that nobody knows
// yet. What has begun there goes on when the default network is back, and goes there.
func TestConnectionsBeginElsewhere(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-opening", "routed-bgp", "vxlan", "macvlan")
	a := b.agents["h1"]
	b.busy("a0")
	since := a.journal.last().ID
	b.fail()
	a.event(b, since, "flows to begin elsewhere", func(e Event) bool {
		return e.Kind == EventElsewhere && strings.HasPrefix(e.Pair, "a0") && strings.Contains(e.Reason, "new flows begin on")
	})
	for range 10 {
		if err := b.fetch("a0", url, "5"); err != nil {
			t.Fatal("of a pair with traffic: ", err)
		}
	}
	if err := b.fetch("a1", url, "15"); err != nil {
		t.Fatal("of a pair that was not known: ", err)
	}
	said := false
	for _, p := range a.Paths() {
		said = said || p.Network == "routed-bgp" && strings.Contains(p.Why, "new flows begin elsewhere")
	}
	if !said {
		t.Errorf("paths do not tell it: %+v", a.Paths())
	}
	flows := []*flowing{b.flow("tcp", "a0", "b", "a0", 2e5), b.flow("tcp", "b", "a0", "a0", 2e5),
		b.flow("udp", "a0", "b", "b", 2e5)}
	for _, f := range flows {
		f.more(b, "begun elsewhere", 2e5)
	}
	if _, came := a.tallies("a0", "b", "routed-bgp"); came > 1e5 {
		t.Errorf("%d packets came over a network that drops all", came)
	}
	since = a.journal.last().ID
	b.impair("routed-bgp", impair.Impairment{}, "b", "agent-h2")
	a.event(b, since, "flows to begin on the default network again", func(e Event) bool {
		return e.Kind == EventElsewhere && strings.HasPrefix(e.Pair, "a0") && strings.Contains(e.Reason, "again")
	})
	for host, pods := range map[string][2]string{"h1": {"a0", "b"}, "h2": {"b", "a0"}} {
		b.await("the flows to be home", func() bool {
			_, err := b.agents[host].Order(Order{Local: pods[0], Remote: pods[1], Network: "routed-bgp"})
			return err == nil && b.agents[host].on(pods[0], pods[1]) == "routed-bgp"
		})
	}
	before, _ := a.tallies("a0", "b", "routed-bgp")
	for _, f := range flows {
		f.more(b, "on the default network", 5e5)
	}
	if now, _ := a.tallies("a0", "b", "routed-bgp"); now < before+100 {
		t.Errorf("%d packets went over the default network, %d before", now, before)
	}
}

// TestConnectionsBeginThroughout: connections begin one after the other as the default network fails, which takes a
// while to find, as agents are replaced meanwhile, and as it is back, which the two ends find one after the other. None
// waits for its SYN to be sent again by its own stack, a second later.
func TestConnectionsBeginThroughout(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-outages", "routed-bgp", "vxlan", "macvlan")
	b.busy("a0")
	begin := func(known func() bool) {
		for more := 20; more > 0; {
			if err := b.fetch("a0", url, "5"); err != nil {
				t.Fatal(err)
			}
			if more < 20 || known() {
				more--
			}
		}
	}
	begin(func() bool { return !b.elsewhere("a0") })
	before := b.sentAgain("a0")
	const outages = 5
	for n := range outages {
		b.fail()
		begin(func() bool { return b.elsewhere("a0") })
		for i, h := range b.state.Hosts {
			if (n+1)>>i&1 == 1 { // the first, the second, both
				b.stop(h.Name)
				b.start(h.Name, nil)
				begin(func() bool { return true })
			}
		}
		b.impair("routed-bgp", impair.Impairment{}, "b", "agent-h2")
		begin(func() bool { return !b.elsewhere("a0") })
	}
	// An agent that has no processor for a second finds no failure in time.
	if n := b.sentAgain("a0") - before; n > outages/2 {
		t.Errorf("%d SYNs were sent again by their stack in %d outages", n, outages)
	}
}

// TestManyConnectionsBegin: a hundred clients make a connection for each request, thousands a second, as the default
// network fails. Hardly one waits for its SYN to be sent again by its own stack, though all have sent one that was
// lost.
func TestManyConnectionsBegin(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-many", "routed-bgp", "vxlan", "macvlan")
	b.busy("a0")
	const clients, outages = 100, 4
	b.inPod("a0", "wrk", "-t", "1", "-c", strconv.Itoa(clients), "-d", "600s", "-H", "Connection: close", url)
	many := 0
	for range outages {
		time.Sleep(time.Second)
		before := b.sentAgain("a0")
		b.fail()
		b.await("flows to begin elsewhere", func() bool { return b.elsewhere("a0") })
		time.Sleep(1500 * time.Millisecond)
		again := b.sentAgain("a0") - before
		t.Logf("%d of %d", again, clients)
		if again > clients/4 {
			many++
		}
		b.impair("routed-bgp", impair.Impairment{}, "b", "agent-h2")
		b.await("flows to begin on the default network", func() bool { return !b.elsewhere("a0") })
	}
	// An agent that has no processor for a second finds no failure in time.
	if many > outages/2 {
		t.Errorf("in %d of %d outages many SYNs were sent again by their stack", many, outages)
	}
}

// elsewhere reports whether flows of a pod and b begin elsewhere at both ends; or at neither it is false.
func (b *bed) elsewhere(pod string) bool {
	b.t.Helper()
	var is [2]bool
	b.await("the two ends to begin flows at one place", func() bool {
		for i, pods := range [][2]string{{pod, "b"}, {"b", pod}} {
			r := b.agents[b.state.Hosts[i].Name]
			p := r.pair(pods[0], pods[1])
			r.members.Lock()
			is[i] = p.opening.elsewhere()
			r.members.Unlock()
		}
		return is[0] == is[1]
	})
	return is[0]
}

// sentAgain counts the SYNs that a pod has sent again.
func (b *bed) sentAgain(pod string) (n int) {
	b.t.Helper()
	out := strings.Fields(b.run(b.pod(pod), "nstat", "-asz", "TcpExtTCPSynRetrans"))
	if len(out) < 3 {
		b.t.Fatalf("nstat says %q", out)
	}
	n, err := strconv.Atoi(out[len(out)-2])
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestConnectionsBeginAtRest: so do those of a pair that has had no traffic for longer than the
// other agent's confirmation holds.
func TestConnectionsBeginAtRest(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-resting", "routed-bgp", "vxlan", "macvlan")
	traffic := b.busy("a0")
	b.fail()
	b.await("flows to begin elsewhere", func() bool { return b.fetch("a0", url, "5") == nil })
	traffic.stop()
	time.Sleep(restAfter + quiet + time.Second)
	before := b.sentAgain("a0")
	// The first SYN of a pair at rest is lost, and sent again; on a busy machine that may be lost as well.
	if err := b.fetch("a0", url, "15"); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d SYNs sent again", b.sentAgain("a0")-before)
}

// TestConnectionsBeginUnresolved: so do those of a pod that has never spoken with another of its
// link, which no longer answers when it is asked for its address.
func TestConnectionsBeginUnresolved(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-unresolved", "macvlan", "routed-bgp")
	b.busy("a0")
	b.fail()
	b.await("flows to begin elsewhere", func() bool { return b.fetch("a0", url, "5") == nil })
	if err := b.fetch("a1", url, "15"); err != nil {
		t.Fatal(err)
	}
}

// TestConnectionsBeginByConsent: none begins elsewhere where one of the two clusters' descriptions
// does not say that it may.
func TestConnectionsBeginByConsent(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-consent", "routed-bgp", "vxlan", "macvlan")
	a := b.agents["h1"]
	b.tell("h2", func(c *Cluster) { c.OpenElsewhere = false })
	b.busy("a0")
	b.await("the other end to take it back", func() bool {
		p := a.pair("a0", "b")
		a.members.Lock()
		defer a.members.Unlock()
		return p != nil && !p.opened.IsZero() && !p.takesOpening
	})
	b.fail()
	b.await("the default network to be known to fail", func() bool {
		p := a.pair("a0", "b")
		a.members.Lock()
		defer a.members.Unlock()
		return p != nil && p.homeFails(a.cfg.Now())
	})
	if err := b.fetch("a0", url, "3"); err == nil {
		t.Error("a connection has begun over a network whose other end does not allow that")
	}
}

// TestWhereFlowsBegin: what the other end begins elsewhere is taken for a while after the default network is back, and
// for as long as that end says that it does.
func TestWhereFlowsBegin(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tc := range []struct {
		name   string
		fails  bool
		agreed bool
		was    opening
		want   dataplane.Beginnings
	}{
		{"well", false, true, opening{}, dataplane.AtHome},
		{"the default network fails", true, true, opening{}, dataplane.Elsewhere},
		{"and the other end does not allow it", true, false, opening{}, dataplane.AtHome},
		{"it is back", false, true, opening{where: dataplane.Elsewhere}, dataplane.TakenElsewhere},
		{"for a while", false, true, opening{where: dataplane.TakenElsewhere, until: ago(takenFor - 1)},
			dataplane.TakenElsewhere},
		{"for longer", false, true, opening{where: dataplane.TakenElsewhere, until: ago(takenFor)}, dataplane.AtHome},
		{"for longer, but not for the other end", false, true,
			opening{where: dataplane.TakenElsewhere, until: ago(time.Minute), peer: ago(time.Second)}, dataplane.TakenElsewhere},
		{"the other end says that it does", false, true, opening{peer: ago(time.Second)}, dataplane.TakenElsewhere},
		{"and no more", false, true, opening{peer: ago(takenFor)}, dataplane.AtHome},
		{"the other end allows it no more", false, false, opening{where: dataplane.TakenElsewhere, until: ago(time.Second)},
			dataplane.TakenElsewhere},
		{"a predecessor had them begin elsewhere", false, true,
			opening{where: dataplane.Elsewhere, since: ago(2 * ms), until: ago(2 * ms), inherited: true}, dataplane.Elsewhere},
		{"long ago", false, true,
			opening{where: dataplane.Elsewhere, since: ago(takenFor), until: ago(takenFor), inherited: true},
			dataplane.TakenElsewhere},
		{"long ago, and the other end still does", false, true,
			opening{where: dataplane.Elsewhere, since: ago(takenFor), until: ago(takenFor), peer: ago(time.Second),
				inherited: true}, dataplane.Elsewhere},
		{"too long ago", false, true,
			opening{where: dataplane.Elsewhere, since: ago(time.Minute), until: ago(time.Minute), peer: ago(time.Second),
				inherited: true}, dataplane.TakenElsewhere},
		{"it fails again", true, true, opening{where: dataplane.TakenElsewhere, until: ago(time.Second)},
			dataplane.Elsewhere},
	} {
		p.lines[0] = newLines(1, a.pairs.params)[0]
		if tc.fails {
			p.lines[0].Suspect(ago(20*ms), ago(10*ms))
			findFailing(&p.lines[0].Path, ago(10*ms), now)
			p.lines[0].Confirm(now, detect.Agrees)
		}
		a.members.Cluster.OpenElsewhere, p.takesOpening, p.taken, p.opening = true, tc.agreed, true, tc.was
		if got := a.opener.where(p, now); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		a.members.Cluster.OpenElsewhere = false // a policy has come
		if got := a.opener.where(p, now); got != dataplane.AtHome {
			t.Errorf("%s, and this end does not allow it: %v", tc.name, got)
		}
	}
}
