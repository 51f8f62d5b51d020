package agent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

// someHosts are remote hosts with three paths each, as they are after use: the
// traffic takes the first path.
func someHosts(n int, now time.Time, use func(*remoteHost)) map[string]*remoteHost {
	out, params := map[string]*remoteHost{}, detect.Hosts()
	for i := range n {
		h := &remoteHost{name: fmt.Sprintf("h%d", i), paths: map[string]*hostPath{}}
		for _, network := range []string{"m", "x", "z"} {
			h.paths[network] = &hostPath{Path: detect.New(&params), network: network}
		}
		use(h)
		if !h.used.IsZero() {
			h.paths["m"].busy = h.used
		}
		out[h.name] = h
	}
	return out
}

// TestProbePace: how often the paths of so many hosts are probed, by the times at
// which probes are due in two minutes, after a while.
func TestProbePace(t *testing.T) {
	zero := time.Unix(1000, 0)
	always := zero.Add(time.Hour) // in use for as long as this lasts
	n := 0
	owner := func(h *remoteHost) { h.used, h.owned = always, always }
	for _, tc := range []struct {
		name           string
		hosts          int
		use            func(*remoteHost)
		most           float64       // probes a second in all
		active, others time.Duration // the longest between two of a path
	}{
		{"one host", 1, owner, 20, probeActive, probeStandby},
		{"few hosts", 3, owner, 45, 200 * ms, 200 * ms},
		{"fifty hosts", 50, owner, 50, 3 * time.Second, 3 * time.Second},
		{"as many as follow", 50, func(h *remoteHost) { h.used = always }, 30, probeFollower, probeFollower},
		{"one that follows", 1, func(h *remoteHost) { h.used = always }, 0.6, probeFollower, probeFollower},
		{"one with traffic before", 1,
			func(h *remoteHost) { h.used, h.owned = zero.Add(-time.Minute), zero.Add(-time.Minute) }, 0.3, probeIdle, probeIdle},
		{"a thousand of these", 1000, func(h *remoteHost) {
			h.used = zero.Add(-time.Minute)
			for _, hp := range h.paths {
				n++
				hp.next = zero.Add(time.Duration(n) * probeIdleShare)
			}
		}, 5, 0, 0},
		{"without traffic ever", 1000, func(*remoteHost) {}, 0, 0, 0},
		{"with traffic long ago", 10, func(h *remoteHost) { h.used = zero.Add(-warmFor) }, 0, 0, 0},
		{"failed when there was traffic", 10, func(h *remoteHost) {
			h.used = zero.Add(-time.Hour)
			h.paths["x"].Signaled(zero.Add(-time.Hour))
			h.down = true // as is found within a second
		}, 1, 0, 0},
	} {
		remote := someHosts(tc.hosts, zero, tc.use)
		sent, last := 0, map[*hostPath]time.Time{}
		longest := map[bool]time.Duration{}
		for now := zero; now.Before(zero.Add(140 * time.Second)); now = now.Add(epoch) {
			all := dueProbes(warm(remote, now), now)
			if len(all) > probesAtOnce {
				t.Fatalf("%s: %d probes at once", tc.name, len(all))
			}
			for _, d := range all {
				d.hp.next, d.hp.sent = d.next, d.hp.sent+1
				if now.Sub(zero) < 20*time.Second {
					last[d.hp] = now
					continue
				}
				sent++
				first := d.hp.network == "m"
				longest[first], last[d.hp] = max(longest[first], now.Sub(last[d.hp])), now
			}
		}
		if rate := float64(sent) / 120; rate > tc.most*1.02+0.05 || rate < tc.most*0.9 {
			t.Errorf("%s: %.2f probes a second, want %v", tc.name, rate, tc.most)
		}
		// What is due between two periods goes with the next.
		if tc.active > 0 && (longest[true] > tc.active+epoch || longest[false] > tc.others+epoch) {
			t.Errorf("%s: %v and %v between two, want %v and %v", tc.name, longest[true], longest[false], tc.active, tc.others)
		}
	}
}

