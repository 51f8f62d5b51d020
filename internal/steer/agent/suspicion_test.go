package agent

import (
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/route"
)

const ms = time.Millisecond

// onePair is a pair of the agent of twoHosts with h2, on m by default.
func onePair(t testing.TB) (*Agent, *pair, *remoteHost) {
	a, h2 := twoHosts(t)
	l := &pod{Pod: testPod("p", 1, 1, "m", "z"), pairs: map[string]*pair{}}
	q := testPod("q", 2, 1, "m", "z")
	p := &pair{name: "p>q", local: l, remote: q, host: h2, routes: route.Between(l.Pod, q),
		lines: newLines(2, a.pairs.params)}
	a.members.pods[l.UID], l.pairs[q.UID] = l, p
	return a, p, h2
}

// TestOpinionOfPairs: probes that say that a path has failed are not believed where a
// pair knows better.
func TestOpinionOfPairs(t *testing.T) {
	a, p, h2 := onePair(t)
	now := a.cfg.Now()
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	m := h2.paths["m"]
	m.Suspect(before(15*ms), before(12*ms))
	type echo struct{ sent, answered time.Duration } // before now
	for _, tc := range []struct {
		name      string
		silent    time.Duration // since then, 0 for not
		suspected time.Duration // by the pair
		failing   bool          // so its echoes say
		left      bool          // for that
		echo      echo
		want      detect.Opinion
	}{
		{"still silent", 20 * ms, 0, false, false, echo{}, detect.Agrees},
		{"a packet came again", 0, 0, false, false, echo{}, detect.Denies},
		{"a packet came again, and silent for a moment", ms, 0, false, false, echo{}, detect.Denies},
		{"just fallen silent, as a timer told", 15 * ms, 0, false, false, echo{}, detect.Agrees},
		{"asked", 20 * ms, 10 * ms, false, false, echo{}, detect.Undecided},
		{"asked, and found to have failed", 20 * ms, 10 * ms, true, false, echo{}, detect.Agrees},
		{"asked, found to have failed, and left", 0, 10 * ms, true, true, echo{}, detect.Agrees},
		{"an echo passed", 20 * ms, 0, false, false, echo{5 * ms, 4 * ms}, detect.Denies},
		{"an echo had passed", 20 * ms, 0, false, false, echo{50 * ms, 49 * ms}, detect.Agrees},
	} {
		ln := &newLines(1, a.pairs.params)[0]
		if tc.silent > 0 {
			ln.silence.Since = before(tc.silent)
		}
		if tc.suspected > 0 {
			ln.Suspect(before(tc.silent), before(tc.suspected))
		}
		if tc.failing {
			findFailing(&ln.Path, before(tc.suspected), now)
		}
		if tc.left {
			ln.Confirm(now, detect.Agrees)
		}
		if tc.echo.sent > 0 {
			ln.Sent(1, before(tc.echo.sent))
			ln.Answer(detect.Shot{Seq: 1, Sent: before(tc.echo.sent), Answered: before(tc.echo.answered)}, false)
		}
		p.lines[0] = *ln
		if got := a.hosts.opinion(m, now); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// findFailing has a suspected path found to fail, by three probes from then on and a
// witness.
func findFailing(p *detect.Path, from, now time.Time) {
	w := detect.Witness{Name: "z"}
	for i := range uint32(3) {
		at := from.Add(time.Duration(i) * ms)
		p.Sent(i, at)
		w.Shots = append(w.Shots, detect.Shot{Sent: at, Answered: at.Add(ms / 10)})
	}
	p.Tick(now, detect.Evidence{Until: now, Witnesses: []detect.Witness{w}})
}

// TestWitnessOnAFullPath: an echo is prompt that takes as long as probes do on its path now, though
// none of the pair's did before.
func TestWitnessOnAFullPath(t *testing.T) {
	for _, tc := range []struct {
		name  string
		probe time.Duration // the hosts' round trip on the witness' path
		want  bool
	}{
		{"full", 20 * ms, true},
		{"not full, and late", ms, false},
	} {
		a, p, h2 := onePair(t)
		now := a.cfg.Now()
		z, m := h2.paths["z"], &p.lines[0]
		z.rtts[0], z.nRTT = tc.probe, 1
		for i := range uint32(8) { // in calm
			sent := now.Add(-time.Duration(8-i) * calmly)
			p.lines[1].Sent(100+i, sent)
			p.lines[1].Answer(detect.Shot{Seq: 100 + i, Sent: sent, Answered: sent.Add(ms)}, false)
		}
		m.Suspect(now.Add(-106*ms), now.Add(-100*ms))
		for i := range uint32(3) {
			sent := now.Add(time.Duration(2*i)*ms - 100*ms)
			m.Sent(i, sent)
			p.lines[1].Sent(10+i, sent)
			p.lines[1].Answer(detect.Shot{Seq: 10 + i, Sent: sent, Answered: sent.Add(25 * ms)}, false)
		}
		m.Tick(now, a.pairs.evidence(p, 0, now))
		if got := m.State() == detect.Confirming; got != tc.want {
			t.Errorf("%s: failing %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestRefusedForARoundTrip: where packets pass and an echo did not, echoes tell nothing until the
// next one is answered, which goes out in the same moment.
func TestRefusedForARoundTrip(t *testing.T) {
	a, p, _ := onePair(t)
	now, ln := a.cfg.Now(), &p.lines[0]
	echoed := now.Add(-calmly)
	ln.Answer(detect.Shot{Answered: echoed.Add(-calmly)}, false)
	ln.Sent(1, echoed) // and lost
	ln.echoedAt, ln.received.Packets, p.active = echoed, 1, now
	if !ln.Telling(now) {
		t.Fatal("not known for two turns")
	}
	a.pairs.probePair(p, now)
	if ln.Telling(now) {
		t.Error("packets pass and echoes do not, and these are believed")
	}
	ln.Sent(2, now) // by that call, where the pod has a socket for it
	ln.Answer(detect.Shot{Seq: 2, Sent: now, Answered: now.Add(ms)}, false)
	if !ln.Telling(now.Add(ms)) {
		t.Error("not believed again with the next answer")
	}
}

// TestOpinionOfHosts: a pair leaves a path to the hosts that they suspect, or have found
// to fail; and as long as packets of others come over it, or some of the hosts' probes are answered, they wait until
// it is clear that the pair's alone are lost: both may be in one queue.
func TestOpinionOfHosts(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(m *hostPath, other *pair, now time.Time)
		want detect.Opinion
		why  string
	}{
		{"well", func(*hostPath, *pair, time.Time) {}, detect.Agrees, "tell nothing"},
		{"suspected", func(m *hostPath, _ *pair, now time.Time) { m.Suspect(now, now) }, detect.Undecided,
			"probes do is not clear"},
		{"found to fail", func(m *hostPath, _ *pair, now time.Time) { m.Signaled(now) }, detect.Denies, ""},
		{"another's packet came since", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came = now.Add(-ms)
		}, detect.Passing, "though packets of others do"},
		{"another's came, which sends nothing", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.lines[0].sent = now.Add(-ms), dataplane.Tally{}
		}, detect.Agrees, "tell nothing"},
		{"another's came, which sends elsewhere", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.lines[0].sent = now.Add(-ms), dataplane.Tally{}
			other.lines[1].sent.Packets = 1
		}, detect.Agrees, "tell nothing"},
		{"another's came, which has found the path to fail", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came = now.Add(-ms)
			other.lines[0].Signaled(now)
		}, detect.Agrees, "tell nothing"},
		{"another's came before", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came = now.Add(-20 * ms)
		}, detect.Agrees, "tell nothing"},
		{"another's bulk came before", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.gaps.shared.most = now.Add(-20*ms), 25*ms
		}, detect.Passing, "packets of others do is not clear"},
		{"another's bulk came before, which has just come to the path", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.gaps.shared.most = now.Add(-20*ms), ms
			other.lines[0].Used(time.Second, now.Add(-250*ms))
		}, detect.Passing, "packets of others do is not clear"},
		{"another's bulk came before, which has been there for a while", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.gaps.shared.most = now.Add(-20*ms), ms
			other.lines[0].Used(time.Second, now.Add(-350*ms))
		}, detect.Agrees, "tell nothing"},
		{"another's came before, which is slow on this path alone", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.gaps.shared.most, other.lines[0].gaps.shared.most = now.Add(-20*ms), ms, 25*ms
		}, detect.Passing, "packets of others do is not clear"},
		{"another's came before, little of which has just come to the path", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came = now.Add(-20 * ms)
			other.lines[0].Used(time.Second, now.Add(-250*ms))
		}, detect.Agrees, "tell nothing"},
		{"its host is not probed there", func(m *hostPath, other *pair, now time.Time) {
			delete(other.host.paths, m.network)
		}, detect.Agrees, "where its host is not probed"},
		{"another's bulk came long before", func(_ *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came, other.gaps.shared.most = now.Add(-30*ms), 25*ms
		}, detect.Agrees, "tell nothing"},
		{"... and all probes were answered that went since", func(m *hostPath, other *pair, now time.Time) {
			other.lines[0].silence.Came = now.Add(-ms)
			probed(m, now, true, true, true, true, true, true, true)
		}, detect.Agrees, "though the hosts' probes do"},
		{"one probe was answered that went since", func(m *hostPath, _ *pair, now time.Time) {
			probed(m, now, true)
		}, detect.Passing, "though some of the hosts' probes do"},
		{"one was, and those before were not", func(m *hostPath, _ *pair, now time.Time) {
			probed(m, now, false, false, false, false, false, false, true)
		}, detect.Passing, "though some of the hosts' probes do"},
	} {
		a, p, h2 := onePair(t)
		now := a.cfg.Now()
		other := &pair{local: p.local, remote: testPod("r", 2, 2, "m", "z"), host: h2, routes: p.routes,
			lines: newLines(2, a.pairs.params)}
		other.lines[0].sent.Packets = 1
		p.local.pairs[other.remote.UID] = other
		ln := &p.lines[0]
		ln.Suspect(now.Add(-16*ms), now.Add(-10*ms))
		findFailing(&ln.Path, now.Add(-10*ms), now)
		tc.do(h2.paths["m"], other, now)
		got, why := a.pairs.opinion(p, 0, now)
		if got != tc.want || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
			t.Errorf("%s: %v, %s; want %v, %s", tc.name, got, why, tc.want, tc.why)
		}
	}
}

