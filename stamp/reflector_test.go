package stamp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// secret keeps nothing secret.
var secret = Keys{Current: []byte("a key for the tests"), Previous: [][]byte{[]byte("the key before that")}}

// bench is a sender and a reflector with no sockets, and a clock that a test
// sets.
type bench struct {
	t    testing.TB
	now  time.Time
	s    *Sender
	r    *Reflector
	from netip.AddrPort // of the sender
	to   netip.AddrPort
	tlvs []TLV // that OnTLV was given
	got  []Reply
	seq  uint32
	sent TestPacket
}

func newBench(t testing.TB, k Keys) *bench {
	b := &bench{
		t: t, now: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC),
		from: netip.MustParseAddrPort("192.0.2.1:40000"), to: netip.MustParseAddrPort("192.0.2.2:862"),
	}
	b.restart(k)
	var err error
	b.s, err = NewSender(nil, SenderConfig{
		Keys: k, Now: func() time.Time { return b.now }, OnReply: func(r Reply) { b.got = append(b.got, r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Millisecond)
	return b
}

// restart makes a reflector that remembers nothing.
func (b *bench) restart(k Keys) {
	var err error
	b.r, err = NewReflector(nil, ReflectorConfig{
		Keys: k, MaxSessions: 4, Now: func() time.Time { return b.now },
		AllowDSCP: func(_ netip.AddrPort, dscp uint8) bool { return dscp != 63 },
		OnTLV: func(_ netip.AddrPort, _ uint16, t TLV) []byte {
			b.tlvs = append(b.tlvs, TLV{t.Flags, t.Type, slices.Clone(t.Value)})
			return []byte("ok")
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.r.port = b.to.Port()
}

// probe builds the next probe and notes it as sent.
func (b *bench) probe(o SendOptions) []byte {
	b.t.Helper()
	if o.SSID == 0 {
		o.SSID = 7
	}
	b.sent = TestPacket{Seq: b.seq, Time: b.s.stamp(b.now), Error: b.s.self, SSID: o.SSID}
	b.seq++
	if err := b.s.build(b.sent, o, b.to.Addr(), b.seq); err != nil {
		b.t.Fatal(err)
	}
	b.s.flights.add(flight{
		key: flightKey{b.to, o.SSID, b.sent.Seq}, wire: b.sent.Time, sent: b.now, deadline: b.now.Add(time.Second),
		size: len(b.s.out),
	})
	return slices.Clone(b.s.out)
}

// reflect plays p to the reflector.
func (b *bench) reflect(p []byte) []byte {
	out, _ := b.r.reflect(p, ancillary{ttl: 61, tos: 0b101011<<2 | 1}, b.from)
	return slices.Clone(out)
}

// deliver plays a reply to the sender and returns what it made of it.
func (b *bench) deliver(p []byte) *Reply {
	b.got = nil
	b.s.receive(p, ancillary{ttl: 64, tos: 0b100111 << 2}, b.to, b.now)
	if len(b.got) == 0 {
		return nil
	}
	return &b.got[0]
}

func notice() []TLV { return []TLV{{Type: 241, Value: []byte("switch to path 2")}} }

func modes() map[string]Keys { return map[string]Keys{"open": {}, "authenticated": secret} }

func TestRoundTrip(t *testing.T) {
	for name, k := range modes() {
		b := newBench(t, k)
		p := b.probe(SendOptions{Size: 400, ClassOfService: true, ReplyDSCP: 0b100111, DirectMeasurement: true,
			TLVs: notice()})
		b.now = b.now.Add(3 * time.Millisecond)
		out, tos := b.r.reflect(p, ancillary{ttl: 61, tos: 0b101011<<2 | 1}, b.from)
		b.now = b.now.Add(4 * time.Millisecond)
		if len(out) != 400 || tos != 0b100111<<2 {
			t.Errorf("%s: %d octets with TOS %#x", name, len(out), tos)
		}
		r := b.deliver(out)
		if r == nil {
			t.Fatalf("%s: refused: %+v", name, b.s.Counters())
		}
		if r.RTT != 7*time.Millisecond || r.SSID != 7 || r.TTL != 61 || r.ReplyTTL != 64 ||
			r.DSCPSeen != 0b101011 || r.ECNSeen != 1 || r.ReplyDSCP != 0b100111 || r.DSCPRefused || r.ClocksAgree || r.Late {
			t.Errorf("%s: %+v", name, *r)
		}
		if d := r.ForwardDelay - 3*time.Millisecond; d.Abs() > time.Microsecond ||
			(r.BackwardDelay-4*time.Millisecond).Abs() > time.Microsecond {
			t.Errorf("%s: delays %s and %s", name, r.ForwardDelay, r.BackwardDelay)
		}
		if r.Direct == nil || *r.Direct != (DirectMeasurement{1, 1, 0}) {
			t.Errorf("%s: direct measurement %v", name, r.Direct)
		}
		// Without a key nothing is authentic, and the hook is not called.
		if k.Current == nil && (len(b.tlvs) != 0 || len(r.TLVs) != 0) {
			t.Errorf("%s: hook got %v, reply has %v", name, b.tlvs, r.TLVs)
		}
		if k.Current != nil &&
			(len(b.tlvs) != 1 || len(r.TLVs) != 1 || !bytes.Equal(r.TLVs[0].Value, append([]byte("ok"), make([]byte, 14)...))) {
			t.Errorf("%s: hook got %v, reply has %v", name, b.tlvs, r.TLVs)
		}
		if b.deliver(out) != nil || b.s.Counters().Duplicate != 1 {
			t.Errorf("%s: a duplicate: %+v", name, b.s.Counters())
		}
	}
}

func TestRefusedDSCP(t *testing.T) {
	b := newBench(t, secret)
	out, tos := b.r.reflect(b.probe(SendOptions{ClassOfService: true, ReplyDSCP: 63}), ancillary{tos: 10 << 2}, b.from)
	if r := b.deliver(out); r == nil || !r.DSCPRefused || tos != 10<<2 {
		t.Errorf("%+v with TOS %#x", r, tos)
	}
}

// TestStatefulNumbers: the reflector counts what it sends to each session.
func TestStatefulNumbers(t *testing.T) {
	b := newBench(t, secret)
	for i := range uint32(5) {
		b.probe(SendOptions{}) // lost on the way
		out := b.reflect(b.probe(SendOptions{}))
		if r := b.deliver(out); r == nil || r.ReflectorSeq != i || r.Seq != 2*i+1 {
			t.Fatalf("%+v", r)
		}
	}
	b.now = b.now.Add(time.Millisecond)
	if r := b.deliver(b.reflect(b.probe(SendOptions{SSID: 8}))); r == nil || r.ReflectorSeq != 0 {
		t.Errorf("another session: %+v", r)
	}
}

// TestHostile: what must not be answered, or not believed, and how it counts.
func TestHostile(t *testing.T) {
	flip := func(p []byte, at int) []byte { p[at] ^= 1; return p }
	for _, tt := range []struct {
		name string
		play func(b *bench) []byte // what is played last
		want func(ReflectorCounters) uint64
	}{
		{"forged sequence number", func(b *bench) []byte { return flip(b.probe(SendOptions{}), 3) },
			func(c ReflectorCounters) uint64 { return c.Forged }},
		{"forged timestamp", func(b *bench) []byte { return flip(b.probe(SendOptions{}), 20) },
			func(c ReflectorCounters) uint64 { return c.Forged }},
		{"forged MAC", func(b *bench) []byte { return flip(b.probe(SendOptions{}), 111) },
			func(c ReflectorCounters) uint64 { return c.Forged }},
		{"truncated", func(b *bench) []byte { return b.probe(SendOptions{})[:111] },
			func(c ReflectorCounters) uint64 { return c.Short }},
		{"empty", func(*bench) []byte { return nil }, func(c ReflectorCounters) uint64 { return c.Short }},
		{"oversized", func(b *bench) []byte { return make([]byte, 9217) },
			func(c ReflectorCounters) uint64 { return c.Oversized }},
		{"replayed", func(b *bench) []byte { p := b.probe(SendOptions{TLVs: notice()}); b.reflect(p); return p },
			func(c ReflectorCounters) uint64 { return c.Replayed }},
		{"replayed later", func(b *bench) []byte {
			p := b.probe(SendOptions{})
			b.reflect(p)
			for range 2000 {
				b.now = b.now.Add(time.Microsecond)
				b.reflect(b.probe(SendOptions{}))
			}
			return p
		}, func(c ReflectorCounters) uint64 { return c.Replayed }},
		{"replayed after a restart", func(b *bench) []byte {
			p := b.probe(SendOptions{TLVs: notice()})
			b.reflect(p)
			b.now = b.now.Add(time.Millisecond)
			b.restart(secret)
			b.tlvs = nil
			return p
		}, func(c ReflectorCounters) uint64 { return c.Stale }},
		{"replayed when its session was forgotten", func(b *bench) []byte {
			p := b.probe(SendOptions{TLVs: notice()})
			b.reflect(p)
			b.tlvs = nil
			for i := range uint16(4) {
				b.now = b.now.Add(time.Millisecond)
				b.reflect(b.probe(SendOptions{SSID: 100 + i}))
			}
			return p
		}, func(c ReflectorCounters) uint64 { return c.Replayed }},
		{"held back", func(b *bench) []byte {
			p := b.probe(SendOptions{})
			b.now = b.now.Add(3 * time.Second)
			return p
		}, func(c ReflectorCounters) uint64 { return c.Stale }},
		{"from the future", func(b *bench) []byte {
			b.now = b.now.Add(3 * time.Second)
			p := b.probe(SendOptions{})
			b.now = b.now.Add(-3 * time.Second)
			return p
		}, func(c ReflectorCounters) uint64 { return c.Stale }},
		{"from the reflector's port", func(b *bench) []byte { b.from = b.to; return b.probe(SendOptions{}) },
			func(c ReflectorCounters) uint64 { return c.Loop }},
	} {
		b := newBench(t, secret)
		p := tt.play(b)
		before := len(b.tlvs)
		if out := b.reflect(p); len(out) != 0 {
			t.Errorf("%s: answered", tt.name)
		}
		if c := b.r.Counters(); tt.want(c) != 1 || len(b.tlvs) != before {
			t.Errorf("%s: %+v, hook called %d times more", tt.name, c, len(b.tlvs)-before)
		}
	}
}

// TestOrdersAreBound: experimental TLVs that are not exactly where their sender
// put them reach nobody, though every part carries a good MAC of its own.
func TestOrdersAreBound(t *testing.T) {
	b := newBench(t, secret)
	order := b.probe(SendOptions{TLVs: notice()})
	seq := b.sent.Seq

	// Onto the base packet of another session, of the same sequence number.
	b.now = b.now.Add(time.Millisecond)
	b.seq = seq
	spliced := append(b.probe(SendOptions{SSID: 9})[:authBase:authBase], order[authBase:]...)
	out := b.reflect(spliced)
	if c := b.r.Counters(); len(out) == 0 || len(b.tlvs) != 0 || c.Unbound != 1 || c.ForgedTLV != 0 {
		t.Errorf("spliced: %d TLVs, %+v", len(b.tlvs), c)
	}

	// A reply with authentic TLVs, played to a reflector.
	reply := b.reflect(order)
	if len(b.tlvs) != 1 {
		t.Fatalf("the order itself: %d TLVs", len(b.tlvs))
	}
	b.now = b.now.Add(time.Millisecond)
	b.restart(secret)
	b.r.sessions.floor = b.now.Add(-time.Second) // at worst, its timestamp passes
	b.reflect(reply)
	if c := b.r.Counters(); len(b.tlvs) != 1 || c.Unbound != 1 {
		t.Errorf("a reply passed for an order: %+v", c)
	}

	// Changed, cut off its HMAC, and with a foreign key.
	for name, change := range map[string]func([]byte) []byte{
		"value changed":   func(p []byte) []byte { p[authBase+tlvHead]++; return p },
		"HMAC changed":    func(p []byte) []byte { p[len(p)-1]++; return p },
		"HMAC cut off":    func(p []byte) []byte { return p[:len(p)-tlvHead-macSize] },
		"binding removed": func(p []byte) []byte { return slices.Delete(p, len(p)-40, len(p)-20) },
		"TLV behind HMAC": func(p []byte) []byte { return append(p, 0x80, 241, 0, 0) },
		"length beyond":   func(p []byte) []byte { binary.BigEndian.PutUint16(p[authBase+2:], 60000); return p },
	} {
		c := newBench(t, secret)
		p := change(c.probe(SendOptions{TLVs: notice()}))
		out := c.reflect(p)
		if len(out) != len(p) || len(c.tlvs) != 0 || c.r.Counters().ForgedTLV != 1 || out[authBase]&FlagIntegrity == 0 &&
			name != "length beyond" {
			t.Errorf("%s: answer of %d, %d TLVs, %+v", name, len(out), len(c.tlvs), c.r.Counters())
		}
		if r := c.deliver(out); r == nil || len(r.TLVs) != 0 {
			t.Errorf("%s: the sender got %+v", name, r)
		}
	}
}