// TestPaceOfNow: a path that becomes busy does not wait for when it would have been
// due, nor does one whose fellows fall idle.
func TestPaceOfNow(t *testing.T) {
	now := time.Unix(1000, 0)
	remote := someHosts(1, now, func(h *remoteHost) { h.used, h.owned = now, now })
	for _, hp := range remote["h0"].paths {
		hp.next = now.Add(9 * time.Second)
	}
	if got := dueProbes(warm(remote, now), now); len(got) != 3 || !got[0].next.After(now) {
		t.Errorf("due: %+v, want all three paths", got)
	}
}

// TestNewPathsGoFirst: where many are due, those never probed go before those that
// were, and what is left over goes with the next period.
func TestNewPathsGoFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	remote := someHosts(50, now, func(h *remoteHost) { h.used, h.owned = now, now })
	for _, hp := range remote["h7"].paths {
		hp.next = now.Add(-time.Second)
	}
	for name := range remote["h8"].paths {
		remote["h8"].paths[name].next = now.Add(time.Second)
	}
	seen := map[string]int{}
	for i := range 25 {
		for _, d := range dueProbes(warm(remote, now), now) {
			d.hp.next = d.next
			seen[d.hp.network]++
			if i < 24 && slices.Contains([]*hostPath{remote["h7"].paths["m"], remote["h8"].paths["m"]}, d.hp) {
				t.Errorf("period %d: a path that was probed before goes before new ones", i)
			}
		}
	}
	if seen["m"]+seen["x"]+seen["z"] != 147 {
		t.Errorf("%v in 25 periods, want all paths but those of h8, once", seen)
	}
}

