package agent

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
)

const (
	// kicksMost is how many doublings of its timeout a connection is woken out of.
	kicksMost = 8
	// roundOf is how many connections are woken at a time, and restOf how long the
	// processor is left to others after that: each message makes the kernel send a
	// segment before the next one, some ten microseconds.
	roundOf, restOf = 128, 250 * time.Microsecond
)

// call is for connections of a pair to be woken.
type call struct {
	pair          string
	netns         string
	local, remote netip.Addr
	conns         []stuck
	shelves       []map[ports]stuck // the same, as they were remembered
	at            time.Time
}

// waker has the calls that wait for wakeAll: the loop does not, as there may be very
// many connections.
type waker struct {
	mu    sync.Mutex
	calls []*call
	bell  bell
}

// wake makes connections that wait for a doubled timeout try at once: the path
// has changed, so that the wait has lost its reason. An ICMP host unreachable
// that quotes the first segment without acknowledgment takes one doubling back
// (RFC 6069; tcp_ld_RTO_revert), and retransmits if the shorter wait is over.
// Those that do not wait ignore it. It takes as long for many connections as for
// one here, which only hands them over.
func (a *Agent) wake(p *pair, moved dataplane.Set, now time.Time) {
	p.left = now
	a.rouse(p, moved, now)
}

// wakeSoon is wake for flows of the pair's own that have moved, once the other agent
// has confirmed that it knows, or after a while: what is woken sooner is answered on the
// path that was left.
func (a *Agent) wakeSoon(p *pair, moved dataplane.Set, now time.Time) {
	p.left = now
	if p.waking == 0 {
		p.wakeAt = now.Add(confirmSoon)
		a.waking = append(a.waking, p)
		a.soon(confirmSoon / 4)
	}
	p.waking |= moved
}

// confirmSoon is how long that may take: some round trips of probes, and what an agent
// may wait for a processor.
const confirmSoon = 2 * time.Millisecond

// wakeNow wakes what wakeSoon has left.
func (a *Agent) wakeNow(p *pair) {
	if p.waking != 0 {
		a.rouse(p, p.waking, a.cfg.Now())
		p.waking = 0
	}
}

// wakeDue wakes those whose time has come, and returns when to look again.
func (a *Agent) wakeDue(now time.Time) time.Duration {
	next := idleTick
	a.waking = slices.DeleteFunc(a.waking, func(p *pair) bool {
		if !now.Before(p.wakeAt) {
			a.wakeNow(p)
		}
		if p.waking != 0 {
			next = min(next, confirmSoon/4)
		}
		return p.waking == 0
	})
	return next
}

// rouse is wake where flows have moved before.
func (a *Agent) rouse(p *pair, moved dataplane.Set, now time.Time) {
	local, remote := p.routes[0].Local.Addr, p.routes[0].Remote.Addr
	shelves := p.stuck.take(moved)
	if len(shelves) == 0 || !local.Is4() {
		return
	}
	a.waker.add(&call{pair: p.name, netns: p.local.Netns, local: local, remote: remote, shelves: shelves, at: now})
}

// add hands over a call.
func (w *waker) add(c *call) {
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	w.bell.ring()
}

// next takes the call that has waited longest.
func (w *waker) next() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		return nil
	}
	c := w.calls[0]
	w.calls = w.calls[1:]
	return c
}

// wakeAll answers calls until ctx ends: a round of each in turn, so that a pair of a
// few connections does not wait for one of many.
func (a *Agent) wakeAll(ctx context.Context) error {
	for ctx.Err() == nil {
		c := a.waker.next()
		if c == nil {
			select {
			case <-a.waker.bell:
			case <-ctx.Done():
			}
			continue
		}
		n, err := c.round()
		a.mu.Lock()
		a.stats.kicks += uint64(n)
		a.mu.Unlock()
		if err != nil {
			a.warn("%s: wake connections: %v", c.pair, err)
		}
		if err == nil && len(c.conns) > 0 {
			a.waker.add(c)
		}
		time.Sleep(restOf)
	}
	return nil
}

// round wakes some of the call's connections, and returns how many messages that took.
func (c *call) round() (n int, err error) {
	if c.shelves != nil {
		c.conns, c.shelves = inOrder(c.shelves, c.at), nil
	}
	some := c.conns[:min(len(c.conns), roundOf)]
	c.conns = c.conns[len(some):]
	if len(some) == 0 {
		return 0, nil
	}
	err = netns.Do(c.netns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return fmt.Errorf("open raw socket: %w", err)
		}
		defer unix.Close(fd)
		to := unix.SockaddrInet4{Addr: c.local.As4()}
		for _, s := range some {
			k := unreachable(c.local, c.remote, s.ports[0], s.ports[1], s.unacked)
			for range min(s.count, kicksMost) {
				if err := unix.Sendto(fd, k, 0, &to); err != nil {
					return fmt.Errorf("send to %s: %w", c.local, err)
				}
				n++
			}
		}
		return nil
	})
	return n, err
}

// inOrder lists connections that are to be woken: those first that would wait longest
// without, and of these the latest.
func inOrder(shelves []map[ports]stuck, now time.Time) (out []stuck) {
	for _, shelf := range shelves {
		for _, s := range shelf {
			if now.UnixNano()-s.at <= int64(s.longest()) {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(x, y stuck) int {
		return cmp.Or(cmp.Compare(y.count, x.count), cmp.Compare(y.at, x.at))
	})
	return out
}

// unreachable is an ICMP host unreachable (RFC 792) that quotes a TCP segment of
// the connection.
func unreachable(local, remote netip.Addr, lport, rport uint16, seq uint32) []byte {
	b := make([]byte, 8, 36)
	b[0], b[1] = 3, 1
	src, dst := local.As4(), remote.As4()
	ip := []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, unix.IPPROTO_TCP, 0, 0}
	ip = append(append(ip, src[:]...), dst[:]...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	b = append(b, ip...)
	b = binary.BigEndian.AppendUint16(b, lport)
	b = binary.BigEndian.AppendUint16(b, rport)
	b = binary.BigEndian.AppendUint32(b, seq)
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	return b
}

// checksum is that of RFC 1071, of an even number of octets.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
