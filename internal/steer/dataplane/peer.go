package dataplane

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
)

// Pair is the two ends of a path, or of the default network: this pod's
// address and the peer's, of one family.
type Pair struct {
	Local, Remote netip.Addr
}

// Path is another network between the pod and a peer.
type Path struct {
	// Index is the path's number, from 1; the same for each of the pod's peers.
	Index int
	// Dev is the pod's interface on the network.
	Dev string
	// Pairs holds the addresses by family: at most one of each.
	Pairs []Pair
	// MTU is the path's in bytes; larger packets stay on the default network.
	MTU int
	// Encap sends whole packets in UDP, between the pair's IPv4 addresses: for
	// networks that track connections or do not carry the mark. It must be the
	// same at both ends, costs EncapOverhead of each packet, and is for IPv4 alone;
	// datagrams handed over as one (UDP_SEGMENT) stay on the default network.
	Encap bool
	// Keys are those of the pair's tags on this network.
	Keys Keys
	// NextHop is where frames go; nil leaves it to the kernel's neighbour table,
	// which costs a little more for each packet.
	NextHop net.HardwareAddr
}

// EncapOverhead is what encapsulation adds to a packet, in bytes: headers of IPv4
// and UDP, and the shim with the tag.
const EncapOverhead = 20 + 8 + 12

// Peer is another pod with its agent, and the paths to it.
type Peer struct {
	// UID is the pod's identity: never another pod's, unlike an address.
	UID string
	// Pairs holds the stable addresses by family: at most one of each.
	Pairs []Pair
	// Keys are those of the pair's tags on the default network.
	Keys  Keys
	Paths []Path
	// DSCP: the other end's data plane takes packets of all DSCPs that this one steers.
	// One of an earlier version knows eight of them.
	DSCP bool
}

// ErrTooMany is returned when the plane has no room for a peer.
var ErrTooMany = errors.New("the data plane has no room for another peer")

// SetPeer makes the plane know a peer: flows to it may be steered, and what
// comes from it over other paths is taken. Doing it twice changes nothing; flows
// stay where they are. A peer that has another pod's address takes its place.
func (p *Plane) SetPeer(peer Peer) error {
	if err := p.check(peer); err != nil {
		return fmt.Errorf("peer %s: %w", peer.UID, err)
	}
	id, err := p.id(peer)
	if err != nil {
		return err
	}
	// Take before send: a peer that is told of us at the same time may be faster.
	if err := p.takeFrom(peer, id); err != nil {
		return err
	}
	return p.sendTo(peer, id)
}

// takeFrom enters what comes from a peer over each path.
func (p *Plane) takeFrom(peer Peer, id uint32) error {
	gen := generation(peer.UID)
	for _, path := range peer.Paths {
		for _, stable := range peer.Pairs {
			pair, ok := path.pair(stable)
			if !ok {
				continue
			}
			dev := p.devs[path.Dev]
			rev := bpfRev{Id: id, Generation: gen, Lower: lower(stable), Path: uint32(path.Index),
				Remote: remote4(pair.Remote), Ifindex: uint32(dev.Index), Flags: flags(path), Accept: path.Keys.accepted(),
				Diff: diff(pair, stable), Local: word(pair.Local), StableLocal: word(stable.Local),
				StableRemote: word(stable.Remote)}
			err := p.put(p.objs.PwRev4, p.objs.PwRev6, pair.Remote, rev)
			if err == nil {
				p.note(id, pair.Remote, true)
				err = p.enterRev(rev)
			}
			if err != nil {
				return fmt.Errorf("peer %s: enter path %d: %w", peer.UID, path.Index, err)
			}
		}
	}
	return nil
}

// sendTo enters where what goes to a peer may go.
func (p *Plane) sendTo(peer Peer, id uint32) error {
	gen := generation(peer.UID)
	for _, stable := range peer.Pairs {
		old, err := p.row(stable.Remote)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("look up peer %s: %w", peer.UID, err)
		}
		row := bpfPeer{Id: id, Generation: gen, Lower: lower(stable), Remote: remote4(stable.Remote),
			Self: word(stable.Local), Key: peer.Keys.Send.words(), Accept: peer.Keys.accepted()}
		for _, path := range peer.Paths {
			pair, ok := path.pair(stable)
			if !ok {
				continue // the network has no address of this family
			}
			row.Path[path.Index] = p.path(path, pair, stable)
		}
		for i := range row.Path {
			if peer.DSCP && (i == 0 || row.Path[i].Ifindex != 0) {
				row.Path[i].Flags |= uint8(bpfPathFlagPATH_DSCP)
			}
		}
		p.admit(stable.Remote)
		err = p.put(p.objs.PwPeers4, p.objs.PwPeers6, stable.Remote, row)
		if err == nil {
			p.note(id, stable.Remote, false)
			err = p.enterPeer(row)
		}
		if err != nil {
			return fmt.Errorf("enter peer %s: %w", peer.UID, err)
		}
		if err := p.leave(id, stable.Local.Is4(), old, row); err != nil {
			return fmt.Errorf("peer %s: leave path: %w", peer.UID, err)
		}
	}
	return nil
}

