package stamp

import (
	"encoding/hex"
	"testing"
	"time"
)

// TestFlags: RFC 8972, section 4, in open mode, where there is no MAC to care for.
func TestFlags(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"U cleared when known", "80040004ac000000", "00040004aeb40000"},
		{"U set when unknown", "00c80001ff", "80c80001ff"},
		{"experimental without a key", "80f1000100", "80f1000100"},
		{"M for a wrong length", "80040003000000", "40040003000000"},
		{"M stops what follows", "8005000100" + "80040004ac000000", "4005000100" + "00040004ac000000"},
		{"M for what does not fit", "80f10009aa", "40f10009aa"},
		{"M for half a head", "8001", "4001"},
		{"reserved flags dropped", "9f0100020000", "000100020000"},
		{"I for an HMAC that nobody can check", "80f1000100" + "80080010" + "00112233445566778899aabbccddeeff",
			"a0f1000100" + "20080010" + "00112233445566778899aabbccddeeff"},
		{"zeros are padding", "000000", "000000"},
	} {
		b := newBench(t, Keys{})
		in, err := hex.DecodeString(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		out := b.reflect(append(b.probe(SendOptions{}), in...))
		if got := hex.EncodeToString(out[openBase:]); got != tt.want {
			t.Errorf("%s: %s, expected %s", tt.name, got, tt.want)
		}
	}
}

// TestRotation: a packet signed by either key is answered by the same, and one
// signed by neither is not.
func TestRotation(t *testing.T) {
	second := Keys{Current: []byte("the key of tomorrow"), Previous: [][]byte{secret.Current}}
	b := newBench(t, Keys{Current: secret.Current})
	trip := func() bool {
		b.now = b.now.Add(time.Millisecond)
		return b.deliver(b.reflect(b.probe(SendOptions{TLVs: notice()}))) != nil
	}
	for _, step := range []struct {
		name string
		do   func() error
		ok   bool
	}{
		{"before", func() error { return nil }, true},
		{"reflector first", func() error { return b.r.SetKeys(second) }, true},
		{"then sender", func() error { return b.s.SetKeys(second) }, true},
		{"old key dropped", func() error { return b.r.SetKeys(Keys{Current: second.Current}) }, true},
		{"too old", func() error { return b.s.SetKeys(Keys{Current: secret.Current}) }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(step.name, err)
		}
		if trip() != step.ok {
			t.Errorf("%s: %+v %+v", step.name, b.r.Counters(), b.s.Counters())
		}
	}
	if b.r.SetKeys(Keys{}) == nil || b.s.SetKeys(Keys{}) == nil {
		t.Error("the mode was changed")
	}
}

// TestForgedReplies: a sender believes what answers one of its probes, once.
func TestForgedReplies(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys Keys
		play func(b *bench, reply []byte) []byte
		want func(SenderCounters) uint64
	}{
		{"signed by nobody", secret, func(_ *bench, p []byte) []byte { p[0]++; return p },
			func(c SenderCounters) uint64 { return c.Forged }},
		{"cut", secret, func(_ *bench, p []byte) []byte { return p[:111] },
			func(c SenderCounters) uint64 { return c.Malformed }},
		{"empty", Keys{}, func(*bench, []byte) []byte { return nil }, func(c SenderCounters) uint64 { return c.Malformed }},
		{"another's SSID", Keys{}, func(_ *bench, p []byte) []byte { p[14]++; return p },
			func(c SenderCounters) uint64 { return c.Unmatched }},
		{"no such probe", Keys{}, func(_ *bench, p []byte) []byte { p[27]++; return p },
			func(c SenderCounters) uint64 { return c.Unmatched }},
		{"timestamp guessed", Keys{}, func(_ *bench, p []byte) []byte { p[35]++; return p },
			func(c SenderCounters) uint64 { return c.Mismatch }},
		{"from elsewhere", Keys{}, func(b *bench, p []byte) []byte { b.to = b.from; return p },
			func(c SenderCounters) uint64 { return c.Unmatched }},
		{"the probe itself", secret, func(b *bench, _ []byte) []byte { return b.probe(SendOptions{}) },
			func(c SenderCounters) uint64 { return c.Unmatched }},
	} {
		b := newBench(t, tt.keys)
		b.seq = 5
		p := tt.play(b, b.reflect(b.probe(SendOptions{})))
		if r := b.deliver(p); r != nil || tt.want(b.s.Counters()) != 1 {
			t.Errorf("%s: %+v, %+v", tt.name, r, b.s.Counters())
		}
	}
}

// TestOddClocks: a reflector whose timestamps are absurd spoils no round trip.
func TestOddClocks(t *testing.T) {
	b := newBench(t, Keys{})
	p := b.reflect(b.probe(SendOptions{}))
	clear(p[16:24]) // T2 in another age
	b.now = b.now.Add(time.Millisecond)
	if r := b.deliver(p); r == nil || r.RTT != time.Millisecond || b.s.Counters().OddClock != 1 {
		t.Errorf("%+v", r)
	}
}

// TestLate: a reply after the deadline is delivered as late, once, and one by
// its deadline is no loss.
func TestLate(t *testing.T) {
	b := newBench(t, secret)
	var lost []Lost
	b.s.cfg.OnLost = func(l Lost) { lost = append(lost, l) }
	first, second := b.reflect(b.probe(SendOptions{})), b.reflect(b.probe(SendOptions{}))
	b.deliver(second)
	b.now = b.now.Add(time.Second)
	b.s.Expire(b.now)
	if len(lost) != 1 || lost[0].Seq != 0 || lost[0].To != b.to {
		t.Errorf("lost: %+v", lost)
	}
	if r := b.deliver(first); r == nil || !r.Late {
		t.Errorf("late: %+v", r)
	}
	if r := b.deliver(first); r != nil || b.s.Counters().Duplicate != 1 || b.s.Counters().Late != 1 {
		t.Errorf("late again: %+v %+v", r, b.s.Counters())
	}
}
