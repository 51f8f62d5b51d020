package telemetry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Cookie is the identity of the namespace called name: unlike its inode it is
// never used again until the machine restarts (Linux 5.14).
func Cookie(name string) (cookie uint64, err error) {
	err = netns.Do(name, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open socket: %w", err)
		}
		defer unix.Close(fd)
		if cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
			return fmt.Errorf("get SO_NETNS_COOKIE: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("identify namespace %s: %w", name, err)
	}
	return cookie, nil
}

// Watch begins to observe the TCP connections of the namespace called name,
// those that are established already too (Faults counts the ones that the
// kernel refuses). Watching twice changes nothing.
func (c *Collector) Watch(name string) (cookie uint64, err error) {
	if cookie, err = Cookie(name); err != nil {
		return 0, err
	}
	// First new connections, then old ones: none falls between.
	if err := c.maps[telemetryMapPwTcpWatched].Put(cookie, uint32(1)); err != nil {
		return 0, fmt.Errorf("watch namespace %s: %w", name, err)
	}
	c.mu.Lock()
	c.names[cookie] = name
	c.mu.Unlock()
	if err := c.adoptSockets(name); err != nil {
		return 0, fmt.Errorf("watch namespace %s: %w", name, err)
	}
	return cookie, nil
}

// findWatched finds the names of the namespaces that an earlier agent has watched.
func (c *Collector) findWatched() error {
	cookies, err := c.Watched()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(netns.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no namespace has a name yet
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, e := range entries {
		cookie, err := Cookie(e.Name())
		if err == nil && slices.Contains(cookies, cookie) { // what is no namespace, or gone by now, is none of them
			c.names[cookie] = e.Name()
		}
	}
	return nil
}

// Unwatch ends it and forgets the figures; a namespace that is not watched, or
// gone, is no error. Sockets fall silent at their next callback.
func (c *Collector) Unwatch(cookie uint64) error {
	c.mu.Lock()
	delete(c.names, cookie)
	c.mu.Unlock()
	c.walking.Lock()
	defer c.walking.Unlock()
	err := c.maps[telemetryMapPwTcpWatched].Delete(cookie)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unwatch namespace %d: %w", cookie, err)
	}
	if err := c.list(); err != nil {
		return fmt.Errorf("unwatch namespace %d: %w", cookie, err)
	}
	for _, key := range c.now.keys {
		if key.Netns != cookie {
			continue
		}
		if err := c.maps[telemetryMapPwTcpFlows].Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget flows of namespace %d: %w", cookie, err)
		}
		delete(c.before, key)
	}
	return nil
}

// Watched are the namespaces that are observed, in order: after adoption also
// those of the earlier agent, some of them maybe gone.
func (c *Collector) Watched() ([]uint64, error) {
	var cookies []uint64
	var cookie uint64
	var one uint32
	it := c.maps[telemetryMapPwTcpWatched].Iterate()
	for it.Next(&cookie, &one) {
		cookies = append(cookies, cookie)
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("list watched namespaces: %w", err)
	}
	slices.Sort(cookies)
	return slices.Compact(cookies), nil
}

// ErrTooManyPeers means that some of the peers are not observed.
var ErrTooManyPeers = errors.New("too many peers")

// SetPeers limits observation to connections with these addresses; none means
// all. Applying the same set twice changes nothing. Connections with new ones
// that exist already are taken up in the namespaces that this collector watches, which
// takes as long as there are connections. Of more than there is room for it takes the
// first ones by order of address, and returns ErrTooManyPeers.
func (c *Collector) SetPeers(peers []netip.Addr) error {
	want, over := wanted(peers, int(c.maps[telemetryMapPwTcpPeers].MaxEntries()))
	c.mu.Lock()
	fresh, err := c.limit(want)
	names := slices.Collect(maps.Values(c.names))
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("set peers: %w", err)
	}
	for _, name := range names {
		if !fresh {
			break
		}
		if err := c.adoptSockets(name); err != nil && netns.Exists(name) {
			return fmt.Errorf("set peers: %w", err)
		}
	}
	if over > 0 {
		return fmt.Errorf("set peers: %w: %d of %d are not observed", ErrTooManyPeers, over, over+len(want))
	}
	return nil
}

