package uperf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/workload"
	"pathwise.dev/pathwise/internal/workload/socket"
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
			s.fail(err)
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
	for n := 0; t.Duration > 0 || n < t.Iterations; n++ {
		begun := time.Now()
		if !begun.Before(s.end) && (t.Duration > 0 || n > 0) {
			return nil
		}
		s.began = begun
		for k := range t.Flowops {
			if err := s.flowop(i, k); err != nil {
				return err
			}
		}
		s.began = time.Time{}
		if measured && s.inWindow(begun) {
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
	case Read, Write:
		p := s.conns[f.Conn]
		n = p.draw(f.Size, f.Max)
		if f.Kind == Read {
			return n, p.read(n)
		}
		begun := time.Now()
		if err := p.write(n); err != nil {
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
		s.close(s.conns[f.Conn].Socket)
		delete(s.conns, f.Conn)
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

// disconnect closes what is open.
func (s *strand) disconnect() {
	for n, p := range s.conns {
		s.close(p.Socket)
		delete(s.conns, n)
	}
}

// received counts what a connection read.
func (s *strand) received(n int, at time.Time) {
	s.last = at
	if s.inWindow(at) {
		s.Received += int64(n)
	}
}

// connect opens the connection of flowop k of transaction i.
func (s *strand) connect(i, k int, f *Flowop) error {
	script, err := s.group.script(i, k)
	if err != nil {
		return err
	}
	s.opened++
	h := hello{Script: script, NoDelay: f.NoDelay, Window: f.Window, Seed: uint64(s.number)<<32 | uint64(s.opened),
		Begin: s.Begin, Duration: s.Duration}
	open := s.greet
	if f.Kind == Accept {
		open = s.accept
	}
	conn, err := open(h)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Kind, err)
	}
	s.conns[f.Conn] = newPipe(conn, h.Seed, h.most(), s.received)
	return tune(conn, f.NoDelay, f.Window)
}

// greet connects to the server and returns when it is ready.
func (s *strand) greet(h hello) (*socket.Socket, error) {
	left := time.Until(s.end.Add(patience))
	conn, err := socket.Dial(workload.TCP, s.Target, left)
	if err != nil {
		return nil, err
	}
	if !s.keep(conn) {
		conn.Close()
		return nil, errCut
	}
	if err = errors.Join(conn.Patience(left), writeLine(conn, h)); err == nil {
		err = expectReady(conn)
	}
	if err != nil {
		s.close(conn)
		return nil, err
	}
	return conn, nil
}

func expectReady(conn *socket.Socket) error {
	line, err := readLine(conn, maxLine)
	if err == nil && string(line)+"\n" != ready {
		err = fmt.Errorf("the server answered %.40q", line)
	}
	return err
}

// accept has the server connect to this end, as uperf's accept.
func (s *strand) accept(h hello) (*socket.Socket, error) {
	any := netip.IPv4Unspecified()
	if s.Target.Addr().Is6() {
		any = netip.IPv6Unspecified()
	}
	l, err := socket.Listen(workload.TCP, netip.AddrPortFrom(any, 0))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	own, err := l.Local()
	if err != nil {
		return nil, err
	}
	h.Back = own.Port()
	control, err := s.greet(h)
	if err != nil {
		return nil, err
	}
	defer s.close(control)
	left := time.Until(s.end.Add(patience))
	if err := l.Patience(left); err != nil {
		return nil, err
	}
	conn, err := l.Accept() // the server has connected before it was ready
	if err != nil {
		return nil, err
	}
	if !s.keep(conn) {
		conn.Close()
		return nil, errCut
	}
	return conn, conn.Patience(left)
}

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
