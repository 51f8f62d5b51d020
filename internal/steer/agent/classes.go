package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// rowReading is what telemetry last reported of the connections of a row, on one path.
type rowReading struct {
	reportedAt time.Time
	srtt       time.Duration
	rtos       int
	retrans    float64
	// tx and rx are bytes a second, both ways, and goodput what arrived of them.
	tx, rx, goodput float64
	segments        uint64
}

// acknowledging is about how much comes back for each byte that TCP sends.
const acknowledging = 1.0 / 20

// take takes what was reported of a row's connections in a span of time.
func (ln *line) take(acc telemetry.Account, span time.Duration, now time.Time) {
	at := int(acc.Row) % flow.Rows
	if acc.Theirs {
		at += flow.Rows
	}
	r := &ln.rows[at]
	r.reportedAt, r.srtt, r.segments = now, acc.SRTT, acc.SegmentsOut
	if acc.SegmentsOut > 0 {
		r.retrans = min(float64(acc.Retransmits)/float64(acc.SegmentsOut), 1)
	}
	r.rtos += int(acc.Timeouts)
	if s := span.Seconds(); s > 0 {
		r.tx += float64(acc.BytesSent) / s
		r.rx += (float64(acc.BytesReceived) + acknowledging*float64(acc.BytesAcked)) / s
		r.goodput += float64(acc.BytesReceived+acc.BytesAcked) / s
	}
	ln.reportedAt = now
	ln.rtos += int(acc.Timeouts)
	ln.unacked += int64(acc.BytesSent) - int64(acc.BytesAcked)
	if !slices.ContainsFunc(ln.rows[:], func(other rowReading) bool { return other.segments > r.segments }) {
		ln.figures, ln.retrans = acc.Figures, r.retrans // of what has most of them
	}
}

// classCount is what was counted of a pair's own connections of one class.
type classCount struct {
	conns int
	// limited is the share of the class's traffic that applications limit.
	limited share
	// live is when one of them last carried something.
	live time.Time
}

// rowEvidence is all that is known of a pair, and of each row of its own flows.
func (j *judge) rowEvidence(p *pair, now time.Time) decide.RowEvidence {
	ev := decide.RowEvidence{All: j.evidence(p, now), Others: now.Sub(p.others) < time.Second}
	if p.pin() != "" {
		p.rows.Live = [flow.Rows]time.Duration{} // all flows go there
	}
	ev.Of = p.ofRows(ev.All, now)
	for row := range ev.Live {
		ev.Live[row] = p.pin() == "" && p.takesRows && now.Sub(p.classes[row].live) < time.Second
	}
	return ev
}

// ofRows is the evidence about the flows of each row.
func (p *pair) ofRows(ev decide.PairEvidence, now time.Time) (of [flow.Rows]decide.PairEvidence) {
	choices, err := p.local.plane.Choices(p.remote.UID)
	on := [flow.Rows]map[int]int{{}, {}} // buckets of each row, by path
	for b, c := range choices {
		if err == nil {
			on[flow.RowOf(uint8(b))][c.Path]++
		}
	}
	for row := range of {
		of[row] = p.ofRow(ev, row, on[row], now)
	}
	return of
}

// ofRow is the evidence about the flows of one row, of which so many buckets are on each path.
func (p *pair) ofRow(ev decide.PairEvidence, row int, on map[int]int, now time.Time) decide.PairEvidence {
	ev.Class, ev.Active, ev.Paths = decide.ClassOf(row), p.at(p.assignments()[row]).Network, slices.Clone(ev.Paths)
	ev.Load.Connections, ev.Pause = p.classes[row].conns, true
	for i, r := range p.routes {
		e := &ev.Paths[i]
		e.Data, e.Buckets = p.rowData(i, row, now), flow.Rows*on[r.Index] // of as many as all rows have
		ev.Pause = ev.Pause && e.Data.Tx+e.Data.Rx == 0
	}
	return ev
}

// rowData is what the traffic of one row tells of path i. Who waits for answers sends no more
// than it has.
func (p *pair) rowData(i, row int, now time.Time) decide.Data {
	ln := &p.lines[i]
	r := ln.rows[row]
	d := decide.Data{Goodput: 8 * r.goodput, Tx: r.tx, Rx: r.rx, RTOs: r.rtos, Retrans: r.retrans,
		Blank: p.data(i, now).Blank}
	if c := p.classes[row].limited; decide.ClassOf(row) != decide.Bulk || !c.known || c.part > 0.5 {
		d.AppLimited = true
	}
	if now.Sub(r.reportedAt) < reportHolds {
		d.SRTT = r.srtt.Seconds()
	}
	return d
}
