package stamp

import (
	"container/heap"
	"net/netip"
	"time"
)

type flightKey struct {
	to   netip.AddrPort
	ssid uint16
	seq  uint32
}

type fate uint8

const (
	unused fate = iota
	pending
	answered
	lost
)

// flight is one probe sent. It is remembered for a while after it was answered
// or lost, so that duplicate and late replies can be told from forged ones.
type flight struct {
	key      flightKey
	wire     Timestamp
	sent     time.Time // when it was stamped
	deadline time.Time
	size     int
	fate     fate
	heapAt   int
}

// flights is a bounded set of probes, with those pending ordered by deadline.
type flights struct {
	slots []*flight // made as they are first used
	byKey map[flightKey]*flight
	due   deadlines
	next  int
}

func newFlights(most int) *flights {
	return &flights{slots: make([]*flight, most), byKey: map[flightKey]*flight{}}
}

// add takes the oldest slot that holds nothing pending; nil if there is none.
func (f *flights) add(fl flight) *flight {
	for range f.slots {
		s := f.slots[f.next]
		if s == nil {
			s = &flight{}
			f.slots[f.next] = s
		}
		f.next = (f.next + 1) % len(f.slots)
		if s.fate == pending {
			continue
		}
		if s.fate != unused && f.byKey[s.key] == s {
			delete(f.byKey, s.key)
		}
		*s = fl
		s.fate = pending
		f.byKey[s.key] = s
		heap.Push(&f.due, s)
		return s
	}
	return nil
}

// settle ends a flight's being pending.
func (f *flights) settle(s *flight, as fate) {
	if s.fate == pending {
		heap.Remove(&f.due, s.heapAt)
	}
	s.fate = as
}

// postpone moves a pending flight's deadline.
func (f *flights) postpone(s *flight, to time.Time) {
	s.deadline = to
	heap.Fix(&f.due, s.heapAt)
}

// forget removes what was never sent.
func (f *flights) forget(s *flight) {
	f.settle(s, unused)
	delete(f.byKey, s.key)
}

// overdue takes the pending flight with the earliest deadline, if it has passed.
func (f *flights) overdue(now time.Time) *flight {
	if len(f.due) == 0 || f.due[0].deadline.After(now) {
		return nil
	}
	s := f.due[0]
	f.settle(s, lost)
	return s
}

// deadlines is a heap of pending flights.
type deadlines []*flight

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heapAt, d[j].heapAt = i, j
}
func (d *deadlines) Push(x any) {
	s := x.(*flight)
	s.heapAt = len(*d)
	*d = append(*d, s)
}
func (d *deadlines) Pop() any {
	old := *d
	s := old[len(old)-1]
	*d = old[:len(old)-1]
	return s
}
