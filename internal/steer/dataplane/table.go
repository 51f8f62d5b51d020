package dataplane

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// DefaultFlows is how many flows of a pod are told apart unless Config says otherwise.
const DefaultFlows = 131072

// firstTable puts a table into flows where there is none: of the size that the object
// says. The table grows with the flows, as each takes some 100 octets of kernel memory.
func firstTable(flows *ebpf.Map, spec *ebpf.MapSpec) error {
	var have *ebpf.Map
	err := flows.Lookup(uint32(0), &have)
	if err == nil {
		return have.Close()
	} else if !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("look up table of flows: %w", err)
	}
	return exchangeTable(flows, spec, spec.MaxEntries)
}

// exchangeTable puts a table for so many flows in the first place.
func exchangeTable(flows *ebpf.Map, spec *ebpf.MapSpec, size uint32) error {
	spec = spec.Copy()
	spec.MaxEntries = size
	t, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("create table for %d flows: %w", size, err)
	}
	defer t.Close()
	if err := flows.Put(uint32(0), t); err != nil {
		return fmt.Errorf("enter table for %d flows: %w", size, err)
	}
	return nil
}

// How long a flow is kept after its latest packet: what Linux has connection tracking
// wait (nf_conntrack_proto_tcp.c, _udp.c, _icmp.c; Documentation/networking/
// nf_conntrack-sysctl.rst), but for handshakes and connections that both ends have closed
// (120 s there), as each takes part of the room. keepOnce is for datagrams that do not go on, as a question and its
// answer: a resolver takes a port for each.
//
// Where a quarter of the room is taken, connections that have ended are kept while one round trip may still bring their
// last packets: a program that connects for each request ends thousands in a second. Datagrams that do not go on are
// kept for as long as their owner does not open them again by itself (IDLE_ONCE), so that nothing is lost.
const (
	keepTCP     = 5 * 24 * time.Hour
	keepOpening = 30 * time.Second
	keepClosed  = 10 * time.Second
	keepCrowded = time.Second
	keepUDP     = 120 * time.Second
	keepOnce    = 30 * time.Second
	// onceCrowded is half of that, and a second for the clock's steps.
	onceCrowded = keepOnce/2 + time.Second
)

// keep is how long a flow is kept after its latest packet.
func keep(proto uint8, part bpfFlowState) time.Duration {
	switch {
	case part.Role == roleNone || part.ended():
		return keepClosed
	case !part.settled() || proto == 1 || proto == 58: // ICMP, ICMPv6
		return keepOpening
	case proto == 6:
		return keepTCP
	case part.once():
		return keepOnce
	}
	return keepUDP
}

// once reports whether the flow, of datagrams, does not go on.
func (v bpfFlowState) once() bool { return v.Closed&goesOn == 0 && v.Claimed != oneWay }

// settled reports whether this end has admitted the flow.
func (v bpfFlowState) settled() bool {
	return v.Role == roleOwner || v.Role == roleFollow || v.Role == roleAnswered
}

// ended reports whether both ends have closed the connection, or one has reset it.
func (v bpfFlowState) ended() bool {
	return v.Closed&closedReset != 0 || v.Closed&(closedIn|closedOut) == closedIn|closedOut
}

// Flows is a pod's table of flows, for whom sweeps it: that takes time with many flows,
// and needs nothing else of the Plane.
type Flows struct {
	outer *ebpf.Map
	spec  *ebpf.MapSpec
	most  uint32
	// peers are the generations of those entered, by number, and uids their UIDs.
	peers map[uint32]uint32
	uids  map[uint32]string
}

// Census is what Sweep has found.
type Census struct {
	// Flows is how many there are, Steerable how many of them go where the maps say and have not ended,
	// Room for how many there is room.
	Flows, Steerable, Room int
	// OneWay are flows of datagrams that pods send and nobody answers: a part, of very many.
	OneWay []OneWay
	// Asked is how many flows of datagrams Asked would list.
	Asked int
	// held is Flows by the peer's number.
	held map[uint32]uint32
}

// OneWay is a flow of datagrams to a peer of which nothing has come back.
type OneWay struct {
	UID           string // the peer's
	Local, Remote uint16 // ports
	Admitted      bool   // AdmitOneWay was called
}

// oneWayMost bounds how many of them are listed, and lively is how lately they must have sent.
const oneWayMost, lively = 256, 2 * time.Second

// isOneWay reports whether a flow is one: it was announced again and again.
func isOneWay(k bpfFlow, v bpfFlowState, idle time.Duration) bool {
	waits := v.Role == roleOwnerNew && v.Announcements > atOnce
	return k.Proto == unix.IPPROTO_UDP && idle < lively && (waits || v.Role == roleOwner && v.Claimed == oneWay)
}

// Flows returns the table, with the peers that are entered now. Close it.
func (p *Plane) Flows() (*Flows, error) {
	outer, err := p.objs.PwFlows.Clone()
	if err != nil {
		return nil, fmt.Errorf("open table of flows: %w", err)
	}
	f := &Flows{outer: outer, spec: p.table, most: uint32(p.cfg.Flows), peers: map[uint32]uint32{},
		uids: map[uint32]string{}}
	for uid, id := range p.ids {
		f.peers[id], f.uids[id] = generation(uid), uid
	}
	return f, nil
}

// Close lets go of the table.
func (f *Flows) Close() error { return f.outer.Close() }

