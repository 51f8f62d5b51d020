package agent

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/stamp"
)

// keyHolder is a key file that a test writes.
type keyHolder struct{ p atomic.Pointer[stamp.Keys] }

func holder(keys ...string) *keyHolder {
	h := &keyHolder{}
	h.set(keys...)
	return h
}

func (h *keyHolder) set(keys ...string) {
	k := stamp.Keys{Current: []byte(keys[0])}
	for _, p := range keys[1:] {
		k.Previous = append(k.Previous, []byte(p))
	}
	h.p.Store(&k)
}

func (h *keyHolder) keys() (stamp.Keys, error) { return *h.p.Load(), nil }

func testKey(i int) string { return fmt.Sprintf("key %d of the test, 32 octets wide", i) }

// startKeyed starts an agent with a key file, which forgets withdrawn keys soon.
func (b *bed) startKeyed(host string, h *keyHolder) *running {
	return b.start(host, func(c *Config) {
		c.Keys, c.hold = h.keys, probe.Hold{Least: time.Second, Most: time.Hour, Grace: time.Second}
	})
}

// accepts lists the agent's keys, the current one first.
func (r *running) accepts() (out []string) {
	r.members.Lock()
	defer r.members.Unlock()
	for _, k := range r.turnover.ring.Keys().All() {
		out = append(out, string(k))
	}
	return out
}

// refusedProbes counts what the agents have refused of each other's packets, and
// what was not answered.
func (b *bed) refusedProbes() (n, lost uint64) {
	for _, r := range b.agents {
		h := r.Health()
		for _, c := range h.Reflectors {
			n += c.Forged + c.Stale + c.Replayed + c.Elsewhere + c.Unbound + c.ForgedTLV
		}
		for _, c := range h.Senders {
			n, lost = n+c.Forged+c.Unbound+c.ForgedTLV, lost+c.Lost
		}
	}
	return n, lost
}

