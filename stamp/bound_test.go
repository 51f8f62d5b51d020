package stamp

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// onNetwork makes both ends of the bench those of a network; the reflector takes
// part in what others have taken.
func (b *bench) onNetwork(network string, shared *ReplayCache) {
	b.s.cfg.Network = network
	b.r.cfg.Network, b.r.addr, b.s.local = network, b.to.Addr(), b.from.Addr()
	if shared != nil {
		b.r.cfg.Replays = shared
	}
}

// TestElsewhere: a probe that was sent for another network, or another address, or
// from which that was cut off, is not answered, and does not keep the probe itself
// from being.
func TestElsewhere(t *testing.T) {
	for name, play := range map[string]func(*bench, []byte) []byte{
		"another network": func(b *bench, p []byte) []byte { b.r.cfg.Network = "n"; return p },
		"another address": func(b *bench, p []byte) []byte { b.r.addr = netip.MustParseAddr("192.0.2.3"); return p },
		"from another address": func(b *bench, p []byte) []byte {
			b.from = netip.MustParseAddrPort("192.0.2.9:40000")
			return p
		},
		"cut off": func(_ *bench, p []byte) []byte { return p[:authBase] },
	} {
		b := newBench(t, secret)
		b.onNetwork("m", nil)
		p := b.probe(SendOptions{TLVs: notice()})
		if out := b.reflect(play(b, append([]byte(nil), p...))); len(out) != 0 || len(b.tlvs) != 0 ||
			b.r.Counters().Elsewhere != 1 {
			t.Errorf("%s: answered by %d octets, %d orders, %+v", name, len(out), len(b.tlvs), b.r.Counters())
		}
		b.from = netip.MustParseAddrPort("192.0.2.1:40000")
		b.onNetwork("m", nil)
		if r := b.deliver(b.reflect(p)); r == nil || len(b.tlvs) != 1 || len(r.TLVs) != 1 {
			t.Errorf("%s: then the probe itself: %+v, %+v", name, b.r.Counters(), b.s.Counters())
		}
	}
}

// TestReplaysAreShared: what one reflector of a host has taken no other takes.
func TestReplaysAreShared(t *testing.T) {
	shared := NewReplayCache(0)
	one, two := newBench(t, secret), newBench(t, secret)
	one.r.cfg.Replays, two.r.cfg.Replays = shared, shared
	p := one.probe(SendOptions{TLVs: notice()})
	one.reflect(p)
	two.now = one.now
	if out := two.reflect(p); len(out) != 0 || two.r.Counters().Replayed != 1 || len(two.tlvs) != 0 {
		t.Errorf("taken twice: %+v", two.r.Counters())
	}
}

// TestReplaysFromManySides: of many that bring one packet, one is let through.
func TestReplaysFromManySides(t *testing.T) {
	shared, now := NewReplayCache(0), time.Unix(1000, 0)
	p := make([]byte, authBase)
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 50 {
		wg.Go(func() {
			if shared.take(p, now, now) {
				mu.Lock()
				defer mu.Unlock()
				taken++
			}
		})
	}
	wg.Wait()
	if taken != 1 {
		t.Errorf("taken %d times", taken)
	}
}

// TestRelayedReply: an answer that was had on another network, by playing the probe
// there, or whose binding was cut off, says nothing of this one; it does not use up
// the probe either. The true answer is taken, once.
func TestRelayedReply(t *testing.T) {
	b := newBench(t, secret)
	b.onNetwork("m", nil)
	p := b.probe(SendOptions{TLVs: notice()})
	out := b.reflect(p)
	relay := newBench(t, secret) // the same host's reflector, as if it took what it must not
	relay.now = b.now
	foreign := relay.reflect(p)
	if len(foreign) == 0 {
		t.Fatal("not answered")
	}
	cut := append([]byte(nil), out[:authBase]...)
	newSigner(secret.Current).signBase(cut)
	for name, x := range map[string][]byte{"relayed": foreign, "cut": cut} {
		before := b.s.Counters().Unbound
		if b.deliver(x) != nil || b.s.Counters().Unbound != before+1 {
			t.Errorf("%s: %+v", name, b.s.Counters())
		}
	}
	b.s.cfg.Network = "n" // as the sender of another network of the host
	if b.deliver(out) != nil {
		t.Error("an answer was taken on another network")
	}
	b.s.cfg.Network = "m"
	if b.deliver(out) == nil || b.deliver(out) != nil {
		t.Errorf("the true answer: %+v", b.s.Counters())
	}
}

