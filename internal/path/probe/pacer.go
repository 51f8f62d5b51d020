package probe

import (
	"container/heap"
	"time"
)

// Role is what a path is to a pair of hosts.
type Role uint8

// The roles.
const (
	Idle    Role = iota // no traffic between the two
	Standby             // the traffic takes another path
	Active              // carries traffic
	roles
)

// PacerConfig says how often, how large, and how much in all.
type PacerConfig struct {
	// Active, Standby and Idle are the mean intervals on a path in that role. A
	// failure is not found by these but by the bursts that suspicion sets off, and
	// suspicion comes from the traffic.
	Active, Standby, Idle time.Duration
	// Jitter is by how much of itself an interval varies, either way: probes that
	// keep step with each other, or with the traffic, see less.
	Jitter float64
	// Burst probes, BurstGap apart, answer a suspicion, and no other burst on that
	// path begins within BurstRest of the end.
	Burst               int
	BurstGap, BurstRest time.Duration
	// FullEvery is how many probes there are to one of the path's full size,
	// outside of bursts; 0 is none.
	FullEvery int
	// Small is the UDP payload of the others, Overhead what a packet has around
	// it: 48 octets of IPv6 and UDP.
	Small, Overhead int
	// Probes and Bytes per second bound what is sent on all paths together, Depth
	// how much of it may come at once. A quarter of Depth is kept for bursts.
	Probes, Bytes float64
	Depth         time.Duration
}

// DefaultPacing is meant for a host with some 50 active peers.
func DefaultPacing() PacerConfig {
	return PacerConfig{
		Active: 150 * time.Millisecond, Standby: time.Second, Idle: 10 * time.Second, Jitter: 1. / 3,
		Burst: 8, BurstGap: 3 * time.Millisecond, BurstRest: 50 * time.Millisecond,
		FullEvery: 8, Small: 172, Overhead: 48,
		Probes: 1000, Bytes: 1e6, Depth: 500 * time.Millisecond,
	}
}

func (c PacerConfig) every(r Role) time.Duration {
	return [roles]time.Duration{c.Idle, c.Standby, c.Active}[r%roles]
}

// mean is the octets of an average probe on a path whose full size is full.
func (c PacerConfig) mean(full int) float64 {
	small := float64(c.Small + c.Overhead)
	if c.FullEvery <= 0 || full <= c.Small {
		return small
	}
	n := float64(c.FullEvery)
	return (small*(n-1) + float64(full+c.Overhead)) / n
}

// Load is what probing costs, in one direction; replies cost as much.
type Load struct {
	Probes, Bytes float64 // per second, with IP and UDP headers
}

// Steady is the load of so many paths by role, all of one full size, while
// nothing is suspected. It is never more than three quarters of the bound:
// beyond, intervals lengthen.
func (c PacerConfig) Steady(paths [3]int, full int) Load {
	var l Load
	for r, n := range paths {
		per := float64(n) / c.every(Role(r)).Seconds()
		l.Probes += per
		l.Bytes += per * c.mean(full)
	}
	f := c.stretch(l)
	return Load{l.Probes / f, l.Bytes / f}
}

// Most is the bound: what may be sent in any span of time, on any number of
// paths, whatever is suspected.
func (c PacerConfig) Most(span time.Duration) Load {
	t := (span + c.Depth).Seconds()
	return Load{c.Probes * t, c.Bytes * t}
}

// stretch is by how much intervals lengthen under a load.
func (c PacerConfig) stretch(l Load) float64 {
	return max(1, l.Probes/(c.Probes*3/4), l.Bytes/(c.Bytes*3/4))
}

// Pacer says which probe is due when, of all paths, each known by a key. It is a
// value of its own and reads no clock; times given to it must not go back.
type Pacer[K comparable] struct {
	cfg    PacerConfig
	random func() float64 // uniform in [0, 1)
	lanes  map[K]*lane[K]
	queues [roles + 1]queue[K] // by role; the last is of bursts
	load   Load                // of all lanes, unstretched
	probes float64             // tokens
	bytes  float64
	at     time.Time // of the tokens
}

