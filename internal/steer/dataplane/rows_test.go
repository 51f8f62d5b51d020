package dataplane

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// Verdicts of the programs.
const (
	verdictNext     = ^uint32(0) // TCX_NEXT
	verdictDrop     = 2          // TCX_DROP
	verdictRedirect = 7          // TC_ACT_REDIRECT
)

// verdict is what a program makes of a packet on the pod's loopback interface.
func verdict(t *testing.T, p *Plane, prog *ebpf.Program, packet []byte) (ret uint32) {
	t.Helper()
	err := netns.Do(p.cfg.Netns, func() (err error) {
		ret, err = prog.Run(&ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ret
}

// TestSharedSlot: two peers whose addresses have one slot of the filter are both
// known, and one that is removed is a stranger at once while the other stays.
// Fails if a row that is found by its slot is not held against the address.
func TestSharedSlot(t *testing.T) {
	p := benchPlane(t, 0)
	me := netip.MustParseAddr("10.90.1.2")
	local := netip.MustParseAddr("10.91.0.1")
	stable := sharing(t, p, netip.MustParseAddr("10.100.0.1"))
	path := sharing(t, p, netip.MustParseAddr("10.101.0.1"))
	for i, uid := range []string{"one", "two"} {
		if err := p.SetPeer(Peer{UID: uid, Pairs: []Pair{{me, stable[i]}},
			Paths: []Path{{Index: 1, Dev: "net1", MTU: 1450, Keys: keysOf(1), Pairs: []Pair{{local, path[i]}}}}}); err != nil {
			t.Fatal(err)
		}
		p.put4(t, uid, 7000, 7001, 6, roleOwner)
	}
	came := func(uid string, on int) uint64 {
		_, received, err := p.Tallies(uid, on)
		if err != nil {
			t.Fatal(err)
		}
		return received.Packets
	}
	for i, uid := range []string{"one", "two"} {
		if got := verdict(t, p, p.objs.PwIngress, tcp(stable[i], me, 0)); got != verdictNext || came(uid, 0) != 1 {
			t.Errorf("%s over the default network: verdict %d, %d counted", uid, int32(got), came(uid, 0))
		}
		if got := verdict(t, p, p.objs.PwPathIngress,
			steered(tcp(path[i], local, markTOS), keyOf(1), sayData, false)); got != verdictNext || came(uid, 1) != 1 {
			t.Errorf("%s over the path: verdict %d, %d counted", uid, int32(got), came(uid, 1))
		}
	}
	if err := p.RemovePeer("two"); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, p, p.objs.PwPathIngress,
		steered(tcp(path[1], local, markTOS), keyOf(1), sayData, false)); got != verdictDrop {
		t.Errorf("a peer that was removed: verdict %d", int32(got))
	}
	if got := verdict(t, p, p.objs.PwPathIngress,
		steered(tcp(path[0], local, markTOS), keyOf(1), sayData, false)); got != verdictNext || came("one", 1) != 2 {
		t.Errorf("the one that stays: verdict %d, %d counted", int32(got), came("one", 1))
	}
}

// sharing returns an address and the next one that has the same slot.
func sharing(t *testing.T, p *Plane, a netip.Addr) [2]netip.Addr {
	t.Helper()
	for b := a.Next(); b.Is4(); b = b.Next() {
		if p.nearRev.slot(word(a)) == p.nearRev.slot(word(b)) {
			return [2]netip.Addr{a, b}
		}
	}
	t.Fatal("no address shares a slot")
	return [2]netip.Addr{}
}

// TestRoleChangesAtOnce: a flow is not steered any more as soon as a SYN shows that
// the peer has opened another with its ports, within the same tick too. Fails if
// what was remembered of the flow outlives the change.
func TestRoleChangesAtOnce(t *testing.T) {
	p := benchPlane(t, 1)
	peer := benchPeer(0)
	stable := peer.Pairs[0]
	if _, err := p.Switch(peer.UID, All, 1); err != nil {
		t.Fatal(err)
	}
	p.put4(t, peer.UID, 7000, 7001, 6, roleOwner)
	packet := tcp(stable.Local, stable.Remote, 0)
	for range 2 {
		if got := verdict(t, p, p.objs.PwEgress, packet); got != verdictRedirect {
			t.Fatalf("an owned flow: verdict %d", int32(got))
		}
	}
	syn := tcp(stable.Remote, stable.Local, 0)
	syn[14+20+13] = 0x02
	verdict(t, p, p.objs.PwIngress, syn)
	if got := verdict(t, p, p.objs.PwEgress, packet); got != verdictNext {
		t.Errorf("after the peer's SYN: verdict %d", int32(got))
	}
}

// TestPlacesRest: a place that a hint has just named is not written; the row is in the hash map
// alone until the place has rested. Fails if a row is written in place, where one in some 200,000 packets
// under 16,000 rewrites a second was of half a row.
func TestPlacesRest(t *testing.T) {
	p := benchPlane(t, 1)
	now := time.Now()
	p.cfg.Now = func() time.Time { return now }
	id, a := p.ids["peer-0"], word(benchPeer(0).Pairs[0].Remote)
	set := func(mtu int) (hint uint32, places [2]bpfPeer) {
		t.Helper()
		peer := benchPeer(0)
		peer.Paths[0].MTU = mtu
		if err := p.SetPeer(peer); err != nil {
			t.Fatal(err)
		}
		for i := range places {
			if err := p.objs.PwRows.Lookup(id*2+uint32(i), &places[i]); err != nil {
				t.Fatal(err)
			}
		}
		row, err := p.row(peer.Pairs[0].Remote)
		if err != nil || int(row.Path[1].Mtu) != mtu {
			t.Errorf("the hash map has %d, %v", row.Path[1].Mtu, err)
		}
		return get32(p.near.hints, p.near.slot(a)*stride), places
	}
	now = now.Add(time.Hour)
	first, before := set(1401)
	second, _ := set(1402)
	if first == second || first == inHash || second != inHash && before[(first-1)%2].Path[1].Mtu != 1401 {
		t.Errorf("hints %d and %d, %v", first, second, before)
	}
	hint, after := set(1403)
	if hint != inHash {
		t.Errorf("hint %d: a place is written at once", hint)
	}
	_, still := set(1404)
	if still != after {
		t.Error("places are written while programs may read them")
	}
	now = now.Add(quiescent)
	if hint, at := set(1404); hint == inHash || at[(hint-1)%2].Path[1].Mtu != 1404 {
		t.Errorf("after a rest: hint %d, %v", hint, at)
	}
}

// TestBucketIsThatOfC: a flow is in the bucket that package flow says, and in no other.
func TestBucketIsThatOfC(t *testing.T) {
	p := benchPlane(t, 1)
	peer, r := benchPeer(0), rand.New(rand.NewPCG(1, 1))
	pair := peer.Pairs[0]
	in := func(sport, dport uint16, proto uint8, packet []byte) {
		t.Helper()
		own := Set(1) << flow.Bucket(sport, dport, proto)
		p.put4(t, peer.UID, sport, dport, proto, roleOwner)
		for set, want := range map[Set]uint32{own: verdictRedirect, ^own: verdictNext} {
			for s, path := range map[Set]int{set: 1, ^set: 0} {
				if _, err := p.Switch(peer.UID, s, path); err != nil {
					t.Fatal(err)
				}
			}
			if got := verdict(t, p, p.objs.PwEgress, packet); got != want {
				t.Errorf("%d %d %d: verdict %d of buckets %x", sport, dport, proto, int32(got), set)
			}
		}
	}
	in(7000, 7001, 6, tcp(pair.Local, pair.Remote, 0))
	for range 300 {
		sport, dport := uint16(r.Uint32()), uint16(r.Uint32())
		in(sport, dport, 17, udp(pair.Local, pair.Remote, 0, sport, dport))
	}
}
