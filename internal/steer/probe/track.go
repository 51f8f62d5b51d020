package probe

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/stamp"
)

// trackSize is how many probes a Track looks back over.
const trackSize = 256

// Track is what the probes of one session tell of its path. It is a value of its
// own: nothing outside changes it.
type Track struct {
	full     int                 // the size from which a probe counts as full
	ring     *[trackSize]outcome // nil before the first: most hosts have no traffic with each other
	n        int                 // outcomes ever
	smooth   float64
	jitter   float64
	last     time.Duration
	lastAt   time.Time
	answered int
	maxSeq   uint32
	maxRefl  uint32
	epoch    uint32 // counts the reflector's restarts
	forward  drift
	back     drift
	ordered  Reordering
	scratch  []time.Duration
}

type outcome struct {
	seq, reflector uint32
	epoch          uint32
	full, lost     bool
	rtt            time.Duration
	forward, back  time.Duration
	sent           time.Time
}

// Reordering counts the replies that came after one to a later probe, by where
// they were overtaken: as far as a stateful reflector's numbers tell.
type Reordering struct {
	Forward, Backward uint64
}

// NewTrack makes a Track to which probes of at least full octets are full-size;
// zero means that none are. sameClock says that both ends read one clock, whose
// drift against itself is none.
func NewTrack(full int, sameClock bool) *Track {
	return &Track{full: full, forward: drift{fixed: sameClock}, back: drift{fixed: sameClock}}
}

// Reply folds in a probe that was answered; one that was folded in as lost
// before is so no more.
func (t *Track) Reply(r stamp.Reply) {
	t.order(r)
	o := outcome{
		seq: r.Seq, reflector: r.ReflectorSeq, epoch: t.epoch, full: t.isFull(r.Size),
		rtt: r.RTT, forward: r.ForwardDelay, back: r.BackwardDelay, sent: r.SentAt,
	}
	if t.answered > 0 {
		// RFC 3550, section 6.4.1, of round trips.
		t.jitter += (float64((r.RTT - t.last).Abs()) - t.jitter) / 16
		t.smooth += (float64(r.RTT) - t.smooth) / 8
	} else {
		t.smooth = float64(r.RTT)
	}
	t.answered++
	t.last = r.RTT
	if r.At.After(t.lastAt) {
		t.lastAt = r.At
	}
	t.forward.add(r.SentAt, r.ForwardDelay)
	t.back.add(r.SentAt, r.BackwardDelay)
	if r.Late {
		if i := t.find(r.Seq); i >= 0 && t.ring[i].lost {
			t.ring[i] = o
			return
		}
	}
	t.put(o)
}

// Lost folds in a probe whose deadline passed.
func (t *Track) Lost(l stamp.Lost) {
	t.put(outcome{seq: l.Seq, full: t.isFull(l.Size), lost: true, sent: l.SentAt})
}

func (t *Track) isFull(size int) bool { return t.full > 0 && size >= t.full }

func (t *Track) put(o outcome) {
	if t.ring == nil {
		t.ring = new([trackSize]outcome)
	}
	t.ring[t.n%trackSize] = o
	t.n++
}

func (t *Track) find(seq uint32) int {
	for i := range min(t.n, trackSize) {
		if t.ring[i].seq == seq {
			return i
		}
	}
	return -1
}

// order counts overtaking, and notices a reflector that starts to count again.
func (t *Track) order(r stamp.Reply) {
	const slack = 64 // as far as packets are thought to overtake each other
	if t.answered == 0 {
		t.maxSeq, t.maxRefl = r.Seq, r.ReflectorSeq
		return
	}
	later := int32(r.Seq-t.maxSeq) > 0
	behind := int32(t.maxRefl - r.ReflectorSeq)
	restarted := later && (behind > slack || behind >= 0 && t.usedBy(r))
	switch {
	case restarted:
		t.epoch++
		t.maxRefl = r.ReflectorSeq
	case !later && behind < 0: // the reflector saw it after later ones
		t.ordered.Forward++
	case !later:
		t.ordered.Backward++
	}
	if later {
		t.maxSeq = r.Seq
	}
	if behind < 0 {
		t.maxRefl = r.ReflectorSeq
	}
}

// usedBy reports whether another probe's reply had the same reflector's number.
func (t *Track) usedBy(r stamp.Reply) bool {
	for i := range min(t.n, trackSize) {
		o := &t.ring[i]
		if !o.lost && o.epoch == t.epoch && o.reflector == r.ReflectorSeq && o.seq != r.Seq {
			return true
		}
	}
	return false
}

// Ratio is a share of some probes.
type Ratio struct{ Lost, Of int }

// Value is the ratio, 0 of nothing.
func (r Ratio) Value() float64 {
	if r.Of == 0 {
		return 0
	}
	return float64(r.Lost) / float64(r.Of)
}

