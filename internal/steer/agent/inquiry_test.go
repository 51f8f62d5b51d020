package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/route"
)

const ms = time.Millisecond

// askedPair is a pair of the agent of twoHosts with h2, on m by default.
func askedPair(t *testing.T) (*Agent, *pair, *remoteHost) {
	a, h2 := twoHosts(t)
	l := &pod{Pod: testPod("p", 1, 1, "m", "z"), pairs: map[string]*pair{}}
	q := testPod("q", 2, 1, "m", "z")
	p := &pair{name: "p>q", local: l, remote: q, host: h2, routes: route.Between(l.Pod, q), lines: make([]line, 2)}
	a.pods[l.UID], l.pairs[q.UID] = l, p
	return a, p, h2
}

// TestContradicted: probes that say that a path has failed are not believed where
// a pair knows better.
func TestContradicted(t *testing.T) {
	a, p, h2 := askedPair(t)
	now := a.cfg.Now()
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	m := h2.paths["m"]
	for _, tc := range []struct {
		name     string
		line     line
		no, wait bool
	}{
		{"still silent", line{silent: before(20 * ms)}, false, false},
		{"heard again", line{came: before(2 * ms)}, true, false},
		{"heard again, and silent for a moment", line{silent: before(ms), came: before(2 * ms)}, true, false},
		{"just fallen silent, as a timer told", line{silent: before(15 * ms)}, false, false},
		{"asked", line{silent: before(20 * ms), inquiry: inquiry{begun: before(10 * ms)}}, false, true},
		{"asked, and found to have failed",
			line{silent: before(20 * ms), inquiry: inquiry{begun: before(10 * ms), ripe: now}}, false, false},
		{"an echo passed",
			line{silent: before(20 * ms),
				inquiry: inquiry{shots: []probe.Shot{{Sent: before(5 * ms), Answered: before(4 * ms)}}}}, true, false},
		{"an echo had passed",
			line{silent: before(20 * ms),
				inquiry: inquiry{shots: []probe.Shot{{Sent: before(50 * ms), Answered: before(49 * ms)}}}}, false, false},
	} {
		p.lines[0] = tc.line
		m.suspected, m.since = before(12*ms), before(15*ms)
		if no, wait := a.contradicted(h2, m, now); no != tc.no || wait != tc.wait {
			t.Errorf("%s: no %v, wait %v; want %v, %v", tc.name, no, wait, tc.no, tc.wait)
		}
	}
	// What never ends is not waited for.
	m.suspected = before(time.Second)
	p.lines[0] = line{silent: before(time.Second), inquiry: inquiry{begun: before(20 * ms)}}
	if no, wait := a.contradicted(h2, m, now); no || wait {
		t.Errorf("after a second: no %v, wait %v", no, wait)
	}
}

// TestInquire: only echoes that are known to pass can tell by their silence.
func TestInquire(t *testing.T) {
	now := time.Unix(1000, 0)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tc := range []struct {
		name string
		line line
		want bool
	}{
		{"no echo was ever answered", line{}, false},
		{"one was", line{inquiry: inquiry{answered: before(time.Second)}}, true},
		{"long ago", line{inquiry: inquiry{answered: before(time.Minute)}}, false},
		{"asking already", line{inquiry: inquiry{answered: before(time.Second), begun: before(ms)}}, false},
		{"asked in vain a moment ago", line{inquiry: inquiry{answered: before(time.Second), cleared: before(ms)}}, false},
		{"asked in vain before", line{inquiry: inquiry{answered: before(time.Second), cleared: before(2 * again)}}, true},
		{"mute", line{inquiry: inquiry{answered: before(time.Second)}, mute: before(time.Second)}, false},
	} {
		silent := before(silence)
		tc.line.silent = silent
		if got := tc.line.inquire(now); got != tc.want || got && (tc.line.begun != now || tc.line.since != silent) {
			t.Errorf("%s: %v, want %v (%+v)", tc.name, got, tc.want, tc.line.inquiry)
		}
	}
}

// TestInquiryHears: an answer counts for the echo that it belongs to, once, and
// what the path usually takes is the worst of them, unless that is out of reason.
func TestInquiryHears(t *testing.T) {
	zero := time.Unix(1000, 0)
	q := &inquiry{}
	for i := range 4 {
		q.shots, q.seqs = append(q.shots, probe.Shot{Sent: zero.Add(time.Duration(i) * 2 * ms)}),
			append(q.seqs, uint16(65534+i))
	}
	if q.usual() != 0 || q.passed(zero) {
		t.Errorf("before any answer: usual %v, passed %v", q.usual(), q.passed(zero))
	}
	q.hear(probe.Echo{Seq: 7, At: zero.Add(ms)}) // of none of these
	q.hear(probe.Echo{Seq: 65535, At: zero.Add(3 * ms)})
	q.hear(probe.Echo{Seq: 65535, At: zero.Add(9 * ms)})
	q.hear(probe.Echo{Seq: 0, At: zero.Add(6 * ms)})
	if got := q.usual(); got != 2*ms {
		t.Errorf("usual: %v, want 2ms", got)
	}
	if !q.answered.Equal(zero.Add(6*ms)) || !q.passed(zero.Add(4*ms)) || q.passed(zero.Add(5*ms)) {
		t.Errorf("answered %v; passed since 4 ms %v, since 5 ms %v", q.answered, q.passed(zero.Add(4*ms)),
			q.passed(zero.Add(5*ms)))
	}
	q.hear(probe.Echo{Seq: 1, At: zero.Add(106 * ms)})
	if got := q.usual(); got != patience {
		t.Errorf("usual with an answer after 100 ms: %v, want %v", got, patience)
	}
}

