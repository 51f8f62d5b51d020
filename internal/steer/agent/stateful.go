package agent

import (
	"maps"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/conntrack"
)

// takesReturns is in the number of noticeOpen and of its answer, next to opensElsewhere: no filter of this end's host
// is stateful, so flows that come back to a network need not wait until it has forgotten what they had left there.
// Earlier versions do not say so.
const takesReturns = 8

// filtering looks whether the host's filters are stateful.
type filtering struct {
	*untracked
	filters conntrack.Filters
	next    time.Time // when to look again
}

// lookEach is how often it is looked whether rules have changed while none is stateful, and statefulFor how long what
// is stateful is taken to be so.
const lookEach, statefulFor = time.Second, time.Minute

// look looks, in its time. Where no filter is stateful any more, nothing is to be forgotten, and it returns the pairs
// that have waited for that; where one is now, so is what all pairs have left behind. What cannot be read may be.
func (f *filtering) look(host func() string, m *members, now time.Time) (awaited []*pair) {
	if now.Before(f.next) {
		return nil
	}
	stateful, err := f.filters.Stateful(host())
	f.fault("filters of the host", err)
	f.next = f.cfg.Now().Add(max(lookEach, countShare*f.cfg.Now().Sub(now)))
	if stateful {
		f.next = now.Add(statefulFor)
	}
	switch {
	case stateful != f.stateless.Load(): // as it was
	case stateful:
		f.stateless.Store(false)
		m.Lock()
		defer m.Unlock()
		for p := range m.pairs() {
			f.add(p)
		}
	default:
		f.stateless.Store(true)
		return f.drop()
	}
	return nil
}

// drop takes all that is due for done, and returns the pairs that somebody waits for.
func (u *untracked) drop() []*pair {
	u.mu.Lock()
	looks := slices.Collect(maps.Keys(u.due))
	clear(u.due)
	u.mu.Unlock()
	return u.tell(looks)
}

// opens is a notice that asks the other end to take the pair's packets on every path.
func (m *mover) opens(p *pair) notice {
	n := m.teller.about(p, noticeOpen)
	n.number = m.consents(p)
	return n
}

// consents is what noticeOpen and its answer say of what this end takes.
func (m *mover) consents(p *pair) uint64 {
	return m.teller.members.Cluster.opening() | p.opening.says() | m.untracked.returns()
}

// consented notes what the other end has said so.
func (p *pair) consented(number uint64, now time.Time) {
	p.takesOpening, p.takesReturns = number&opensElsewhere != 0, number&takesReturns != 0
	if number&beginsElsewhere != 0 {
		p.opening.peer = now
	}
}

// returns is what noticeOpen and its answer say of that.
func (u *untracked) returns() uint64 {
	if u.stateless.Load() {
		return takesReturns
	}
	return 0
}
