package steer

import (
	"fmt"
	"testing"
	"time"
)

// TestWhoWaitsIsTold: after each answer, however soon, nothing is waited for; a
// question into a dead path is, by the moment at which it went.
func TestWhoWaitsIsTold(t *testing.T) {
	for path := range 2 {
		b := newBed(t)
		b.open(1)
		b.open(2)
		for i, network := range []string{"tcp", "udp"} {
			at := fmt.Sprintf("10.90.2.2:%d", 7001+i)
			conn := b.echo(network, at, at)
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
					t.Fatalf("%s, path %d, trip %d: sent %v, received %v, %v", network, path, n, sent.Last, received.Last, err)
				}
			}
			dev := fmt.Sprintf("p2n%d", path)
			b.run(0, "ip", "link", "set", dev, "down")
			before := time.Duration(coarse())
			if _, err := conn.Write([]byte("well?")); err != nil {
				t.Fatal(err)
			}
			sent, received, err := b.planes[1].Tallies("pod-2", path)
			if err != nil || sent.Last <= received.Last || sent.Last < before {
				t.Errorf("%s, path %d, dead: sent %v, not before %v, received %v, %v", network, path, sent.Last, before, received.Last, err)
			}
			b.run(0, "ip", "link", "set", dev, "up")
			b.move(1, 0)
		}
	}
}
