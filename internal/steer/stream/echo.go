package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// pinger carries a train in ICMP echoes; the target's kernel answers.
type pinger struct {
	conn   *icmp.PacketConn
	clock  clock
	to     net.Addr
	id     uint16
	ask    icmp.Type
	answer icmp.Type
}

// echoes sends a train over ICMP.
func (c Client) echoes(ctx context.Context, j *journal) error {
	p, err := c.newPinger(j.clock)
	if err != nil {
		return err
	}
	defer p.conn.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.train(ctx, j, p, true)
	return nil
}

// newPinger opens a raw socket, or where that is not allowed a ping socket,
// which net.ipv4.ping_group_range may allow (icmp(7)).
func (c Client) newPinger(clk clock) (*pinger, error) {
	to, bind := c.Target.Addr().Unmap(), c.Bind
	p := &pinger{clock: clk, id: uint16(flowID()), ask: ipv4.ICMPTypeEcho, answer: ipv4.ICMPTypeEchoReply,
		to: &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()}}
	raw, ping, whole := "ip4:icmp", "udp4", netip.IPv4Unspecified()
	if to.Is6() {
		p.ask, p.answer = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
		raw, ping, whole = "ip6:ipv6-icmp", "udp6", netip.IPv6Unspecified()
	}
	if !bind.IsValid() {
		bind = whole
	}
	conn, err := icmp.ListenPacket(raw, bind.String())
	if errors.Is(err, unix.EPERM) {
		p.to = &net.UDPAddr{IP: to.AsSlice(), Zone: to.Zone()}
		conn, err = icmp.ListenPacket(ping, bind.String())
	}
	if err != nil {
		return nil, fmt.Errorf("open ICMP socket: %w", err)
	}
	p.conn = conn
	return p, nil
}

func (p *pinger) send(buf []byte, seq uint64) error {
	m := icmp.Message{Type: p.ask, Body: &icmp.Echo{ID: int(p.id), Seq: int(uint16(seq)), Data: buf}}
	raw, err := m.Marshal(nil) // the kernel fills in ICMPv6's checksum
	if err != nil {
		return fmt.Errorf("encode echo request: %w", err)
	}
	_, err = p.conn.WriteTo(raw, p.to)
	return err
}

func (p *pinger) hush() { p.conn.SetReadDeadline(past()) }

// drops of a raw socket are not told apart: it holds all ICMP of the namespace.
func (p *pinger) drops() int64 { return 0 }

func (p *pinger) receive(each func(p packet, at time.Duration)) error {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := p.conn.ReadFrom(buf)
		at := p.clock.now()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if got, ok := parseEcho(buf[:n], p.answer); ok {
			each(got, at)
		}
	}
}

// icmpHead is the size of an echo's header (RFC 792, RFC 4443).
const icmpHead = 8

// parseEcho reads the packet out of an echo reply. Our own kernel's socket or
// the flow's number tells whose it is; the checksum is the kernel's work.
func parseEcho(raw []byte, answer icmp.Type) (p packet, ok bool) {
	want := byte(0)
	switch t := answer.(type) {
	case ipv4.ICMPType:
		want = byte(t)
	case ipv6.ICMPType:
		want = byte(t)
	}
	if len(raw) < icmpHead || raw[0] != want {
		return p, false
	}
	if p, ok = parsePacket(raw[icmpHead:]); ok && p.what == toEcho {
		p.what = echoed // a kernel echoes the data as it is
		return p, true
	}
	return p, false
}
