package flow_test

import (
	"testing"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// TestBucketIsTheAgreedFunction pins values: a change here separates the agent
// from data planes that are already loaded.
func TestBucketIsTheAgreedFunction(t *testing.T) {
	for _, c := range []struct {
		sport, dport uint16
		proto, want  uint8
	}{
		{40000, 80, 6, 20},
		{80, 40000, 6, 20},
		{40001, 80, 6, 30},
		{40000, 80, 17, 12},
		{0, 0, 0, 0},
		{0xffff, 0, 6, 17},
		{0, 0, 1, 0},
	} {
		if got := flow.Bucket(c.sport, c.dport, c.proto); got != c.want {
			t.Errorf("%d %d %d: bucket %d, not %d", c.sport, c.dport, c.proto, got, c.want)
		}
	}
}

func TestBucketIsSymmetric(t *testing.T) {
	for a := uint32(0); a < 1<<16; a += 37 {
		for _, b := range []uint16{22, 80, 443, 5201, 50000} {
			for _, proto := range []uint8{6, 17} {
				if flow.Bucket(uint16(a), b, proto) != flow.Bucket(b, uint16(a), proto) {
					t.Fatalf("%d %d %d: the two directions disagree", a, b, proto)
				}
			}
		}
	}
}

// TestBucketSpreads: consecutive ephemeral ports, as one client's connections
// to one server have, must use all buckets evenly. 4096 ports make 128 a bucket;
// random ones would lie within 11 (one standard deviation) most of the time.
func TestBucketSpreads(t *testing.T) {
	for _, server := range []uint16{80, 5201, 27017} {
		for _, step := range []int{1, 2} { // Linux gives connect() even or odd ports first
			var n [flow.Width]int
			for i := range 4096 {
				n[flow.Bucket(uint16(32768+step*i), server, 6)]++
			}
			for b, got := range n {
				if got < 64 || got > 256 {
					t.Errorf("server port %d, step %d: bucket %d got %d of 4096 flows", server, step, b, got)
				}
			}
		}
	}
}

// TestRowsHoldAllBuckets: each bucket is of one row, and has one place in each of the others.
func TestRowsHoldAllBuckets(t *testing.T) {
	for b := range uint8(flow.Buckets) {
		if got := flow.RowOf(b).Bucket(b); got != b {
			t.Errorf("bucket %d is %d of its row", b, got)
		}
		for r := range flow.Row(flow.Rows) {
			if other := r.Bucket(b); flow.RowOf(other) != r || flow.RowOf(b).Bucket(other) != b {
				t.Errorf("bucket %d has %d in row %d", b, other, r)
			}
		}
	}
}