// probed has the hosts' probes be answered at once or not, the latest three milliseconds ago.
func probed(m *hostPath, now time.Time, answered ...bool) {
	for i, passed := range answered {
		sent := now.Add(-3*ms - time.Duration(len(answered)-1-i)*ms)
		m.Sent(uint32(i), sent)
		if passed {
			m.Answer(detect.Shot{Seq: uint32(i), Sent: sent, Answered: sent.Add(ms / 10)}, false)
		}
	}
}

// TestSuspectingIsAList: a pair that asks is followed up for as long as it does, and
// as there is the pair.
func TestSuspectingIsAList(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*Agent, *pair, time.Time)
		want int
	}{
		{"it goes on", func(*Agent, *pair, time.Time) {}, 1},
		{"it is over", func(_ *Agent, p *pair, now time.Time) { p.lines[0].Overrule(time.Time{}, now) }, 0},
		{"the pair is gone", func(a *Agent, p *pair, _ time.Time) { a.members.leave(p) }, 0},
		{"the pod is gone", func(a *Agent, p *pair, _ time.Time) { a.members.remove(p.local) }, 0},
	} {
		a, p, _ := onePair(t)
		now := a.cfg.Now()
		p.lines[0].silence.Since = now.Add(-a.pairs.params.Silence)
		p.lines[0].Answer(detect.Shot{Answered: now.Add(-time.Second)}, false)
		for range 2 { // however often it is suspected
			a.pairs.suspect(p, 0, now)
		}
		if len(a.pairs.suspecting) != 1 {
			t.Fatalf("%d ask, want 1", len(a.pairs.suspecting))
		}
		tc.end(a, p, now)
		a.pairs.poll(now)
		if got := a.pairs.judge(now); got != (tc.want > 0) || len(a.pairs.suspecting) != tc.want {
			t.Errorf("%s: under way %v, %d ask, want %d", tc.name, got, len(a.pairs.suspecting), tc.want)
		}
	}
}

