package agent

import (
	"math"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

func twoPaths(active string, z, m decide.Condition) decide.PairEvidence {
	return decide.PairEvidence{Default: "z", Active: active,
		Paths: []decide.PathEvidence{{Network: "z", State: z}, {Network: "m", State: m}}}
}

// TestKeepPinned: only failure moves a pinned pair, and it comes back.
func TestKeepPinned(t *testing.T) {
	p := &pair{placement: placement{pinned: "m"}}
	for _, tc := range []struct {
		name     string
		ev       decide.PairEvidence
		policy   decide.Decision
		want     decide.Kind
		from, to string
	}{
		{"a gain elsewhere", twoPaths("m", decide.Up, decide.Up), decide.Decision{Kind: decide.Switch, From: "m", To: "z"},
			decide.Stay, "m", "m"},
		{"a canary elsewhere", twoPaths("m", decide.Up, decide.Up),
			decide.Decision{Kind: decide.Canary, From: "m", To: "z", Buckets: 4}, decide.Stay, "m", "m"},
		{"it fails", twoPaths("m", decide.Up, decide.Failed), decide.Decision{Kind: decide.Failover, From: "m", To: "z"},
			decide.Failover, "m", "z"},
		{"all fails", twoPaths("m", decide.Failed, decide.Failed), decide.Decision{Kind: decide.Fallback, From: "m", To: "z"},
			decide.Fallback, "m", "z"},
		{"it has failed", twoPaths("z", decide.Up, decide.Failed), decide.Decision{Kind: decide.Stay, From: "z", To: "z"},
			decide.Stay, "z", "z"},
		{"it is not eligible", twoPaths("z", decide.Up, decide.Ineligible),
			decide.Decision{Kind: decide.Stay, From: "z", To: "z"}, decide.Stay, "z", "z"},
		{"it is suspected", twoPaths("z", decide.Up, decide.Suspect), decide.Decision{Kind: decide.Stay, From: "z", To: "z"},
			decide.Stay, "z", "z"},
		{"it is well again", twoPaths("z", decide.Up, decide.Up), decide.Decision{Kind: decide.Stay, From: "z", To: "z"},
			decide.Switch, "z", "m"},
	} {
		d := p.keepPinned(tc.ev, tc.policy)
		if d.Kind != tc.want || d.From != tc.from || d.To != tc.to {
			t.Errorf("%s: got %s %s -> %s, want %s %s -> %s", tc.name, d.Kind, d.From, d.To, tc.want, tc.from, tc.to)
		}
	}
}

// TestKeepPinnedEndsACanary: what the decision says is carried out in full.
func TestKeepPinnedEndsACanary(t *testing.T) {
	p := &pair{placement: placement{pinned: "m",
		assigned: decide.Assignment{Active: "m", Canary: "z", Buckets: 4}}}
	d := p.keepPinned(twoPaths("m", decide.Up, decide.Up),
		decide.Decision{Kind: decide.Canary, From: "m", To: "z", Buckets: 8})
	if got := p.assigned.Apply(d); got != (decide.Assignment{Active: "m"}) {
		t.Errorf("got %+v, want all flows on m", got)
	}
}

func TestOnAndByNetwork(t *testing.T) {
	p := &pair{routes: route.Between(testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b"))}
	for _, tc := range []struct {
		active string
		want   int
	}{{"", 0}, {"z", 0}, {"b", 1}, {"m", 2}, {"gone", 0}} {
		p.assigned.Active = tc.active
		if got := p.on().Index; got != tc.want {
			t.Errorf("assigned to %q: on path %d, want %d", tc.active, got, tc.want)
		}
	}
	if r, ok := p.routes.byNetwork("m"); !ok || r.Local.Dev != "net1" {
		t.Errorf("byNetwork m: %+v, %v", r, ok)
	}
	if _, ok := p.routes.byNetwork("gone"); ok {
		t.Error("found a network that the pair has not")
	}
}

func TestWindow(t *testing.T) {
	p := &pair{}
	for i := range ringLength + 5 {
		p.bytes[p.nBytes%ringLength] = decide.Interval{Bytes: float64(i)}
		p.nBytes++
	}
	for _, tc := range []struct{ i, j, first, n int }{
		{ringLength, ringLength + 5, ringLength, 5},
		{0, 10, 5, 5},                           // what is older than the ring is gone
		{ringLength + 3, 99, ringLength + 3, 2}, // what is to come is not there
		{-5, 3, 0, 0},
		{10, 10, 0, 0},
	} {
		got := p.window(tc.i, tc.j)
		if len(got) != tc.n || tc.n > 0 && got[0].Bytes != float64(tc.first) {
			t.Errorf("window(%d, %d): %v, want %d from %d", tc.i, tc.j, got, tc.n, tc.first)
		}
	}
	young := &pair{traffic: traffic{nBytes: 3}}
	if got := young.window(young.nBytes-10, young.nBytes); len(got) != 3 {
		t.Errorf("a young pair's window has %d intervals, want 3", len(got))
	}
}

// answeredPath is a path of which probes know.
func answeredPath(now time.Time) *hostPath {
	return &hostPath{Path: detect.New(new(detect.Hosts())), network: "m", summary: probe.Summary{
		Answered: 12, Last: now.Add(-30 * time.Millisecond),
		Jitter: 10 * time.Microsecond, Loss: probe.Ratio{Lost: 1, Of: 4}},
		// One busy moment of three does not make the path slow.
		rtts: [9]time.Duration{190 * time.Microsecond, 30 * time.Millisecond, 200 * time.Microsecond}, nRTT: 3}
}

// TestFill: what is known of a path decides whether it may be used, the gravest
// reason first.
func TestFill(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name   string
		change func(*hostPath)
		want   decide.Condition
		reason string
	}{
		{"well", func(*hostPath) {}, decide.Up, ""},
		{"never answered", func(hp *hostPath) { hp.summary = probe.Summary{} }, decide.Ineligible,
			"no probe has been answered yet"},
		{"suspected", func(hp *hostPath) { hp.Suspect(now, now.Add(-7*time.Millisecond)) }, decide.Suspect, "silent for 7ms"},
		{"full-size packets are lost", func(hp *hostPath) { hp.summary.MTUBlackHole = true }, decide.Ineligible,
			"full-size packets do not pass"},
		{"the mark is lost", func(hp *hostPath) { hp.unfit = "it does not carry the mark" }, decide.Ineligible,
			"it does not carry the mark"},
		{"failed", func(hp *hostPath) { hp.Signaled(now.Add(-2 * time.Second)) }, decide.Failed, "failed 2s ago"},
		{"failed and unfit", func(hp *hostPath) { hp.unfit = "other"; hp.Signaled(now.Add(-time.Second)) }, decide.Failed,
			"failed 1s ago"},
		{"suspected and unfit", func(hp *hostPath) { hp.unfit = "other"; hp.Suspect(now, now) }, decide.Ineligible, "other"},
	} {
		hp := answeredPath(now)
		tc.change(hp)
		e := decide.PathEvidence{Network: "m", State: decide.Up}
		hp.fill(&e, time.Time{}, now)
		if e.State != tc.want || !strings.HasPrefix(e.Reason, tc.reason) || tc.want == decide.Up && e.Reason != "" {
			t.Errorf("%s: got %s (%s), want %s (%s)", tc.name, e.State, e.Reason, tc.want, tc.reason)
		}
	}
	// The first probe was lost, and the pair's own packets pass.
	first := decide.PathEvidence{State: decide.Up, Data: decide.Data{Rx: 1}}
	hp := &hostPath{Path: answeredPath(now).Path, summary: probe.Summary{Loss: probe.Ratio{Lost: 1, Of: 1}}}
	if hp.fill(&first, time.Time{}, now); first.State != decide.Up || first.Probe.Loss != 0 {
		t.Errorf("no probe answered yet: got %s (%s), loss %v", first.State, first.Reason, first.Probe.Loss)
	}
	// A probe from there that came once the failure was old says where packets are lost.
	for ago, want := range map[time.Duration]string{time.Second: "failed 2s ago, on the way there",
		1950 * time.Millisecond: "failed 2s ago", 3 * time.Second: "failed 2s ago"} {
		hp := answeredPath(now)
		hp.Signaled(now.Add(-2 * time.Second))
		var e decide.PathEvidence
		if hp.fill(&e, now.Add(-ago), now); e.Reason != want {
			t.Errorf("a probe %v ago: %s", ago, e.Reason)
		}
	}
	e := decide.PathEvidence{State: decide.Up}
	answeredPath(now).fill(&e, time.Time{}, now)
	if e.Probe != (decide.Probe{RTT: 200e-6, Jitter: 10e-6, Loss: 0.25, Samples: 12, Age: 0.03}) {
		t.Errorf("probe: got %+v", e.Probe)
	}
	// An answer from later than now, as clocks of events and of the loop may have it.
	early := answeredPath(now.Add(time.Second))
	early.fill(&e, time.Time{}, now)
	if e.Probe.Age != 0 {
		t.Errorf("age %v", e.Probe.Age)
	}
}

// TestAccount: what left the pod and was lost is not what arrived.
func TestAccount(t *testing.T) {
	var ln line
	for _, step := range []struct {
		sent, received uint64
		unacked        int64
		want           float64
	}{
		{1000, 500, 0, 1500},
		{9000, 600, 7000, 1100}, // dropped in the host
		{9100, 600, -300, 400},  // acknowledged later than sent
		{9200, 700, 5000, 100},  // all lost
		{10200, 700, 0, 1000},   // no TCP
	} {
		ln.sent.Bytes, ln.received.Bytes, ln.unacked = step.sent, step.received, step.unacked
		if got := ln.account(500 * time.Millisecond); got != step.want || ln.goodput != 2*got {
			t.Errorf("%+v: %g, %g a second", step, got, ln.goodput)
		}
	}
}

// TestGap: for how long nothing may come of a pair's traffic follows what arrived of its bulk, the longest of a moment.
func TestGap(t *testing.T) {
	params := detect.Pairs()
	p := &pair{lines: newLines(2, &params)}
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		name       string
		arrived    float64 // in 100 ms
		sent       dataplane.Tally
		after      time.Duration
		least, max time.Duration
		trip       time.Duration
	}{
		{name: "little", arrived: 1000, sent: dataplane.Tally{Packets: 10, Bytes: 1000}, after: epoch},
		{"bulk of 800 Mbit/s", 1e7, dataplane.Tally{Packets: 6900, Bytes: 1e7}, epoch, 3 * ms, 5 * ms, ms},
		{"of which little arrives", 1e6, dataplane.Tally{Packets: 69000, Bytes: 1e8}, epoch, 30 * ms, 30 * ms, ms},
		{"a pause", 0, dataplane.Tally{}, epoch, 30 * ms, 30 * ms, ms},
		{"fast again", 1e7, dataplane.Tally{Packets: 6900, Bytes: 1e7}, epoch, 30 * ms, 30 * ms, ms},
		{"for long", 1e7, dataplane.Tally{Packets: 6900, Bytes: 1e7}, quiet, 3 * ms, 5 * ms, ms},
		{"little for long", 1000, dataplane.Tally{Packets: 10, Bytes: 1000}, quiet, 0, 0, ms},
		{"5 Mbit/s in a queue", 6e4, dataplane.Tally{Packets: 45, Bytes: 6e4}, quiet, 150 * ms, 170 * ms, 90 * ms},
	} {
		now = now.Add(step.after)
		ln := &p.lines[1]
		ln.sent.Packets += step.sent.Packets
		ln.sent.Bytes += step.sent.Bytes
		size := p.size()
		ln.counted = counted{ln.sent, ln.received}
		p.gaps.account(&params, step.arrived, size, params.GapLimit(step.trip, false), epoch, now)
		if p.gaps.own.most < step.least || p.gaps.own.most > step.max {
			t.Errorf("%s: %v, want %v to %v", step.name, p.gaps.own.most, step.least, step.max)
		}
	}
}

// TestGapOn: bulk that has just come to a path may find it slower than what the pair had before; after that it has
// shown by how much.
func TestGapOn(t *testing.T) {
	params, begin := detect.Pairs(), time.Unix(1000, 0)
	const known, slow = 3932 * time.Microsecond, 19660 * time.Microsecond
	for _, step := range []struct {
		name   string
		bytes  [2]uint64 // on each path in 100 ms
		epochs int       // after the second path was taken
		want   [2]time.Duration
	}{
		{"bulk on the first", [2]uint64{1e7, 0}, 0, [2]time.Duration{known, known}},
		{"it has just come to the second", [2]uint64{1e7, 2e5}, 1, [2]time.Duration{known, params.GapMost}},
		{"it has been there for a while", [2]uint64{1e7, 2e6}, 4, [2]time.Duration{known, slow}},
		{"little has just come", [2]uint64{1000, 1000}, 1, [2]time.Duration{0, 0}},
	} {
		p := &pair{host: &remoteHost{}, routes: make([]route.Route, 2), lines: newLines(2, &params)}
		now := begin
		p.use(0, now)
		now = now.Add(time.Second)
		for n := range step.epochs + 10 {
			for i, bytes := range step.bytes {
				if ln := &p.lines[i]; i == 0 || n >= 10 {
					ln.sent.Packets += bytes / 1448
					ln.sent.Bytes += bytes
					for after := time.Duration(0); after < epoch; after += 10 * ms {
						p.use(i, now.Add(after))
					}
				}
			}
			now = now.Add(epoch)
			p.accountLines(&params, epoch, now)
		}
		for i, want := range step.want {
			if got := p.gapOn(i, false, now).Truncate(time.Microsecond); got != want {
				t.Errorf("%s: %v on path %d, want %v", step.name, got, i, want)
			}
		}
	}
}

// TestData: what the kernel tells of connections goes with what was counted.
func TestData(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &pair{lines: newLines(2, new(detect.Pairs()))}
	p.lines[1] = line{tx: 1000, rx: 250, goodput: 1250, rtos: 2}
	if d := p.data(1, now); d.Goodput != 10000 || d.Tx != 1000 || d.Rx != 250 || d.RTOs != 2 || d.SRTT != 0 ||
		!d.AppLimited {
		t.Errorf("counters alone: %+v", d)
	}
	if p.conns = 1; p.data(1, now).AppLimited {
		t.Error("TCP that was not reported counts as limited by its application")
	}
	p.lines[1].reportedAt, p.lines[1].retrans = now, 0.4
	if !p.data(1, now).AppLimited {
		t.Error("TCP whose queues were not looked at counts as bulk")
	}
	p.limited = share{0.9, true}
	p.lines[1].figures = telemetry.Figures{SRTT: 4 * time.Millisecond, AppLimited: true}
	d := p.data(1, now)
	if d.SRTT != 4e-3 || !d.AppLimited || d.Retrans != 0.4 || d.Blank {
		t.Errorf("with what was reported: %+v", d)
	}
	p.outcome = &outcome{at: now.Add(-9 * time.Millisecond)}
	if !p.data(1, now).Blank {
		t.Error("9 ms after a switch is not blanked")
	}
	p.outcome.at = now.Add(-time.Second)
	if p.data(1, now).Blank {
		t.Error("a second after a switch is blanked")
	}
	if ev := (decide.PairEvidence{Pair: "p>q", Active: "m",
		Paths: []decide.PathEvidence{{Network: "m", State: decide.Up, Data: d}}}); ev.Check() != nil {
		t.Errorf("evidence: %v", ev.Check())
	}
}

// TestBears: a connection's timeout speaks of the paths that it can be on.
func TestBears(t *testing.T) {
	notified := func(path int) dataplane.Choice { return dataplane.Choice{Path: path, Notified: true} }
	for _, tc := range []struct {
		own, followed dataplane.Choice
		want          []bool // by path
	}{
		{dataplane.Choice{}, dataplane.Choice{}, []bool{true, false, false}},
		{dataplane.Choice{Path: 2}, notified(1), []bool{false, true, true}},
		{dataplane.Choice{Path: 1}, dataplane.Choice{}, []bool{true, true, false}}, // the peer's are on the default network
	} {
		for i, want := range tc.want {
			if bears(i, tc.own, tc.followed) != want {
				t.Errorf("%+v: path %d: not %v", tc, i, want)
			}
		}
	}
}

// TestShareIsEncoded: what is said of a share is what was known, and of none that nothing is.
func TestShareIsEncoded(t *testing.T) {
	for _, s := range []share{{0, true}, {0.25, true}, {1, true}, {1, false}, {0.3, false}} {
		want := s.part
		if !s.known {
			want = 1
		}
		if got := decodeShare(takesDSCP | s.encode()); math.Abs(got-want) > 0.002 {
			t.Errorf("%+v: decoded as %g", s, got)
		}
		if s.encode()&takesDSCP != 0 {
			t.Errorf("%+v: it changes what else is said", s)
		}
	}
	if decodeShare(takesDSCP) != 1 || decodeShare(0) != 1 {
		t.Error("an earlier version's answer tells of a share")
	}
}

// TestBulkComes: where bulk has just begun to come in, the other agent is asked soon what its senders
// have, and as ever when it has told.
func TestBulkComes(t *testing.T) {
	by := decide.DefaultClasses()
	p := &pair{accord: accord{peerLimited: 1}}
	for i, step := range []struct {
		at   int // seconds
		came uint64
		want time.Duration
	}{{0, 5000, renew}, {1, 1e6, renewSoon}, {2, 2e6, renewSoon}, {6, 3e6, renew}, {9, 4e6, renew}, {20, 4e6, renew},
		{21, 5e6, renewSoon}, {22, 5e6, renewSoon}} {
		now := time.Unix(int64(1000+step.at), 0)
		p.heads.begin(now)
		p.heads.see(sockdiag.Socket{ID: 5, BytesAcked: 1, BytesReceived: step.came, Window: 10}, &by)
		if p.counted(&p.heads); p.renewal(now) != step.want {
			t.Errorf("step %d: asked again after %v, want %v", i, p.renewal(now), step.want)
		}
	}
}

// TestCount: of connections that are all new nothing is known from before.
func TestCount(t *testing.T) {
	dialogue := func(id, acked uint64) sockdiag.Socket {
		return sockdiag.Socket{ID: id, BytesAcked: acked, Window: 10}
	}
	bulk := func(id, acked uint64) sockdiag.Socket {
		return sockdiag.Socket{ID: id, BytesAcked: acked, Window: 10, Unsent: 1 << 16}
	}
	p := &pair{accord: accord{peerLimited: 1}}
	for i, step := range []struct {
		socks []sockdiag.Socket
		want  float64
	}{
		{[]sockdiag.Socket{dialogue(1, 100)}, 1},
		{[]sockdiag.Socket{dialogue(1, 200), bulk(2, 300)}, 1 - 0.3*0.75},
		{[]sockdiag.Socket{bulk(3, 5000)}, 0},
		{[]sockdiag.Socket{bulk(3, 5000)}, 0}, // nothing moved
		{[]sockdiag.Socket{dialogue(4, 100)}, 1},
		// Of what comes in nothing is known before the sender's agent tells.
		{[]sockdiag.Socket{dialogue(4, 200), {ID: 5, BytesAcked: 1, BytesReceived: 1e9, Window: 10}}, 1},
		{[]sockdiag.Socket{{ID: 5, BytesAcked: 1, BytesReceived: 2e9, Window: 10}}, 0.7},
		{[]sockdiag.Socket{{ID: 5, BytesAcked: 1e9 + 1, BytesReceived: 3e9, Window: 10}}, 0.7 - 0.3*0.2},
	} {
		by := decide.DefaultClasses()
		p.heads.begin(time.Unix(int64(i), 0))
		if i == 6 {
			p.peerLimited = 0
		}
		for _, s := range step.socks {
			p.heads.see(s, &by)
		}
		if p.counted(&p.heads); math.Abs(p.limited.part-step.want) > 1e-12 {
			t.Errorf("step %d: limited %g, want %g", i, p.limited.part, step.want)
		}
	}
}

// TestWhyAPathFailed: where the network between the hosts has failed that is told, as more is known of
// it than of the pair's own packets.
func TestWhyAPathFailed(t *testing.T) {
	for _, tc := range []struct {
		hosts, pair bool
		want        string
	}{{true, true, "failed 2s ago"}, {true, false, "failed 2s ago"}, {false, true, "this pair's packets do not pass"}} {
		a, p, h2 := onePair(t)
		now := a.cfg.Now()
		p.local.plane, p.opened = &dataplane.Plane{}, now
		if tc.hosts {
			h2.paths["z"].Signaled(now.Add(-2 * time.Second))
		}
		if tc.pair {
			p.lines[1].Signaled(now.Add(-3 * time.Second))
		}
		if e := a.judge.evidence(p, now).Paths[1]; e.State != decide.Failed || !strings.HasPrefix(e.Reason, tc.want) {
			t.Errorf("%+v: %s, %s", tc, e.State, e.Reason)
		}
	}
}
