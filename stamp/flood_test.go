package stamp

import (
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// TestFlood plays garbage, cut, oversized, forged and captured packets to real
// sockets of both ends, among probes that must all be answered as ever.
func TestFlood(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-flood")
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l := newLine(t, ns, at, secret)
		attacker := listen(t, ns, at)
		throw := func(to net.Addr, p []byte) {
			if _, err := attacker.WriteTo(p, to); err != nil {
				t.Fatal(err)
			}
		}
		reflector, sender := net.UDPAddrFromAddrPort(l.to), l.s.conn.LocalAddr()
		captured := capture(t, l)
		rng := rand.New(rand.NewPCG(3, 4))
		// One kind at a time, each waited for, so that no socket buffer overflows.
		forged := append([]byte(nil), captured...)
		forged[macAt]++
		garbage := make([]byte, 300)
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		const n = 500
		for i := range n {
			throw(reflector, captured)           // from another port
			throw(reflector, captured[:i%112])   // short
			throw(reflector, make([]byte, 9300)) // oversized
			throw(reflector, forged)
			throw(reflector, garbage)
			throw(sender, captured)
			throw(sender, captured[:i%112])
			throw(sender, make([]byte, 9300))
			l.send(t, SendOptions{TLVs: notice()})
			if r := l.reply(t); r.Seq != uint32(i+2) || len(r.TLVs) != 1 {
				t.Fatalf("%+v", r)
			}
		}
		r, s := l.r.Counters(), l.s.Counters()
		if r.Short != n || r.Oversized != n || r.Forged != 2*n || r.Replayed != n || r.Sessions != 1 || r.Reflected != n+2 ||
			r.Delivered != n {
			t.Errorf("reflector: %+v", r)
		}
		if s.Accepted != n+2 || s.Malformed != n || s.Forged != n || s.Unmatched+s.Mismatch != n || s.Lost != 0 {
			t.Errorf("sender: %+v", s)
		}
		if len(l.orders) != n {
			t.Errorf("%d orders", len(l.orders))
		}
	}
}

// capture sends two probes, which are answered, and returns the second.
func capture(t *testing.T, l *line) []byte {
	t.Helper()
	l.send(t, SendOptions{})
	l.reply(t)
	l.send(t, SendOptions{})
	l.reply(t)
	l.s.sending.Lock()
	defer l.s.sending.Unlock()
	return append([]byte(nil), l.s.out...)
}

// TestReplayedBytes resends captured orders from their own address, to the same
// reflector and to one that has started since.
func TestReplayedBytes(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-replay")
	l := newLine(t, ns, "127.0.0.1:0", secret)
	l.send(t, SendOptions{TLVs: notice()})
	l.reply(t)
	l.s.sending.Lock()
	captured := append([]byte(nil), l.s.out...)
	l.s.sending.Unlock()
	young := newLine(t, ns, "127.0.0.1:0", secret)
	for range 50 {
		for _, to := range []*line{l, young} {
			if _, err := l.s.conn.WriteTo(captured, net.UDPAddrFromAddrPort(to.to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.send(t, SendOptions{}) // comes after all of them
	l.reply(t)
	young.send(t, SendOptions{})
	young.reply(t)
	if c := l.r.Counters(); c.Replayed != 50 || c.Delivered != 1 || c.Reflected != 2 {
		t.Errorf("%+v", c)
	}
	if c := young.r.Counters(); c.Stale != 50 || c.Delivered != 0 || c.Reflected != 1 {
		t.Errorf("restarted: %+v", c)
	}
}

// TestOutstandingIsBounded: a sender that nobody answers says so, and recovers.
func TestOutstandingIsBounded(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-bound")
	hole := listen(t, ns, "127.0.0.1:0")
	lost := make(chan Lost, 100)
	s, err := NewSender(listen(t, ns, "127.0.0.1:0"), SenderConfig{
		MaxOutstanding: 10, Deadline: 300 * time.Millisecond, OnLost: func(l Lost) { lost <- l },
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for i := range 10 {
			if x, err := s.Send(addrOf(hole), SendOptions{}); err != nil || x.Seq != uint32(10*round+i) {
				t.Fatal(x, err)
			}
		}
		if _, err := s.Send(addrOf(hole), SendOptions{}); round == 0 && !errors.Is(err, ErrBusy) {
			t.Errorf("the eleventh: %v", err)
		}
		if round == 0 {
			serve(t, s.Run)
		}
		for range 10 {
			<-lost
		}
	}
}

func TestSendRefuses(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-send")
	for name, k := range modes() {
		l := newLine(t, ns, "127.0.0.1:0", k)
		for _, tt := range []struct {
			name string
			o    SendOptions
			want error
		}{
			{"too small", SendOptions{Size: 20}, ErrSize},
			{"no room for a padding's head", SendOptions{Size: l.s.mode.Base() + 3}, ErrSize},
			{"too large", SendOptions{Size: 65508}, ErrSize},
			{"a TLV too large", SendOptions{TLVs: []TLV{{Type: 240, Value: make([]byte, 65500)}}}, ErrSize},
			{"the binding's type", SendOptions{TLVs: []TLV{{Type: TypeBinding}}}, ErrType},
			{"an assigned type", SendOptions{TLVs: []TLV{{Type: TypePadding}}}, ErrType},
		} {
			if _, err := l.s.Send(l.to, tt.o); !errors.Is(err, tt.want) {
				t.Errorf("%s, %s: %v", name, tt.name, err)
			}
		}
		for i, size := range []int{0, l.s.mode.Base(), l.s.mode.Base() + 4, 9000} { // none of the refused took a number
			l.send(t, SendOptions{Size: size})
			if r := l.reply(t); r.Seq != uint32(i) || size > 0 && r.Size != size {
				t.Errorf("%s, size %d: %+v", name, size, r)
			}
		}
	}
}

// TestForget: the numbers of a peer that is forgotten begin again, those of others go on.
func TestForget(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-forget")
	s, err := NewSender(listen(t, ns, "127.0.0.1:0"), SenderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	gone, stays := addrOf(listen(t, ns, "127.0.0.1:0")), addrOf(listen(t, ns, "127.0.0.1:0"))
	for i, want := range [][2]uint32{{0, 0}, {1, 1}, {0, 2}} {
		if i == 2 {
			s.Forget(gone)
		}
		a, err := s.Send(gone, SendOptions{})
		b, err2 := s.Send(stays, SendOptions{})
		if err := errors.Join(err, err2); err != nil || a.Seq != want[0] || b.Seq != want[1] {
			t.Errorf("round %d: numbers %d and %d, want %v (%v)", i, a.Seq, b.Seq, want, err)
		}
	}
}