// TestExpected: where traffic has come back its queue may fill as it did before,
// though probes have forgotten that.
func TestExpected(t *testing.T) {
	at := time.Unix(1000, 0)
	hosts, pairs := detect.Hosts(), detect.Pairs()
	hp := &hostPath{Path: detect.New(&hosts), network: "m", summary: probe.Summary{P99: 20 * ms}}
	refills, patience, queueMost := hosts.Refills, hosts.WorstMost, hosts.QueueMost
	p := &pair{host: &remoteHost{paths: map[string]*hostPath{"m": hp}}, routes: []route.Route{{Network: "m"}},
		lines: newLines(1, &pairs)}
	p.use(0, at)
	for _, tt := range []struct {
		name string
		use  time.Duration // packets went, besides at 0
		p99  time.Duration
		ask  time.Duration
		want time.Duration
	}{
		{"first traffic", 0, 20 * ms, ms, 20 * ms},
		{"traffic for long", 40 * ms, 20 * ms, refills + 40*ms, patience},
		{"back after a lull", 120 * ms, 20 * ms, 600 * ms, 20 * ms},
		{"as full as never", 240 * ms, time.Second, 700 * ms, queueMost},
		{"never full", 360 * ms, ms, 800 * ms, ms},
		{"back for long", 400 * ms, 20 * ms, 900 * ms, patience},
	} {
		hp.summary.P99 = tt.p99
		p.use(0, at.Add(tt.use))
		if got := hp.expected(at.Add(tt.ask)); got != tt.want {
			t.Errorf("%s: %v between hosts, want %v", tt.name, got, tt.want)
		}
		if got := p.expected(0, at.Add(tt.ask)); got != tt.want {
			t.Errorf("%s: %v of echoes, want %v", tt.name, got, tt.want)
		}
	}
}

// TestExpectedBehindBulk: echoes wait in a queue that is the pair's alone, of which its connections tell. Those that
// carry little may have waited for an acknowledgment that was delayed.
func TestExpectedBehindBulk(t *testing.T) {
	at := time.Unix(1000, 0)
	params := detect.Pairs()
	for _, tt := range []struct {
		name     string
		gap      time.Duration
		reported time.Duration // ago
		srtt     time.Duration
		want     time.Duration
	}{
		{"bulk", 30 * ms, 100 * ms, 35 * ms, 35 * ms},
		{"bulk in a deeper queue than is none", 30 * ms, 100 * ms, time.Second, params.QueueMost},
		{"bulk of which nothing was told lately", 30 * ms, 2 * time.Second, 35 * ms, 0},
		{"little", 0, 100 * ms, 35 * ms, 0},
	} {
		p := &pair{host: &remoteHost{}, routes: []route.Route{{Network: "m"}}, lines: newLines(1, &params)}
		p.gaps.own.most = tt.gap
		p.lines[0].reportedAt, p.lines[0].figures.SRTT = at.Add(-tt.reported), tt.srtt
		if got := p.expected(0, at); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