// TestSupersede: what the hosts' probes found is no longer the pair's own affair,
// but what the pair had found before stays.
func TestSupersede(t *testing.T) {
	now := time.Unix(1000, 0)
	since := now.Add(-20 * ms)
	for _, mute := range []time.Time{{}, now.Add(-time.Minute), now.Add(-ms)} {
		ln := line{mute: mute, inquiry: inquiry{begun: since, ripe: now}}
		ln.supersede(since, now)
		if kept := !ln.mute.IsZero(); kept != (mute == now.Add(-time.Minute)) || !ln.begun.IsZero() {
			t.Errorf("mute since %v: kept %v, still asking %v", mute, kept, !ln.begun.IsZero())
		}
	}
}

// TestFirstTimeoutAsks: a connection's first timeouts only raise suspicion where
// echoes can tell.
func TestFirstTimeoutAsks(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		count    uint32
		answered time.Time
		want     bool
	}{
		{1, now.Add(-time.Second), false}, {2, now.Add(-time.Second), false}, {3, now.Add(-time.Second), true},
		{1, time.Time{}, true}, {1, now.Add(-time.Minute), true},
	} {
		ln := line{inquiry: inquiry{answered: tc.answered}}
		if got := ln.outweigh(tc.count, now); got != tc.want {
			t.Errorf("%d in a row, echo answered %v ago: %v, want %v", tc.count, now.Sub(tc.answered), got, tc.want)
		}
	}
}

// TestInquiringIsAList: a pair that asks is followed up for as long as it does, and
// as there is the pair.
func TestInquiringIsAList(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*Agent, *pair, time.Time)
		want int
	}{
		{"it goes on", func(*Agent, *pair, time.Time) {}, 1},
		{"it is over", func(_ *Agent, p *pair, now time.Time) { p.lines[0].end(now) }, 0},
		{"the pair is gone", func(a *Agent, p *pair, now time.Time) { delete(p.local.pairs, p.remote.UID); a.rewatch(now) },
			0},
		{"the pod is gone", func(a *Agent, p *pair, now time.Time) { delete(a.pods, p.local.UID); a.rewatch(now) }, 0},
	} {
		a, p, _ := askedPair(t)
		now := a.cfg.Now()
		p.lines[0].silent, p.lines[0].answered = now.Add(-silence), now.Add(-time.Second)
		for range 2 { // however often it is suspected
			a.suspect(p, 0, now)
		}
		if len(a.inquiring) != 1 {
			t.Fatalf("%d ask, want 1", len(a.inquiring))
		}
		tc.end(a, p, now)
		if got := a.judgeAll(now); got != (tc.want > 0) || len(a.inquiring) != tc.want {
			t.Errorf("%s: under way %v, %d ask, want %d", tc.name, got, len(a.inquiring), tc.want)
		}
	}
}

// TestSpacing: a suspicion that finds no verdict does not go on at the pace at
// which it began.
func TestSpacing(t *testing.T) {
	hp := &hostPath{}
	begin := time.Unix(1000, 0)
	rounds := 0
	for now := begin; now.Before(begin.Add(time.Second)); now = now.Add(suspectTick) {
		if now.Sub(hp.burst) < hp.spacing() {
			continue
		}
		hp.burst, rounds = now, rounds+1
		hp.rounds++
	}
	if least, most := burstRounds, burstRounds+int(time.Second/slowShot); rounds <= least || rounds > most {
		t.Errorf("%d rounds in a second, expected more than %d and at most %d", rounds, least, most)
	}
}

// TestExpected: where traffic has come back its queue may fill as it did before,
// though probes have forgotten that.
func TestExpected(t *testing.T) {
	at := time.Unix(1000, 0)
	hp := &hostPath{network: "m", summary: probe.Summary{P99: 20 * ms}}
	p := &pair{host: &remoteHost{paths: map[string]*hostPath{"m": hp}}, routes: []route.Route{{Network: "m"}},
		lines: make([]line, 1)}
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
		if got := p.expected(0, at.Add(tt.ask)); got != tt.want && (got != 0 || tt.want != patience) {
			t.Errorf("%s: %v of echoes, want %v", tt.name, got, tt.want)
		}
	}
	if got := (*hostPath)(nil).expected(at); got != patience {
		t.Errorf("without agent: %v", got)
	}
}
