package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// round is how many packets meet the maps of one setting.
const round = 100

// trial is a plane on which frames are tried, and the model of it. There is no GSO in a
// test run (BPF_PROG_TEST_RUN), nor a checksum that is left to a device: offload_test.go
// has those. Where a redirect leads it does not tell: hooks_test.go.
type trial struct {
	p     *Plane
	w     *world
	table *ebpf.Map
	out   []byte
	// moved is what was counted since the plane was opened.
	sent, received map[[2]uint32][2]uint64
	seen           [3][3]int // by program: let go, dropped, redirected
}

// newTrials opens two planes: one where arrivals are delivered in place, and one where
// they are handed to eth0.
func newTrials(t testing.TB) []*trial {
	b := newBed(t)
	b.run(2, "sysctl", "-qw", "net.ipv4.conf.net1.rp_filter=1")
	var out []*trial
	for pod := 1; pod <= 2; pod++ {
		cfg := b.config(pod)
		cfg.Dev, cfg.Flows, cfg.Lease = "lo", 70, time.Hour
		p, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Remove(); err != nil {
				t.Error(err)
			}
		})
		if p.InPlace != (pod == 1) {
			t.Fatalf("pod %d: delivers in place: %t", pod, p.InPlace)
		}
		p.devs["net1"] = &net.Interface{Index: 1, Name: "net1", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
		w := &world{toStable: !p.InPlace, room: 35, elsewhere: []netip.Addr{netip.MustParseAddr("10.90.77.2")}}
		for i, uid := range []string{"higher", "lower"} {
			w.enter(t, p, uid, i)
		}
		p.SetCandidates(NewCandidates(slices.Values(w.elsewhere)))
		out = append(out, &trial{p: p, w: w, table: p.tableOf(t), out: make([]byte, 8192),
			sent: map[[2]uint32][2]uint64{}, received: map[[2]uint32][2]uint64{}})
	}
	return out
}

// enter makes a peer, of both families, on five paths, known to a plane and a world: the
// second is encapsulated, the third and fifth have a next hop, the fifth is both, and
// the fourth is on another interface.
func (w *world) enter(t testing.TB, p *Plane, uid string, i int) {
	addr := func(v4, v6 string, n ...any) [2]netip.Addr {
		return [2]netip.Addr{netip.MustParseAddr(fmt.Sprintf(v4, n...)), netip.MustParseAddr(fmt.Sprintf(v6, n...))}
	}
	keys := func(n int) Keys {
		of := func(age string) Key { return DeriveKey([]byte(age), uid, "me", strconv.Itoa(n)) }
		return Keys{Send: of("new"), Accept: [4]Key{of("new"), of("old"), of("older")}}
	}
	me, it := addr("10.90.%d.2", "fd90:%d::2", 1), addr("10.90.%d.2", "fd90:%d::2", 2-2*i)
	peer := Peer{UID: uid, DSCP: i == 0, Keys: keys(0), Pairs: []Pair{{me[0], it[0]}, {me[1], it[1]}}}
	for n := 1; n <= 5; n++ {
		own, its := addr("10.9%d.0.1", "fd9%d::1", n), addr("10.9%d.0.%d", "fd9%d::%d", n, 2+i)
		path := Path{Index: n, Dev: "net1", MTU: []int{0, 1450, 1400, 600, 9000, 1480}[n], Encap: n == 2 || n == 5,
			Keys: keys(n), Pairs: []Pair{{own[0], its[0]}, {own[1], its[1]}}}
		if n == 4 {
			path.Dev = "net2"
		}
		if n == 3 || n == 5 {
			path.NextHop = net.HardwareAddr{2, 0, 0, 0, 9, byte(n)}
		}
		peer.Paths = append(peer.Paths, path)
	}
	if err := p.SetPeer(peer); err != nil {
		t.Fatal(err)
	}
	for f, pair := range peer.Pairs {
		m := &peerOf{id: p.ids[uid], gen: generation(uid), stable: pair, keys: peer.Keys, others: peer.DSCP}
		for _, path := range peer.Paths {
			if f == 1 && path.Encap {
				continue
			}
			pa := pathOf{pair: path.Pairs[f], keys: path.Keys, mtu: path.MTU, encap: path.Encap, onDev: path.Dev == "net1",
				exists: true}
			if path.NextHop != nil {
				pa.mac = append(bytes.Clone(path.NextHop), 2, 0, 0, 0, 0, 1)
			}
			m.paths[path.Index] = pa
		}
		w.peers = append(w.peers, m)
	}
}

