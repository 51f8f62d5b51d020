package detect

import (
	"testing"
	"time"
)

// at is ms milliseconds into a test.
func at(ms float64) time.Time {
	return time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms * 1e6))
}

// shots are probes sent at the given times and answered after as long; a
// negative time to answer is none.
func shots(pairs ...float64) []Shot {
	var out []Shot
	for i := 0; i < len(pairs); i += 2 {
		s := Shot{Sent: at(pairs[i])}
		if pairs[i+1] >= 0 {
			s.Answered = at(pairs[i] + pairs[i+1])
		}
		out = append(out, s)
	}
	return out
}

// patient are figures by which a failure is found 9 ms after suspicion, with probes at 0,
// 3 and 6 ms.
func patient() *Params {
	p := Hosts()
	p.DeadlineLeast, p.Times = 3*time.Millisecond, 4
	return &p
}

// word is a verdict in one.
func word(v Verdict) string {
	switch {
	case v.Failed:
		return "failed"
	case v.Alive:
		return "alive"
	}
	return "undecided"
}

func TestJudge(t *testing.T) {
	const failed, alive, undecided = "failed", "alive", "undecided"
	const p99 = 300 * time.Microsecond // so that the deadline is the floor, 3 ms
	witness := func(pairs ...float64) []Witness { return []Witness{{"vxlan", p99, shots(pairs...)}} }
	never := time.Time{}
	row := shots(0, -1, 3, -1, 6, -1, 9, -1, 12, -1, 15, -1, 18, -1, 21, -1)
	full := []Witness{{"vxlan", 10 * time.Millisecond, shots(0, 15, 3, 15, 6, 15, 9, 15, 12, 15, 15, 15, 18, 15, 21, 15)}}
	lost, prompt, deaf := shots(0, -1, 3, -1, 6, -1), witness(0, .2, 3, .2, 6, .2), witness(0, -1, 3, -1, 6, -1)
	for _, tt := range []struct {
		name      string
		now       float64
		p99       time.Duration
		suspect   []Shot
		witnesses []Witness
		probed    time.Time
		want      string
		direction Direction
	}{
		{"black hole", 9.3, p99, lost, prompt, never, failed, Unknown},
		{"black hole, a little early", 8.9, p99, lost, prompt, never, undecided, Unknown},
		{"overdue, but the witness has just answered", 9.1, p99, lost, prompt, never, undecided, Unknown},
		{"forward only", 12, p99, lost, witness(6, .2), at(5), failed, Forward},
		{"only what was on its way has come", 12, p99, lost, witness(6, .2), at(1), failed, Unknown},
		{"two of three", 30, p99, shots(0, -1, 3, -1), prompt, never, undecided, Unknown},
		{"answered", 1, p99, shots(0, .2), witness(0, .2), never, alive, Unknown},
		{"one lost, then answered", 30, p99, shots(0, -1, 3, .2), witness(0, .2), never, alive, Unknown},
		{"two of four lost", 30, p99, shots(0, -1, 3, .2, 6, -1, 9, .3), witness(9, .2), never, alive, Unknown},
		{"answered, then nothing more", 15, p99, shots(0, .2, 3, -1, 6, -1, 9, -1),
			witness(9, .2), never, failed, Unknown},
		{"lost before suspicion", 2, p99, shots(-50, -1, -40, -1, -30, -1), prompt, never, undecided, Unknown},
		{"answered before suspicion only", 2, p99, shots(-50, .2, 0, -1),
			witness(0, .2), never, undecided, Unknown},
		{"slow path", 30, 5 * time.Millisecond, shots(0, -1, 3, -1, 6, -1, 9, -1),
			witness(9, .2), never, failed, Unknown},
		{"slow path, too early", 25, 5 * time.Millisecond, shots(0, -1, 3, -1, 6, -1, 9, -1),
			witness(9, .2), never, undecided, Unknown},
		{"answers in any order", 12, p99, shots(6, -1, 0, -1, 3, -1), witness(6, .2), never, failed, Unknown},

		// Every path is late: the witness answered nothing sent since.
		{"everything lost", 60, p99, lost, deaf, never, undecided, Unknown},
		{"the witness answered an earlier one", 60, p99, lost,
			witness(3, .2, 6, -1), never, undecided, Unknown},
		{"everything late", 60, p99, lost, witness(0, 55, 3, 52, 6, 49), never, undecided, Unknown},
		{"no other path", 60, p99, lost, nil, never, undecided, Unknown},

		// The peer stalls from 1 to 51 ms and then answers all, the witness's
		// probes first; the suspect's answers are still to come.
		{"peer stalled", 51.3, p99, shots(0, -1, 3, -1, 6, -1, 45, -1, 48, -1),
			witness(0, 51, 3, 48, 6, 45, 45, 6.1, 48, 3.1), never, undecided, Unknown},
		{"peer stalled, the last witness prompt", 51.3, p99, shots(0, -1, 3, -1, 6, -1, 45, -1, 48, -1),
			witness(0, 51.1, 45, 6.1, 48.5, 2.6), never, undecided, Unknown},
		{"peer stalled, then both answer", 51.6, p99, shots(0, 51.2, 3, 48.2, 6, 45.2, 45, 6.2, 48, 3.2),
			witness(0, 51.1, 45, 6.1, 48, 3.1), never, alive, Unknown},

		// This machine stalls from 7 to 57 ms. The replies came meanwhile and are
		// dated by the kernel; Drain has read them all.
		{"stalled here", 57.1, p99, shots(0, .3, 3, .3, 6, .3), prompt, never, alive, Unknown},
		// It stalls while the path is broken: the verdict is what it would have been.
		{"stalled here, and broken", 57.1, p99, lost, prompt, never, failed, Unknown},
		// It stalls between sending on the one and on the other, from 7 ms.
		{"stalled while sending", 57.1, p99, shots(0, .3, 3, .3, 6, .3),
			witness(0, .2, 3, .2, 57, -1), never, alive, Unknown},
		// It judges before it has read: Until has not advanced.
		{"stalled here, not drained", 6.2, p99, lost, prompt, never, undecided, Unknown},

		{"a second witness testifies", 12, p99, lost,
			append(deaf, Witness{"macvlan", p99, shots(6, .2)}), never, failed, Unknown},
		{"nothing sent", 700, p99, nil, nil, never, undecided, Unknown},

		// Asked every 3 ms, with a deadline of 20: the newest that is overdue is always younger than
		// 23 ms, and no witness that takes 15 has answered one sent since and left 20 more.
		{"full paths", 41.1, 5 * time.Millisecond, row, full, never, failed, Unknown},
		{"full paths, a little early", 40.9, 5 * time.Millisecond, row, full, never, undecided, Unknown},
		{"full paths, the third in a row is the second", 41.1, 5 * time.Millisecond,
			append(shots(0, 30), row[1:]...), full, never, undecided, Unknown},
	} {
		v := patient().judge(suspicion{start: at(0), shots: tt.suspect,
			Evidence: Evidence{Until: at(tt.now), Expected: tt.p99, Witnesses: tt.witnesses, Probed: tt.probed}})
		if word(v) != tt.want || v.Direction != tt.direction {

			t.Errorf("%s: %s, %s (%s), expected %s, %s", tt.name, word(v), v.Direction, v, tt.want, tt.direction)
		}
	}
}