// TestLookAgain: the counters of a pair with little traffic are looked at when
// silence could be found, those of a stream more often.
func TestLookAgain(t *testing.T) {
	silence := detect.Pairs().Silence
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name   string
		silent time.Duration // for so long, 0 not at all
		stream bool
		want   time.Duration
	}{
		{"nothing outstanding", 0, false, slowTick},
		{"a packet just went", time.Microsecond, false, silence - time.Microsecond},
		{"one went a while ago", 4 * ms, false, 2 * ms},
		{"it is nearly due", silence - time.Microsecond, false, suspectTick},
		{"it was found to mean nothing", silence, false, fastTick},
		{"long so", time.Second, false, fastTick},
		{"a stream", 0, true, fastTick},
		{"a stream without answer yet", time.Microsecond, true, fastTick},
	} {
		ln := line{}
		if tc.silent > 0 {
			ln.silence.Since = now.Add(-tc.silent)
		}
		if got := ln.lookAgain(silence, now, tc.stream); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestLeisure: what can wait does not crowd one period.
func TestLeisure(t *testing.T) {
	a, _ := twoHosts(t)
	for range 2 {
		n := 0
		for range 100 {
			if a.leisure.take() {
				n++
			}
		}
		if n != leisurely {
			t.Errorf("%d at once, want %d", n, leisurely)
		}
		a.weigh(a.cfg.Now()) // the next period
	}
}

// TestSummariseWhatIsNew: probes of which nothing is new are not summed up again.
func TestSummariseWhatIsNew(t *testing.T) {
	a, h2 := twoHosts(t)
	now := a.cfg.Now()
	m := h2.paths["m"]
	a.prober.summarise(now)
	if !m.summed.IsZero() {
		t.Error("summed up before the first answer")
	}
	answer := func() {
		a.prober.answered("m", stamp.Reply{From: m.to, RTT: ms, At: now, DSCPSeen: mark, ReplyDSCP: mark})
	}
	answer()
	for _, tc := range []struct {
		after  time.Duration
		answer bool
		want   bool
	}{{0, false, true}, {2 * time.Second, false, false}, {3 * time.Second, true, true}, {3100 * ms, true, false},
		{4 * time.Second, false, true}} {
		if tc.answer {
			answer()
		}
		at := now.Add(tc.after)
		a.prober.summarise(at)
		if got := m.summed.Equal(at); got != tc.want {
			t.Errorf("after %v: summed up %v, want %v", tc.after, got, tc.want)
		}
	}
	if m.summary.Answered != 3 {
		t.Errorf("%d answers, want 3", m.summary.Answered)
	}
}

// TestRenewal: what the other agent has confirmed it is asked about on one path,
// and on all of them where no answer came; a bounded number at once.
func TestRenewal(t *testing.T) {
	a, p, h2 := onePair(t)
	now := a.cfg.Now()
	a.cfg.Now = func() time.Time { return now }
	for _, network := range a.members.names {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sender, err := stamp.NewSender(conn, stamp.SenderConfig{Keys: a.turnover.ring.Keys()})
		if err != nil {
			t.Fatal(err)
		}
		h2.paths[network].wire = &wire{network: network, mtu: 1500, sender: sender}
		h2.paths[network].to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 9) // discard
	}
	for _, tc := range []struct {
		after   time.Duration
		confirm bool // the answer to the question
		want    uint64
	}{
		{0, true, 2}, {4 * time.Second, false, 0}, {5 * time.Second, false, 1}, {5100 * ms, false, 0}, {5200 * ms, true, 2},
		{11 * time.Second, true, 1}, {17 * time.Second, false, 1},
	} {
		now = time.Unix(1000, 0).Add(tc.after)
		before := a.wires.notices
		a.agreement.open(p, now)
		if got := a.wires.notices - before; got != tc.want {
			t.Errorf("after %v: asked on %d paths, want %d", tc.after, got, tc.want)
		}
		if tc.confirm {
			p.opened = now
		}
	}
	p.opened, p.openSentAt = now.Add(-renew), now.Add(-renew)
	a.leisure.taken, a.agreement.turns = leisurely, turns{turnsMost, 0, turnsMost}
	before := a.wires.notices
	if a.agreement.open(p, now); a.wires.notices != before || !p.openSentAt.Before(now) {
		t.Error("it does not wait for the next period")
	}
	p.opened, p.openTries = time.Time{}, 0
	if a.agreement.open(p, now); a.wires.notices != before+2 {
		t.Error("what was never confirmed waits")
	}
	// Who has had no turn was not asked without an answer.
	p.opened, p.openSentAt = now.Add(-5*renew), now.Add(-6*renew)
	if a.agreement.open(p, now); p.opened.IsZero() {
		t.Error("a confirmation ends that nobody was asked to renew")
	}
	p.openSentAt = now.Add(-4 * renew)
	if a.agreement.open(p, now); !p.opened.IsZero() {
		t.Error("it was asked without an answer for long")
	}
	// Each was a probe of its path.
	m := h2.paths["m"]
	m.next, m.pace = now, 3*time.Second
	if a.wires.tellOver(m, someNotice()); !m.next.Equal(now.Add(m.pace)) {
		t.Errorf("the next regular probe is due %v after a notice, want %v", m.next.Sub(now), m.pace)
	}
}