// set gives plane and model other choices, flows, and an agent that lives or does not.
func (tr *trial) set(r *rand.Rand) error {
	w, p := tr.w, tr.p
	w.alive, w.lenient = r.IntN(10) != 0, r.IntN(10) == 0
	at := coarse()
	if !w.alive {
		at -= uint64(p.cfg.Lease + time.Second)
	}
	put64(p.mem.heartbeat, 0, at)
	put64(p.mem.heartbeat, 8, 0)
	put32(p.mem.heartbeat, 16, either(w.lenient, uint32(1), uint32(0)))
	w.spent = r.IntN(10) == 0
	w.own, w.follow, w.held = map[uint32][Buckets]uint8{}, map[uint32][Buckets]uint8{}, map[uint32]uint32{}
	w.flows = map[bpfFlow]partOf{}
	for _, peer := range w.peers {
		for i, rows := range []map[uint32][Buckets]uint8{w.own, w.follow} {
			var row [Buckets]uint8
			for i := range row {
				if row[i] = uint8(r.Uint32()); row[i]&7 > 5 && r.IntN(4) != 0 {
					row[i] &= 0xf9
				}
			}
			rows[peer.id] = row
			write([]*ebpf.Memory{p.mem.owner, p.mem.follower}[i], peer.id*Buckets, row[:])
		}
		tr.begin(peer, r)
	}
	p.Misses()
	return tr.push()
}

// begin makes flows with a peer in the model.
func (tr *trial) begin(peer *peerOf, r *rand.Rand) {
	w := tr.w
	for _, local := range poolPorts() {
		for _, remote := range poolPorts() {
			for _, proto := range []uint8{6, 17, 1, 58} {
				if proto != 6 && proto != 17 && local != remote || w.held[peer.id] >= w.room-uint32(r.IntN(8)) || r.IntN(10) == 0 {
					continue
				}
				f := bpfFlow{Peer: peer.id, Generation: peer.gen, Local: local, Remote: remote, Proto: proto}
				if _, known := w.flows[f]; known {
					continue // of the other family
				}
				w.flows[f] = partOf{role: pick(r, uint8(roleNone), roleOwnerNew, roleOwner, roleOwner, roleFollowNew, roleAnswered,
					roleFollow, roleFollow),
					dscp: pick(r, uint8(0), 0, 8, 8, 16), row: uint8(r.IntN(2)),
					closed: pick(r, uint8(0), 0, uint8(r.IntN(8))) | either(proto == 6, 0, uint8(r.IntN(4))<<3),
					marks:  pick(r, uint16(0), 1, 7, 8, 9), stale: r.IntN(2) == 0,
					paused: proto != 6 && r.IntN(4) == 0, idle: proto != 6 && r.IntN(4) == 0, claimed: uint8(r.IntN(4))}
				w.held[peer.id]++
			}
		}
	}
}

// push enters the model's flows in the plane's table, and forgets what was in this tick.
func (tr *trial) push() error {
	var had, now []bpfFlow
	var parts []bpfFlowState
	err := each(tr.table, func(f bpfFlow, _ bpfFlowState) { had = append(had, f) })
	for f, p := range tr.w.flows {
		announced, seen := uint32(coarse()>>28), uint32(coarse()>>28)
		if p.stale {
			announced -= 100
		}
		if p.idle {
			seen -= 1000
		} else if p.paused {
			seen -= 100
		}
		now, parts = append(now, f),
			append(parts, bpfFlowState{Role: p.role, Closed: p.closed, Dscp: p.dscp, Row: p.row, Announcements: p.marks,
				Announced: announced, Seen: seen, Claimed: p.claimed})
	}
	if len(had) > 0 {
		_, derr := tr.table.BatchDelete(had, nil)
		err = errors.Join(err, derr)
	}
	_, uerr := tr.table.BatchUpdate(now, parts, nil)
	recent := make([]uint32, 2048)
	for i := range recent {
		recent[i] = uint32(i)
	}
	_, rerr := tr.p.objs.PwFlowCache.BatchUpdate(recent, make([]uint64, len(recent)), nil)
	for id, n := range tr.w.held {
		put32(tr.p.mem.flowCount, id*stride, n)
	}
	return errors.Join(err, uerr, rerr)
}

