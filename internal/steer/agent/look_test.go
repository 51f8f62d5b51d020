package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// askingBed is a bed of three networks on which a asks b, and both ends know the pair.
func askingBed(t *testing.T, name string) (*bed, *running) {
	t.Helper()
	b := newBed(t, name, "routed-bgp", "vxlan", "macvlan")
	a, _ := b.asking()
	return b, a
}

// TestLeftIsNotAwaited: what was on its way as flows left a network is answered where they are now, and
// the network is not suspected for it.
func TestLeftIsNotAwaited(t *testing.T) {
	b, a := askingBed(t, "t-look")
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

// TestLeftIsNotSilent: nothing comes over a network that all have left, which proves nothing of it, though
// a connection that was sent there is acknowledged elsewhere now.
func TestLeftIsNotSilent(t *testing.T) {
	_, a := askingBed(t, "t-left")
	p := a.pair("a", "b")
	i := p.routes.on("vxlan")
	a.members.Lock() // the loop waits: nothing looks but this test
	defer a.members.Unlock()
	now := a.cfg.Now()
	is := detect.Progress{Open: true, Waiting: true, Sent: 1000}
	q := &inquiry{pair: p, side: dataplane.Ours, begun: true,
		Detour: detect.NewDetour(a.pairs.params, p.routes[i].Index, is, now)}
	for _, tt := range []struct {
		on   string
		want bool
	}{{"vxlan", true}, {"macvlan", false}} {
		if _, err := p.local.plane.Switch(p.remote.UID, dataplane.All, p.routes[p.routes.on(tt.on)].Index); err != nil {
			t.Fatal(err)
		}
		p.left, p.lines[i].silence.Since = now, now.Add(-time.Second)
		if got := a.inquirer.around(q, is, now).Silent; got != tt.want {
			t.Errorf("flows are on %s: silent is %v", tt.on, got)
		}
	}
}

// TestCatchUp: what has just come to a path that had no packets of late is known as soon as one of the host's
// paths is suspected, and not with the next evidence only.
func TestCatchUp(t *testing.T) {
	b, a := askingBed(t, "t-catch")
	p := a.pair("a", "b")
	i, hp := p.routes.on("vxlan"), p.host.paths["vxlan"]
	ln := &p.lines[i]
	a.members.Lock() // the loop waits: nothing looks but this test
	defer a.members.Unlock()
	if _, err := p.local.plane.Switch(p.remote.UID, dataplane.All, p.routes[i].Index); err != nil {
		t.Fatal(err)
	}
	b.await("packets on vxlan", func() bool {
		sent, _, err := p.local.plane.Tallies(p.remote.UID, p.routes[i].Index)
		return err == nil && sent.Packets > ln.sent.Packets
	})
	now := a.cfg.Now()
	for _, suspected := range []bool{false, true} {
		if suspected {
			hp.Suspect(now, now)
			a.hosts.suspects[hp] = true
		}
		a.pairs.catchUp(now)
		if ln.sends() != suspected || ln.attended != suspected {
			t.Errorf("suspected %t: sends %t, looked at from now on %t", suspected, ln.sends(), ln.attended)
		}
	}
}