const bursts = int(roles)

// lane is one path.
type lane[K comparable] struct {
	key     K
	role    Role
	full    int
	due     time.Time
	in      int // queue
	heapAt  int
	n       int // probes sent outside bursts
	left    int // of the burst
	rested  time.Time
	ordinal uint64 // ties are broken by age
}

// Due is a probe to be sent now.
type Due[K comparable] struct {
	Key   K
	Size  int // UDP payload
	Burst bool
}

// NewPacer starts at now with a full allowance. random is uniform in [0, 1).
func NewPacer[K comparable](cfg PacerConfig, random func() float64, now time.Time) *Pacer[K] {
	d := cfg.Depth.Seconds()
	return &Pacer[K]{
		cfg: cfg, random: random, lanes: map[K]*lane[K]{}, at: now,
		probes: cfg.Probes * d, bytes: cfg.Bytes * d,
	}
}

// Set adds a path, or changes its role or full size (a UDP payload; 0 if it is
// to have no full-size probes). A path that begins to carry traffic is probed
// soon.
func (p *Pacer[K]) Set(key K, role Role, full int, now time.Time) {
	l := p.lanes[key]
	fresh := l == nil
	if fresh {
		// Full-size probes of all paths at once would be a burst of their own.
		l = &lane[K]{key: key, ordinal: uint64(len(p.lanes)), n: int(p.random() * float64(p.cfg.FullEvery))}
		p.lanes[key] = l
	} else {
		p.weigh(l, -1)
	}
	before := l.role
	l.role, l.full = role, full
	p.weigh(l, 1)
	switch {
	case fresh:
		l.in, l.due = int(role), now.Add(time.Duration(p.random()*float64(min(p.cfg.every(role), time.Second))))
		heap.Push(&p.queues[l.in], l)
	case role != before && l.in != bursts:
		heap.Remove(&p.queues[l.in], l.heapAt)
		l.in, l.due = int(role), p.after(l, now)
		heap.Push(&p.queues[l.in], l)
	}
}

// Remove forgets a path.
func (p *Pacer[K]) Remove(key K) {
	if l := p.lanes[key]; l != nil {
		p.weigh(l, -1)
		heap.Remove(&p.queues[l.in], l.heapAt)
		delete(p.lanes, key)
	}
}

// weigh adds a lane's load to the sum, or takes it away.
func (p *Pacer[K]) weigh(l *lane[K], sign float64) {
	per := sign / p.cfg.every(l.role).Seconds()
	p.load.Probes += per
	p.load.Bytes += per * p.cfg.mean(l.full)
}

// after is when a lane's next probe is due in its role.
func (p *Pacer[K]) after(l *lane[K], now time.Time) time.Time {
	every := float64(p.cfg.every(l.role)) * p.cfg.stretch(p.load)
	return now.Add(time.Duration(every * (1 + p.cfg.Jitter*(2*p.random()-1))))
}

// Suspect begins a burst on a path, unless one is running or has just ended, and
// reports whether it did. Who suspects a path suspects its alternatives too:
// their answers tell whether the peer is there.
func (p *Pacer[K]) Suspect(key K, now time.Time) bool {
	l := p.lanes[key]
	if l == nil || l.in == bursts || now.Before(l.rested) || p.cfg.Burst <= 0 {
		return false
	}
	heap.Remove(&p.queues[l.in], l.heapAt)
	l.in, l.left, l.due = bursts, p.cfg.Burst, now
	heap.Push(&p.queues[bursts], l)
	return true
}

