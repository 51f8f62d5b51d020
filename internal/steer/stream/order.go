package stream

import (
	"sort"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// Datagrams are the totals of numbered packets. A packet that the receiver's own
// socket dropped is lost as well, so the network lost Lost - SocketDrops.
type Datagrams struct {
	// Sent by this end. Failed ones, which the own kernel refused, are not sent.
	Sent   int64 `json:"sent"`
	Failed int64 `json:"failed,omitempty"`
	// Expected is how many the other end says that it sent, or where it could
	// not say so, how many the numbers that came imply.
	Expected int64 `json:"expected"`
	// Received counts each number once.
	Received   int64 `json:"received"`
	Lost       int64 `json:"lost"`
	Duplicated int64 `json:"duplicated"`
	// Reordered are Type-P-Reordered, RFC 4737 section 3.3: the number is lower
	// than one that came before. Copies do not count.
	Reordered int64 `json:"reordered"`
	// MaxExtent is the greatest reordering extent, RFC 4737 section 4.2.1: how
	// many packets earlier the first with a higher number came.
	MaxExtent int64 `json:"max_extent"`
	// MaxLate is the greatest late time offset, section 4.2.2: how much earlier it came.
	MaxLate time.Duration `json:"max_late_ns"`
	// Stale packets came so late that it is not known whether they are copies;
	// they count as lost.
	Stale int64 `json:"stale,omitempty"`
	// Foreign packets are not of this traffic.
	Foreign     int64 `json:"foreign,omitempty"`
	SocketDrops int64 `json:"socket_drops"`
}

func (d *Datagrams) add(o Datagrams) {
	d.Sent += o.Sent
	d.Failed += o.Failed
	d.Expected += o.Expected
	d.Received += o.Received
	d.Lost += o.Lost
	d.Duplicated += o.Duplicated
	d.Reordered += o.Reordered
	d.MaxExtent = max(d.MaxExtent, o.MaxExtent)
	d.MaxLate = max(d.MaxLate, o.MaxLate)
	d.Stale += o.Stale
	d.Foreign += o.Foreign
	d.SocketDrops += o.SocketDrops
}

// window is how far back the receiver remembers, in packets: 52 s at 20,000 a
// second. It is a power of two.
const window = 1 << 20

// order tells of each number of a flow whether it is new, a copy or reordered.
type order struct {
	next     uint64 // the number expected: one more than the highest so far
	arrivals int64  // first copies so far
	seen     []uint64
	leads    []lead // a ring of the packets that raised next
	count    int    // of leads ever
	sum      Datagrams
}

// lead is a packet whose number was the highest so far.
type lead struct {
	seq     uint64
	arrival int64
	at      time.Duration
}

func newOrder() *order {
	return &order{seen: make([]uint64, window/64), leads: make([]lead, 0, 1024)}
}

// verdict on a packet.
type verdict int

const (
	inOrder verdict = iota
	late
	copied
	stale
	impossible
)

// farAhead is a jump that no loss explains: the packet is not of this flow.
const farAhead = 1 << 32

// arrive judges the packet seq that came at time at.
func (o *order) arrive(seq uint64, at time.Duration) verdict {
	switch {
	case seq >= o.next+farAhead:
		o.sum.Foreign++
		return impossible
	case seq >= o.next:
		o.advance(seq)
		o.note(lead{seq, o.arrivals, at})
		o.mark(seq)
		return inOrder
	case o.next-seq > window:
		o.sum.Stale++
		return stale
	case o.seen[seq%window/64]&(1<<(seq%64)) != 0:
		o.sum.Duplicated++
		return copied
	}
	o.sum.Reordered++
	if l, ok := o.overtaker(seq); ok {
		o.sum.MaxExtent = max(o.sum.MaxExtent, o.arrivals-l.arrival)
		o.sum.MaxLate = max(o.sum.MaxLate, at-l.at)
	}
	o.mark(seq)
	return late
}

// mark notes the first copy of seq.
func (o *order) mark(seq uint64) {
	o.seen[seq%window/64] |= 1 << (seq % 64)
	o.arrivals++
	o.sum.Received++
}

// advance makes seq the highest and forgets what falls out of the window.
func (o *order) advance(seq uint64) {
	if seq-o.next >= window {
		clear(o.seen)
		o.next = seq + 1
		return
	}
	for s := o.next; s <= seq; s++ {
		o.seen[s%window/64] &^= 1 << (s % 64)
	}
	o.next = seq + 1
}

// maxLeads is how many leads are remembered; a power of two.
const maxLeads = 1 << 16

func (o *order) note(l lead) {
	if len(o.leads) < maxLeads {
		o.leads = append(o.leads, l)
	} else {
		o.leads[o.count%maxLeads] = l
	}
	o.count++
}

// overtaker is the first arrival with a higher number than seq. All before it
// were lower, so it raised the maximum and is among the leads. One that has left
// the ring is not found: then the oldest remembered is taken, and the extent is
// a lower bound.
func (o *order) overtaker(seq uint64) (lead, bool) {
	n := len(o.leads)
	at := func(i int) lead { return o.leads[(o.count-n+i)%maxLeads] }
	i := sort.Search(n, func(i int) bool { return at(i).seq > seq })
	if i == n {
		return lead{}, false
	}
	return at(i), true
}

// totals are the counts, given how many were sent; 0 if that is not known.
func (o *order) totals(sent int64) Datagrams {
	d := o.sum
	d.Expected = max(sent, int64(o.next))
	d.Lost = d.Expected - d.Received
	return d
}

// Spacing is by how much the gap between two consecutive packets at the receiver
// differs from their gap at the sender: what the way did to their spacing.
type Spacing struct {
	// Wider and Narrower hold the differences above and below zero.
	Wider    *sample.Histogram `json:"wider"`
	Narrower *sample.Histogram `json:"narrower"`
}

func newSpacing() *Spacing { return &Spacing{sample.NewHistogram(), sample.NewHistogram()} }

func (s *Spacing) record(d time.Duration) {
	if d >= 0 {
		s.Wider.Record(d)
	} else {
		s.Narrower.Record(-d)
	}
}

func (s *Spacing) merge(o *Spacing) {
	s.Wider.Merge(o.Wider)
	s.Narrower.Merge(o.Narrower)
}

// Count is how many pairs of packets were compared.
func (s *Spacing) Count() int64 { return count(s.Wider) + count(s.Narrower) }

func count(h *sample.Histogram) int64 {
	if h == nil {
		return 0
	}
	return h.Count()
}

// Percentile is the difference, in seconds, below which p percent lie; negative
// where the packets came closer together than they were sent.
func (s *Spacing) Percentile(p float64) float64 {
	all, narrower := float64(s.Count()), float64(count(s.Narrower))
	if all == 0 {
		return 0
	}
	rank := p / 100 * all
	if rank < narrower {
		return -s.Narrower.Percentile(100 * (1 - rank/narrower))
	}
	if count(s.Wider) == 0 {
		return -s.Narrower.Percentile(0)
	}
	return s.Wider.Percentile(100 * (rank - narrower) / (all - narrower))
}
