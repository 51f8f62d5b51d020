package agent

import (
	"net/netip"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// TestEvidenceWaitsForAReading: but not for long, and asks for no second one while
// the first is on its way.
func TestEvidenceWaitsForAReading(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSurvey(nil)
	if !s.informed(now) {
		t.Error("without telemetry it waits")
	}
	s.passive = &telemetry.Collector{}
	s.connected = now
	came := func() {
		s.do(func() { s.wanted, s.came, s.latest = false, true, telemetry.Reading{From: 1, To: 2} })
	}
	for i, step := range []struct {
		after         time.Duration
		came          bool
		want, pending bool // it is informed; a reading is on its way
	}{
		{0, false, false, true},
		{time.Millisecond, false, false, true},
		{2 * time.Millisecond, true, true, false},
		{epoch, false, false, true},
		{epoch + patient, false, true, true},      // too late
		{2*epoch + patient, false, true, true},    // still: nobody waits for it again
		{2*epoch + 2*patient, true, true, false},  // it came
		{3*epoch + 2*patient, false, false, true}, // and so there is the next one
		{4*epoch + 2*patient, true, true, false},  // which is taken
		{quiet + 2*epoch, false, true, false},     // no connections, read a moment ago: none is needed
		{quiet + 20*epoch, false, false, true},    // it was long ago
	} {
		at := now.Add(step.after)
		if step.came {
			came()
		}
		if i == 9 {
			s.read = at.Add(-epoch)
		}
		got := s.informed(at)
		if pending, _ := s.pending(); got != step.want || pending != step.pending {
			t.Errorf("step %d: informed %v, pending %v", i, got, pending)
		}
		if _, ok := s.reading(at); ok != step.came {
			t.Errorf("step %d: a reading: %v", i, ok)
		}
	}
}

// TestSurveyIsAsked: the latest set of peers counts, every namespace that has gone.
func TestSurveyIsAsked(t *testing.T) {
	s := newSurvey(nil)
	s.limit([]netip.Addr{netip.MustParseAddr("10.0.0.1")})
	s.limit([]netip.Addr{netip.MustParseAddr("10.0.0.2")})
	s.unwatch(7)
	s.unwatch(8)
	if len(s.peers) != 1 || s.peers[0] != netip.MustParseAddr("10.0.0.2") || len(s.gone) != 2 || len(s.bell) != 1 {
		t.Errorf("%v, %v", s.peers, s.gone)
	}
}
