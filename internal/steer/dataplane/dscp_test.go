package dataplane

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDSCPChangesInMidFlow: a connection changes its DSCP in mid-flow, as OpenSSH's do, is
// steered all the same, and each packet arrives with the DSCP that it was sent with; where
// its segments are made on the way, too, and where packets are encapsulated, as the network
// clears the DSCP. Fails if app_dscp gives the DSCP of the mark alone.
func TestDSCPChangesInMidFlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		offload string
		encap   bool
	}{{"on", false}, {"off", false}, {"on", true}, {"off", true}} {
		offload := c.offload
		t.Run(fmt.Sprintf("offload %s, encapsulated %t", offload, c.encap), func(t *testing.T) {
			b := newBedMTU(t, [3]int{1500, 1500, 9000})
			if b.encap = c.encap; c.encap {
				b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
					`add rule inet t f iifname { "p1n2", "p2n2" } ip dscp set 0`)
			}
			for _, dev := range []string{"p1n1", "p2n1", "p1n2", "p2n2"} {
				b.run(0, "ethtool", "-K", dev, "tso", offload, "gso", offload, "gro", offload)
			}
			for _, dev := range []string{"net1", "net2"} {
				b.run(1, "ethtool", "-K", dev, "tso", offload, "gso", offload)
				b.run(2, "ethtool", "-K", dev, "gro", offload)
			}
			b.open(1)
			b.open(2)
			classes := []int{0, 8, 18, 8, 40, 46, 8, 0, 16}
			b.countDSCP(classes)
			conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
			if err := exchange(conn, "hello"); err != nil {
				t.Fatal(err)
			}
			for path := range 3 {
				b.move(1, path)
				for _, dscp := range classes {
					setOption(t, conn, tos(false, 0), dscp<<2)
					before, seen := uint64(0), b.seenDSCP(dscp)
					if before, _ = b.crossed(1, path); path > 0 {
						seen = b.seenDSCP(dscp)
					}
					if err := exchange(conn, strings.Repeat("x", 300_000)); err != nil {
						t.Fatalf("path %d, DSCP %d: %v; %+v", path, dscp, err, b.planes[2].Events())
					}
					if after, _ := b.crossed(1, path); after < before+100 {
						t.Errorf("path %d, DSCP %d: %d packets took it", path, dscp, after-before)
					}
					if got := b.seenDSCP(dscp); got < seen+3 {
						t.Errorf("path %d, DSCP %d: %d packets arrived with it", path, dscp, got-seen)
					}
				}
			}
			if n := b.seenDSCP(-1); n > 0 {
				t.Errorf("%d packets arrived with a DSCP that nobody has set", n)
			}
			if e := b.planes[2].Events(); e.Forged > 0 || e.Errors > 0 {
				t.Errorf("events: %+v", e)
			}
		})
	}
}

// countDSCP counts what arrives in pod 2 by its DSCP.
func (b *bed) countDSCP(classes []int) {
	b.t.Helper()
	b.run(2, "nft", "add table ip d")
	b.run(2, "nft", "add chain ip d in { type filter hook input priority 0; }")
	set := map[int]bool{}
	for _, c := range classes {
		if set[c] {
			continue
		}
		set[c] = true
		b.run(2, "nft", fmt.Sprintf("add counter ip d c%d", c))
		b.run(2, "nft", fmt.Sprintf("add rule ip d in tcp dport 7001 ip dscp %d counter name c%d accept", c, c))
	}
	b.run(2, "nft", "add counter ip d others")
	b.run(2, "nft", "add rule ip d in tcp dport 7001 counter name others")
}

// seenDSCP is how many packets have arrived with a DSCP, -1 for those that are not counted.
func (b *bed) seenDSCP(dscp int) (n int) {
	b.t.Helper()
	name := fmt.Sprintf("c%d", dscp)
	if dscp < 0 {
		name = "others"
	}
	_, rest, _ := strings.Cut(b.run(2, "nft", "list", "counter", "ip", "d", name), "packets ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		b.t.Fatalf("counter %s: %v", name, err)
	}
	return n
}

// TestOtherEndKnowsEight: where the other end's data plane is of an earlier version, what
// it would take for forged stays on the default network and arrives, and is counted.
func TestOtherEndKnowsEight(t *testing.T) {
	b := newBed(t)
	b.eight = true
	b.open(1)
	b.open(2)
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	for _, c := range []struct {
		dscp  int
		moves bool
	}{{18, true}, {8, false}, {2, true}, {48, false}, {0, true}} {
		setOption(t, conn, option{unix.IPPROTO_IP, unix.IP_TOS, 0}, c.dscp<<2)
		before, _ := b.crossed(1, 2)
		stayed := b.planes[1].Events().DSCP
		for range 5 {
			if err := exchange(conn, strings.Repeat("x", 3000)); err != nil {
				t.Fatalf("DSCP %d: %v", c.dscp, err)
			}
		}
		after, _ := b.crossed(1, 2)
		if got := b.planes[1].Events().DSCP - stayed; c.moves != (after > before+4) || c.moves == (got > 4) {
			t.Errorf("DSCP %d: %d packets were steered, and %d told to have stayed", c.dscp, after-before, got)
		}
	}
}
