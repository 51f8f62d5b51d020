package stamp

import (
	"testing"
	"time"
)

// TestPolled: replies wait in the socket until they are asked for, and are told of
// as if they had been read when they came; so are those that never came. The socket
// is the sender's to close.
func TestPolled(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-polled")
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l := newLine(t, ns, at, secret)
		conn := listen(t, ns, at)
		var replies []Reply
		var lost []Lost
		s, err := NewSender(conn, SenderConfig{Keys: secret, SameClock: true, Deadline: time.Hour, Polled: true,
			OnReply: func(r Reply) { replies = append(replies, r) }, OnLost: func(x Lost) { lost = append(lost, x) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err == nil {
			t.Error("the socket is still its maker's")
		}
		to := l.to
		if at == "[::]:0" { // IPv4 by a socket of IPv6
			to = addrTo("127.0.0.1", to.Port())
		}
		sent, err := s.Send(to, SendOptions{Size: 700, DSCP: 46, ClassOfService: true, ReplyDSCP: 46, TLVs: notice()})
		if err != nil || !s.Waiting() {
			t.Fatalf("%s: sent %+v, %v", at, sent, err)
		}
		for l.r.Counters().Reflected == 0 {
			time.Sleep(time.Millisecond)
		}
		before := time.Now()
		for len(replies) == 0 { // it is counted before it is sent
			if at, err := s.Drain(); err != nil || at.Before(before) {
				t.Fatalf("drained until %v: %v", at, err)
			}
		}
		if r := replies[0]; s.Waiting() || r.From != to || r.Seq != sent.Seq || r.Size != 700 || r.DSCPSeen != 46 ||
			r.ReplyDSCP != 46 || len(r.TLVs) != 1 || r.Late {
			t.Errorf("%s: %+v", at, r)
		}
		hole := listen(t, ns, at)
		if sent, err = s.Send(addrTo(to.Addr().String(), addrOf(hole).Port()), SendOptions{}); err != nil {
			t.Fatal(err)
		}
		if s.Expire(sent.At); len(lost) != 0 {
			t.Errorf("%s: lost at once", at)
		}
		if s.Expire(sent.At.Add(time.Hour)); len(lost) != 1 || lost[0].Seq != sent.Seq || s.Waiting() {
			t.Errorf("%s: lost %+v", at, lost)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Send(to, SendOptions{}); err == nil {
			t.Errorf("%s: sends when it is closed", at)
		}
	}
}
