package kick

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// ports are a connection's within its pair: the local and the remote one.
type ports [2]uint16

// stuck is a connection whose retransmission timer has fired.
type stuck struct {
	ports
	unacked uint32
	count   uint32 // timeouts in a row
	at      int64  // Unix time in ns: without a pointer, there is nothing in it for the collector of garbage
}

// longest is how long after its latest timeout a connection can still be stuck
// without another. Each one doubles the wait, of at most a second at first (RFC 6298
// section 2.1): no container network takes longer.
func (s stuck) longest() time.Duration { return min(time.Second<<min(s.count, 7), rtoMost) }

const (
	// rtoMost is TCP's longest timeout (TCP_RTO_MAX).
	rtoMost = 2 * time.Minute
	// stuckMost bounds each generation of a pair's stuck connections: there are not as
	// many ports to connect from.
	stuckMost = 1 << 15
)

// Shelves are connections that were taken out.
type Shelves []map[ports]stuck

// Stalled are the stuck connections of a pair, the latest timeout of each, by bucket:
// what moves is taken out whole. They are forgotten by generation, so that no
// timeout costs more where there are many connections. The zero value is empty.
type Stalled struct {
	young, old [dataplane.Buckets]map[ports]stuck
	// n are in the young generation, which began at.
	n     int
	began time.Time
}

// Remember keeps the latest timeout of a connection. It returns how many others
// were forgotten for want of room.
func (l *Stalled) Remember(e telemetry.Event, now time.Time) (lost int) {
	if l.n >= stuckMost || now.Sub(l.began) > rtoMost {
		if l.n >= stuckMost && now.Sub(l.began) <= rtoMost {
			for _, shelf := range l.old {
				lost += len(shelf)
			}
		}
		l.old, l.young, l.n, l.began = l.young, [dataplane.Buckets]map[ports]stuck{}, 0, now
	}
	b, key := e.Bucket%dataplane.Buckets, ports{e.LocalPort, e.RemotePort}
	delete(l.old[b], key)
	shelf := l.young[b]
	if shelf == nil {
		shelf = map[ports]stuck{}
		l.young[b] = shelf
	}
	before := len(shelf)
	shelf[key] = stuck{key, e.Unacked, e.Count, now.UnixNano()}
	l.n += len(shelf) - before
	return lost
}

// Take takes out those of the buckets.
func (l *Stalled) Take(moved dataplane.Set) (shelves Shelves) {
	if l == nil {
		return nil
	}
	for b := range uint8(dataplane.Buckets) {
		if !moved.Has(b) {
			continue
		}
		l.n -= len(l.young[b])
		for _, shelf := range []map[ports]stuck{l.young[b], l.old[b]} {
			if len(shelf) > 0 {
				shelves = append(shelves, shelf)
			}
		}
		l.young[b], l.old[b] = nil, nil
	}
	return shelves
}
