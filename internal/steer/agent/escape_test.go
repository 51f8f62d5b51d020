package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// failing has the path between hosts be suspected, and fail by its probes and a witness's. Its
// pair suspects it too.
func failing(a *Agent, p *pair, hp *hostPath) (now time.Time) {
	now = a.cfg.Now()
	from := now.Add(-15 * ms)
	p.lines[0].silence.Since = from
	p.lines[0].Suspect(from, from)
	hp.Suspect(from, from)
	a.hosts.suspects[hp] = true
	other := hp.host.paths["z"]
	for i := range uint32(3) {
		at := from.Add(time.Duration(i) * ms)
		hp.Sent(i, at)
		other.Sent(i, at)
		other.Answer(detect.Shot{Seq: i, Sent: at, Answered: at.Add(ms / 10)}, false)
	}
	return now
}

// TestHostsFail: a path that fails between hosts is one failure, whatever its pairs suspect,
// which that settles.
func TestHostsFail(t *testing.T) {
	a, p, h2 := onePair(t)
	m := h2.paths["m"]
	now := failing(a, p, m)
	found, asking := a.hosts.judge(now)
	if len(found) > 0 || !asking {
		t.Fatalf("failed %v, though a pair is about to know; asking %v", found, asking)
	}
	now = now.Add(time.Second)
	found, _ = a.hosts.judge(now)
	if len(found) != 1 || found[0].path != m || found[0].pair != nil || !m.Down() {
		t.Fatalf("failed %+v", found)
	}
	if more := a.pairs.conclude(now); len(more) > 0 || p.lines.suspected() {
		t.Errorf("the pair's own: %+v, still suspected %v", more, p.lines.suspected())
	}
	if found, asking = a.hosts.judge(now); len(found) > 0 || asking {
		t.Errorf("it fails again: %+v, asking %v", found, asking)
	}
}

// TestPairsLeaveWhatFails: pairs on a path that has failed leave it, others stay, and the
// event says who has found that.
func TestPairsLeaveWhatFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		active string
		by     string
		pair   bool // the failure is the pair's alone
		moves  bool
		kind   string
	}{
		{"its path between the hosts", "m", byPolicy, false, true, EventPeer},
		{"so says the other agent", "m", byPeer, false, true, EventPeer},
		{"the pair's own", "m", byPolicy, true, true, EventSuspect},
		{"another path", "z", byPolicy, false, false, EventPeer},
	} {
		a, p, h2 := onePair(t)
		now := a.cfg.Now()
		p.local.plane, p.opened = &dataplane.Plane{}, now
		p.assigned = decide.Assignment{Active: tc.active}
		a.judge.cfg.Policy = &wish{}
		a.judge.cfg.DryRun = true // nothing is written, and what was decided is told
		h2.paths["z"].summary.Answered = 1
		f := failure{path: h2.paths["m"], since: now.Add(-20 * ms), reason: "it has failed", by: tc.by}
		if tc.pair {
			f.pair, f.path = p, nil
			p.lines[0].Signaled(now)
		} else {
			f.path.Signaled(now)
		}
		a.escape.leave(f, now)
		events, _ := a.journal.since(0)
		moved := len(events) > 1 && events[0].Kind == string(decide.Failover) && events[0].To == "z"
		if last := events[len(events)-1]; moved != tc.moves || last.Kind != tc.kind || last.By != tc.by ||
			last.Detected != 20*ms || last.To != "m" {
			t.Errorf("%s: moved %v, want %v; told %+v", tc.name, moved, tc.moves, events)
		}
		want := map[bool]uint64{true: 1}[tc.by == byPolicy && !tc.pair]
		if a.escape.stats.failovers != want {
			t.Errorf("%s: %d failovers, want %d", tc.name, a.escape.stats.failovers, want)
		}
	}
}
