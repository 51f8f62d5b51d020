package dataplane

import (
	"fmt"
	"testing"
	"time"
)

// TestWhoWaitsIsReported: after each answer, however soon, nothing is waited for; a
// question into a dead path is, by the moment at which it went.
func TestWhoWaitsIsReported(t *testing.T) {
	t.Parallel()
	for path := range 2 {
		for _, network := range []string{"tcp", "udp"} {
			// A bed for each: a link that comes up again carries nothing for up to a
			// second (linkwatch).
			t.Run(fmt.Sprintf("%s, path %d", network, path), func(t *testing.T) { tellWhoWaits(t, network, path) })
		}
	}
}

func tellWhoWaits(t *testing.T, network string, path int) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	conn := b.echo(network, "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "on the default network"); err != nil {
		t.Fatal(err)
	}
	b.move(1, path)
	for n := range 200 {
		if err := exchange(conn, "well?"); err != nil {
			t.Fatal(err)
		}
		sent, received, err := b.planes[1].Tallies("pod-2", path)
		if err != nil || sent.Last == 0 || sent.Last > received.Last {
			t.Fatalf("trip %d: sent %v, received %v, %v", n, sent.Last, received.Last, err)
		}
	}
	b.run(0, "ip", "link", "set", fmt.Sprintf("p2n%d", path), "down")
	before := time.Duration(coarse())
	if _, err := conn.Write([]byte("well?")); err != nil {
		t.Fatal(err)
	}
	sent, received, err := b.planes[1].Tallies("pod-2", path)
	if err != nil || sent.Last <= received.Last || sent.Last < before {
		t.Errorf("dead: sent %v, not before %v, received %v, %v", sent.Last, before, received.Last, err)
	}
}
