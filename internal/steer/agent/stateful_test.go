package agent

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// TestStateless: where no filter of the host is stateful, nothing is looked for, nobody waits, and the other agent is
// told so. Once one is, all that pairs have left behind is looked for.
func TestStateless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ns := fmt.Sprintf("pw-t-stl-%d", os.Getpid())
	if err := errors.Join(netns.Prepare(), netns.Create(ns)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(ns); err != nil {
			t.Error(err)
		}
	})
	in := func(ns string) func() string { return func() string { return ns } }
	b := &bed{t: t}
	a, p, _ := onePair(t)
	u := a.untracked
	f := filtering{untracked: u}
	now := a.cfg.Now()
	u.add(p)
	waits := u.before(p)
	check := func(when string, stateless bool, due int) {
		t.Helper()
		if u.stateless.Load() != stateless || len(u.due) != due || (u.returns() == takesReturns) != stateless {
			t.Errorf("%s: stateless %v, %d due, told %d", when, u.stateless.Load(), len(u.due), u.returns())
		}
	}
	check("before the first look", false, 1)
	if got := f.look(in(ns), a.members, now); len(got) != 1 || got[0] != p {
		t.Errorf("%v have waited", got)
	}
	select {
	case <-waits:
	default:
		t.Error("it is waited for what is not looked for")
	}
	u.add(p)
	u.stray(p)
	u.begin(p)
	check("without rules", true, 0)
	if u.before(p) != nil || a.respondent.handleReturn(p) != statusDone {
		t.Error("a move is to wait where nothing is dropped")
	}
	b.runIn(ns, "nft", "add table ip t; add chain ip t c; add rule ip t c ct state invalid drop")
	f.look(in(ns), a.members, now.Add(lookEach/2))
	check("before the next look", true, 0)
	f.look(in(ns), a.members, f.next)
	check("with a rule", false, 1)
	b.runIn(ns, "nft", "flush chain ip t c")
	f.look(in(ns), a.members, f.next.Add(-time.Millisecond))
	check("taken to be as it was", false, 1)
	f.look(in(ns), a.members, f.next)
	check("without it again", true, 0)
	f.look(in("pw-t-no-such"), a.members, f.next)
	check("of what cannot be read", false, 1)
}

// TestReturnsAtOnce: on hosts without stateful filters flows go there and back as the user says, and each order is told
// as what it does, whatever else happens meanwhile. Where such filters come, what flows have left is forgotten from
// then on.
func TestReturnsAtOnce(t *testing.T) {
	b := newBed(t, "t-stateful", "routed-bgp", "vxlan")
	one, two := b.start("h1", nil), b.start("h2", nil)
	b.carried("routed-bgp")
	b.await("the pair to open", func() bool { return one.opened("a", "b") && two.opened("b", "a") })
	f := b.flow("tcp", "a", "b", "a", 1e6)
	f.more(b, "on the default network", 1e5)
	takes := func(want bool) func() bool {
		return func() bool {
			one.members.Lock()
			defer one.members.Unlock()
			return one.entries.firstNamed("a", "b").takesReturns == want && one.untracked.stateless.Load() == want
		}
	}
	b.await("both hosts to take what returns", takes(true))
	order := func(network string) {
		t.Helper()
		one.wish.set(network)
		one.members.Lock() // the policy is not to be faster, but other events may come
		p := one.entries.firstNamed("a", "b")
		is := p.on().Network
		e, err := one.overrides.order(p, Order{Local: "a", Remote: "b", Network: network})
		one.members.Unlock()
		if err != nil || is != network && (e.Kind != string(decide.Switch) || e.By != byUser || e.To != network) {
			t.Errorf("from %s to %s: %+v, %v", is, network, e, err)
		}
		one.note(Event{Kind: EventWarning, Reason: "another event"})
	}
	for range 20 {
		order("vxlan")
		order("routed-bgp")
	}
	f.more(b, "after the orders", 1e5)
	if n := one.forgotten() + two.forgotten(); n > 0 {
		t.Errorf("%d connections were forgotten where nothing is dropped", n)
	}
	for _, h := range b.state.Hosts {
		b.runIn(h.Netns, "iptables", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
	}
	b.await("both hosts to have stateful filters", takes(false))
	b.move("vxlan")
	f.more(b, "on vxlan", 1e5)
	b.move("routed-bgp")
	f.more(b, "at last", 1e6)
	b.await("what was left to be forgotten", func() bool { return one.forgotten() > 0 && two.forgotten() > 0 })
}
