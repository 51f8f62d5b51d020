// Package dataplane is the data plane: it attaches the tcx programs of dataplane.bpf.c in
// a pod's namespace, keeps their maps, and moves flows between paths by writing
// one word per bucket.
//
// Programs and maps are pinned, so that traffic goes on while no agent runs;
// Open adopts what a predecessor left, and retires what one of another version
// left (former.go). It decides nothing: which path is right
// is said by package decide, and when to ask by package agent.
package dataplane

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/flow"
)

//go:generate go tool bpf2go -target bpfel -cc clang -strip llvm-strip -tags linux -type peer -type path -type addr -type rev -type key -type keys -type flow -type flow_state -type row_order -type tally -type choices -type notice_numbers -type lease -type limit -type choice -type dscp -type tag -type role -type closed -type event -type path_flag -type claimed -type syn bpf dataplane.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// Limits of the data plane of dataplane.h.
const (
	// MaxPaths is the number of paths of a pair, the default network among them.
	MaxPaths = 8
	// Buckets is the number of shares in which a pair's flows can be moved.
	Buckets = flow.Buckets
	// Mark is the DSCP of steered packets to which their application gave none.
	Mark = uint8(bpfDscpMARK)
	// DefaultPeers is how many peers a pod can have at a time unless Config says otherwise.
	DefaultPeers = 4096
	// Layout numbers the form of the maps and of the marks. Programs of different
	// layouts take no notice of each other's packets. Before there were numbers it was 1.
	Layout = 2
	// DefaultLease is how long steering outlives its agent.
	DefaultLease = 3 * time.Second
)

// Config says where the data plane goes.
type Config struct {
	// Netns is the name of the pod's network namespace.
	Netns string
	// Dev is the pod's interface on its default network; PathDevs are the others.
	Dev      string
	PathDevs []string
	// PinDir is a directory on a bpf file system, this pod's own. It is created.
	PinDir string
	// Former are the pin directories that a version with another layout would have
	// used for this pod: what is there is retired.
	Former []string
	// Peers bounds the number of peers at a time; 0 means DefaultPeers. Room is made as
	// they are entered.
	Peers int
	// Flows bounds the number of flows at a time that are told apart from others, and
	// so can be steered; 0 means DefaultFlows. Room is made as they come.
	Flows int
	// Lease is how long flows stay on other paths without RenewLease; 0 means DefaultLease.
	Lease time.Duration
	// Now is the wall clock, by which choices are numbered; nil means time.Now.
	Now func() time.Time
}

func (c Config) fill() Config {
	if c.Peers == 0 {
		c.Peers = DefaultPeers
	}
	if c.Flows == 0 {
		c.Flows = DefaultFlows
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Plane is the data plane of one pod.
type Plane struct {
	hooks
	cfg  Config
	objs bpfObjects
	mem  memory
	// room is how many peers the maps hold now.
	room int
	// table is the form of a table of flows.
	table *ebpf.MapSpec
	// former are the data planes of other layouts that are still there.
	former []*former
	// ids by the peer's UID; what the maps hold, kept to allocate.
	ids    map[string]uint32
	used   []bool
	places map[uint32]place
	// near and nearRev are the rows of pw_peers4 and pw_rev4 by number.
	near, nearRev doubled
}

// memory is the arrays, mapped: a switch is then no system call.
type memory struct {
	owner, follower, notices, sent, received, hints, revHints *ebpf.Memory
	flowCount, candidates, misses, heartbeat, events, syns    *ebpf.Memory
}

// Open attaches the data plane to a pod, or adopts the one that is pinned
// there; flows keep their paths, unless its lease has run out. It needs root, tcx
// links (Linux 6.6) and a verifier that follows the programs (6.8).
func Open(cfg Config) (*Plane, error) {
	cfg = cfg.fill()
	p := &Plane{hooks: hooks{of: cfg}, cfg: cfg, ids: map[string]uint32{}, places: map[uint32]place{}}
	if err := os.MkdirAll(p.cfg.PinDir, 0o700); err != nil {
		return nil, fmt.Errorf("create pin directory: %w", err)
	}
	if err := p.find(); err != nil {
		return nil, fmt.Errorf("look at the pod's interfaces: %w", err)
	}
	// Loading takes a while, in which a lease could run out that has not yet.
	lasting, err := RenewPinned(p.cfg.PinDir, p.cfg.Lease)
	if err != nil {
		return nil, err
	}
	room, err := roomIn(p.cfg.PinDir)
	if err != nil {
		return nil, err
	}
	if room == 0 {
		room = min(firstRoom, p.cfg.Peers)
	}
	err = p.load(room, p.sized(room))
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		// Somebody else's maps: begin again, on the default network.
		err = errors.Join(unpin(p.cfg.PinDir), p.load(room, p.sized(room)))
	}
	if unfit := (*ebpf.VerifierError)(nil); errors.As(err, &unfit) || errors.Is(err, ebpf.ErrNotSupported) {
		err = fmt.Errorf("%w: it needs Linux 6.8 or later, with BTF", err)
	}
	if err != nil {
		return nil, fmt.Errorf("load data plane: %w", err)
	}
	if err := p.adopt(lasting); err != nil {
		return nil, errors.Join(fmt.Errorf("adopt peers: %w", err), p.Close())
	}
	p.retire()
	p.RenewLease()
	if err := p.attach(p.objs.bpfPrograms); err != nil {
		return nil, errors.Join(fmt.Errorf("attach data plane: %w", err), p.Close())
	}
	return p, p.tidy()
}

// Close lets go of the data plane, which goes on as it is.
func (p *Plane) Close() error {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	return p.objs.Close()
}

// RenewLease tells the data plane that its agent lives, for another lease. If it comes
// late, the flows go back to the paths on which the lease ended.
func (p *Plane) RenewLease() { put64(p.mem.heartbeat, 0, coarse()) }

// RenewPinned renews the lease of the data plane that is pinned in dir, if it has not run
// out: for an agent that has many to adopt. It reports whether it has renewed it; where
// there is none it has not.
func RenewPinned(dir string, lease time.Duration) (bool, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "heartbeat"), nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("open heartbeat: %w", err)
	}
	defer m.Close()
	beat, err := m.LookupBytes(uint32(0))
	if err != nil {
		return false, fmt.Errorf("read heartbeat: %w", err)
	}
	if len(beat) < 8 || coarse()-native64(beat) >= uint64(lease) {
		return false, nil
	}
	putNative64(beat, coarse())
	if err := m.Put(uint32(0), beat); err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	return true, nil
}

// coarse is what bpf_ktime_get_coarse_ns reads.
func coarse() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts) // cannot fail for this clock
	return uint64(ts.Nano())
}

// generation is what binds entries to a pod: another pod with the same address
// has another.
func generation(uid string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(uid)) // never fails
	return h.Sum32()
}

// word is an address as the maps hold it.
func word(a netip.Addr) (out bpfAddr) {
	b := a.As16()
	if a.Is4() {
		v := a.As4()
		b = [16]byte{}
		copy(b[:], v[:])
	}
	for i := range out.W {
		out.W[i] = native32(b[i*4:])
	}
	return out
}
