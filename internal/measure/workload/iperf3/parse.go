package iperf3

import (
	"encoding/json"
	"fmt"
	"math"
)

// report is what one iperf3 process told with -J.
type report struct {
	// Spans of all streams, in the order in which they were measured.
	Spans []span
	// Congestion is the congestion control that the sender really used.
	Congestion string
	// Failure is what the process says went wrong, "" if nothing.
	Failure string
}

// span is one stream's figures between two moments, in seconds from the start
// of the test as this end saw it.
type span struct {
	From, To float64
	// Bytes sent or received. Packets are those sent, or at the receiver those
	// that the sequence numbers say were sent so far; Lost is the part of them
	// that has not arrived. Lost is negative where late ones came.
	Bytes, Packets, Lost, Retransmits float64
	// Jitter in seconds (RFC 1889).
	Jitter float64
}

// document is the part of iperf3's JSON that is read.
type document struct {
	Intervals []struct {
		Streams []struct {
			Start       float64 `json:"start"`
			End         float64 `json:"end"`
			Bytes       float64 `json:"bytes"`
			Packets     float64 `json:"packets"`
			Lost        float64 `json:"lost_packets"`
			Retransmits float64 `json:"retransmits"`
			Jitter      float64 `json:"jitter_ms"`
		} `json:"streams"`
	} `json:"intervals"`
	End struct {
		Congestion string `json:"sender_tcp_congestion"`
	} `json:"end"`
	Error string `json:"error"`
}

// parse reads what "iperf3 -J" printed. The totals at its end are left alone:
// they cover the warm-up too, and with -O they are wrong for UDP (iperf3 issue
// 1489: a loss of 179 %). A report of a failure is no error here.
func parse(stdout []byte) (report, error) {
	var doc document
	if err := json.Unmarshal(stdout, &doc); err != nil {
		return report{}, fmt.Errorf("read iperf3's JSON: %w", err)
	}
	rep := report{Congestion: doc.End.Congestion, Failure: doc.Error}
	for i, interval := range doc.Intervals {
		for k, s := range interval.Streams {
			if s.End < s.Start || !counts(s.Start, s.End, s.Bytes, s.Packets, s.Retransmits, s.Jitter, math.Abs(s.Lost)) {
				return report{}, fmt.Errorf("read iperf3's JSON: interval %d, stream %d: figures that cannot be: %+v", i+1, k+1, s)
			}
			rep.Spans = append(rep.Spans, span{From: s.Start, To: s.End, Bytes: s.Bytes, Packets: s.Packets,
				Lost: s.Lost, Retransmits: s.Retransmits, Jitter: s.Jitter / 1000})
		}
	}
	return rep, nil
}

// counts reports whether the figures can be what a program counted.
func counts(figures ...float64) bool {
	const most = 1 << 60
	for _, f := range figures {
		if !(f >= 0 && f < most) {
			return false
		}
	}
	return true
}
