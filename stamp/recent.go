package stamp

import (
	"encoding/binary"
	"sync"
	"time"
)

// DefaultFreshness is by how much the clocks of two hosts may differ in authenticated
// mode, unless ReflectorConfig says otherwise.
const DefaultFreshness = 2 * time.Second

// ReplayCache is what the reflectors of one host have taken, whatever socket it came by,
// so that none takes what another has. It may be used by many at a time, and grows to
// some megabytes at most.
type ReplayCache struct {
	mu     sync.Mutex
	recent *recent
}

// NewReplayCache is for reflectors with that freshness; 0 is the default.
func NewReplayCache(freshness time.Duration) *ReplayCache {
	if freshness <= 0 {
		freshness = DefaultFreshness
	}
	return &ReplayCache{recent: newRecent(2 * freshness)}
}

func (r *ReplayCache) has(p []byte, sent time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent.has(p, sent)
}

// take remembers the authentic packet p, and reports whether it is new.
func (r *ReplayCache) take(p []byte, sent, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent.has(p, sent) {
		return false
	}
	r.recent.add(p, sent, now)
	return true
}

// recentMost bounds each half of recent: some 16,000 probes a second for the
// default freshness.
const recentMost = 1 << 16

// recent remembers the MACs of the authentic packets of the last while. A
// session's window tells replays from its own address; but the MAC covers no
// address, so that a captured packet could open a session of its own from
// another one, as long as it is fresh.
type recent struct {
	span     time.Duration // for which each packet is remembered, at least
	now, old map[uint64]struct{}
	began    time.Time // now
	newest   time.Time // of what is in now, by the senders' clocks
	older    time.Time // of what is in old
	floor    time.Time // what was sent until then may have been forgotten too early
	most     int
}

func newRecent(span time.Duration) *recent {
	return &recent{span: span, now: map[uint64]struct{}{}, old: map[uint64]struct{}{}, most: recentMost}
}

func macKey(p []byte) uint64 { return binary.BigEndian.Uint64(p[macAt:]) }

// has reports whether the authentic packet p, sent at sent, came before, or may
// have.
func (r *recent) has(p []byte, sent time.Time) bool {
	k := macKey(p)
	_, now := r.now[k]
	_, old := r.old[k]
	return now || old || !sent.After(r.floor)
}

func (r *recent) add(p []byte, sent, now time.Time) {
	switch full := len(r.now) >= r.most; {
	case now.Sub(r.began) >= r.span, full:
		if full && now.Sub(r.began) < r.span {
			// The older half is not old enough, but goes.
			r.floor = r.older
		}
		clear(r.old)
		r.now, r.old = r.old, r.now
		r.began, r.older, r.newest = now, r.newest, sent
	}
	r.now[macKey(p)] = struct{}{}
	if sent.After(r.newest) {
		r.newest = sent
	}
}
