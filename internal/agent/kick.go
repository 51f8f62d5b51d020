package agent

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/path/steer"
	"pathwise.dev/pathwise/internal/path/telemetry"
)

// stuck is a connection whose retransmission timer has fired.
type stuck struct {
	telemetry.Event
	at time.Time
}

// remember keeps the latest timeout of each connection of the pair.
func (p *pair) remember(e telemetry.Event, now time.Time) {
	if p.stuck == nil {
		p.stuck = map[[2]uint16]stuck{}
	}
	for k, s := range p.stuck {
		if now.Sub(s.at) > 2*time.Minute { // TCP's longest timeout
			delete(p.stuck, k)
		}
	}
	p.stuck[[2]uint16{e.LocalPort, e.RemotePort}] = stuck{e, now}
}

// wake makes connections that wait for a doubled timeout try at once: the path
// has changed, so that the wait has lost its reason. An ICMP host unreachable
// that quotes the first segment without acknowledgment takes one doubling back
// (RFC 6069; tcp_ld_RTO_revert), and retransmits if the shorter wait is over.
// Those that do not wait ignore it.
func (a *Agent) wake(p *pair, moved steer.Set, now time.Time) {
	p.left = now
	local := p.routes[0].Local.Addr
	if !local.Is4() {
		return
	}
	kicks := p.kicks(moved)
	if len(kicks) == 0 {
		return
	}
	err := netns.Do(p.local.Netns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return fmt.Errorf("open raw socket: %w", err)
		}
		defer unix.Close(fd)
		for _, k := range kicks {
			if err := unix.Sendto(fd, k, 0, &unix.SockaddrInet4{Addr: local.As4()}); err != nil {
				return fmt.Errorf("send to %s: %w", local, err)
			}
		}
		return nil
	})
	if err != nil {
		a.warn("%s: wake connections: %v", p.name, err)
		return
	}
	a.stats.kicks += uint64(len(kicks))
}

// kicks are the messages that wake the connections in those buckets, and forgets
// that they wait.
func (p *pair) kicks(moved steer.Set) (out [][]byte) {
	local, remote := p.routes[0].Local.Addr, p.routes[0].Remote.Addr
	for k, s := range p.stuck {
		if !moved.Has(s.Bucket) {
			continue
		}
		delete(p.stuck, k)
		for range min(s.Count, 8) {
			out = append(out, unreachable(local, remote, s.LocalPort, s.RemotePort, s.Unacked))
		}
	}
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