// Sweep takes out the flows that have ended, and makes room for more where half of it is
// taken. Not twice at a time.
func (f *Flows) Sweep() (Census, error) {
	var tables [2]*ebpf.Map
	for i := range tables {
		if err := f.outer.Lookup(uint32(i), &tables[i]); errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		} else if err != nil {
			return Census{}, fmt.Errorf("look up table of flows: %w", err)
		}
		defer tables[i].Close()
	}
	if tables[0] == nil {
		return Census{}, errNoTable
	}
	if tables[1] != nil { // a predecessor was killed while it made room
		if err := f.inherit(tables[0], tables[1]); err != nil {
			return Census{}, err
		}
	}
	c, err := f.count(tables[0])
	if err != nil || c.Flows <= c.Room/2 || c.Room >= int(f.most) {
		return c, err
	}
	return c, f.widen(tables[0], &c)
}

var errNoTable = errors.New("there is no table of flows")

// count takes out what has ended and counts the rest.
func (f *Flows) count(t *ebpf.Map) (Census, error) {
	c, gone, err := f.list(t)
	if err != nil {
		return c, err
	}
	return c, c.takeOut(t, gone)
}

// departed is a flow that is to be taken out, with when its latest packet was seen.
type departed struct {
	bpfFlow
	seen uint32
}

// list lists what has ended and counts the rest.
func (f *Flows) list(t *ebpf.Map) (c Census, gone []departed, err error) {
	c = Census{Room: int(t.MaxEntries()), held: map[uint32]uint32{}}
	now := seenNow()
	var ended []departed
	if err := each(t, func(k bpfFlow, v bpfFlowState) {
		idle := v.idle(now)
		if gen, ok := f.peers[k.Peer]; !ok || gen != k.Generation || idle > keep(k.Proto, v) {
			gone = append(gone, departed{k, v.Seen})
			return
		}
		if v.ended() && idle > keepCrowded || k.Proto == unix.IPPROTO_UDP && v.once() && idle > onceCrowded {
			ended = append(ended, departed{k, v.Seen})
		}
		c.add(k)
		if (v.Role == roleOwner || v.Role == roleFollow) && !v.ended() {
			c.Steerable++
		}
		if isOneWay(k, v, idle) && len(c.OneWay) < oneWayMost {
			c.OneWay = append(c.OneWay, OneWay{f.uids[k.Peer], k.Local, k.Remote, v.Role == roleOwner})
		}
		if isAsked(k, v, idle) {
			c.Asked++
		}
	}); err != nil {
		return c, nil, err
	}
	if c.Flows > min(c.Room, int(f.most))/4 { // a peer may have twice as many at most
		for _, d := range ended {
			c.Flows--
			c.held[d.Peer]--
		}
		gone = append(gone, ended...)
	}
	return c, gone, nil
}

// add counts a flow.
func (c *Census) add(k bpfFlow) {
	c.Flows++
	c.held[k.Peer]++
}

// takeOut deletes flows, but for those whose ports another one has taken since they were listed, which takes a while
// where there are thousands: a connection that both ends have forgotten is dropped where it is, and is not moved from
// there.
func (c *Census) takeOut(t *ebpf.Map, gone []departed) error {
	for _, d := range gone {
		var now bpfFlowState
		err := t.Lookup(d.bpfFlow, &now)
		if err == nil && now.Seen != d.seen {
			c.add(d.bpfFlow)
			continue
		}
		if err == nil {
			err = t.Delete(d.bpfFlow)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete flow: %w", err)
		}
	}
	return nil
}

// each calls fn for the flows of a table, read many at a time.
func each(t *ebpf.Map, fn func(bpfFlow, bpfFlowState)) error {
	keys, parts := make([]bpfFlow, 1024), make([]bpfFlowState, 1024)
	var at ebpf.MapBatchCursor
	for {
		n, err := t.BatchLookup(&at, keys, parts, nil)
		for i := range n {
			fn(keys[i], parts[i])
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("list flows: %w", err)
		}
	}
}

// widen exchanges the table for a larger one. Flows are found in either until all are
// in the new one.
func (f *Flows) widen(t *ebpf.Map, c *Census) error {
	size := min(uint32(c.Room)*growth, f.most)
	if err := f.outer.Put(uint32(1), t); err != nil {
		return fmt.Errorf("keep table of flows: %w", err)
	}
	if err := exchangeTable(f.outer, f.spec, size); err != nil {
		return errors.Join(err, f.outer.Delete(uint32(1)))
	}
	c.Room = int(size)
	var now *ebpf.Map
	if err := f.outer.Lookup(uint32(0), &now); err != nil {
		return fmt.Errorf("look up table of flows: %w", err)
	}
	defer now.Close()
	return f.inherit(now, t)
}

// inherit moves what a table holds to the one that took its place.
func (f *Flows) inherit(to, from *ebpf.Map) error {
	var errs []error
	err := each(from, func(k bpfFlow, v bpfFlowState) {
		if err := to.Update(k, v, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			errs = append(errs, fmt.Errorf("move flow: %w", err))
		}
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	if err := f.outer.Delete(uint32(1)); err != nil {
		return fmt.Errorf("drop old table of flows: %w", err)
	}
	return nil
}

// Held is how many flows the pod has, as its data plane counts them: those that have ended since the latest sweep too.
func (p *Plane) Held() (n int) {
	for _, id := range p.ids {
		n += int(get32(p.mem.flowCount, id*stride))
	}
	return n
}

// SetFlowCounts takes over how many flows each peer has, as a sweep has counted them: none may
// take more than half of the room.
func (p *Plane) SetFlowCounts(c Census) {
	for id := range p.room {
		put32(p.mem.flowCount, uint32(id)*stride, c.held[uint32(id)])
	}
}
