package dataplane

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestReturnThroughConntrack: the networks track connections and drop what they call
// invalid. A path that the flow enters for the first time takes it up
// (nf_conntrack_tcp_loose); one that it returns to stalls it, as the entry there knows
// windows that TCP has left since. That is why such networks are to be encapsulated on
// (TestEncap). At a low rate the windows still fit and the fault hides, hence
// 200 Mbit/s.
func TestReturnThroughConntrack(t *testing.T) {
	t.Parallel()
	for direction, reverse := range map[string]bool{"sent": false, "received": true} {
		t.Run(direction, func(t *testing.T) {
			b := newBed(t)
			b.open(1)
			b.open(2)
			b.nft("add table inet t", "add counter inet t invalid", "add chain inet t f { type filter hook forward priority 0; }",
				`add rule inet t f ct state invalid counter name invalid drop`)
			s := b.bulk("10.90.2.2:7001", 25e6, reverse)
			if err := s.more(5e6); err != nil {
				t.Fatal(err)
			}
			b.move(1, 2)
			if err := s.more(25e6); err != nil {
				t.Fatalf("a path entered for the first time: %v; %d invalid", err, b.count("invalid"))
			}
			b.move(1, 0)
			if err := s.within(5e6, 2*time.Second); err == nil {
				t.Errorf("no stall (%d packets invalid): docs/explanation/data-plane.md says that there is", b.count("invalid"))
			}
		})
	}
}

// TestEndsLearnAtDifferentTimes: the ends learn of a switch at different times. Until the other end's
// agent is notified, it answers as before, and nothing is lost; no packet moves anything.
// Fails if pw_path_ingress looks at the path that was chosen.
func TestEndsLearnAtDifferentTimes(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for _, conn := range []net.Conn{b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001"),
		b.echo("udp6", "[fd90:2::2]:7001", "[fd90:2::2]:7001"),
		b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")} {
		b.move(1, 0)
		for range 3 {
			if err := exchange(conn, "hello"); err != nil {
				t.Fatal(err)
			}
		}
		was := 0
		for _, path := range []int{2, 1, 2, 0, 1, 0} {
			for _, notified := range []bool{false, true} {
				want := was
				if b.lead(1, path); notified {
					b.tell(1)
					want = path
				}
				before := [3]uint64{}
				for p := range before {
					before[p], _ = b.crossed(2, p)
				}
				if err := exchange(conn, "one packet"); err != nil {
					t.Fatal(err)
				}
				for p := range before {
					if after, _ := b.crossed(2, p); (after > before[p]) != (p == want) {
						t.Errorf("moved to path %d, notified %v: the other end answered with %d packets over path %d, expected some over %d alone",
							path, notified, after-before[p], p, want)
					}
				}
			}
			was = path
		}
	}
}

// TestSwitchUnderBulk: the end that sends is the one that learns by packets; also where
// direct routes lead to one of the paths.
func TestSwitchUnderBulk(t *testing.T) {
	for _, dev := range []string{"", "net1"} {
		t.Run("direct "+dev, func(t *testing.T) { switchBulk(t, dev) })
	}
}

func switchBulk(t *testing.T, direct string) {
	b := newBedMTU(t, [3]int{1450, 1450, 9000}) // nothing is too big for a path
	b.open(1)
	b.open(2)
	if direct != "" {
		b.straight(direct)
	}
	for _, to := range []string{"10.90.2.2:7001", "[fd90:2::2]:7001"} {
		b.move(1, 0)
		s := b.bulk(to, 25e6, true)
		if err := s.more(1e6); err != nil {
			t.Fatal(err)
		}
		quiet := s.longest()
		var gaps []time.Duration
		for i := range 30 {
			path := (i + 1) % 3
			gaps = append(gaps, s.longest())
			b.move(1, path)
			if err := s.more(1e6); err != nil {
				t.Fatalf("switch %d, to path %d: %v", i, path, err)
			}
			for p := range 3 {
				// Several tries: a reader that was kept waiting finds what it asks for
				// in its buffer, and nothing has crossed meanwhile.
				var sent uint64
				for range 20 {
					before, _ := b.crossed(2, p)
					if err := s.more(1e5); err != nil {
						t.Fatalf("switch %d, to path %d: %v", i, path, err)
					}
					after, _ := b.crossed(2, p)
					if sent = after - before; (sent > 0) == (p == path) {
						break
					}
				}
				if (sent > 0) != (p == path) {
					t.Errorf("switch %d, to path %d: %d packets over path %d", i, path, sent, p)
				}
			}
		}
		t.Logf("%s: longest gap %v without switches; after each %v", to, quiet, gaps)
	}
}

