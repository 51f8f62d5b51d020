package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// pairOnTwo is a pair on a default network and one more.
func pairOnTwo() *pair {
	params := detect.Pairs()
	p := &pair{name: "a>b", routes: routes{{Network: "near"}, {Network: "far", Index: 1}}, host: &remoteHost{},
		lines: newLines(2, &params), accord: accord{opened: time.Now()}}
	p.assigned.Active = "near"
	return p
}

func TestApplyByClass(t *testing.T) {
	p := pairOnTwo()
	of := func(class decide.Class, kind decide.Kind, from, to string, buckets int) decide.Decision {
		ev := decide.PairEvidence{Class: class}
		return decide.Decision{Kind: kind, From: from, To: to, Buckets: buckets, Evidence: ev}
	}
	p.setAssignments(p.apply(of(decide.Bulk, decide.Canary, "near", "far", 32)))
	want := p.wanted(p.assignments())
	for b, path := range want {
		tried := flow.RowOf(uint8(b)) == 1 && b%flow.Width < flow.Width/2
		if path != map[bool]int{true: 1, false: 0}[tried] {
			t.Errorf("bucket %d of a canary of bulk: path %d", b, path)
		}
	}
	p.setAssignments(p.apply(of(decide.Bulk, decide.Switch, "near", "far", 64)))
	if p.assigned.Active != "near" || p.bulk.Active != "far" || !p.uses(0) || !p.uses(1) {
		t.Errorf("on %+v and %+v", p.assigned, p.bulk)
	}
	if as := p.apply(of("", decide.Fallback, "near", "near", 64)); as != p.routes.home() {
		t.Errorf("all home: %+v", as)
	}
	p.setAssignments(p.apply(of(decide.Interactive, decide.Switch, "near", "far", 64)))
	if p.bulk != (decide.Assignment{}) {
		t.Errorf("alike, and two: %+v", p.bulk)
	}
}

// Connections are counted by class once their row is said, which is when they have shown
// what they are, and only the pair's own.
func TestCountsByClass(t *testing.T) {
	p, by := &pair{accord: accord{peerLimited: 1}}, decide.DefaultClasses()
	local := sockdiag.Socket{}
	for i := range 5 {
		p.heads.begin(time.Unix(0, int64(i)*int64(countEvery)))
		n := uint64(i)
		bulk, dialogue := local, local
		bulk.ID, bulk.BytesAcked, bulk.DataOut, bulk.Unsent, bulk.Window = 1, n*1e6, uint32(n)*700, 1, 10
		dialogue.ID, dialogue.BytesAcked, dialogue.BytesReceived, dialogue.Window = 2, n*1e4, n*1e4, 10
		dialogue.DataOut, dialogue.DataIn = uint32(n)*100, uint32(n)*100
		stranger := bulk
		stranger.ID = 3
		for _, s := range []sockdiag.Socket{bulk, dialogue, stranger} {
			p.heads.see(s, &by)
		}
		p.counted(&p.heads)
		for _, c := range p.heads.changes { // as assignRows does
			is := p.heads.now[c.id]
			is.said, is.own = c.class, c.id != 3
			p.heads.now[c.id] = is
		}
	}
	for row, want := range []float64{1, 0} {
		if c := p.classes[row]; c.conns != 1 || c.limited.part != want || c.live != time.Unix(1, 0) {
			t.Errorf("row %d: %+v", row, c)
		}
	}
	p.heads.begin(time.Unix(9, 0))
	p.counted(&p.heads)
	if p.heads.ended(); len(p.heads.changes) != 1 || p.heads.changes[0].id != 1 || !p.heads.changes[0].gone {
		t.Errorf("ended: %+v", p.heads.changes)
	}
	if p.classes[1].conns != 0 {
		t.Errorf("none is there: %+v", p.classes[1])
	}
}

// What telemetry tells is told of the row that it is about, and of both together.
func TestLineTakesRows(t *testing.T) {
	var ln line
	now := time.Unix(1, 0)
	for _, acc := range []telemetry.Account{
		{Figures: telemetry.Figures{SRTT: time.Millisecond, BytesSent: 100, BytesAcked: 100, BytesReceived: 100,
			SegmentsOut: 2}},
		{Row: 1, Figures: telemetry.Figures{SRTT: time.Second, BytesSent: 3000, BytesAcked: 2000, SegmentsOut: 20,
			Timeouts: 1, Retransmits: 2}},
		{Row: 1, Theirs: true, Figures: telemetry.Figures{SRTT: time.Minute, BytesSent: 50, BytesAcked: 50, SegmentsOut: 1}},
	} {
		ln.take(acc, 100*time.Millisecond, now)
	}
	if ln.rtos != 1 || ln.unacked != 1000 || ln.figures.SRTT != time.Second || ln.retrans != 0.1 {
		t.Errorf("together: %+v", ln)
	}
	a, b := ln.rows[0], ln.rows[1]
	if a.goodput != 2000 || a.srtt != time.Millisecond || a.rtos != 0 || b.goodput != 20000 || b.rtos != 1 ||
		b.tx != 30000 || b.rx != 1000 {
		t.Errorf("rows: %+v", ln.rows)
	}
}

// TestStaysInRow: a connection keeps its bucket while it is asked about, and while that is on a detour.
func TestStaysInRow(t *testing.T) {
	conn := ports{4000, 80}
	bucket := flow.Row(1).Bucket(flow.Bucket(conn[0], conn[1], protocolTCP))
	params := detect.Pairs()
	over := detect.NewDetour(&params, 0, detect.Progress{}, time.Unix(1e9, 0))
	over.Abandon(time.Unix(1e9, 0))
	for _, tt := range []struct {
		name      string
		inquiries map[ports]*inquiry
		detours   detours
		row       flow.Row
		want      bool
	}{
		{"nothing", nil, nil, 1, false},
		{"it is asked about", map[ports]*inquiry{conn: {}}, nil, 0, true},
		{"another is", map[ports]*inquiry{{1, 2}: {}}, nil, 0, false},
		{"it was", map[ports]*inquiry{conn: {begun: true, Detour: over}}, nil, 0, false},
		{"it is on a detour", nil, detours{bucket: {out: true}}, 1, true},
		{"its bucket of the other row is", nil, detours{bucket: {out: true}}, 0, false},
		{"it was on a detour", nil, detours{bucket: {}}, 1, false},
	} {
		p := &pair{}
		p.inquiries, p.detours = tt.inquiries, tt.detours
		if got := p.staysInRow(conn, tt.row); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