// forget takes the word of this tick of a flow away: a word of pw_flow_cache in dataplane.h.
func (tr *trial) forget(b []byte) error {
	h := readFrame(b)
	p := tr.w.peer(h.dst)
	if p == nil {
		return nil
	}
	i := ((uint32(h.sport)<<16 | uint32(h.dport)) + p.id) * 0x9E3779B1 >> 21
	return tr.p.objs.PwFlowCache.Put(i, uint64(0))
}

// run has a program take a frame, and holds what it makes of it against the model.
func (tr *trial) run(prog int, b []byte, fresh bool) error {
	p, w := tr.p, tr.w
	if fresh && prog == progOut {
		if err := tr.forget(b); err != nil {
			return err
		}
	}
	now := coarse() >> 32
	for _, what := range []uint32{14, 15} { // LIMIT_ of dataplane.h: none, or all of these four seconds
		put64(p.mem.events, what*8, either(w.spent, now<<32|1000, uint64(0)))
	}
	before := p.Events()
	life := tr.lives()
	opts := ebpf.RunOptions{Data: b, DataOut: tr.out[:cap(tr.out)]}
	verdict, err := []*ebpf.Program{p.objs.PwEgress, p.objs.PwIngress, p.objs.PwPathIngress}[prog].Run(&opts)
	if errors.Is(err, unix.EINVAL) && len(b) < 14+40 {
		return nil // a test run takes no frame without its headers: how short depends on the kernel
	}
	if err != nil {
		return fmt.Errorf("run %x: %w", b, err)
	}
	after := p.Events()
	tr.seen[prog][map[uint32]int{verdictNext: 0, verdictDrop: 1, verdictRedirect: 2}[verdict]]++
	if why := w.broken(prog, b, opts.DataOut, verdict); why != "" {
		return fmt.Errorf("%s\n%s", why, show(w, prog, b, opts.DataOut, verdict, effect{}))
	}
	var first error
	for _, c := range []chance{{}, {due: true}, {recent: true}, {room: coarse()>>32 != now}} {
		e := w.model(prog, b, c)
		err := tr.differs(&e, verdict, opts.DataOut, before, after)
		if err == nil {
			if err := tr.apply(&e, life); err != nil {
				return fmt.Errorf("%w\n%s", err, show(w, prog, b, opts.DataOut, verdict, e))
			}
			return nil
		}
		if first == nil {
			first = fmt.Errorf("%w\n%s", err, show(w, prog, b, opts.DataOut, verdict, e))
		}
		if !e.used.due && !e.used.room && (fresh && prog == progOut || !e.used.recent) {
			break
		}
	}
	return first
}

func (w *world) model(prog int, b []byte, c chance) effect {
	switch prog {
	case progOut:
		return w.out(b, c)
	case progIn:
		return w.in(b)
	}
	return w.pathIn(b, c)
}

// goingOn changes with the clock, which the model does not follow.
const goingOn = goesOn | surelyOn

// differs is where what a program did is not the effect that the model has.
func (tr *trial) differs(e *effect, verdict uint32, out []byte, before, after Events) error {
	switch {
	case verdict != e.verdict:
		return fmt.Errorf("verdict %d, not %d", int32(verdict), int32(e.verdict))
	case verdict != verdictDrop && !bytes.Equal(out, e.frame):
		return fmt.Errorf("another packet")
	case minus(after, before) != e.events:
		return fmt.Errorf("events %+v, not %+v", minus(after, before), e.events)
	case e.flow == nil:
		return nil
	}
	var part bpfFlowState
	if err := tr.table.Lookup(*e.flow, &part); err != nil {
		return fmt.Errorf("flow %+v: %w", *e.flow, err)
	}
	got, want := partOf{part.Role, part.Closed &^ goingOn, part.Dscp, part.Row, part.Announcements, e.part.stale,
		e.part.paused, e.part.idle, part.Claimed}, *e.part
	if want.closed &^= goingOn; got != want {
		return fmt.Errorf("flow %+v is now %+v, not %+v", *e.flow, got, want)
	}
	return nil
}

