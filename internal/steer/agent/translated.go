package agent

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/conntrack"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// A pod may hand what comes to it to other ports by rules of its own, as the sidecar of a service mesh has it: then the
// sockets of which the kernel tells have other ports than their packets, by which the data plane knows flows. Which
// these are, the pod's connection tracking knows.

// translations are the ports to which the peer sends the packets of a pair's connections, by those that sockets have.
type translations map[ports]translation

type translation struct {
	port  uint16
	until time.Time
}

const (
	// translatedFor is for how long that is taken to be so: ports are used again.
	translatedFor = 10 * time.Second
	// translationsMost bounds what is remembered of a pair.
	translationsMost = 1024
	// translatedAtOnce bounds how many connections of a batch of events the kernel is asked about.
	translatedAtOnce = 16
)

// of are the ports that are remembered for those of a socket, if any are.
func (ts translations) of(conn ports, now time.Time) (to ports, ok bool) {
	t, ok := ts[conn]
	return ports{t.port, conn[1]}, ok && now.Before(t.until)
}

// sentTo are the ports that the packets of a connection have, which the data plane does not know by those of its
// socket.
func (p *pair) sentTo(conn ports, now time.Time) ports {
	if to, ok := p.translated.of(conn, now); ok {
		return to
	}
	r := p.routes[0]
	to, err := conntrack.SentTo(p.local.Netns, netip.AddrPortFrom(r.Local.Addr, conn[0]),
		netip.AddrPortFrom(r.Remote.Addr, conn[1]))
	if err != nil {
		return conn // it is found by other means, later
	}
	if p.translated == nil || len(p.translated) >= translationsMost {
		p.translated = translations{}
	}
	p.translated[conn] = translation{to.Port(), now.Add(translatedFor)}
	p.translates = p.translates || to.Port() != conn[0]
	return ports{to.Port(), conn[1]}
}

// side is who decides about a flow of the pair, and its bucket, by the ports that a socket has.
func (p *pair) side(proto uint8, conn ports, now time.Time) (side dataplane.Side, bucket uint8, err error) {
	side, bucket, err = p.sideOf(proto, conn)
	if err == nil && side == dataplane.Neither && proto == unix.IPPROTO_TCP {
		if to := p.sentTo(conn, now); to != conn {
			return p.sideOf(proto, to)
		}
	}
	return side, bucket, err
}

// knownSide is that too, but the pod's connection tracking is not asked unless connections of the pair are known to be
// translated: many may be asked about, and flows are not steered from their beginning.
func (p *pair) knownSide(proto uint8, conn ports, now time.Time) (side dataplane.Side, bucket uint8, err error) {
	if p.translates {
		return p.side(proto, conn, now)
	}
	return p.sideOf(proto, conn)
}

// sideOf is who decides about a flow of the pair, and its bucket, by the ports that its packets have.
func (p *pair) sideOf(proto uint8, conn ports) (side dataplane.Side, bucket uint8, err error) {
	side, row, err := p.local.plane.Side(p.remote.UID, proto, conn[0], conn[1])
	return side, row.Bucket(flow.Bucket(conn[0], conn[1], proto)), err
}

// translate has events of a pair that is known to have such connections tell of the buckets of their packets.
func (p *pair) translate(e *telemetry.Event, asked *int, now time.Time) {
	if !p.translates || e.Kind == telemetry.Delivered || *asked >= translatedAtOnce {
		return
	}
	conn := ports{e.LocalPort, e.RemotePort}
	if _, known := p.translated.of(conn, now); !known {
		*asked++
	}
	if _, bucket, err := p.side(unix.IPPROTO_TCP, conn, now); err == nil {
		e.Bucket = bucket
	}
}
