package flannel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// carried waits until datagrams go between the last host to join and every
// other one, both ways. With the UDP backend there is nothing else to look at:
// which subnet lies where is known to the daemons alone. A daemon learns of the
// others in the order in which they joined, so one that can send to the last
// can send to all; and the last learnt of all others at once. Trying all pairs
// would fill the kernel's neighbour table, which is one for all namespaces and
// holds 1024 entries, from 32 hosts on.
func (s *startup) carried(ctx context.Context, subnets map[int]netip.Prefix) error {
	last, err := s.lastSubnet(ctx)
	if err != nil {
		return err
	}
	p := prober{missing: map[[2]int]bool{}}
	defer p.close()
	for _, h := range s.site.Hosts {
		// The first address of a subnet is that of its host's flannel0.
		if err := p.open(h.Index, h.Netns, subnets[h.Index].Addr()); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	for i := range subnets {
		for j := range subnets {
			if i != j && (subnets[i] == last || subnets[j] == last) {
				p.missing[[2]int{i, j}] = true
			}
		}
	}
	if len(p.missing) == 0 && len(subnets) > 1 {
		return fmt.Errorf("subnet %v is no host's", last)
	}
	return network.Poll(ctx, time.Millisecond, p.round)
}

// lastSubnet asks etcd for the subnet that was given out last.
func (s *startup) lastSubnet(ctx context.Context) (netip.Prefix, error) {
	raw, err := s.etcdctl(ctx, "get", "--prefix", path.Join(etcdPrefix, "subnets"),
		"--sort-by=CREATE", "--order=DESCEND", "--limit=1", "--keys-only")
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("find the last subnet given out: %w", err)
	}
	// The key is .../10.77.1.0-24.
	key := path.Base(strings.TrimSpace(string(raw)))
	subnet, err := netip.ParsePrefix(strings.ReplaceAll(key, "-", "/"))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("find the last subnet given out: %w", err)
	}
	return subnet, nil
}

// prober sends datagrams between hosts until each pair wanted has seen one.
type prober struct {
	ends []end
	// missing holds the pairs, sender first, of which nothing has arrived yet.
	missing map[[2]int]bool
}

// end is a host's socket.
type end struct {
	host int
	conn *net.UDPConn
}

// open adds a host.
func (p *prober) open(host int, ns string, addr netip.Addr) error {
	var conn *net.UDPConn
	err := netns.Do(ns, func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	if err != nil {
		return fmt.Errorf("open socket for readiness: %w", err)
	}
	p.ends = append(p.ends, end{host, conn})
	return nil
}

// close gives the sockets back, which would keep their namespaces alive.
func (p *prober) close() {
	for _, e := range p.ends {
		e.conn.Close()
	}
}

// round sends for each missing pair and takes what has arrived.
func (p *prober) round() error {
	for _, from := range p.ends {
		for _, to := range p.ends {
			if !p.missing[[2]int{from.host, to.host}] {
				continue
			}
			// A lost datagram is what the next round is for.
			_, _ = from.conn.WriteTo(binary.BigEndian.AppendUint16(nil, uint16(from.host)), to.conn.LocalAddr())
		}
	}
	for _, to := range p.ends {
		if err := p.take(to); err != nil {
			return err
		}
	}
	for pair := range p.missing {
		return fmt.Errorf("%d pairs of hosts do not reach each other yet, such as %d and %d", len(p.missing), pair[0], pair[1])
	}
	return nil
}

// take reads what has arrived at a host.
func (p *prober) take(to end) error {
	if err := to.conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	raw := make([]byte, 2)
	for {
		n, _, err := to.conn.ReadFromUDPAddrPort(raw)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if n == len(raw) {
			delete(p.missing, [2]int{int(binary.BigEndian.Uint16(raw)), to.host})
		}
	}
}