func minus(a, b Events) Events {
	return Events{a.Errors - b.Errors, a.TooBig - b.TooBig, a.NoPath - b.NoPath, a.Lease - b.Lease,
		a.Strangers - b.Strangers, a.ICMP - b.ICMP, a.Forged - b.Forged, a.Unadmitted - b.Unadmitted, a.Full - b.Full,
		a.DSCP - b.DSCP, a.Elsewhere - b.Elsewhere}
}

// lives is when something was last received, by peer and path.
func (tr *trial) lives() (at [4 * MaxPaths]uint64) {
	for i := range at {
		at[i] = get64(tr.p.mem.received, uint32(i)*tallySize+16)
	}
	return at
}

// apply makes the model's state what the effect leaves.
func (tr *trial) apply(e *effect, life [4 * MaxPaths]uint64) error {
	w := tr.w
	if e.flow != nil {
		w.flows[*e.flow] = *e.part
		if e.took {
			w.held[e.flow.Peer]++
		}
	}
	for of, m := range map[*map[[2]uint32][2]uint64]*moved{&tr.sent: e.sent, &tr.received: e.received} {
		if m != nil {
			n := (*of)[[2]uint32{m.id, m.path}]
			(*of)[[2]uint32{m.id, m.path}] = [2]uint64{n[0] + 1, n[1] + uint64(m.bytes)}
		}
	}
	for i, at := range tr.lives() {
		if at != life[i] && (e.received == nil || !e.alive || e.received.id*MaxPaths+e.received.path != uint32(i)) {
			return fmt.Errorf("what is none was taken for a sign of life on path %d", i%MaxPaths)
		}
	}
	if got := tr.p.Misses(); len(got) > 1 || len(got) == 1 != e.wanted.IsValid() || len(got) == 1 && got[0] != e.wanted {
		return fmt.Errorf("wanted %v, not %v", got, e.wanted)
	}
	return nil
}

// settled holds table and counters against the model, after a round.
func (tr *trial) settled() error {
	got, want := map[bpfFlow]partOf{}, map[bpfFlow]partOf{}
	if err := each(tr.table,
		func(f bpfFlow, p bpfFlowState) {
			got[f] = partOf{role: p.Role, closed: p.Closed &^ goingOn, dscp: p.Dscp, row: p.Row, marks: p.Announcements,
				claimed: p.Claimed}
		}); err != nil {
		return err
	}
	for f, p := range tr.w.flows {
		p.stale, p.paused, p.idle, p.closed = false, false, false, p.closed&^goingOn
		want[f] = p
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("flows are %v, not %v", got, want)
	}
	for _, peer := range tr.w.peers {
		if n := get32(tr.p.mem.flowCount, peer.id*stride); n != tr.w.held[peer.id] {
			return fmt.Errorf("peer %d holds %d flows, not %d", peer.id, n, tr.w.held[peer.id])
		}
		for n := range uint32(MaxPaths) {
			off, at := (peer.id*MaxPaths+n)*tallySize, [2]uint32{peer.id, n}
			for m, of := range map[*ebpf.Memory]map[[2]uint32][2]uint64{tr.p.mem.sent: tr.sent, tr.p.mem.received: tr.received} {
				if got := (tally(m, off)); got.Packets != of[at][0] || got.Bytes != of[at][1] {
					return fmt.Errorf("peer %d, path %d: counted %+v, not %v", peer.id, n, got, of[at])
				}
			}
		}
	}
	return nil
}

