package agent

import (
	"testing"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// TestTroubleIsJudgedOnce: a thousand timeouts say of a path that there was one.
func TestTroubleIsJudgedOnce(t *testing.T) {
	var tr trouble
	var own, followed [dataplane.Buckets]dataplane.Choice
	for range 1000 {
		tr.add(telemetry.Event{Key: telemetry.Key{Bucket: 7}, Kind: telemetry.Timeout, Count: 9})
	}
	tr.add(telemetry.Event{Kind: telemetry.TailProbe, Count: 50})
	own[7] = dataplane.Choice{Path: 1}
	if !tr.on(1, own, followed) || !tr.on(0, own, followed) || tr.on(2, own, followed) || !tr.probes || !tr.timedOut {
		t.Errorf("on its path %v, on the default one %v, elsewhere %v", tr.on(1, own, followed), tr.on(0, own, followed),
			tr.on(2, own, followed))
	}
	followed[7] = dataplane.Choice{Path: 1, Notified: true}
	if tr.on(0, own, followed) { // no flow of that bucket is on the default network
		t.Error("on the default network")
	}
}

// TestBatches: what waits is taken at once, and no more than there is room for.
func TestBatches(t *testing.T) {
	events := make(chan telemetry.Event, 10)
	for i := range 9 {
		events <- telemetry.Event{Kind: telemetry.Timeout, LocalPort: uint16(i)}
	}
	if got := take(make([]telemetry.Event, 1, 4), events); len(got) != 4 || len(events) != 6 {
		t.Errorf("%d taken, %d wait", len(got), len(events))
	}
	close(events)
	if got := take(make([]telemetry.Event, 1, 40), events); len(got) != 7 {
		t.Errorf("%d taken", len(got))
	}
}
