package uperf

import (
	"sync"
	"time"
)

// barrier is where strands wait for each other before each transaction.
type barrier struct {
	mu      sync.Mutex
	cond    *sync.Cond
	members int
	waiting int
	round   int
}

func newBarrier(members int) *barrier {
	b := &barrier{members: members}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// wait returns when all members wait.
func (b *barrier) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	round := b.round
	b.waiting++
	b.release()
	for b.round == round {
		b.cond.Wait()
	}
}

// leave takes a member away.
func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members--
	b.release()
}

func (b *barrier) release() {
	if b.waiting >= b.members {
		b.waiting = 0
		b.round++
		b.cond.Broadcast()
	}
}

// pace begins transactions at a rate, as uperf: half of a second's at once, and the
// other half a half second later. What could not begin in its half second is left.
type pace struct {
	rate int
	// at is when the half second began, and left how many may begin in it.
	at   time.Time
	left int
	odd  bool
}

// wait returns when the next may begin, or it is end.
func (p *pace) wait(end time.Time) {
	const half = time.Second / 2
	if p.rate == 0 {
		return
	}
	now := time.Now()
	if p.at.IsZero() {
		p.at = now.Add(-half)
	}
	for p.left == 0 || now.Sub(p.at) >= half {
		next := p.at.Add(half)
		if next.After(end) {
			next = end
		}
		time.Sleep(next.Sub(now))
		if now = time.Now(); !now.Before(end) {
			return
		}
		if p.at = next; now.Sub(next) >= half {
			p.at = now
		}
		p.odd = !p.odd
		if p.left = p.rate / 2; p.odd {
			p.left = p.rate - p.rate/2
		}
	}
	p.left--
}