// rounds tries n packets.
func (tr *trial) rounds(r *rand.Rand, n int) error {
	s := shaper{r, tr.w}
	return netns.Do(tr.p.cfg.Netns, func() error {
		for i := range n {
			if i%round == 0 {
				if err := tr.set(r); err != nil {
					return fmt.Errorf("set up: %w", err)
				}
			}
			prog, b := s.next()
			if err := tr.run(prog, b, r.IntN(4) != 0); err != nil {
				return fmt.Errorf("packet %d: %w", i, err)
			}
			if i%round == round-1 || i == n-1 {
				if err := tr.settled(); err != nil {
					return fmt.Errorf("after packet %d: %w", i, err)
				}
			}
		}
		return nil
	})
}

func show(w *world, prog int, in, out []byte, verdict uint32, e effect) string {
	return fmt.Sprintf("%s, alive %t, lenient %t: %+v\nin   %x\nout  %x verdict %d\nmodel %x %+v",
		[]string{"egress", "ingress", "path ingress"}[prog], w.alive, w.lenient, readFrame(in), in, out,
		int32(verdict), e.frame, e)
}

// warned is whether the kernel has ever given a warning (TAINT_WARN).
func warned(t testing.TB) bool {
	raw, err := os.ReadFile("/proc/sys/kernel/tainted")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n>>9&1 == 1
}

// TestPrograms holds the programs against the model: 20,000 packets, or PATHWISE_PACKETS,
// from PATHWISE_SEED where that is set. Fails if a program makes anything else of a packet
// than the model does, or breaks one of the laws of laws_test.go.
func TestPrograms(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		v := os.Getenv(name)
		if v == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	n, seed := number("PATHWISE_PACKETS", 20_000), number("PATHWISE_SEED", uint64(time.Now().UnixNano()))
	t.Logf("PATHWISE_SEED=%d", seed)
	before, begin := warned(t), time.Now()
	trials := newTrials(t)
	for i, tr := range trials {
		if err := tr.rounds(rand.New(rand.NewPCG(seed, uint64(i))), int(n)/len(trials)); err != nil {
			t.Fatalf("PATHWISE_SEED=%d PATHWISE_PACKETS=%d, arrivals handed over %t: %v", seed, n, tr.w.toStable, err)
		}
		t.Logf("let go, dropped, redirected: egress %v, ingress %v, path ingress %v; %+v", tr.seen[progOut], tr.seen[progIn],
			tr.seen[progPathIn], tr.p.Events())
		for prog, want := range [][]int{{0, 2}, {0}, {0, 1}} {
			for _, v := range want {
				if tr.seen[prog][v]*50 < int(n)/len(trials)/5 {
					t.Errorf("the packets are too much alike: program %d: %v", prog, tr.seen[prog])
				}
			}
		}
	}
	took := time.Since(begin)
	t.Logf("%d packets in %v, %.0f/s", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	if warned(t) && !before {
		t.Error("the kernel has given a warning (TAINT_WARN): see dmesg")
	}
}

// FuzzPrograms does the same with packets that the input makes, 100 of each: as frames
// that it is, mutated, and by what it seeds.
func FuzzPrograms(f *testing.F) {
	before := warned(f)
	trials := newTrials(f)
	for i, tr := range trials {
		s := shaper{rand.New(rand.NewPCG(1, uint64(i))), tr.w}
		for range 30 {
			prog, b := s.next()
			f.Add(append([]byte{byte(prog)}, b...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		hash := fnv.New64a()
		hash.Write(data)
		for _, tr := range trials {
			r := rand.New(rand.NewPCG(hash.Sum64(), binary.BigEndian.Uint64(append(bytes.Clone(data), make([]byte, 8)...))))
			if err := errors.Join(tr.raw(data, r), tr.rounds(r, round/2)); err != nil {
				t.Fatal(err)
			}
		}
		if warned(t) && !before {
			t.Error("the kernel has given a warning (TAINT_WARN): see dmesg")
		}
	})
}

// raw tries the input as a frame.
func (tr *trial) raw(data []byte, r *rand.Rand) error {
	if len(data) < 15 || len(data) > 3000 {
		return nil
	}
	return netns.Do(tr.p.cfg.Netns, func() error {
		if err := tr.set(r); err != nil {
			return err
		}
		return errors.Join(tr.run(int(data[0])%3, data[1:], true), tr.settled())
	})
}
