package iperf3

import (
	"math"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// totals is what one end of a pair counted in a part of its test.
type totals struct {
	// Seconds of the part that the figures cover.
	Seconds                           float64
	Bytes, Packets, Lost, Retransmits float64
	// Jitter is the mean over the packets.
	Jitter float64
}

// clip sums the spans between two moments. A span that is partly outside
// counts by its share: iperf3's own timers are late by some milliseconds, and
// the window need not begin on one of its intervals.
func clip(spans []span, from, to float64) totals {
	var t totals
	first, last, jitter := math.Inf(1), math.Inf(-1), 0.0
	for _, s := range spans {
		begin, end := math.Max(from, s.From), math.Min(to, s.To)
		if end <= begin {
			continue
		}
		share := (end - begin) / (s.To - s.From)
		first, last = math.Min(first, begin), math.Max(last, end)
		t.Bytes += share * s.Bytes
		t.Packets += share * s.Packets
		t.Lost += share * s.Lost
		t.Retransmits += share * s.Retransmits
		jitter += share * s.Packets * s.Jitter
	}
	t.Seconds = math.Max(0, last-first)
	t.Lost = math.Max(0, t.Lost)
	if t.Packets > 0 {
		t.Jitter = jitter / t.Packets
	}
	return t
}

// bits is the rate in bits per second.
func (t totals) bits() float64 {
	if t.Seconds == 0 {
		return 0
	}
	return 8 * t.Bytes / t.Seconds
}

// edge is the share of what was sent that the ends may disagree on because
// their windows do not end at the same moment.
const edge = 0.01

// lost returns how many datagrams were lost of how many sent. The receiver's
// sequence numbers decide, as the sender does not know (iperf3 issue 1984: it
// says 0 % where the receiver saw 27 %); but the receiver cannot miss what came
// after the last datagram that it got, so a gap beyond the windows' edges
// between what was sent and what it knows of is lost as well.
func lost(sent, got totals) (lost, of float64) {
	lost, of = got.Lost, got.Packets
	if unseen := sent.Packets - got.Packets; unseen > edge*sent.Packets {
		lost, of = lost+unseen, sent.Packets
	}
	return math.Min(lost, of), of
}

// series is the throughput of all pairs in steps through the window.
func series(pairs []pairRun, window time.Duration, step float64) []sample.Point {
	n := int(window.Seconds()/step + 1e-9)
	out := make([]sample.Point, n)
	for k := range out {
		at := float64(k) * step
		out[k].At = at
		for _, p := range pairs {
			out[k].Value += clip(p.server.Spans, p.from+at, p.from+at+step).bits()
		}
	}
	return out
}