// Next is the most urgent probe that is due at now and within the bounds; it
// counts as sent. Bursts go first, then paths that carry traffic. What comes
// late is not made up for: a stall is followed by no flood.
func (p *Pacer[K]) Next(now time.Time) (Due[K], bool) {
	p.refill(now)
	for i := len(p.queues) - 1; i >= 0; i-- {
		q := p.queues[i]
		if len(q) == 0 || q[0].due.After(now) {
			continue
		}
		l := q[0]
		size := p.size(l)
		if p.lack(i, size) > 0 {
			return Due[K]{}, false // and nothing less urgent takes what it waits for
		}
		p.probes--
		p.bytes -= float64(size + p.cfg.Overhead)
		p.advance(l, now)
		return Due[K]{l.key, size, i == bursts}, true
	}
	return Due[K]{}, false
}

// size is that of a lane's next probe.
func (p *Pacer[K]) size(l *lane[K]) int {
	if l.in != bursts && p.cfg.FullEvery > 0 && l.full > p.cfg.Small && l.n%p.cfg.FullEvery == p.cfg.FullEvery-1 {
		return l.full
	}
	return p.cfg.Small
}

// advance puts a lane whose probe was taken where its next one belongs.
func (p *Pacer[K]) advance(l *lane[K], now time.Time) {
	heap.Remove(&p.queues[l.in], l.heapAt)
	if l.in == bursts {
		l.left--
	} else {
		l.n++
	}
	switch {
	case l.in == bursts && l.left > 0:
		l.due = now.Add(p.cfg.BurstGap)
	case l.in == bursts:
		l.rested = now.Add(p.cfg.BurstRest)
		fallthrough
	default:
		l.in, l.due = int(l.role), p.after(l, now)
	}
	heap.Push(&p.queues[l.in], l)
}

func (p *Pacer[K]) refill(now time.Time) {
	dt, d := now.Sub(p.at).Seconds(), p.cfg.Depth.Seconds()
	if dt <= 0 {
		return
	}
	p.at = now
	p.probes = min(p.probes+dt*p.cfg.Probes, p.cfg.Probes*d)
	p.bytes = min(p.bytes+dt*p.cfg.Bytes, p.cfg.Bytes*d)
}

// lack is how long until there is enough for a probe of size in queue i.
func (p *Pacer[K]) lack(i, size int) time.Duration {
	keep := 0.0
	if i != bursts {
		keep = p.cfg.Depth.Seconds() / 4
	}
	probes := (1 + keep*p.cfg.Probes - p.probes) / p.cfg.Probes
	bytes := (float64(size+p.cfg.Overhead) + keep*p.cfg.Bytes - p.bytes) / p.cfg.Bytes
	if most := max(probes, bytes); most > 0 {
		return time.Duration(most*1e9) + 1
	}
	return 0
}

// NextAt is when Next may have a probe; false if there is no path.
func (p *Pacer[K]) NextAt(now time.Time) (time.Time, bool) {
	p.refill(now)
	var next time.Time
	for i := len(p.queues) - 1; i >= 0; i-- {
		if len(p.queues[i]) == 0 {
			continue
		}
		l := p.queues[i][0]
		at, ready := l.due, p.at.Add(p.lack(i, p.size(l)))
		if ready.After(at) {
			at = ready
		}
		next = earlier(next, at)
		if !l.due.After(now) && ready.After(now) {
			break // what is less urgent waits for it
		}
	}
	return next, !next.IsZero()
}

// queue is a heap of lanes by when they are due.
type queue[K comparable] []*lane[K]

func (q queue[K]) Len() int { return len(q) }
func (q queue[K]) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].ordinal < q[j].ordinal
}
func (q queue[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapAt, q[j].heapAt = i, j
}
func (q *queue[K]) Push(x any) {
	l := x.(*lane[K])
	l.heapAt = len(*q)
	*q = append(*q, l)
}
func (q *queue[K]) Pop() any {
	old := *q
	l := old[len(old)-1]
	*q = old[:len(old)-1]
	return l
}
