package uperf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// strand is one of uperf's threads.
type strand struct {
	*run
	Count
	group  *Group
	gate   *barrier
	number int
	conns  map[int]*pipe
	opened int
	// last is when the strand last moved something.
	last time.Time
	// began is when the transaction under way did; zero between transactions.
	began time.Time
	turn  socket.Loop
	// spared: the transaction under way has failed as the profile allows.
	spared bool
}

// errCut: the window is over, and what is under way is left.
var errCut = errors.New("cut at the end of the window")

// live runs the group's transactions until the window is over. After a failure
// the strand begins again, with new connections.
func (s *strand) live(ctx context.Context) {
	leave := sync.OnceFunc(s.gate.leave)
	defer leave()
	for first := true; ctx.Err() == nil && time.Now().Before(s.end); first = false {
		err := s.pass(first)
		s.disconnect()
		if err != nil && ctx.Err() == nil {
			if !errors.Is(err, errSpared) {
				s.fail(err)
			}
			leave() // the others do not wait for it any more
			time.Sleep(10 * time.Millisecond)
		} else if s.group.timed() >= 0 {
			return
		}
	}
}

// pass runs the transactions once.
func (s *strand) pass(together bool) error {
	for i := range s.group.Transactions {
		if together {
			s.gate.wait()
		}
		if err := s.transaction(i); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs the i-th transaction.
func (s *strand) transaction(i int) error {
	t := &s.group.Transactions[i]
	measured := s.group.measured(i)
	pace := pace{rate: t.Rate}
	for n := 0; t.Duration > 0 || n < t.Iterations; n++ {
		pace.wait(s.end)
		begun := time.Now()
		switch over := !begun.Before(s.end); {
		case over && t.Duration > 0:
			return nil
		case over && n > 0:
			return errCut // what follows is for a server that has done the rest
		}
		s.began, s.spared = begun, false
		for k := range t.Flowops {
			if err := s.flowop(i, k); err != nil {
				return err
			}
		}
		s.began = time.Time{}
		if measured && !s.spared && s.inWindow(begun) {
			s.Operations++
			s.Latency.Record(time.Since(begun))
		}
	}
	return nil
}

func (s *strand) inWindow(at time.Time) bool { return !at.Before(s.begin) && at.Before(s.end) }

// fail counts what went wrong in the transaction under way.
func (s *strand) fail(err error) {
	began := s.began
	s.began = time.Time{}
	switch overdue := time.Since(s.end) >= patience; {
	case errors.Is(err, errCut), overdue && s.last.After(s.end):
		if !began.IsZero() && began.Before(s.end) {
			s.Cut++
		}
		return
	case overdue || timedOut(err):
		err = fmt.Errorf("no answer within %v after the window", patience)
	}
	if s.Failure == "" {
		s.Failure = err.Error()
	}
	if began.Before(s.end) && !time.Now().Before(s.begin) { // it was under way in the window
		s.Failed++
	}
}

// flowop runs flowop k of transaction i with its count, and counts it as uperf does.
func (s *strand) flowop(i, k int) error {
	f := &s.group.Transactions[i].Flowops[k]
	var bytes int64
	for range f.Count {
		if f.Count > 1 && !time.Now().Before(s.end) {
			return errCut
		}
		s.turn.Turn()
		n, err := s.once(i, k, f)
		if err != nil && f.CanFail {
			err = s.spare(f, err)
		}
		if err != nil {
			return err
		}
		bytes += int64(n)
	}
	if s.inWindow(time.Now()) {
		s.Flowops += int64(f.Count)
		s.FlowopBytes += bytes
	}
	return nil
}

// once does the flowop once and returns the bytes that it moved.
func (s *strand) once(i, k int, f *Flowop) (n int, err error) {
	switch f.Kind {
	case Read:
		p := s.conns[f.Conn]
		if err := errors.Join(p.begin(), p.within(s.group.waits(i, f), s.whole)); err != nil {
			return 0, err
		}
		return p.read(f.Size, f.Max)
	case Write:
		p, begun := s.conns[f.Conn], time.Now()
		if err := p.begin(); err != nil {
			return 0, err
		}
		if n, err = p.write(f.Size, f.Max); err != nil {
			return 0, err
		}
		s.last = time.Now()
		if f.Count > 1 && s.inWindow(begun) {
			s.Writes.Record(s.last.Sub(begun))
		}
		return n, nil
	case Connect, Accept:
		return 0, s.connect(i, k, f)
	case Disconnect:
		s.leave(f.Conn)
	case Think:
		think(f.Pause, f.Busy)
	}
	return 0, nil
}

func think(d time.Duration, busy bool) {
	if !busy {
		time.Sleep(d)
		return
	}
	for begun := time.Now(); time.Since(begun) < d; {
	}
}

// whole is how long a read may wait that has no bound of its own.
func (s *strand) whole() time.Duration { return time.Until(s.end.Add(patience)) }

// lost is how long a datagram's answer may take. Nobody sends it again, and uperf
// would wait for ever.
const lost = 500 * time.Millisecond

// waits is how long a read in transaction i may wait; 0 is for as long as the
// connection has. The other end thinks meanwhile, too. Where the strand only reads,
// there is nothing of which an answer could be lost.
func (g *Group) waits(i int, f *Flowop) time.Duration {
	t := &g.Transactions[i]
	switch asks := slices.ContainsFunc(t.Flowops, func(o Flowop) bool { return o.Kind == Write && o.Conn == f.Conn }); {
	case f.Timeout > 0:
		return f.Timeout
	case f.datagrams() && asks:
		return lost + t.thinks()
	}
	return 0
}

// errSpared: a failure that the profile allows has ended the strand's connection.
var errSpared = errors.New("failed as the profile allows")

// spare counts a failure that the profile allows. Where the connection lasts, the
// strand goes on, as in uperf.
func (s *strand) spare(f *Flowop, err error) error {
	now := time.Now()
	if errors.Is(err, errCut) || now.Sub(s.end) >= patience {
		return err
	}
	s.spared = true
	s.Spare = cmp.Or(s.Spare, err.Error())
	if s.inWindow(now) {
		s.Spared++
	}
	if f.moves() && (f.datagrams() || errors.Is(err, errLate)) {
		time.Sleep(time.Millisecond) // do not spin where nothing listens
		return nil
	}
	return errSpared
}

// leave closes a connection.
func (s *strand) leave(conn int) {
	p := s.conns[conn]
	s.close(p.Socket)
	if p.control != nil {
		s.close(p.control)
	}
	delete(s.conns, conn)
}

// disconnect closes what is open.
func (s *strand) disconnect() {
	for n := range s.conns {
		s.leave(n)
	}
}

// moved counts what a connection moved.
func (s *strand) moved(m moved, at time.Time) {
	if m.received > 0 {
		s.last = at
	}
	if s.inWindow(at) {
		s.Received += m.received
		s.Arrived += m.arrived
		s.Sent += m.sent
	}
}