// TestJudgeLate: who came late to its own work gives answers as much more time,
// and asks of the witness what it always asks.
func TestJudgeLate(t *testing.T) {
	const p99 = 300 * time.Microsecond
	for _, tt := range []struct {
		name    string
		late    time.Duration
		now     float64
		suspect []Shot
		witness []Shot
		want    string
	}{
		{"in time", 0, 9.3, shots(0, -1, 3, -1, 6, -1), shots(6, .2), "failed"},
		{"10 ms late: too early", 10 * time.Millisecond, 18.9, shots(0, -1, 3, -1, 6, -1), shots(6, .2), "undecided"},
		{"10 ms late: the witness's word is younger than that", 10 * time.Millisecond, 19.1, shots(0, -1, 3, -1, 6, -1),
			shots(6, .2), "undecided"},
		{"10 ms late: long enough", 10 * time.Millisecond, 19.3, shots(0, -1, 3, -1, 6, -1), shots(6, .2), "failed"},
		{"10 ms late, and so are answers", 10 * time.Millisecond, 14, shots(0, 13, 3, -1, 6, -1), shots(6, .2), "alive"},
		{"a witness as late as we are", 10 * time.Millisecond, 40, shots(0, -1, 3, -1, 6, -1), shots(6, 9), "undecided"},
		{"a clock that was set back", -time.Second, 9.3, shots(0, -1, 3, -1, 6, -1), shots(6, .2), "failed"},
	} {
		v := patient().judge(suspicion{start: at(0), shots: tt.suspect, Evidence: Evidence{Until: at(tt.now), Expected: p99,
			Late: tt.late, Witnesses: []Witness{{"vxlan", p99, tt.witness}}}})
		if word(v) != tt.want {
			t.Errorf("%s: %s (%s), expected %s", tt.name, word(v), v, tt.want)
		}
	}
}

// TestStalls plays stalls of 50 ms of either end, at every moment, on two paths that work, idle or
// full, and judges at every millisecond: neither ever fails.
func TestStalls(t *testing.T) {
	for stall := -10.; stall < 60; stall++ {
		for _, here := range []bool{true, false} {
			for _, trip := range []float64{.2, 15} {
				for _, lag := range []float64{0, .5, 2} { // by which the suspect's answers trail after the stall
					playStall(t, stall, here, trip, lag)
				}
			}
		}
	}
}

// playStall plays one stall, here or of the peer.
func playStall(t *testing.T, stall float64, here bool, trip, lag float64) {
	t.Helper()
	const long = 50.
	usual, params := time.Duration(trip*1e6), patient()
	params.Times = 2 // so that a full path's deadline is shorter than the stall
	in := func(ms float64) bool { return ms >= stall && ms < stall+long }
	var suspect, other []Shot
	for sent := 0.; sent < 120; sent += 3 {
		if here && in(sent) {
			continue // nothing is sent
		}
		answer := func(extra float64) float64 {
			if !here && in(sent+trip/2) {
				return stall + long + trip/2 + extra
			}
			return sent + trip
		}
		suspect = append(suspect, Shot{Sent: at(sent), Answered: at(answer(lag))})
		other = append(other, Shot{Sent: at(sent), Answered: at(answer(0))})
	}
	for now := 0.; now < 150; now += .25 {
		if here && in(now) {
			continue
		}
		v := params.judge(suspicion{start: at(0), shots: until(suspect, at(now)), Evidence: Evidence{Until: at(now),
			Expected: usual, Witnesses: []Witness{{"other", usual, until(other, at(now))}}}})
		if v.Failed {
			t.Fatalf("stall at %v here=%v, judged at %v: %s", stall, here, now, v)
		}
	}
}

// until is what is known of shots at a time.
func until(in []Shot, now time.Time) []Shot {
	var out []Shot
	for _, s := range in {
		if s.Sent.After(now) {
			continue
		}
		if s.Answered.After(now) {
			s.Answered = time.Time{}
		}
		out = append(out, s)
	}
	return out
}