// Summary is what a Track knows of the last probes.
type Summary struct {
	Answered int // ever
	Last     time.Time
	// Of the window:
	MinRTT, P50, P95, P99 time.Duration
	SmoothRTT             time.Duration // moving average, by 1/8
	Jitter                time.Duration // RFC 3550's, of round trips
	Spread                time.Duration // P95 - P50
	Loss, SmallLoss       Ratio
	FullLoss              Ratio
	// Forward and Backward tell where probes were lost, up to the newest reply,
	// if the reflector is stateful: a stateless one seems to lose nothing
	// backward.
	Forward, Backward Ratio
	// Streak is how many probes were lost since the last reply.
	Streak int
	// MTUBlackHole says that full-size probes get lost and small ones do not.
	MTUBlackHole bool
	// ForwardRise and BackwardRise are how much later than at best the last
	// packets came, with the clocks' drift taken out. Known only if RiseKnown.
	ForwardRise, BackwardRise time.Duration
	RiseKnown                 bool
	Reordered                 Reordering // ever
}

// Summary looks at the window.
func (t *Track) Summary() Summary {
	s := Summary{
		Answered: t.answered, Last: t.lastAt, Reordered: t.ordered,
		SmoothRTT: time.Duration(t.smooth), Jitter: time.Duration(t.jitter),
	}
	t.loss(&s)
	t.direction(&s)
	t.scratch = t.scratch[:0]
	for i := range min(t.n, trackSize) {
		if !t.ring[i].lost {
			t.scratch = append(t.scratch, t.ring[i].rtt)
		}
	}
	if len(t.scratch) > 0 {
		slices.Sort(t.scratch)
		s.MinRTT, s.P50 = t.scratch[0], nearestRank(t.scratch, 50)
		s.P95, s.P99 = nearestRank(t.scratch, 95), nearestRank(t.scratch, 99)
		s.Spread = s.P95 - s.P50
	}
	s.ForwardRise, s.BackwardRise, s.RiseKnown = rises(&t.forward, &t.back)
	return s
}

// nearestRank is the smallest of the sorted values that p per cent do not exceed.
func nearestRank(sorted []time.Duration, p int) time.Duration {
	return sorted[(p*len(sorted)+99)/100-1]
}

// loss counts by size, and judges full-size loss: three lost for their size since one
// came back.
func (t *Track) loss(s *Summary) {
	forSize, judged := 0, false
	for i := range min(t.n, trackSize) { // newest first
		o := &t.ring[(t.n-1-i)%trackSize]
		r := &s.SmallLoss
		if o.full {
			r = &s.FullLoss
		}
		r.Of++
		s.Loss.Of++
		if o.lost {
			r.Lost++
			s.Loss.Lost++
		}
		if o.lost && s.Streak == i {
			s.Streak++
		}
		switch {
		case judged:
		case o.full && !o.lost:
			judged = true
		case o.full && t.besides(o):
			forSize++
			s.MTUBlackHole = forSize >= 3
			judged = s.MTUBlackHole
		}
	}
}

// besides reports whether the small probes sent just before and just after a lost one
// were answered: it was lost for its size then, while a reflector that is gone for a
// second answers none. As probes are known to be lost late, the one after must have
// been sent about as soon after as the one before was before: between them may be
// some that are not known to be.
func (t *Track) besides(lost *outcome) bool {
	const slack = 50 * time.Millisecond
	var before, after *outcome
	for i := range min(t.n, trackSize) {
		o := &t.ring[i]
		switch {
		case o.full:
		case o.sent.Before(lost.sent):
			if before == nil || o.sent.After(before.sent) {
				before = o
			}
		case after == nil || o.sent.Before(after.sent):
			after = o
		}
	}
	return before != nil && after != nil && !before.lost && !after.lost &&
		after.sent.Sub(lost.sent) <= 2*lost.sent.Sub(before.sent)+slack
}

// direction compares how many probes were sent, reflected and answered between
// the oldest and the newest reply of the reflector's present count.
func (t *Track) direction(s *Summary) {
	var first, last *outcome
	got := 0
	for i := range min(t.n, trackSize) {
		o := &t.ring[i]
		if o.lost || o.epoch != t.epoch {
			continue
		}
		got++
		if first == nil || int32(o.seq-first.seq) < 0 {
			first = o
		}
		if last == nil || int32(o.seq-last.seq) > 0 {
			last = o
		}
	}
	if got < 2 {
		return
	}
	sent := int(last.seq - first.seq)
	reflected := int(int32(last.reflector - first.reflector))
	back := max(reflected-(got-1), 0)
	ahead := max(sent-reflected, 0)
	if reflected < 0 || reflected > sent { // duplicated, or overtaken at an end
		ahead, reflected = 0, sent
		back = max(sent-(got-1), 0)
	}
	s.Forward = Ratio{ahead, sent}
	s.Backward = Ratio{back, reflected}
}
