package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestManyPeers: peers come and go by the hundred, room is made for them apart from who
// uses the plane, and what is there already is not changed by it; one too many is refused.
func TestManyPeers(t *testing.T) {
	namespaces, dir := crowdOf(t, 1)
	const most = 1000
	p, err := Open(Config{Netns: namespaces[0], Dev: "eth0", PathDevs: []string{"net1", "net2"}, PinDir: dir + "/p",
		Peers: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	})
	var exchange, longest time.Duration
	for i := range most {
		if want := p.room < most && i >= p.room-p.room/4; p.NearlyFull() != want {
			t.Fatalf("%d peers, room for %d: narrow %v", i, p.room, !want)
		}
		if p.NeedsRoom(crowdPeer(i).Pairs[0].Remote) {
			w, err := p.Widen()
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Load(); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := p.Exchange(w); err != nil {
				t.Fatal(err)
			}
			exchange = max(exchange, time.Since(begin))
		}
		begin := time.Now()
		if err := p.SetPeer(crowdPeer(i)); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(begin))
		if _, err := p.Switch(peerUID(i), All, 1+i%2); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SetPeer(crowdPeer(most)); !errors.Is(err, ErrTooMany) {
		t.Errorf("one peer too many: %v", err)
	}
	p.holds(t, 0, most)
	begin := time.Now()
	for i := range most / 2 {
		if err := p.RemovePeer(peerUID(i)); err != nil {
			t.Fatal(err)
		}
	}
	each := time.Since(begin) / (most / 2)
	t.Logf("a peer is entered in %v at most, room made in %v at most, one taken out in %v", longest, exchange, each)
	p.holds(t, most/2, most)
	for i := range most / 2 {
		if err := p.SetPeer(crowdPeer(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// holds checks that the plane has peers i to j and no other, where they were moved to.
func (p *Plane) holds(t *testing.T, i, j int) {
	t.Helper()
	if n := len(p.Entered()); n != 2*(j-i) { // of both families
		t.Errorf("%d addresses are entered, expected %d", n, 2*(j-i))
	}
	stable, paths := map[uint32]bool{}, map[uint32]bool{}
	for ; i < j; i++ {
		peer := crowdPeer(i)
		if known, err := p.Known(peer); err != nil || !known {
			t.Fatalf("peer %d: known %v, %v", i, known, err)
		}
		if c, err := p.Choices(peer.UID); err != nil || c[0].Path != 1+i%2 || c[63].Path != 1+i%2 {
			t.Fatalf("peer %d: %v, %v", i, c[0], err)
		}
		for _, pair := range peer.Pairs {
			p.slotted(t, pair.Remote, false)
			stable[p.near.slot(word(pair.Remote))] = true
		}
		for _, path := range peer.Paths {
			p.slotted(t, path.Pairs[0].Remote, true)
			paths[p.nearRev.slot(word(path.Pairs[0].Remote))] = true
		}
	}
	for what, n := range map[string]int{"slots": p.taken(false) - len(stable),
		"slots of paths": p.taken(true) - len(paths)} {
		if n != 0 {
			t.Errorf("%d %s more than there are addresses for", n, what)
		}
	}
}

// slotted wants an address to pass the hints, by a place that is somebody's or by the hash map.
func (p *Plane) slotted(t *testing.T, a netip.Addr, path bool) {
	t.Helper()
	d, rows := &p.near, uint32(1)
	if path {
		d, rows = &p.nearRev, MaxPaths
	}
	n := get32(d.hints, d.slot(word(a))*stride)
	if n == 0 || n != inHash && !p.used[(n-1)/2/rows] {
		t.Fatalf("%v: its slot says %d", a, n)
	}
}

// taken counts the slots that are somebody's.
func (p *Plane) taken(path bool) (n int) {
	m, size := p.mem.hints, 1<<slotBits(p.room)
	if path {
		m, size = p.mem.revHints, 2*size
	}
	for i := range size {
		if get32(m, uint32(i)*stride) != 0 {
			n++
		}
	}
	return n
}

// TestWidenUnderTraffic makes room again and again while connections are steered: they
// notice nothing.
func TestWidenUnderTraffic(t *testing.T) {
	b := newBed(t)
	p := b.open(1)
	b.open(2)
	p.cfg.Peers = 2048
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "first"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 1)
	var longest time.Duration
	for i := 0; p.room < p.cfg.Peers; i++ {
		w, err := p.Widen()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Load() }()
		for loaded := false; !loaded; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Exchange(w); err != nil {
					t.Fatal(err)
				}
				loaded = true
			default:
			}
			begin := time.Now()
			if err := exchange(conn, fmt.Sprint("round ", i)); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(begin))
		}
		s0, r0 := b.crossed(1, 1)
		for range 5 {
			if err := exchange(conn, "after"); err != nil {
				t.Fatal(err)
			}
		}
		if s1, r1 := b.crossed(1, 1); s1 < s0+5 || r1 < r0+5 {
			t.Errorf("room for %d: %d sent and %d received over the path, expected 5 or more", p.room, s1-s0, r1-r0)
		}
	}
	t.Logf("room for %d in the end, longest exchange %v", p.room, longest)
	// What was overtaken changes nothing.
	w, err := p.Widen()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Exchange(w); !errors.Is(err, errOvertaken) {
		t.Errorf("room that there is already: %v", err)
	}
	if err := exchange(conn, "last"); err != nil {
		t.Fatal(err)
	}
}