// TestKeysTurnOver gives the hosts new keys in both orders, seconds apart, twice in
// a row, and as lists, under steered traffic. No probe is refused, no pair is
// closed, no flow moves, and in the end nothing but the newest key is accepted.
func TestKeysTurnOver(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-key", "vxlan", "macvlan")
	one, two := holder(testKey(0)), holder(testKey(0))
	a, z := b.startKeyed("h1", one), b.startKeyed("h2", two)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.await("the pairs to open", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	b.move("macvlan")
	since := map[*running]int{a: a.journal.last().ID, z: z.journal.last().ID}
	refused, lost := b.refusedProbes()
	settled := func(key string) {
		t.Helper()
		b.await("both agents to accept "+key+" alone", func() bool {
			return slices.Equal(a.accepts(), []string{key}) && slices.Equal(z.accepts(), []string{key})
		})
	}
	later := 2500 * time.Millisecond
	for i, step := range []struct {
		first, second *keyHolder
		keys          [][]string // of the first, one after the other; the last is also the second's
	}{
		{one, two, [][]string{{testKey(1)}}},
		{two, one, [][]string{{testKey(2)}}},
		{one, two, [][]string{{testKey(3)}, {testKey(4)}}}, // twice in a row
		{two, one, [][]string{{testKey(5)}, {testKey(6)}, {testKey(7)}}},
		{one, two, [][]string{{testKey(7), testKey(8)}, {testKey(8), testKey(7)}, {testKey(8)}}}, // as lists
	} {
		for _, k := range step.keys {
			step.first.set(k...)
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(later)
		if n := len(a.accepts()) + len(z.accepts()); n < 3 {
			t.Errorf("step %d: a key was refused that the other host needs", i)
		}
		step.second.set(step.keys[len(step.keys)-1]...)
		settled(step.keys[len(step.keys)-1][0])
	}
	if n, l := b.refusedProbes(); n != refused || l > lost {
		t.Errorf("%d packets refused, %d probes lost", n-refused, l-lost)
	}
	for r, id := range since {
		events, _ := r.journal.since(id)
		for _, e := range events {
			if strings.Contains(e.Reason, "has no key of this host's file") {
				continue // as Least is short here
			}
			if e.Kind != EventKey && e.Kind != EventOutcome && e.Kind != EventSuspect && e.Kind != EventCleared {
				t.Errorf("%s %s: %s", e.Host, e.Kind, e.Reason)
			}
		}
	}
	if on := a.on("a", "b"); on != "macvlan" || !a.opened("a", "b") || !z.opened("b", "a") {
		t.Errorf("flows are on %q; opened %v and %v", on, a.opened("a", "b"), z.opened("b", "a"))
	}
	b.flows("macvlan")
	// What was withdrawn is refused.
	was, _ := b.refusedProbes()
	self, target := b.pod("agent-h1"), b.pod("agent-h2")
	own, _ := self.On("vxlan")
	to, _ := target.On("vxlan")
	s, err := stamp.NewSender(dialFrom(b, self, own),
		stamp.SenderConfig{Keys: stamp.Keys{Current: []byte(testKey(7))}, Network: "vxlan"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(hostPort(to.Addr), stamp.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await("a key that was withdrawn to be refused", func() bool { n, _ := b.refusedProbes(); return n > was })
	r, u := rr.stop(), udp.stop()
	checkLived(t, r, u)
	if d := u.Counts.Datagrams; d.Sent-d.Received > 20 {
		t.Errorf("%d of %d datagrams did not come back", d.Sent-d.Received, d.Sent)
	}
}

// TestWrongKey: a host with a foreign key is told of at both ends, and is well when
// it is put right.
func TestWrongKey(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-wkey", "vxlan", "macvlan")
	one, two := holder(testKey(0)), holder("a foreign key, 32 octets or wider")
	a, z := b.startKeyed("h1", one), b.startKeyed("h2", two)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	for r, other := range map[*running]string{a: "h2", z: "h1"} {
		for _, network := range []string{"vxlan", "macvlan"} {
			r.event(b, 0, "refused probes to be told", func(e Event) bool {
				return e.Kind == EventWarning && strings.HasPrefix(e.Reason, "probes and notices from "+other+" are refused on "+
					network+": they authenticate by no key")
			})
		}
		r.event(b, 0, "silence to be told", func(e Event) bool {
			return e.Kind == EventWarning && strings.HasPrefix(e.Reason, other+" has answered none of") &&
				strings.Contains(e.Reason, "keys differ")
		})
	}
	two.set(testKey(0))
	b.await("the pairs to open", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	b.await("the foreign key to go", func() bool { return len(z.accepts()) == 1 })
	n, _ := b.refusedProbes()
	time.Sleep(time.Second)
	if m, _ := b.refusedProbes(); m != n {
		t.Errorf("%d packets refused after that", m-n)
	}
	udp.stop()
}

// TestClocksAreNear: hosts whose clocks are not quite two seconds apart steer, and nobody is told.
func TestClocksAreNear(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-cnear", "vxlan", "macvlan")
	a := b.start("h1", nil)
	z := b.start("h2", func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-1900 * time.Millisecond) } })
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pairs to open", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	time.Sleep(time.Second)
	for _, r := range []*running{a, z} {
		events, _ := r.journal.since(0)
		for _, e := range events {
			if e.Kind == EventWarning && (strings.Contains(e.Reason, "clock") || strings.Contains(e.Reason, "refused")) {
				t.Errorf("told: %s", e.Reason)
			}
		}
	}
	udp.stop()
}

// TestClocksDiffer: both hosts are told by how much.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-clock", "vxlan", "macvlan")
	a := b.start("h1", nil)
	z := b.start("h2", func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-30 * time.Second) } })
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	for r, want := range map[*running]string{a: "the clock of h2 is 30s behind this host's",
		z: "the clock of h1 is 30s ahead of this host's"} {
		r.event(b, 0, want, func(e Event) bool { return e.Kind == EventWarning && strings.HasPrefix(e.Reason, want) })
		events, _ := r.journal.since(0)
		if n := len(
			slices.DeleteFunc(events, func(e Event) bool { return !strings.Contains(e.Reason, "the clock of") })); n != 1 {
			t.Errorf("told %d times", n)
		}
	}
	udp.stop()
}

func TestKeyList(t *testing.T) {
	l := keyList{version: 7, from: podID{1, 2}, ids: []stamp.KeyID{{3}, {4}}}
	got, err := decodeKeyList(l.encode())
	if err != nil || got.version != 7 || got.from != l.from || !slices.Equal(got.ids, l.ids) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { b[0]++; return b }, func(b []byte) []byte { b[1] = 0; return b },
		func(b []byte) []byte { b[1] = probe.MostKeys + 1; return b }, func(b []byte) []byte { return b[1:] },
		func([]byte) []byte { return nil },
	} {
		if got, err := decodeKeyList(change(l.encode())); err == nil {
			t.Errorf("taken: %+v", got)
		}
	}
}

// FuzzKeyList: whatever comes is refused or means what it says.
func FuzzKeyList(f *testing.F) {
	f.Add(keyList{version: 1, ids: []stamp.KeyID{{3}, {4}}}.encode())
	f.Add([]byte{1, 2})
	f.Fuzz(func(t *testing.T, in []byte) {
		l, err := decodeKeyList(in)
		if err != nil {
			return
		}
		if out := l.encode(); !bytes.Equal(out[:28+8*len(l.ids)][4:], in[4:28+8*len(l.ids)]) {
			t.Errorf("%x came back as %x", in, out)
		}
	})
}

