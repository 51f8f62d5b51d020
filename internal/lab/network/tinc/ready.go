package tinc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// ready plugs the daemons' devices into the bridges and waits until a frame has
// come from every host to every other one: that is when the daemons have
// connected and, in pairs, told each other how to send.
func ready(ctx context.Context, site network.Site, mtu int) error {
	for _, h := range site.Hosts {
		if err := network.Poll(ctx, 2*time.Millisecond, func() error { return plug(site, h, mtu) }); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	t := try{missing: map[[2]int]bool{}}
	defer t.close()
	for _, h := range site.Hosts {
		if err := t.open(site, h); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return network.Poll(ctx, 2*time.Millisecond, t.round)
}

// plug makes the daemon's device a port of the host's bridge.
func plug(site network.Site, h topo.Host, mtu int) error {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	tap, err := nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	br, err := nl.LinkByName(site.Bridge())
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	if err := errors.Join(nl.LinkSetMTU(tap, mtu), nl.LinkSetMaster(tap, br), nl.LinkSetUp(tap)); err != nil {
		return fmt.Errorf("set up %s: %w", device, err)
	}
	return nil
}

// etherType is the first that IEEE 802 leaves to local experiments.
const etherType = 0x88b5

// try sends frames between the hosts' bridges until each pair has seen one.
type try struct {
	ends []end
	// missing holds the pairs, sender first, of which nothing has arrived yet.
	missing map[[2]int]bool
}

// end is a host's packet socket.
type end struct {
	host, fd int
	to       unix.SockaddrLinklayer
	frame    []byte
}

// open adds a host.
func (t *try) open(site network.Site, h topo.Host) error {
	e := end{host: h.Index, fd: -1}
	err := netns.Do(h.Netns, func() error {
		br, err := net.InterfaceByName(site.Bridge())
		if err != nil {
			return err
		}
		e.to = unix.SockaddrLinklayer{Protocol: order(etherType), Ifindex: br.Index}
		e.frame = frame(br.HardwareAddr, h.Index)
		if e.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
			int(order(etherType))); err != nil {
			return err
		}
		return unix.Bind(e.fd, &e.to)
	})
	t.ends = append(t.ends, e)
	if err != nil {
		return fmt.Errorf("open socket for readiness: %w", err)
	}
	for _, other := range t.ends[:len(t.ends)-1] {
		t.missing[[2]int{e.host, other.host}], t.missing[[2]int{other.host, e.host}] = true, true
	}
	return nil
}

// order is v in network byte order, as packet(7) wants the protocol.
func order(v uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)) }

// frame is a broadcast that says from which host it is.
func frame(from net.HardwareAddr, host int) []byte {
	out := make([]byte, 60) // the shortest that Ethernet knows
	copy(out, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(out[6:], from)
	binary.BigEndian.PutUint16(out[12:], etherType)
	binary.BigEndian.PutUint16(out[14:], uint16(host))
	return out
}

// close gives the sockets back, which would keep their namespaces alive.
func (t *try) close() {
	for _, e := range t.ends {
		if e.fd >= 0 {
			_ = unix.Close(e.fd) // nothing was written that could be lost
		}
	}
}

// round sends from each host that another one has not heard, and takes what has arrived.
func (t *try) round() error {
	for _, e := range t.ends {
		if t.unheard(e.host) {
			// A lost frame is what the next round is for.
			_ = unix.Sendto(e.fd, e.frame, 0, &e.to)
		}
	}
	buf := make([]byte, 64)
	for _, e := range t.ends {
		for {
			n, err := unix.Read(e.fd, buf)
			if err != nil {
				break // no more for now
			}
			if n >= 16 {
				delete(t.missing, [2]int{int(binary.BigEndian.Uint16(buf[14:])), e.host})
			}
		}
	}
	for pair := range t.missing {
		return fmt.Errorf("%d pairs of hosts do not reach each other yet, such as %d and %d", len(t.missing), pair[0], pair[1])
	}
	return nil
}

func (t *try) unheard(host int) bool {
	for pair := range t.missing {
		if pair[0] == host {
			return true
		}
	}
	return false
}
