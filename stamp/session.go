package stamp

import (
	"net/netip"
	"time"
)

// sessionKey is what a reflector tells sessions apart by: RFC 8972, section 3.
// Its own end of the 4-tuple is the socket.
type sessionKey struct {
	from netip.AddrPort
	ssid uint16
}

// session is what a stateful reflector keeps of one.
type session struct {
	key            sessionKey
	next, previous *session // most recently used first
	window         window
	newest         time.Time // the latest time a probe of it was sent, by its own timestamp
	since          time.Time // all that was sent until then belongs to the past
	seen, fresh    time.Time // when the latest probe of it came, and the latest that was fresh
	received, sent uint32
}

// sessions is a bounded set; the least recently used goes first.
type sessions struct {
	most  int
	byKey map[sessionKey]*session
	head  session // of the ring
	// floor is a time after which a probe must have been sent to open a session:
	// when the reflector started, or the newest of the sessions that went.
	floor time.Time
}

func newSessions(most int, start time.Time) *sessions {
	s := &sessions{most: most, byKey: map[sessionKey]*session{}, floor: start}
	s.head.next, s.head.previous = &s.head, &s.head
	return s
}

func (s *sessions) get(k sessionKey) *session {
	e := s.byKey[k]
	if e != nil {
		s.unlink(e)
		s.link(e)
	}
	return e
}

func (s *sessions) add(k sessionKey) *session {
	var e *session
	if len(s.byKey) >= s.most {
		e = s.head.previous
		if e.newest.After(s.floor) {
			s.floor = e.newest
		}
		s.unlink(e)
		delete(s.byKey, e.key)
	} else {
		e = &session{}
	}
	*e = session{key: k}
	s.byKey[k] = e
	s.link(e)
	return e
}

func (s *sessions) link(e *session) {
	e.previous, e.next = &s.head, s.head.next
	e.next.previous, s.head.next = e, e
}

func (s *sessions) unlink(e *session) {
	e.previous.next, e.next.previous = e.next, e.previous
}

// verdicts on a probe that authenticates.
type admission uint8

const (
	admitted admission = iota
	replayed           // seen before, or older than all that is remembered
	stale              // not sent lately, by a session not known
)

// admit says whether an authentic probe, sent at sent by its own timestamp, is
// new. A session that is not known, which is any after a restart, must send a
// timestamp within bound of now and after the floor. One that is known must
// advance: by its sequence number, or, if its sender started again from zero, by
// a timestamp later than all before, which a replay cannot have. What was sent
// before such a start, or the floor, is never taken for overtaken.
func (s *sessions) admit(k sessionKey, seq uint32, sent, now time.Time, bound time.Duration) (*session, admission) {
	fresh := sent.Sub(now).Abs() <= bound
	e := s.byKey[k]
	if e == nil {
		if !fresh || !sent.After(s.floor) {
			return nil, stale
		}
		e = s.add(k)
		e.window.reset(seq)
		e.newest, e.since = sent, s.floor
		return e, admitted
	}
	later := sent.After(e.newest)
	switch {
	case !sent.After(e.since):
		return nil, replayed
	case e.window.ahead(seq) && (fresh || later): // a clock that was set must not end a session
		e.window.mark(seq)
	case fresh && !e.window.has(seq):
		e.window.mark(seq)
	case fresh && later:
		e.window.reset(seq)
		e.since = e.newest
		e.received, e.sent = 0, 0
	default:
		return nil, replayed
	}
	if later {
		e.newest = sent
	}
	return s.get(k), admitted
}

// windowSize is how far behind the newest a sequence number may come.
const windowSize = 1024

// window remembers which of the last sequence numbers came, modulo 2^32: the
// sliding window of RFC 4303, section 3.4.3.
type window struct {
	high uint32
	bits [windowSize / 64]uint64
}

func (w *window) reset(seq uint32) {
	*w = window{high: seq}
	w.set(seq)
}

func (w *window) set(seq uint32) { w.bits[seq/64%uint32(len(w.bits))] |= 1 << (seq % 64) }

// ahead reports whether seq is newer than all before.
func (w *window) ahead(seq uint32) bool { return int32(seq-w.high) > 0 }

// has reports whether seq came before, or is too old to tell.
func (w *window) has(seq uint32) bool {
	if w.ahead(seq) {
		return false
	}
	return w.high-seq >= windowSize || w.bits[seq/64%uint32(len(w.bits))]&(1<<(seq%64)) != 0
}

// mark records seq, which the window does not have.
func (w *window) mark(seq uint32) {
	if w.ahead(seq) {
		if seq-w.high >= windowSize {
			clear(w.bits[:])
		} else {
			for i := w.high + 1; i != seq; i++ {
				w.bits[i/64%uint32(len(w.bits))] &^= 1 << (i % 64)
			}
		}
		w.high = seq
	}
	w.set(seq)
}