// TestKeyFor: a host is sent what it can check, and where that is not known, or it
// falls silent, all keys are tried.
func TestKeyFor(t *testing.T) {
	keys := holder(testKey(2), testKey(1))
	a, h2 := twoHosts(t)
	if _, err := a.turnover.ring.Give(*keys.p.Load(), a.cfg.Now()); err != nil {
		t.Fatal(err)
	}
	now := a.cfg.Now()
	first, second := stamp.IDOf([]byte(testKey(2))), stamp.IDOf([]byte(testKey(1)))
	if got := a.turnover.ring.signBy(&h2.keys, now); got != first {
		t.Error("the current key does not come first")
	}
	tried := map[stamp.KeyID]bool{}
	for range 4 {
		h2.keys.probed(now)
		tried[a.turnover.ring.signBy(&h2.keys, now)] = true
	}
	if !tried[first] || !tried[second] {
		t.Errorf("tried %d keys of a host that is not known", len(tried))
	}
	h2.keys = peerKeys{has: []stamp.KeyID{second}, says: true}
	for range 100 { // many are on their way
		h2.keys.probed(now)
		if a.turnover.ring.signBy(&h2.keys, now) != second {
			t.Fatal("sent what it cannot check")
		}
	}
	if string(a.turnover.ring.Key(a.turnover.ring.best(&h2.keys))) != testKey(1) {
		t.Error("not the common key")
	}
	clear(tried)
	for range 4 {
		h2.keys.probed(now)
		tried[a.turnover.ring.signBy(&h2.keys, now.Add(time.Second))] = true
	}
	if !tried[first] || !tried[second] {
		t.Errorf("tried %d keys of a silent host", len(tried))
	}
	a.turnover.keyed(h2, stamp.Reply{Key: first})
	if h2.keys.unanswered != 0 || a.turnover.ring.signBy(&h2.keys, now) != second {
		t.Error("an answer does not end the trial")
	}
}

// forged sums what the data planes of a host have refused for their tags.
func (r *running) forged() uint64 {
	_, e := r.totals()
	return e.Forged
}

// TestKeysTurnOverOften: a host is given more new keys in a row than data planes accept at a
// time, and more than a ring has room for, before the other one has any of them; then that
// one is given one from the middle, then the last; then both have eight, in opposite order. No
// packet that is steered is refused, and no probe. Fails if a ring that is full lets go of
// a key that another host needs, if a data plane does not accept what the other one sends
// by, or if one sends by a key before the other one knows that it has it.
func TestKeysTurnOverOften(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-keys", "vxlan", "macvlan")
	one, two := holder(testKey(0)), holder(testKey(0))
	a, z := b.startKeyed("h1", one), b.startKeyed("h2", two)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 2 * time.Millisecond, Echo: true})
	b.await("the pairs to open", func() bool { return a.opened("a", "b") && z.opened("b", "a") })
	b.move("macvlan")
	refused, _ := b.refusedProbes()
	forged := a.forged() + z.forged()
	check := func(what string) {
		t.Helper()
		b.flows("macvlan")
		if n, _ := b.refusedProbes(); n != refused || a.forged()+z.forged() != forged {
			t.Errorf("%s: %d probes and %d packets of pods were refused", what, n-refused, a.forged()+z.forged()-forged)
		}
		refused, _ = b.refusedProbes()
		forged = a.forged() + z.forged()
	}
	in := func(keys ...int) (out []string) {
		for _, k := range keys {
			out = append(out, testKey(k))
		}
		return out
	}
	for k := 1; k <= 10; k++ {
		one.set(testKey(k))
		b.await("the key to be taken", func() bool { return a.accepts()[0] == testKey(k) })
	}
	time.Sleep(time.Second)
	check("ten new keys for one host")
	two.set(testKey(7))
	b.await("the key to be taken", func() bool { return z.accepts()[0] == testKey(7) })
	time.Sleep(time.Second)
	check("one of the middle for the other one")
	two.set(testKey(10))
	b.await("both to have the last one alone", func() bool {
		return slices.Equal(a.accepts(), in(10)) && slices.Equal(z.accepts(), in(10))
	})
	check("the last one")
	one.set(in(10, 11, 12, 13, 14, 15, 16, 17)...)
	b.await("the keys to be taken", func() bool { return len(a.accepts()) == probe.MostKeys })
	two.set(in(17, 16, 15, 14, 13, 12, 11, 10)...)
	b.await("the keys to be taken", func() bool { return len(z.accepts()) == probe.MostKeys })
	time.Sleep(time.Second)
	check("eight in opposite order")
	one.set(testKey(18))
	time.Sleep(time.Second)
	two.set(testKey(18))
	b.await("both to have the last one alone", func() bool {
		return slices.Equal(a.accepts(), in(18)) && slices.Equal(z.accepts(), in(18))
	})
	check("one after eight")
	if d := udp.stop().Counts.Datagrams; d.Lost > 0 {
		t.Errorf("%d of %d datagrams were lost", d.Lost, d.Sent)
	}
}
