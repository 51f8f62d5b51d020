package docker

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// told waits until every engine knows the containers of all others, of which
// gossip tells it some time after they run. Until then it does not answer for
// them: the VXLAN device answers ARP requests from what the engine has written
// into it (its proxy flag), so one container of each host asks for all of the
// other hosts'. It asks by itself, as the kernel would do so once a second and
// fill its neighbour table.
func told(ctx context.Context, pods []topo.Pod) error {
	first := map[int]topo.Pod{}
	for _, p := range pods {
		if _, ok := first[p.Host]; !ok {
			first[p.Host] = p
		}
	}
	var all []*asker
	defer func() {
		for _, a := range all {
			_ = unix.Close(a.fd) // nothing was written that could be lost
		}
	}()
	for host, p := range first {
		a, err := newAsker(p)
		if err != nil {
			return fmt.Errorf("ask from pod %s: %w", p.Name, err)
		}
		all = append(all, a)
		for _, other := range pods {
			if other.Host != host {
				a.missing[other.Addr()] = other.Name
			}
		}
	}
	return network.Poll(ctx, 5*time.Millisecond, func() error {
		var err error
		for _, a := range all {
			if e := a.round(); e != nil {
				err = e
			}
		}
		return err
	})
}

// asker asks for addresses by ARP (RFC 826) from a pod.
type asker struct {
	pod     topo.Pod
	fd      int
	to      unix.SockaddrLinklayer
	mac     net.HardwareAddr
	missing map[netip.Addr]string
}

// protocol is ETH_P_ARP in network byte order, as packet(7) wants it.
func protocol() uint16 {
	return binary.NativeEndian.Uint16([]byte{unix.ETH_P_ARP >> 8, unix.ETH_P_ARP & 0xff})
}

func newAsker(pod topo.Pod) (*asker, error) {
	a := &asker{pod: pod, missing: map[netip.Addr]string{}}
	err := netns.Do(pod.Netns, func() error {
		dev, err := net.InterfaceByName(pod.Attachments[0].Dev)
		if err != nil {
			return err
		}
		a.mac = dev.HardwareAddr
		a.to = unix.SockaddrLinklayer{Protocol: protocol(), Ifindex: dev.Index, Halen: 6,
			Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
		if a.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
			int(protocol())); err != nil {
			return err
		}
		if err := unix.Bind(a.fd, &a.to); err != nil {
			_ = unix.Close(a.fd) // bind's error says what is wrong
			return err
		}
		return nil
	})
	return a, err
}

// round asks for each missing address and takes the answers that have come.
func (a *asker) round() error {
	for addr := range a.missing {
		// A lost request is what the next round is for.
		_ = unix.Sendto(a.fd, request(a.mac, a.pod.Addr(), addr), 0, &a.to)
	}
	buf := make([]byte, 64)
	for {
		n, err := unix.Read(a.fd, buf)
		if err != nil {
			break // no more for now
		}
		if from, ok := answer(buf[:n]); ok {
			delete(a.missing, from)
		}
	}
	for addr, name := range a.missing {
		return fmt.Errorf("pod %s: its engine does not know pod %s (%v) yet", a.pod.Name, name, addr)
	}
	return nil
}

// Operations of ARP.
const (
	arpRequest = 1
	arpReply   = 2
)

// request asks who has the address.
func request(mac net.HardwareAddr, from, to netip.Addr) []byte {
	out := []byte{0, 1, 8, 0, 6, 4, 0, arpRequest} // Ethernet and IPv4
	out = append(append(out, mac...), from.AsSlice()...)
	return append(append(out, make([]byte, 6)...), to.AsSlice()...)
}

// answer returns whose address a reply tells.
func answer(raw []byte) (netip.Addr, bool) {
	if len(raw) < 28 || raw[7] != arpReply {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(raw[14:18])
}