// enterPeer enters a row of pw_peers4 by its number, and enterRev one of pw_rev4.
func (p *Plane) enterPeer(row bpfPeer) error {
	if row.Remote == 0 {
		return nil
	}
	return enter(&p.near, addrOf4(row.Remote), row.Id, row, p.cfg.Now())
}

func (p *Plane) enterRev(rev bpfRev) error {
	if rev.Remote == 0 {
		return nil
	}
	return enter(&p.nearRev, addrOf4(rev.Remote), rev.Id*MaxPaths+rev.Path, rev, p.cfg.Now())
}

// leave takes nothing more from addresses that were the peer's: they may soon be
// a stranger's.
func (p *Plane) leave(id uint32, v4 bool, old, now bpfPeer) error {
	for _, was := range old.Path {
		kept := slices.ContainsFunc(now.Path[:], func(is bpfPath) bool { return is.Ifindex != 0 && is.Remote == was.Remote })
		if was.Ifindex == 0 || kept {
			continue
		}
		var rev bpfRev
		var err error
		if v4 {
			if err = p.objs.PwRev4.Lookup(was.Remote.W[0], &rev); err == nil && rev.Id == id {
				err = p.objs.PwRev4.Delete(was.Remote.W[0])
				p.nearRev.leave(was.Remote, id*MaxPaths+rev.Path, inHash, p.cfg.Now())
			}
		} else if err = p.objs.PwRev6.Lookup(was.Remote, &rev); err == nil && rev.Id == id {
			err = p.objs.PwRev6.Delete(was.Remote)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

func (p *Plane) check(peer Peer) error {
	for _, path := range peer.Paths {
		if path.Index < 1 || path.Index >= MaxPaths {
			return fmt.Errorf("path %d: expected 1 to %d", path.Index, MaxPaths-1)
		}
		if p.devs[path.Dev] == nil || path.Dev == p.cfg.Dev {
			return fmt.Errorf("path %d: %q is no path's interface of this pod", path.Index, path.Dev)
		}
		if path.MTU < 576 || path.MTU > 65535 {
			return fmt.Errorf("path %d: MTU %d: expected 576 to 65535 bytes", path.Index, path.MTU)
		}
	}
	return nil
}

// pair returns the path's addresses for flows of the stable pair, if it has some.
func (path Path) pair(stable Pair) (Pair, bool) {
	pair, ok := family(path.Pairs, stable.Local)
	return pair, ok && (stable.Local.Is4() || !path.Encap)
}

func flags(path Path) uint32 {
	if path.Encap {
		return uint32(bpfPathFlagPATH_ENCAP)
	}
	return 0
}

func (p *Plane) path(path Path, pair, stable Pair) bpfPath {
	dev := p.devs[path.Dev]
	row := bpfPath{Local: word(pair.Local), Remote: word(pair.Remote), Diff: diff(stable, pair),
		Key: path.Keys.Send.words(), Ifindex: uint32(dev.Index), Mtu: uint16(path.MTU), Flags: uint8(flags(path))}
	if len(path.NextHop) == 6 && len(dev.HardwareAddr) == 6 {
		row.Flags |= uint8(bpfPathFlagPATH_MAC)
		copy(row.Mac[:6], path.NextHop)
		copy(row.Mac[6:], dev.HardwareAddr)
	}
	return row
}

// id finds or allocates the peer's rows, which are cleared for a new peer.
func (p *Plane) id(peer Peer) (uint32, error) {
	if len(peer.Pairs) == 0 {
		return 0, fmt.Errorf("peer %s has no stable address", peer.UID)
	}
	if id, ok := p.ids[peer.UID]; ok {
		return id, nil
	}
	for _, pair := range peer.Pairs {
		// Its address was another pod's, or its own before this agent began.
		row, err := p.row(pair.Remote)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		} else if err != nil {
			return 0, err
		}
		if row.Generation == generation(peer.UID) {
			p.ids[peer.UID] = row.Id
			return row.Id, nil
		}
		if err := p.remove(row.Id); err != nil {
			return 0, err
		}
	}
	id := slices.Index(p.used, false)
	if id < 0 && p.room < p.cfg.Peers {
		if err := p.grow(); err != nil {
			return 0, err
		}
		id = slices.Index(p.used, false)
	}
	if id < 0 {
		return 0, fmt.Errorf("peer %s: %w: it holds %d", peer.UID, ErrTooMany, len(p.used))
	}
	p.clear(uint32(id))
	p.used[id], p.ids[peer.UID] = true, uint32(id)
	return uint32(id), nil
}

// Known reports whether the maps hold the peer, this very pod, with its paths: a
// predecessor has opened it.
func (p *Plane) Known(peer Peer) (bool, error) {
	for _, pair := range peer.Pairs {
		row, err := p.row(pair.Remote)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("look up peer %s: %w", peer.UID, err)
		}
		if row.Generation != generation(peer.UID) {
			return false, nil
		}
		for _, path := range peer.Paths {
			at := row.Path[path.Index%MaxPaths]
			encap := uint32(at.Flags) & uint32(bpfPathFlagPATH_ENCAP)
			if _, ok := path.pair(pair); ok && (at.Ifindex == 0 || encap != flags(path)) {
				return false, nil
			}
		}
	}
	return len(peer.Pairs) > 0, nil
}

func (p *Plane) row(a netip.Addr) (row bpfPeer, err error) {
	if a.Is4() {
		err = p.objs.PwPeers4.Lookup(word(a).W[0], &row)
	} else {
		err = p.objs.PwPeers6.Lookup(word(a), &row)
	}
	return row, err
}

func (p *Plane) put(v4, v6 *ebpf.Map, a netip.Addr, value any) error {
	if a.Is4() {
		return v4.Put(word(a).W[0], value)
	}
	return v6.Put(word(a), value)
}

// RemovePeer forgets a peer: traffic with it is native at once. One that is not
// known is no error.
func (p *Plane) RemovePeer(uid string) error {
	id, ok := p.ids[uid]
	if !ok {
		return nil
	}
	delete(p.ids, uid)
	return p.remove(id)
}

// remove takes rows away: sending first, so that nothing leaves for an address
// from which answers are no longer taken.
func (p *Plane) remove(id uint32) error {
	for uid, have := range p.ids {
		if have == id {
			delete(p.ids, uid)
		}
	}
	at := p.places[id]
	delete(p.places, id)
	var errs []error
	for _, a := range at.stable {
		errs = append(errs, p.drop(p.objs.PwPeers4, p.objs.PwPeers6, a, id))
	}
	for _, a := range at.paths {
		errs = append(errs, p.drop(p.objs.PwRev4, p.objs.PwRev6, a, id))
	}
	err := errors.Join(errs...)
	p.release(id, at)
	p.clear(id)
	p.used[id] = false
	if err != nil {
		return fmt.Errorf("remove peer: %w", err)
	}
	return nil
}

// family returns the pair of the same family as a.
func family(pairs []Pair, a netip.Addr) (Pair, bool) {
	i := slices.IndexFunc(pairs, func(p Pair) bool { return p.Local.Is4() == a.Is4() })
	if i < 0 {
		return Pair{}, false
	}
	return pairs[i], true
}

// lower is 1 where this end has the lower address of the pair.
func lower(p Pair) uint32 {
	if p.Local.Less(p.Remote) {
		return 1
	}
	return 0
}

// diff is the checksum difference of replacing one pair by the other, as
// bpf_csum_diff computes it: the ones' complement sum (RFC 1071) of the new
// words and the complements of the old.
func diff(from, to Pair) uint32 {
	sum := uint64(0)
	for _, a := range []netip.Addr{from.Local, from.Remote} {
		for _, w := range word(a).W {
			sum += uint64(^w)
		}
	}
	for _, a := range []netip.Addr{to.Local, to.Remote} {
		for _, w := range word(a).W {
			sum += uint64(w)
		}
	}
	for sum>>32 != 0 {
		sum = sum&0xffffffff + sum>>32
	}
	return uint32(sum)
}
