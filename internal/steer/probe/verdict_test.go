package probe

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

func TestJudge(t *testing.T) {
	const p99 = 300 * time.Microsecond // so that the deadline is the floor, 3 ms
	witness := func(pairs ...float64) []Witness { return []Witness{{"vxlan", p99, shots(pairs...)}} }
	never := time.Time{}
	for _, tt := range []struct {
		name      string
		now       float64
		p99       time.Duration
		suspect   []Shot
		witnesses []Witness
		heard     time.Time
		told      time.Time
		want      State
		direction Direction
	}{
		{"black hole", 9.3, p99, shots(0, -1, 3, -1, 6, -1), witness(0, .2, 3, .2, 6, .2), never, never, Failed, Unknown},
		{"black hole, a little early", 8.9, p99, shots(0, -1, 3, -1, 6, -1), witness(0, .2, 3, .2, 6, .2), never, never,
			Undecided, Unknown},
		{"overdue, but the witness has just answered", 9.1, p99, shots(0, -1, 3, -1, 6, -1), witness(0, .2, 3, .2, 6, .2),
			never, never, Undecided, Unknown},
		{"forward only", 12, p99, shots(0, -1, 3, -1, 6, -1), witness(6, .2), at(5), never, Failed, Forward},
		{"backward only", 12, p99, shots(0, -1, 3, -1, 6, -1), witness(6, .2), never, at(0), Failed, Backward},
		{"heard only what was on its way", 12, p99, shots(0, -1, 3, -1, 6, -1), witness(6, .2), at(1), never, Failed,
			Unknown},
		{"both directions were told to work", 12, p99, shots(0, -1, 3, -1, 6, -1), witness(6, .2), at(5), at(3), Failed,
			Unknown},
		{"two of three", 30, p99, shots(0, -1, 3, -1), witness(0, .2, 3, .2, 6, .2), never, never, Undecided, Unknown},
		{"answered", 1, p99, shots(0, .2), witness(0, .2), never, never, Alive, Unknown},
		{"one lost, then answered", 30, p99, shots(0, -1, 3, .2), witness(0, .2), never, never, Alive, Unknown},
		{"two of four lost", 30, p99, shots(0, -1, 3, .2, 6, -1, 9, .3), witness(9, .2), never, never, Alive, Unknown},
		{"answered, then nothing more", 15, p99, shots(0, .2, 3, -1, 6, -1, 9, -1), witness(9, .2), never, never, Failed,
			Unknown},
		{"answered before suspicion only", 2, p99, shots(-50, .2, 0, -1), witness(0, .2), never, never, Undecided, Unknown},
		{"slow path", 30, 5 * time.Millisecond, shots(0, -1, 3, -1, 6, -1, 9, -1), witness(9, .2), never, never, Failed,
			Unknown},
		{"slow path, too early", 25, 5 * time.Millisecond, shots(0, -1, 3, -1, 6, -1, 9, -1), witness(9, .2), never, never,
			Undecided, Unknown},
		{"answers in any order", 12, p99, shots(6, -1, 0, -1, 3, -1), witness(6, .2), never, never, Failed, Unknown},

		// Every path is late: the witness answered nothing sent since.
		{"everything lost", 60, p99, shots(0, -1, 3, -1, 6, -1), witness(0, -1, 3, -1, 6, -1), never, never, Undecided,
			Unknown},
		{"the witness answered an earlier one", 60, p99, shots(0, -1, 3, -1, 6, -1), witness(3, .2, 6, -1), never, never,
			Undecided, Unknown},
		{"everything late", 60, p99, shots(0, -1, 3, -1, 6, -1), witness(0, 55, 3, 52, 6, 49), never, never, Undecided,
			Unknown},
		{"no other path", 60, p99, shots(0, -1, 3, -1, 6, -1), nil, never, never, Undecided, Unknown},

		// The peer stalls from 1 to 51 ms and then answers all, the witness's
		// probes first; the suspect's answers are still to come.
		{"peer stalled", 51.3, p99, shots(0, -1, 3, -1, 6, -1, 45, -1, 48, -1),
			witness(0, 51, 3, 48, 6, 45, 45, 6.1, 48, 3.1), never, never, Undecided, Unknown},
		{"peer stalled, the last witness prompt", 51.3, p99, shots(0, -1, 3, -1, 6, -1, 45, -1, 48, -1),
			witness(0, 51.1, 45, 6.1, 48.5, 2.6), never, never, Undecided, Unknown},
		{"peer stalled, then both answer", 51.6, p99, shots(0, 51.2, 3, 48.2, 6, 45.2, 45, 6.2, 48, 3.2),
			witness(0, 51.1, 45, 6.1, 48, 3.1), never, never, Alive, Unknown},

		// This machine stalls from 7 to 57 ms. The replies came meanwhile and are
		// dated by the kernel; Drain has read them all.
		{"stalled here", 57.1, p99, shots(0, .3, 3, .3, 6, .3), witness(0, .2, 3, .2, 6, .2), never, never, Alive, Unknown},
		// It stalls while the path is broken: the verdict is what it would have been.
		{"stalled here, and broken", 57.1, p99, shots(0, -1, 3, -1, 6, -1), witness(0, .2, 3, .2, 6, .2), never, never,
			Failed, Unknown},
		// It stalls between sending on the one and on the other, from 7 ms.
		{"stalled while sending", 57.1, p99, shots(0, .3, 3, .3, 6, .3), witness(0, .2, 3, .2, 57, -1), never, never, Alive,
			Unknown},
		// It judges before it has read: Now has not advanced.
		{"stalled here, not drained", 6.2, p99, shots(0, -1, 3, -1, 6, -1), witness(0, .2, 3, .2, 6, .2), never, never,
			Undecided, Unknown},

		{"a second witness testifies", 12, p99, shots(0, -1, 3, -1, 6, -1),
			append(witness(0, -1, 3, -1, 6, -1), Witness{"macvlan", p99, shots(6, .2)}), never, never, Failed, Unknown},
		{"peer gone", 700, p99, shots(0, -1, 3, -1, 6, -1, 600, -1), witness(0, -1, 3, -1, 6, -1, 600, -1), never, never,
			PeerGone, Unknown},
		{"not gone while one path was last heard", 700, p99, shots(0, -1, 3, -1, 6, -1, 600, -1),
			witness(0, -1, 300, .2, 303, -1, 306, -1, 600, -1), never, never, Undecided, Unknown},
		{"not gone for what a stall explains", 700, p99, shots(0, -1, 3, -1, 6, -1), witness(0, -1, 3, -1, 6, -1), never,
			never, Undecided, Unknown},
		{"nothing sent", 700, p99, nil, nil, never, never, Undecided, Unknown},
	} {
		v := DefaultRules().Judge(Suspicion{
			Start: at(0), Now: at(tt.now), P99: tt.p99, Shots: tt.suspect, Witnesses: tt.witnesses,
			Heard: tt.heard, PeerHeard: tt.told,
		})
		if v.State != tt.want || v.Direction != tt.direction {
			t.Errorf("%s: %s, %s (%s), expected %s, %s", tt.name, v.State, v.Direction, v.Why, tt.want, tt.direction)
		}
		if !v.Again.IsZero() && !v.Again.After(at(tt.now)) {
			t.Errorf("%s: judge again at %s, which has passed", tt.name, v.Again)
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
		want    State
	}{
		{"in time", 0, 9.3, shots(0, -1, 3, -1, 6, -1), shots(6, .2), Failed},
		{"10 ms late: too early", 10 * time.Millisecond, 18.9, shots(0, -1, 3, -1, 6, -1), shots(6, .2), Undecided},
		{"10 ms late: the witness's word is younger than that", 10 * time.Millisecond, 19.1, shots(0, -1, 3, -1, 6, -1),
			shots(6, .2), Undecided},
		{"10 ms late: long enough", 10 * time.Millisecond, 19.3, shots(0, -1, 3, -1, 6, -1), shots(6, .2), Failed},
		{"10 ms late, and so are answers", 10 * time.Millisecond, 14, shots(0, 13, 3, -1, 6, -1), shots(6, .2), Alive},
		{"a witness as late as we are", 10 * time.Millisecond, 40, shots(0, -1, 3, -1, 6, -1), shots(6, 9), Undecided},
		{"a clock that was set back", -time.Second, 9.3, shots(0, -1, 3, -1, 6, -1), shots(6, .2), Failed},
	} {
		v := DefaultRules().Judge(Suspicion{Start: at(0), Now: at(tt.now), P99: p99, Late: tt.late, Shots: tt.suspect,
			Witnesses: []Witness{{"vxlan", p99, tt.witness}}})
		if v.State != tt.want {
			t.Errorf("%s: %s (%s), expected %s", tt.name, v.State, v.Why, tt.want)
		}
	}
}

// TestJudgeTellsWhenToAsk: who follows Again and sends nothing more than a burst
// learns of a failure.
func TestJudgeTellsWhenToAsk(t *testing.T) {
	s := Suspicion{Start: at(0), Now: at(0), Witnesses: []Witness{{Name: "b"}}}
	for ms := 0.; ms < 9; ms += 3 {
		s.Shots = append(s.Shots, shots(ms, -1)...)
		s.Witnesses[0].Shots = append(s.Witnesses[0].Shots, shots(ms, .4)...)
	}
	for range 10 {
		v := DefaultRules().Judge(s)
		if v.State == Failed {
			if took := s.Now.Sub(s.Start); took > 10*time.Millisecond || v.Witness != "b" {
				t.Errorf("failed after %s by %s", took, v.Witness)
			}
			return
		}
		s.Now = v.Again
	}
	t.Error("no verdict")
}

// TestStalls plays stalls of 50 ms of either end, at every moment, on two paths
// that work, and judges at every millisecond: neither ever fails.
func TestStalls(t *testing.T) {
	const long = 50.
	for stall := -10.; stall < 60; stall++ {
		for _, here := range []bool{true, false} {
			for _, lag := range []float64{0, .5, 2} { // by which the suspect's answers trail after the stall
				var suspect, other []Shot
				for ms := 0.; ms < 120; ms += 3 {
					sent := ms
					if here && ms >= stall && ms < stall+long {
						continue // nothing is sent
					}
					answer := func(extra float64) float64 {
						if !here && sent+.1 >= stall && sent+.1 < stall+long {
							return stall + long + extra
						}
						return sent + .2
					}
					suspect = append(suspect, Shot{at(sent), at(answer(lag))})
					other = append(other, Shot{at(sent), at(answer(0))})
				}
				for now := 0.; now < 130; now += .25 {
					if here && now >= stall && now < stall+long {
						continue
					}
					v := DefaultRules().Judge(Suspicion{
						Start: at(0), Now: at(now), P99: 200 * time.Microsecond, Shots: until(suspect, at(now)),
						Witnesses: []Witness{{"other", 200 * time.Microsecond, until(other, at(now))}},
					})
					if v.State == Failed || v.State == PeerGone {
						t.Fatalf("stall at %v here=%v, judged at %v: %s (%s)", stall, here, now, v.State, v.Why)
					}
				}
			}
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
