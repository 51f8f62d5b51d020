package telemetry

import (
	"net/netip"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// TestRowOfAConnection: what a connection does is told of its bucket in the row that was said,
// from then on, and of the first row again when that is said.
func TestRowOfAConnection(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	cookie, err := c.Watch(client)
	must(t, err)
	k := connect(t, server4)
	local, port := ports(k)
	pair := Pair{Netns: cookie, Remote: netip.MustParseAddr(server4)}
	for _, row := range []flow.Row{0, 1, 1, 0} {
		must(t, c.SetRow(pair, local, port, row))
		read(t, c, nil)
		k.send(t, megabyte)
		k.settle(t)
		want := Key{Netns: cookie, Remote: pair.Remote, Bucket: row.Bucket(flow.Bucket(local, port, 6))}
		got, flows := read(t, c, func(f Flow) bool { return f.Netns == cookie && f.SegmentsOut > 0 })
		if len(flows) != 1 || flows[0].Key != want || got.BytesAcked == 0 {
			t.Errorf("row %d: %+v, not of %+v", row, flows, want)
		}
	}
}

// TestLedgerTellsRowsApart: rows that are on one path have an account each.
func TestLedgerTellsRowsApart(t *testing.T) {
	var l Ledger
	p := Pair{Netns: 1, Remote: netip.MustParseAddr("10.0.0.1")}
	r := Reading{From: time.Second, To: 2 * time.Second}
	for b := range uint8(flow.Buckets) {
		r.Flows = append(r.Flows, Flow{Key: Key{Netns: p.Netns, Remote: p.Remote, Bucket: b},
			Figures: Figures{BytesAcked: 1 + uint64(flow.RowOf(b))}})
	}
	got := l.Fold(r)
	if len(got) != 2 || got[0].Row != 0 || got[1].Row != 1 || got[0].BytesAcked != flow.Width ||
		got[1].BytesAcked != 2*flow.Width {
		t.Errorf("%+v", got)
	}
}