// TestRefusals: who is refused for its key or its time is told, with how far its
// clock is off; what is replayed is not.
func TestRefusals(t *testing.T) {
	b := newBench(t, secret)
	var told []Refusal
	b.r.cfg.OnRefused = func(r Refusal) { told = append(told, r) }
	forged := b.probe(SendOptions{})
	forged[macAt]++
	b.reflect(forged)
	held := b.probe(SendOptions{})
	b.now = b.now.Add(3 * time.Second)
	b.reflect(held)
	b.now = b.now.Add(7 * time.Second)
	early := b.probe(SendOptions{})
	b.now = b.now.Add(-5 * time.Second)
	b.reflect(early)
	if len(told) != 3 || !told[0].Key || told[0].From != b.from || told[1].Key || told[2].Key ||
		(told[1].Ahead+3*time.Second).Abs() > time.Microsecond || (told[2].Ahead-5*time.Second).Abs() > time.Microsecond {
		t.Errorf("%+v", told)
	}
	// A session that is up is answered though a clock is set, but its orders are not taken.
	b.reflect(b.probe(SendOptions{}))
	fresh := b.now
	b.now = b.now.Add(time.Minute)
	p := b.probe(SendOptions{TLVs: notice()})
	b.now = b.now.Add(-time.Minute)
	if out := b.reflect(p); len(out) == 0 || len(b.tlvs) != 0 || len(told) != 4 ||
		told[3].Ahead.Round(time.Second) != time.Minute {
		t.Errorf("%d octets, %d orders, %+v", len(out), len(b.tlvs), told)
	}
	if got := b.r.LastFreshProbe(b.from.Addr()); !got.Equal(fresh) {
		t.Errorf("last fresh at %v, expected %v", got, fresh)
	}
}

func ringKey(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 32) }

// turned are the keys of a host that was given key n last, and key n-1 before.
func turned(n int) Keys { return Keys{Current: ringKey(n), Previous: [][]byte{ringKey(n - 1)}} }

// TestKeysTurnOverLive changes the keys of both ends again and again while probes
// go, each signed by a key that the other end has: none is lost, none is refused.
func TestKeysTurnOverLive(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-keys")
	l := newLine(t, ns, "127.0.0.1:0", Keys{Current: ringKey(0)})
	l.s.receiving.Lock()
	l.s.sending.Lock()
	l.r.mu.Lock()
	l.s.cfg.Network, l.r.cfg.Network = "m", "m"
	l.r.mu.Unlock()
	l.s.sending.Unlock()
	l.s.receiving.Unlock()
	for i := range 20 {
		if err := l.r.SetKeys(turned(i + 1)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := l.s.SetKeys(turned(i + 1)); err != nil {
				t.Error(err)
			}
		})
		for n := range 50 {
			k := IDOf(ringKey(i + n%2))
			l.send(t, SendOptions{Key: k, TLVs: notice()})
			if r := l.reply(t); len(r.TLVs) != 1 || r.Key != k && r.Key != IDOf(ringKey(i+1)) && r.Key != IDOf(ringKey(i)) {
				t.Fatalf("%+v", r)
			}
		}
		wg.Wait()
	}
	if r, s := l.r.Counters(), l.s.Counters(); r.Forged+r.Elsewhere > 0 || s.Forged+s.Unbound+s.Lost > 0 {
		t.Errorf("%+v %+v", r, s)
	}
	// The captured probe of another network, by real sockets from another address.
	captured := capture(t, l)
	l.r.mu.Lock()
	l.r.cfg.Network = "z"
	l.r.mu.Unlock()
	before := l.r.Counters()
	if _, err := listen(t, ns, "127.0.0.9:0").WriteTo(captured, net.UDPAddrFromAddrPort(l.to)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); l.r.Counters().Elsewhere == before.Elsewhere && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if c := l.r.Counters(); c.Elsewhere != before.Elsewhere+1 || c.Reflected != before.Reflected {
		t.Errorf("%+v", c)
	}
}
