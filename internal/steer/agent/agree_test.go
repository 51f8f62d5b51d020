package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// follows tells on which network the flows are that the remote pod has opened: of all
// of them, or "".
func (r *running) follows(local, remote string) string {
	r.members.Lock()
	defer r.members.Unlock()
	p := r.entries.firstNamed(local, remote)
	if p == nil {
		return ""
	}
	followed, err := p.local.plane.Followed(p.remote.UID)
	if err != nil {
		return ""
	}
	for _, way := range p.routes {
		if way.Index == followed[0].Path {
			for _, c := range followed {
				if c.Path != followed[0].Path {
					return ""
				}
			}
			return way.Network
		}
	}
	return ""
}

// TestAgreeAgain: whatever happens to what an agent was told, both ends agree again
// within about a second, and no older word moves flows back. Fails if settle only
// repeats what was not confirmed.
func TestAgreeAgain(t *testing.T) {
	b := newBed(t, "t-agt-agree", "vxlan", "macvlan", "routed-bgp")
	one, two := b.start("h1", nil), b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to open", func() bool { return one.opened("a", "b") })
	b.move("macvlan")
	a := b.pod("a").UID
	plane := func() *dataplane.Plane { return two.pair("b", "a").local.plane }
	word := func() (number uint64, said dataplane.Said) {
		followed, err := plane().Followed(a)
		number, numberErr := one.pair("a", "b").local.plane.Number(b.pod("b").UID)
		if err != nil || numberErr != nil {
			t.Fatal(err, numberErr)
		}
		return number, dataplane.Tells(followed)
	}
	old, said := word()
	b.move("routed-bgp")
	index := map[string]int{}
	for _, r := range two.pair("b", "a").routes {
		index[r.Network] = r.Index
	}
	for name, disturb := range map[string]func() error{
		"an old word": func() error { _, err := plane().Follow(a, old, said); return err },
		"diverted":    func() error { _, err := plane().Divert(a, index["routed-bgp"], 0); return err },
		"forgotten":   func() error { _, err := plane().Unfollow(a); return err },
		"a number far ahead": func() error {
			now, _ := word()
			_, err := plane().Follow(a, now+uint64(time.Hour), said)
			return err
		},
	} {
		if err := disturb(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		b.await(name+": both ends to agree", func() bool { return two.follows("b", "a") == "routed-bgp" })
		t.Logf("%s: agreed after %v", name, time.Since(begin).Round(time.Millisecond))
		b.flows("routed-bgp")
	}
	// The owner's agent is another, and what was disturbed while there was none is found.
	b.stop("h1")
	if _, err := plane().Divert(a, index["routed-bgp"], 0); err != nil {
		t.Fatal(err)
	}
	one = b.start("h1", nil)
	one.wish.set("routed-bgp")
	b.await("both ends to agree", func() bool { return two.follows("b", "a") == "routed-bgp" })
	b.flows("routed-bgp")
	if r := udp.stop(); r.Counts.Datagrams.Lost > 0 {
		t.Errorf("%d datagrams lost", r.Counts.Datagrams.Lost)
	}
}