// wanted is the set of peers, at most so many, and how many more there are.
func wanted(peers []netip.Addr, most int) (want map[[16]byte]bool, over int) {
	sorted := slices.SortedFunc(slices.Values(peers), netip.Addr.Compare)
	want = map[[16]byte]bool{}
	for _, p := range slices.Compact(sorted) {
		if len(want) == most {
			over++
			continue
		}
		want[p.As16()] = true
	}
	return want, over
}

// limit brings the kernel's set in step, and tells whether connections are to be
// observed that were not before. Those that leave make room for those that come; the
// limit holds before that begins and after it ends, as an empty set must not mean
// "none".
func (c *Collector) limit(want map[[16]byte]bool) (fresh bool, err error) {
	have, err := c.peers()
	if err != nil {
		return false, err
	}
	if c.onlyPeers = c.onlyPeers && len(want) > 0; !c.onlyPeers {
		if err := c.putSettings(); err != nil {
			return false, err
		}
	}
	for p := range have {
		if want[p] {
			continue
		}
		if err := c.maps[telemetryMapPwTcpPeers].Delete(p); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return false, err
		}
	}
	for p := range want {
		if have[p] {
			continue
		}
		fresh = true
		if err := c.maps[telemetryMapPwTcpPeers].Put(p, uint32(1)); err != nil {
			return false, err
		}
	}
	c.onlyPeers = len(want) > 0
	return fresh || len(want) == 0, c.putSettings()
}

func (c *Collector) peers() (map[[16]byte]bool, error) {
	have := map[[16]byte]bool{}
	var key [16]byte
	var one uint32
	it := c.maps[telemetryMapPwTcpPeers].Iterate()
	for it.Next(&key, &one) {
		have[key] = true
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("list peers: %w", err)
	}
	return have, nil
}

func (c *Collector) putSettings() error {
	s := telemetrySettings{Window: c.reading}
	if c.onlyPeers {
		s.OnlyPeers = 1
	}
	if err := c.maps[telemetryMapPwTcpSettings].Put(uint32(0), s); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// adoptSockets runs the iterator over the sockets of the namespace called name;
// the kernel takes the namespace of the thread that opens it.
func (c *Collector) adoptSockets(name string) error {
	return walkAll(c.adopt, []string{name})
}

// walkAll runs the program over all sockets of the namespaces.
func walkAll(p *ebpf.Program, names []string) error {
	it, err := link.AttachIter(link.IterOptions{Program: p})
	if err != nil {
		return fmt.Errorf("attach socket iterator: %w", err)
	}
	defer it.Close()
	for _, name := range names {
		if err := netns.Do(name, func() error { return walk(it) }); err != nil {
			return err
		}
	}
	return nil
}

// surveyed has the program count what the watched connections have done.
func (c *Collector) surveyed() error {
	if c.survey != nil {
		return walk(c.survey)
	}
	c.mu.Lock()
	names := slices.DeleteFunc(slices.Collect(maps.Values(c.names)), func(name string) bool { return !netns.Exists(name) })
	c.mu.Unlock()
	return walkAll(c.all, names)
}

// walk runs an iterator's program over all that there is.
func walk(it *link.Iter) error {
	r, err := it.Open()
	if err != nil {
		return fmt.Errorf("open socket iterator: %w", err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("walk sockets: %w", err)
	}
	return nil
}

// Faults counts what was not observed since the maps were made.
type Faults struct {
	Events  uint64 // events that found the ring full: the reader was too slow
	Sockets uint64 // connections for which the kernel had no memory
	Flows   uint64 // callbacks that found no room for their flow
	Refused uint64 // connections older than Watch that this kernel (before 6.12) does not let be watched
	Evicted uint64 // flows forgotten as there were more than it has room for; counted here, by Read
}

// Faults reads the counters.
func (c *Collector) Faults() (Faults, error) {
	var n [telemetryFaultFAULTS]uint64
	for i := range n {
		if err := c.maps[telemetryMapPwTcpFaults].Lookup(uint32(i), &n[i]); err != nil {
			return Faults{}, fmt.Errorf("read faults: %w", err)
		}
	}
	c.walking.Lock()
	defer c.walking.Unlock()
	return Faults{Events: n[telemetryFaultFAULT_EVENT], Sockets: n[telemetryFaultFAULT_SOCKET],
		Flows: n[telemetryFaultFAULT_FLOW], Refused: n[telemetryFaultFAULT_ADOPT], Evicted: c.evicted}, nil
}
