package agent

import (
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// readings are what telemetry tells of pairs' connections.
type readings struct {
	members *members
	survey  *survey
	ledger  *telemetry.Ledger
	changes int // of the members, that telemetry is limited to
}

// take takes what was read of what the kernel counted about TCP connections.
func (rd *readings) take(now time.Time) {
	for p := range rd.members.pairs() {
		for i := range p.lines {
			p.lines[i].retrans, p.lines[i].rtos, p.lines[i].unacked = 0, 0, 0
		}
	}
	r, ok := rd.survey.reading(now)
	if !ok {
		return
	}
	by := map[telemetry.Pair]*pair{}
	for p := range rd.members.pairs() {
		by[p.telemetryPair()] = p
	}
	for _, acc := range rd.ledger.Fold(r) {
		p := by[acc.Pair]
		if p == nil {
			continue
		}
		for i, r := range p.routes {
			if uint8(r.Index) == acc.Path && acc.SegmentsOut+acc.RTT.Count > 0 {
				ln := &p.lines[i]
				ln.figures, ln.heard, ln.rtos = acc.Figures, now, int(acc.Timeouts)
				ln.unacked += int64(acc.BytesSent) - int64(acc.BytesAcked)
				if acc.SegmentsOut > 0 {
					ln.retrans = min(float64(acc.Retransmits)/float64(acc.SegmentsOut), 1)
				}
			}
		}
	}
}

// observe limits telemetry to connections with peers.
func (rd *readings) observe() {
	if rd.survey.passive == nil || rd.changes == rd.members.changes {
		return
	}
	rd.changes = rd.members.changes
	var peers []netip.Addr
	for p := range rd.members.pairs() {
		peers = append(peers, p.telemetryPair().Remote)
	}
	slices.SortFunc(peers, netip.Addr.Compare)
	peers = slices.Compact(peers)
	rd.survey.limit(peers)
}
