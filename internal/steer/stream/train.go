package stream

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// carrier is how the packets of a train travel.
type carrier interface {
	// send sends the packet number seq.
	send(buf []byte, seq uint64) error
	// receive calls each with every packet of this family of programs that
	// comes, and when, until hush.
	receive(each func(p packet, at time.Duration)) error
	// hush ends receive.
	hush()
	// drops is how many packets the own socket had no room for.
	drops() int64
}

// flow is the receiving end of one train.
type flow struct {
	*line
	order *order
	// sent is how many the sender says there were.
	sent int64
	over bool
	lead packet // the last one in order, which came at leadAt
	at   time.Duration
}

func newFlow(l *line) *flow {
	f := &flow{line: l.latencies(), order: newOrder()}
	f.Spacing = newSpacing()
	return f
}

// arrive notes a packet that came at the time at.
func (f *flow) arrive(p packet, at time.Duration) {
	first := f.order.arrivals == 0
	switch f.order.arrive(p.seq, at) {
	case inOrder:
		if !first {
			f.Spacing.record((at - f.at) - (p.sent - f.lead.sent))
		}
		f.lead, f.at = p, at
	case late:
	default:
		return
	}
	f.Latency.Record(at - p.due)
	f.mark(at, 1)
}

// finish closes the flow, whose sender sent that many until the time until.
func (f *flow) finish(sent int64, until time.Duration) {
	f.over, f.sent = true, sent
	// What comes after the last one's number is missing at the end.
	f.endAt(until, int64(f.order.next) < sent)
}

// settled is the time line with the final counts.
func (f *flow) settled() *line {
	if !f.over { // nobody said so
		f.endAt(f.clock.now(), true)
	}
	f.Counts.Datagrams.add(f.order.totals(f.sent))
	return f.line
}

// train sends packets at the client's interval and, where they come back,
// receives them.
func (c Client) train(ctx context.Context, j *journal, via carrier, back bool) {
	j.start()
	id := flowID()
	out := j.line(0)
	out.Lag = sample.NewHistogram()
	var in *flow
	var got atomic.Int64
	var receiving sync.WaitGroup
	if back {
		in = newFlow(j.line(0))
		receiving.Go(func() {
			err := via.receive(func(p packet, at time.Duration) {
				if p.what != echoed || p.flow != id {
					in.Counts.Datagrams.Foreign++
					return
				}
				in.arrive(p, at)
				got.Store(in.order.sum.Received)
			})
			if err != nil {
				j.wrong(0, reason("receive", err))
			}
		})
	}
	var sending sync.WaitGroup
	sending.Go(func() { c.depart(ctx, out, via, id, back) })
	sending.Wait()
	sent := out.Counts.Datagrams.Sent
	if back {
		await(func() bool { return got.Load() >= sent }, c.Patience)
		via.hush()
		receiving.Wait()
		in.finish(sent+out.Counts.Datagrams.Failed, out.Ended)
		in.Counts.Datagrams.SocketDrops = via.drops()
		j.handIn(in.settled())
	}
	j.handIn(out)
}

// await returns when done says so, or after the patience.
func await(done func() bool, patience time.Duration) {
	const look = 2 * time.Millisecond
	for end := time.Now().Add(patience); !done() && time.Now().Before(end); {
		time.Sleep(look)
	}
}

// Ending packets: many and over some time, since the network under test loses some.
const (
	lastCalls    = 20
	lastInterval = 5 * time.Millisecond
)

// depart sends the packets at their times, and those that are late at once. It
// ends with ctx or the client's duration.
func (c Client) depart(ctx context.Context, l *line, via carrier, id uint32, back bool) {
	runtime.LockOSThread() // never unlocked: newPacer
	pace, err := newPacer(l.clock, c.Busy)
	if err != nil {
		l.Errors.add(Event{l.clock.now(), 0, err.Error()})
		return
	}
	buf := make([]byte, c.size())
	p := packet{what: oneWay, flow: id}
	if back {
		p.what = toEcho
	}
	begin, d := l.clock.now(), &l.Counts.Datagrams
	for ; ; p.seq++ {
		after := time.Duration(p.seq) * c.Interval
		if p.due = begin + after; c.Duration > 0 && after >= c.Duration || !pace.until(ctx, p.due) {
			break
		}
		p.sent = l.clock.now()
		p.put(buf)
		if !l.dispatch(via, buf, p.seq) {
			d.Failed++
			continue
		}
		d.Sent++
		l.Lag.Record(p.sent - p.due)
		if !back {
			l.mark(p.sent, 1)
		}
	}
	if l.Ended = l.clock.now(); c.Kind == UDP {
		p.what = lastCall
		p.put(buf)
		for range lastCalls {
			_ = via.send(buf, p.seq) // the receiver needs one of them
			time.Sleep(lastInterval)
		}
	}
}

// dispatch sends a packet. A failure may be that of an earlier packet, which
// the kernel tells at the next call instead of sending (ip(7)), so it tries twice.
func (l *line) dispatch(via carrier, buf []byte, seq uint64) bool {
	for range 2 {
		err := via.send(buf, seq)
		if err == nil {
			return true
		}
		l.Errors.add(Event{l.clock.now(), l.conn, reason("send", err)})
	}
	return false
}

// flowID tells this client's packets from those of others.
func flowID() uint32 { return rand.Uint32() }