// TestOlderChoicesMoveNothing: what an owner said earlier moves nothing back, whenever and by
// whatever way it comes; a diversion lasts until it says something newer. Fails if Follow
// takes any number, or an equal one undoes a diversion.
func TestOlderChoicesMoveNothing(t *testing.T) {
	b := newBed(t)
	b.open(1)
	two := b.open(2)
	at := func(why string, path int, diverted bool) {
		t.Helper()
		followed, err := two.Followed("pod-1")
		if err != nil {
			t.Fatal(err)
		}
		if c := followed[5]; c.Path != path || c.Diverted != diverted {
			t.Errorf("%s: %+v, expected path %d", why, c, path)
		}
	}
	b.move(1, 1)
	at("told", 1, false)
	old, said := b.says(1)
	b.move(1, 2)
	at("told again", 2, false)
	now, _ := b.says(1)
	if known, err := two.Follow("pod-1", old, said); err != nil || known != now {
		t.Errorf("an old notice: %v, it knows number %d, expected %d", err, known, now)
	}
	at("an old notice", 2, false)
	if n, err := two.Divert("pod-1", 2, 0); err != nil || n != Buckets {
		t.Fatalf("%d buckets diverted: %v", n, err)
	}
	b.tell(1)
	at("diverted, and told the same", 0, true)
	if err := b.planes[1].Renumber("pod-2", 0); err != nil {
		t.Fatal(err)
	}
	b.tell(1)
	at("told under another number", 2, false)
	// The owner's clock was put back, and what it had kept is lost: it is told.
	if err := b.planes[1].RemovePeer("pod-2"); err != nil {
		t.Fatal(err)
	}
	b.planes[1].cfg.Now = func() time.Time { return time.Unix(1, 0) }
	b.open(1)
	b.planes[1].cfg.Now = func() time.Time { return time.Unix(1, 0) }
	put64(b.planes[1].mem.notices, b.planes[1].ids["pod-2"]*noticeSize, 7)
	b.lead(1, 1)
	first, said := b.says(1)
	known, err := two.Follow("pod-1", first, said)
	if err != nil || known <= first {
		t.Fatalf("number %d was taken, %d is known: %v", first, known, err)
	}
	if err := b.planes[1].Renumber("pod-2", known); err != nil {
		t.Fatal(err)
	}
	b.tell(1)
	at("renumbered", 1, false)
	// A flow that has never moved is diverted too: the default network may fail.
	b.move(1, 0)
	if n, err := two.Divert("pod-1", 0, 2); err != nil || n != Buckets {
		t.Errorf("%d buckets diverted from the default network: %v", n, err)
	}
	at("diverted from the default network", 2, true)
}

// TestSwitchToPathTooSmall: all packets of the owner are too big for the new path, so
// that they stay on the default network, as do its packets while nothing else was sent.
func TestSwitchToPathTooSmall(t *testing.T) {
	b := newBedMTU(t, [3]int{1500, 1500, 1300})
	b.open(1)
	b.open(2)
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	for _, path := range []int{0, 1, 2} {
		b.move(1, path)
		before, _ := b.crossed(1, path%2)
		if err := exchange(conn, strings.Repeat("x", 1400)); err != nil {
			t.Fatal(err)
		}
		if after, _ := b.crossed(1, path%2); after == before {
			t.Errorf("moved to path %d: nothing was sent over path %d", path, path%2)
		}
	}
}
