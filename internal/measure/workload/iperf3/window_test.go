package iperf3

import (
	"math"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestClip(t *testing.T) {
	// Two streams in intervals of a second; the second stream's end late.
	spans := []span{
		{From: 0, To: 1, Bytes: 1000, Packets: 10, Lost: 1, Retransmits: 2, Jitter: 1e-3},
		{From: 0, To: 1.1, Bytes: 1100, Packets: 11, Lost: 0, Jitter: 1e-3},
		{From: 1, To: 2, Bytes: 3000, Packets: 30, Lost: -3, Jitter: 3e-3},
		{From: 1.1, To: 2, Bytes: 900, Packets: 9, Lost: 9, Jitter: 3e-3},
	}
	for name, tc := range map[string]struct {
		from, to float64
		want     totals
	}{
		"all": {0, 2, totals{Seconds: 2, Bytes: 6000, Packets: 60, Lost: 7, Retransmits: 2,
			Jitter: (10*1e-3 + 11*1e-3 + 30*3e-3 + 9*3e-3) / 60}},
		"half a span": {0.5, 1, totals{Seconds: 0.5, Bytes: 1000, Packets: 10, Lost: 0.5, Retransmits: 1, Jitter: 1e-3}},
		"over the ends": {-1, 5, totals{Seconds: 2, Bytes: 6000, Packets: 60, Lost: 7, Retransmits: 2,
			Jitter: (21*1e-3 + 39*3e-3) / 60}},
		"outside":   {2, 3, totals{}},
		"backwards": {1, 0, totals{}},
	} {
		got := clip(spans, tc.from, tc.to)
		if !near(got.Seconds, tc.want.Seconds) || !near(got.Bytes, tc.want.Bytes) || !near(got.Packets, tc.want.Packets) ||
			!near(got.Lost, tc.want.Lost) || !near(got.Retransmits, tc.want.Retransmits) || !near(got.Jitter, tc.want.Jitter) {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
	late := clip([]span{{From: 0, To: 1, Packets: 10, Lost: -4}}, 0, 1)
	if late.Lost != 0 {
		t.Errorf("late datagrams made a loss of %g, want 0", late.Lost)
	}
}

func TestLost(t *testing.T) {
	for name, tc := range map[string]struct {
		sent, got totals
		lost, of  float64
	}{
		"none":                      {totals{Packets: 100}, totals{Packets: 100}, 0, 100},
		"seen by the receiver":      {totals{Packets: 100}, totals{Packets: 100, Lost: 20}, 20, 100},
		"windows a little apart":    {totals{Packets: 1000}, totals{Packets: 995, Lost: 5}, 5, 995},
		"receiver a little ahead":   {totals{Packets: 1000}, totals{Packets: 1005, Lost: 5}, 5, 1005},
		"tail that it never saw":    {totals{Packets: 1000}, totals{Packets: 600, Lost: 100}, 500, 1000},
		"black hole":                {totals{Packets: 1000}, totals{}, 1000, 1000},
		"more lost than there were": {totals{Packets: 10}, totals{Packets: 10, Lost: 12}, 10, 10},
		"nothing sent":              {totals{}, totals{}, 0, 0},
	} {
		if lost, of := lost(tc.sent, tc.got); lost != tc.lost || of != tc.of {
			t.Errorf("%s: got %g of %g, want %g of %g", name, lost, of, tc.lost, tc.of)
		}
	}
}

func TestLocate(t *testing.T) {
	epoch := time.Unix(1000, 0)
	at := func(s float64) time.Time { return epoch.Add(time.Duration(s * 1e9)) }
	spans := []span{{From: 0, To: 2}}
	for name, tc := range map[string]struct {
		connected, exited, begin, end float64
		from                          float64
		within                        time.Duration
	}{
		"prompt":                 {0, 2, 0.5, 1.5, 0.5, 0},
		"slow exit":              {0, 2.02, 0.5, 1.5, 0.49, 10 * time.Millisecond},
		"noticed late":           {0.3, 2.1, 0.8, 1.8, 0.7, 0},
		"window to the very end": {0, 2.02, 1.015, 2.015, 1.0, 10 * time.Millisecond},
		"window beyond the end":  {0, 2, 1.5, 2.5, 1.5, 0},
	} {
		p := pairRun{connected: at(tc.connected), exited: at(tc.exited), client: report{Spans: spans}}
		p.locate(workload.Span{Begin: at(tc.begin), End: at(tc.end)})
		if math.Abs(p.from-tc.from) > 1e-6 || (p.within-tc.within).Abs() > time.Microsecond {
			t.Errorf("%s: got %.6f within %v, want %.6f within %v", name, p.from, p.within, tc.from, tc.within)
		}
	}
}

func TestSeries(t *testing.T) {
	a := pairRun{server: report{Spans: []span{{From: 0, To: 1, Bytes: 100}, {From: 1, To: 2, Bytes: 300}}}, from: 0.5}
	b := pairRun{server: report{Spans: []span{{From: 0, To: 2, Bytes: 1000}}}}
	got := series([]pairRun{a, b}, 1500*time.Millisecond, 0.5)
	want := []float64{8 * (100 + 500), 8 * (300 + 500), 8 * (300 + 500)}
	if len(got) != len(want) {
		t.Fatalf("got %d points, want %d", len(got), len(want))
	}
	for i, p := range got {
		if !near(p.At, float64(i)*0.5) || !near(p.Value, want[i]) {
			t.Errorf("point %d: got %+v, want %g", i, p, want[i])
		}
	}
}

func TestCovered(t *testing.T) {
	w := workload.Window{Duration: time.Second}
	if err := covered(totals{Seconds: 0.95}, w); err != nil {
		t.Error(err)
	}
	if err := covered(totals{Seconds: 0.85}, w); err == nil {
		t.Error("records of 0.85 s cover a window of 1 s: want an error")
	}
}
