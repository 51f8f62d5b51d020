package telemetry

import (
	"net/netip"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// TestBucketOfAConnection: what a connection does is told of the bucket that was said, and of the end that was said to
// have opened it, from then on, and of the one by its ports again when that is forgotten.
func TestBucketOfAConnection(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	cookie, err := c.Watch(client)
	must(t, err)
	k := connect(t, server4)
	local, port := ports(k)
	pair := Pair{Netns: cookie, Remote: netip.MustParseAddr(server4)}
	conn, first := Connection{pair, local, port}, flow.Bucket(local, port, 6)
	for _, tt := range []struct {
		say    func() error
		bucket uint8
		theirs bool
	}{
		{func() error { return nil }, first, false},
		{func() error { return c.SetBucket(conn, flow.Row(1).Bucket(first), false) }, flow.Row(1).Bucket(first), false},
		{func() error { return c.SetBucket(conn, 63, true) }, 63, true},
		{func() error { return c.SetBucket(conn, 0, true) }, 0, true},
		{func() error { return c.ForgetBucket(conn) }, first, false},
		{func() error { return c.ForgetBucket(conn) }, first, false},
	} {
		must(t, tt.say())
		read(t, c, nil)
		k.send(t, megabyte)
		k.settle(t)
		want := Key{Netns: cookie, Remote: pair.Remote, Bucket: tt.bucket, Theirs: tt.theirs}
		got, flows := read(t, c, func(f Flow) bool { return f.Netns == cookie && f.SegmentsOut > 0 })
		if len(flows) != 1 || flows[0].Key != want || got.BytesAcked == 0 {
			t.Errorf("%+v, not of %+v", flows, want)
		}
	}
}

// TestLedgerTellsEndsApart: what the remote end has opened has accounts of its own, where its buckets are.
func TestLedgerTellsEndsApart(t *testing.T) {
	var l Ledger
	ours := Key{Netns: 1, Remote: netip.MustParseAddr("10.0.0.1"), Bucket: 7}
	theirs := ours
	theirs.Theirs = true
	l.Moved(theirs, 2, time.Second)
	got := l.Fold(Reading{From: 2 * time.Second, To: 3 * time.Second, Flows: []Flow{
		{Key: ours, Figures: Figures{BytesAcked: 1}}, {Key: theirs, Figures: Figures{BytesAcked: 2}}}})
	if len(got) != 2 || got[0].Theirs || got[0].Path != 0 || got[0].BytesAcked != 1 ||
		!got[1].Theirs || got[1].Path != 2 || got[1].BytesAcked != 2 {
		t.Errorf("%+v", got)
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
