package agent

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

// twoHosts is the agent of h1, without pods: it knows h2 on the networks m and z.
func twoHosts(t testing.TB) (a *Agent, h2 *remoteHost) {
	t.Helper()
	now := time.Unix(1000, 0)
	a, err := New(Config{Host: "h1", Keys: oneKey("a key of the test, 32 octets wide"),
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	own, other := topo.Pod{UID: "agent of h1"}, topo.Pod{UID: "agent of h2"}
	h2 = &remoteHost{name: "h2", pod: idOf(other), paths: map[string]*hostPath{}}
	a.members.names, a.wires.self, a.members.remote["h2"] = []string{"m", "z"}, idOf(own), h2
	for i, n := range a.members.names {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i), 2, 9}), stamp.Port)
		h2.paths[n] = &hostPath{Path: detect.New(a.prober.params), host: h2, network: n, to: to, mtu: 1500,
			track: probe.NewTrack(1472, false)}
	}
	return a, h2
}

// TestSignaledFailure: another agent is believed about the paths to its own host,
// if it speaks of the same networks.
func TestSignaledFailure(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*notice)
		want   status
		failed bool
	}{
		{"it says so", func(*notice) {}, statusDone, true},
		{"to somebody else", func(n *notice) { n.to = podID{1} }, statusUnknown, false},
		{"from nobody we know", func(n *notice) { n.from = podID{1} }, statusUnknown, false},
		{"of other networks", func(n *notice) { n.names++ }, statusUnknown, false},
		{"of a network that there is not", func(n *notice) { n.network = 2 }, statusUnknown, false},
		{"about pods", func(n *notice) { n.kind = noticeOpen }, statusUnknown, false},
	} {
		a, h2 := twoHosts(t)
		n := notice{kind: noticeFailed, network: 0, from: h2.pod, to: a.wires.self, names: a.members.dialect()}
		tc.change(&n)
		answer, err := decodeNotice(a.respondent.handleNotice(stamp.TLV{Type: noticeType, Value: n.encode()}))
		if err != nil || answer.status != tc.want {
			t.Errorf("%s: answered %d, %v, want %d", tc.name, answer.status, err, tc.want)
		}
		if failed := h2.paths["m"].Down(); failed != tc.failed || h2.paths["z"].Down() {
			t.Errorf("%s: m failed: %v, z failed: %v", tc.name, failed, h2.paths["z"].Down())
		}
	}
	a, _ := twoHosts(t)
	for _, tlv := range []stamp.TLV{{Type: noticeType + 1, Value: someNotice().encode()}, {Type: noticeType},
		{Type: noticeType, Value: make([]byte, noticeSize)}} {
		if answer := a.respondent.handleNotice(tlv); answer != nil {
			t.Errorf("type %d with %d octets is answered: %x", tlv.Type, len(tlv.Value), answer)
		}
	}
}

// TestRecovery: a failed path is well again after answers in a row, a lost one begins the row again, and a late one
// does not count.
func TestRecovery(t *testing.T) {
	a, h2 := twoHosts(t)
	m := h2.paths["m"]
	m.Signaled(a.cfg.Now().Add(-3 * time.Second))
	wellAfter := a.prober.params.AnswersInARow
	now, seq := a.cfg.Now(), uint32(0)
	reply := func(seq uint32, sent time.Time, late bool) {
		a.prober.answered("m", stamp.Reply{From: m.to, Seq: seq, RTT: time.Millisecond, SentAt: sent, At: now, Late: late,
			DSCPSeen: mark, ReplyDSCP: mark})
	}
	answer := func() {
		seq++
		m.Sent(seq, now)
		reply(seq, now, false)
	}
	for range wellAfter - 1 {
		answer()
	}
	lost := now
	m.Lost(lost) // as receive does with a loss
	now = now.Add(ms)
	for i := range uint32(wellAfter - 1) {
		answer()
		reply(1+i, lost, true)
	}
	if !m.Down() {
		t.Fatal("well again too soon")
	}
	answer()
	if m.Down() {
		t.Fatal("still failed")
	}
	if e := a.journal.last(); e.Kind != EventCleared || e.To != "m" ||
		!strings.Contains(e.Reason, "answers again, after 3s") {
		t.Errorf("event: %+v", e)
	}
}

// TestMarkThatIsLost: whichever way it is lost, the path is unfit until it is not.
func TestMarkThatIsLost(t *testing.T) {
	const hint = "; encapsulated it could be used"
	for _, tc := range []struct {
		there, back int
		want        string
	}{{mark, mark, ""}, {-1, mark, ""}, {mark, -1, ""}, {0, 0, "arrived as 0" + hint}, {8, mark, "arrived as 8" + hint},
		{mark, 46, "arrived as 46" + hint}} {
		a, h2 := twoHosts(t)
		m := h2.paths["m"]
		a.prober.answered("m", stamp.Reply{From: m.to, At: a.cfg.Now(), DSCPSeen: tc.there, ReplyDSCP: tc.back})
		if !strings.HasSuffix(m.unfit, tc.want) || tc.want == "" && m.unfit != "" {
			t.Errorf("there %d, back %d: %q, want %q", tc.there, tc.back, m.unfit, tc.want)
		}
		a.prober.answered("m", stamp.Reply{From: m.to, At: a.cfg.Now(), DSCPSeen: mark, ReplyDSCP: mark})
		if m.unfit != "" {
			t.Errorf("still unfit: %q", m.unfit)
		}
		a.members.Cluster.Encapsulated = []string{"m"} // the mark is inside, whatever happens to the outer one
		a.prober.answered("m", stamp.Reply{From: m.to, At: a.cfg.Now(), DSCPSeen: tc.there, ReplyDSCP: tc.back})
		if m.unfit != "" {
			t.Errorf("unfit, though encapsulated: %q", m.unfit)
		}
	}
}

// TestWarningsAreBounded: one fault is told once a minute, others at once.
func TestWarningsAreBounded(t *testing.T) {
	a, _ := twoHosts(t)
	now := a.cfg.Now()
	a.journal.cfg.Now = func() time.Time { return now }
	for range 100 {
		a.warn("a fault of %s", "the same")
		now = now.Add(500 * time.Millisecond)
	}
	a.warn("another")
	if id := a.journal.last().ID; id != 2 {
		t.Errorf("%d warnings, want 2", id)
	}
	now = now.Add(time.Minute)
	a.warn("a fault of the same")
	if id := a.journal.last().ID; id != 3 || len(a.warned) != 1 {
		t.Errorf("a minute later: %d warnings, %d remembered", id, len(a.warned))
	}
}
