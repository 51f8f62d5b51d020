// Package kick wakes TCP connections that wait for a retransmission timeout that was doubled
// on a path that they have left: the wait has lost its reason, and would last for seconds.
// An ICMP host unreachable (of IPv6, no route to destination) that quotes the first segment
// without acknowledgment takes one doubling back (RFC 6069; tcp_ld_RTO_revert), and
// retransmits if the shorter wait is over. Those that do not wait ignore it. A SYN has no
// doubled wait that could be taken back: it is sent again.
//
// It does not know which connections those are, nor when they have moved: it is told.
package kick

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/probe"
)

const (
	// kicksMost is how many doublings of its timeout a connection is woken out of.
	kicksMost = 8
	// roundOf is how many connections are woken at a time, and restOf how long the
	// processor is left to others after that: each message makes the kernel send a
	// segment before the next one, some ten microseconds.
	roundOf, restOf = 128, 250 * time.Microsecond
)

// Call is for connections between two addresses to be woken, of which the local one is in
// Netns.
type Call struct {
	Netns         string
	Local, Remote netip.Addr
	// Shelves are the connections, as they were remembered, and At when they moved.
	Shelves Shelves
	At      time.Time
	// SYNs are those that are to be sent again, whole packets (dataplane.SYNs).
	SYNs [][]byte

	conns []stuck // the same, in order
}

// Waker has the calls that wait for Run: who calls does not, as there may be very many
// connections. The zero Waker is ready but for its bell; see NewWaker.
type Waker struct {
	bell  chan struct{}
	kicks atomic.Uint64

	mu    sync.Mutex // of calls
	calls []*Call
}

// NewWaker prepares one.
func NewWaker() *Waker { return &Waker{bell: make(chan struct{}, 1)} }

// Kicks is how many messages were sent.
func (w *Waker) Kicks() uint64 { return w.kicks.Load() }

// Wake has the connections of a call try at once. It takes as long for many connections as
// for one, as it only hands them over.
func (w *Waker) Wake(c Call) {
	if len(c.Shelves) > 0 || len(c.SYNs) > 0 {
		w.add(&c)
	}
}

// add hands over a call.
func (w *Waker) add(c *Call) {
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	select {
	case w.bell <- struct{}{}:
	default: // it has rung
	}
}

// next takes the call that has waited longest.
func (w *Waker) next() *Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		return nil
	}
	c := w.calls[0]
	w.calls = w.calls[1:]
	return c
}

// Run answers calls until ctx ends, and tells those that fail: a round of each in turn, so
// that a pair of a few connections does not wait for one of many.
func (w *Waker) Run(ctx context.Context, failed func(Call, error)) error {
	for ctx.Err() == nil {
		c := w.next()
		if c == nil {
			select {
			case <-w.bell:
			case <-ctx.Done():
			}
			continue
		}
		n, err := c.round()
		w.kicks.Add(uint64(n))
		if err != nil {
			failed(*c, err)
		} else if len(c.conns) > 0 {
			w.add(c)
		}
		time.Sleep(restOf)
	}
	return nil
}

// round wakes some of the call's connections, and returns how many messages that took.
func (c *Call) round() (n int, err error) {
	if c.Shelves != nil {
		c.conns, c.Shelves = inOrder(c.Shelves, c.At), nil
	}
	if syns := c.SYNs; syns != nil {
		c.SYNs = nil
		if err := netns.Do(c.Netns, func() error { return sendAgain(syns, c.Local.Is6()) }); err != nil {
			return 0, err
		}
		n = len(syns)
	}
	some := c.conns[:min(len(c.conns), roundOf)]
	c.conns = c.conns[len(some):]
	if len(some) == 0 {
		return n, nil
	}
	err = netns.Do(c.Netns, func() error {
		fd, err := probe.Socket(c.Local.Is6())
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var to unix.Sockaddr = &unix.SockaddrInet6{Addr: c.Local.As16()}
		if c.Local.Is4() {
			to = &unix.SockaddrInet4{Addr: c.Local.As4()}
		}
		for _, s := range some {
			k := unreachable(c.Local, c.Remote, s.ports[0], s.ports[1], s.unacked)
			for range min(s.count, kicksMost) {
				if err := unix.Sendto(fd, k, 0, to); err != nil {
					return fmt.Errorf("send to %s: %w", c.Local, err)
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
func inOrder(shelves Shelves, now time.Time) (out []stuck) {
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

// unreachable is an ICMP host unreachable (RFC 792), or of IPv6 a message that there is no
// route (RFC 4443 section 3.1), whose checksum is the kernel's. It quotes a TCP segment of the
// connection.
func unreachable(local, remote netip.Addr, lport, rport uint16, seq uint32) []byte {
	b := make([]byte, 8, 8+40+8)
	if local.Is4() {
		b[0], b[1] = 3, 1
		ip := []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, unix.IPPROTO_TCP, 0, 0}
		ip = append(append(ip, local.AsSlice()...), remote.AsSlice()...)
		binary.BigEndian.PutUint16(ip[10:], probe.Checksum(ip))
		b = append(b, ip...)
	} else {
		b[0], b[1] = 1, 0
		b = append(b, 0x60, 0, 0, 0, 0, 20, unix.IPPROTO_TCP, 64)
		b = append(append(b, local.AsSlice()...), remote.AsSlice()...)
	}
	b = binary.BigEndian.AppendUint16(b, lport)
	b = binary.BigEndian.AppendUint16(b, rport)
	b = binary.BigEndian.AppendUint32(b, seq)
	if local.Is4() {
		binary.BigEndian.PutUint16(b[2:], probe.Checksum(b))
	}
	return b
}