// TestManyPairsAsk: of thousands of pairs few ask in one period, and of those that are
// confirmed none loses that for want of a turn. Fails if each asks when it likes, or if the
// turns of some are taken by others.
func TestManyPairsAsk(t *testing.T) {
	a, _, h2 := onePair(t)
	now := a.cfg.Now()
	a.cfg.Now = func() time.Time { return now }
	var l *pod
	for _, l = range a.members.pods {
		break
	}
	clear(l.pairs)
	const many = 1000
	for i := range 2 * many { // half of them are never answered
		name := fmt.Sprint("many-", i)
		p := &pair{name: name, local: l, remote: testPod(name, 2, 1, "z"), host: h2, routes: []route.Route{{Network: "z"}},
			lines: newLines(1, a.pairs.params), traffic: traffic{active: now}}
		if i < many {
			p.opened = now.Add(-time.Duration(i) * renew / many)
		}
		l.pairs[name] = p
	}
	for range 220 { // periods
		now = now.Add(epoch)
		a.agreement.turns = turns{}
		sent := 0
		for _, p := range l.pairs {
			was := p.openSentAt
			if a.agreement.open(p, now); p.openSentAt != was {
				sent++
				if !p.opened.IsZero() {
					p.opened, p.openTries = now, 0
				}
			}
		}
		if sent > 3*turnsMost {
			t.Fatalf("%d sent in one period", sent)
		}
	}
	confirmed, never := 0, 0
	for _, p := range l.pairs {
		if !p.opened.IsZero() {
			confirmed++
		} else if p.openTries == 0 {
			never++
		}
	}
	if confirmed != many || never > many/10 {
		t.Errorf("%d of %d are confirmed; %d of those that were not were never asked", confirmed, many, never)
	}
}

// TestSyncHosts: hosts are new where the description or the agent's links are others. Meanwhile it is noted which
// of those with traffic has a path that has failed.
func TestSyncHosts(t *testing.T) {
	a, h2 := twoHosts(t)
	clear(h2.paths)
	now := a.cfg.Now()
	a.wires.links["m"], a.wires.links["z"] = &wire{mtu: 1500}, &wire{mtu: 1500}
	other := testPod("agent-h2", 2, 9, "m", "z")
	d := &description{Cluster: Cluster{Hosts: []topo.Host{{Index: 2, Name: "h2"}}}, agents: map[int]*topo.Pod{2: &other}}
	a.prober.syncHosts(d, now)
	made := h2.paths["m"]
	if h2.pod != idOf(other) || made == nil || made.wire != a.wires.links["m"] || h2.down {
		t.Fatalf("%+v", h2)
	}
	delete(h2.paths, "m")
	a.prober.syncHosts(d, now)
	if h2.paths["m"] != nil {
		t.Error("made again though nothing is another")
	}
	a.wires.changes++
	if a.prober.syncHosts(d, now); h2.paths["m"] == nil {
		t.Error("not made again as links have changed")
	}
	h2.used = now
	h2.paths["m"].Signaled(now)
	if a.prober.syncHosts(d, now); !h2.down {
		t.Error("a path has failed, and that is not noted")
	}
	again := *d
	delete(h2.paths, "z")
	if a.prober.syncHosts(&again, now); h2.paths["z"] == nil || !h2.down {
		t.Error("another description changes nothing")
	}
	before := h2.paths["z"]
	other.Attachments[1].MTU -= 100
	changed := *d
	if a.prober.syncHosts(&changed, now); h2.paths["z"] == before {
		t.Error("a path whose MTU is another is taken for the same")
	}
	gone := description{Cluster: Cluster{Hosts: []topo.Host{{Index: 3, Name: "h3"}}}, agents: map[int]*topo.Pod{3: &other}}
	a.prober.syncHosts(&gone, now)
	host, _ := a.members.path("m", other.Attachments[0].Addr)
	if host == nil || host.name != "h3" || len(a.members.remote) != 1 {
		t.Errorf("the address of a host that has gone is %v's", host)
	}
}

// TestWarm: a host that had no traffic for long is probed from the next period on as it has some.
func TestWarm(t *testing.T) {
	a, p, h2 := onePair(t)
	now := a.cfg.Now()
	a.prober.probeAll(now)
	if len(a.prober.warm) > 0 {
		t.Error("a host without traffic is probed")
	}
	h2.used = now.Add(-time.Hour)
	a.members.woken = a.members.woken || p.host.cold(now)
	h2.used = now
	if a.prober.probeAll(now.Add(epoch)); len(a.prober.warm) != 1 {
		t.Error("a host with traffic is not probed")
	}
	if a.prober.probeAll(now.Add(epoch + warmFor)); len(a.prober.warm) > 0 {
		t.Error("a host that has gone silent is probed for ever")
	}
}
