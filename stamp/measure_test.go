package stamp

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestMeasurementLoss(t *testing.T) {
	reply := func(seq, reflected uint32) Reply { return Reply{Seq: seq, ReflectorSeq: reflected} }
	for _, tt := range []struct {
		name                       string
		replies                    []Reply
		lost                       []Lost
		forward, backward, unknown int
	}{
		{"nothing sent", nil, nil, 0, 0, 0},
		{"no answer", nil, []Lost{{Seq: 0}, {Seq: 1}}, 0, 0, 2},
		{"none lost", []Reply{reply(0, 0), reply(1, 1)}, nil, 0, 0, 0},
		{"forward", []Reply{reply(0, 0), reply(2, 1)}, []Lost{{Seq: 1}}, 1, 0, 0},
		{"backward", []Reply{reply(0, 0), reply(2, 2)}, []Lost{{Seq: 1}}, 0, 1, 0},
		{"both, and the last", []Reply{reply(0, 0), reply(4, 3)}, []Lost{{Seq: 1}, {Seq: 2}, {Seq: 3}, {Seq: 5}}, 1, 2, 1},
		{"overtaken", []Reply{reply(2, 2), reply(1, 1), reply(0, 0)}, nil, 0, 0, 0},
		{"stateless", []Reply{reply(0, 0), reply(3, 3)}, []Lost{{Seq: 1}, {Seq: 2}}, 0, 2, 0},
		{"a reflector that began again", []Reply{reply(5, 5), reply(9, 0)}, []Lost{{Seq: 6}}, 1, 0, 0},
	} {
		forward, backward, unknown := Measurement{Replies: tt.replies, Lost: tt.lost}.Loss()
		if forward != tt.forward || backward != tt.backward || unknown != tt.unknown {
			t.Errorf("%s: %d forward, %d backward, %d unknown", tt.name, forward, backward, unknown)
		}
	}
}

// TestMeasure: what is answered and what is not, a context that ends, and a socket that
// does.
func TestMeasure(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-m")
	l := newLine(t, ns, "127.0.0.1:0", secret)
	own := func() *net.UDPConn { return listen(t, ns, "127.0.0.1:0") }
	quick := MeasureOptions{Count: 20, Interval: time.Millisecond, Sender: SenderConfig{Keys: secret}}
	m, err := Measure(t.Context(), own(), l.to, quick)
	if err != nil || m.Sent != 20 || len(m.Replies) != 20 || len(m.Lost) != 0 {
		t.Errorf("%+v: %v", m, err)
	}
	hole := own()
	quick.Sender.Deadline = 20 * time.Millisecond
	m, err = Measure(t.Context(), own(), addrOf(hole), quick)
	if _, _, unknown := m.Loss(); err != nil || m.Sent != 20 || len(m.Replies) != 0 || unknown != 20 {
		t.Errorf("%+v: %v", m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if m, err = Measure(ctx, own(), addrOf(hole), quick); !errors.Is(err, context.Canceled) || m.Sent == 20 {
		t.Errorf("ended: %+v: %v", m, err)
	}
	if _, err = Measure(t.Context(), own(), l.to, MeasureOptions{Probe: SendOptions{Size: 1}}); !errors.Is(err, ErrSize) {
		t.Errorf("of one octet: %v", err)
	}
	closed := own()
	closed.Close()
	if _, err = Measure(t.Context(), closed, l.to, quick); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
