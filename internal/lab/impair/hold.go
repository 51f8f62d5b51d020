package impair

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Hold is what a delay line does to packets that go one way.
type Hold struct {
	Delay  time.Duration `json:"delay_ns,omitempty"`
	Jitter time.Duration `json:"jitter_ns,omitempty"`
	// Reorder is the share of packets that are not held.
	Reorder float64 `json:"reorder,omitempty"`
	// Rate in bit/s; 0 means no bound.
	Rate uint64 `json:"rate,omitempty"`
}

// longestHold bounds delays: a line holds no packet for so long in practice, and sums
// of it are times still.
const longestHold = time.Hour

// check refuses what a line cannot do: it would end, and all that it holds with it.
func (h Hold) check() error {
	switch {
	case h.Delay < 0 || h.Delay > longestHold:
		return fmt.Errorf("a delay of %v", h.Delay)
	case h.Jitter < 0 || h.Jitter > longestHold:
		return fmt.Errorf("a jitter of %v", h.Jitter)
	case !(h.Reorder >= 0 && h.Reorder <= 1):
		return fmt.Errorf("a share of %g that is not held", h.Reorder)
	}
	return nil
}

// law says when a packet may go on, as netem does: each has a delay of its own,
// evenly distributed over delay +- jitter, and may overtake others by it.
type law struct {
	Hold
	// busy is until when the packets before take the wire.
	busy time.Duration
	rnd  *rand.Rand
}

// due returns when a packet of so many bytes that came at now may go on; false
// loses it, because the packets before it fill the queue before the wire.
func (l *law) due(now time.Duration, size int) (time.Duration, bool) {
	if l.Rate > 0 {
		l.busy = max(l.busy, now)
		if l.busy-now > queueTime {
			return 0, false
		}
		l.busy += time.Duration(float64(size) * 8 / float64(l.Rate) * float64(time.Second))
		now = l.busy
	}
	if l.Reorder > 0 && l.rnd.Float64() < l.Reorder {
		return now, true
	}
	wait := l.Delay
	if l.Jitter > 0 {
		wait += time.Duration(l.rnd.Int64N(int64(2*l.Jitter)+1)) - l.Jitter
	}
	return now + wait, true
}

// held is a packet in a delay line.
type held struct {
	due time.Duration
	// nth keeps packets that are due at the same time in order.
	nth   uint64
	frame []byte
}

func (h held) before(o held) bool { return h.due < o.due || h.due == o.due && h.nth < o.nth }

// holding is a binary heap of packets, the one due first on top.
type holding struct {
	heap  []held
	nth   uint64
	bytes int
}

func (q *holding) add(due time.Duration, frame []byte) {
	q.nth++
	q.bytes += len(frame)
	q.heap = append(q.heap, held{due, q.nth, frame})
	for at := len(q.heap) - 1; at > 0; {
		up := (at - 1) / 2
		if !q.heap[at].before(q.heap[up]) {
			return
		}
		q.heap[at], q.heap[up] = q.heap[up], q.heap[at]
		at = up
	}
}

// next is when the first packet is due; false where none is held.
func (q *holding) next() (time.Duration, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].due, true
}

// take removes the first packet; there must be one.
func (q *holding) take() []byte {
	frame, last := q.heap[0].frame, len(q.heap)-1
	q.heap[0], q.heap[last] = q.heap[last], held{}
	q.heap = q.heap[:last]
	q.bytes -= len(frame)
	for at := 0; ; {
		least := at
		for _, down := range []int{2*at + 1, 2*at + 2} {
			if down < last && q.heap[down].before(q.heap[least]) {
				least = down
			}
		}
		if least == at {
			return frame
		}
		q.heap[at], q.heap[least] = q.heap[least], q.heap[at]
		at = least
	}
}

// shelf keeps the buffers of packets that have gone, by size: a small packet
// must not hold a large one's memory, and the collector has nothing to do.
type shelf struct{ free [3][][]byte }

// Sizes of buffers: a frame on Ethernet, a jumbo frame, and the largest that a
// kernel hands over (GSO), each with its header.
const (
	smallFrame = 2 << 10
	jumboFrame = 16 << 10
	largeFrame = 66 << 10
)

func class(size int) (which, capacity int) {
	switch {
	case size <= smallFrame:
		return 0, smallFrame
	case size <= jumboFrame:
		return 1, jumboFrame
	default:
		return 2, largeFrame
	}
}

// copyOf returns a copy of the frame in a buffer of the shelf's.
func (s *shelf) copyOf(frame []byte) []byte {
	which, capacity := class(len(frame))
	free := s.free[which]
	if len(free) == 0 {
		return append(make([]byte, 0, capacity), frame...)
	}
	buf := free[len(free)-1]
	s.free[which] = free[:len(free)-1]
	return append(buf[:0], frame...)
}

// back takes a buffer of copyOf.
func (s *shelf) back(buf []byte) {
	const most = 1024 // kept; what a burst needed beyond goes
	which, _ := class(cap(buf))
	if len(s.free[which]) < most {
		s.free[which] = append(s.free[which], buf)
	}
}
