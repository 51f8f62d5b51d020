package uperf

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
)

// follow goes through the group in order and calls move for each flowop that moves
// payload with the protocol of its connection. Opening twice what is open, and
// the use of what is not, are errors.
func (g Group) follow(move func(*Flowop, workload.Proto) error) error {
	open := map[int]workload.Proto{}
	for _, t := range g.Transactions {
		for k := range t.Flowops {
			f := &t.Flowops[k]
			proto, is := open[f.Conn]
			switch {
			case f.Kind == Think || f.Kind == Nop:
			case f.opens() && is:
				return wrong(f.Line, "%s: connection %d is open already", f.Kind, f.Conn)
			case f.opens():
				open[f.Conn] = f.Proto
			case !is:
				return wrong(f.Line, "%s: connection %d is not open", f.Kind, f.Conn)
			case f.Kind == Disconnect:
				delete(open, f.Conn)
			default:
				if err := move(f, proto); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// resolve tells what moves by UDP from what moves by TCP, by the connection that it
// moves on, as uperf does.
func (g Group) resolve() error {
	return g.follow(func(f *Flowop, proto workload.Proto) error {
		f.Proto = proto
		repeat := max(f.repeat, 1)
		f.repeat = 0
		if !f.datagrams() {
			return nil
		}
		f.Chunk = 0 // a datagram is moved whole
		f.Count *= repeat
		if most := max(f.Size, f.Max); most > maxDatagram {
			return wrong(f.Line, "%s: size=%d by UDP: expected at most %d, which is what a datagram holds", f.Kind, most, maxDatagram)
		}
		return nil
	})
}

// segment is a part of what the server does on one connection.
type segment struct {
	// Iterations of Steps; 0 is until the connection is closed.
	Iterations int    `json:"iterations"`
	Steps      []step `json:"steps"`
}

// moves reports whether a step of the segment moves payload.
func (s segment) moves() bool {
	return slices.ContainsFunc(s.Steps, func(t step) bool { return t.Pause == 0 })
}

// step is reading or writing, as the server sees it, or thinking for Pause.
type step struct {
	Write bool          `json:"write,omitempty"`
	Count int           `json:"count"`
	Size  int           `json:"size,omitempty"`
	Max   int           `json:"max,omitempty"`
	Pause time.Duration `json:"pause,omitempty"`
	Busy  bool          `json:"busy,omitempty"`
}

// mirror is what the server does while the strand does the flowop. In uperf both
// ends think.
func (f Flowop) mirror() []step {
	switch {
	case f.Kind == Think:
		return []step{{Count: f.Count, Pause: f.Pause, Busy: f.Busy}}
	case !f.moves():
		return nil
	case f.Chunk <= f.Size || f.Count == 1 || f.Max > 0:
		return []step{{Write: f.Kind == Read, Count: f.Count, Size: f.Size, Max: f.Max}}
	}
	var out []step
	all := f.Count * f.Size
	for _, s := range []step{{Count: all / f.Chunk, Size: f.Chunk}, {Count: 1, Size: all % f.Chunk}} {
		if s.Write = f.Kind == Read; s.Count > 0 && s.Size > 0 {
			out = append(out, s)
		}
	}
	return out
}

// mirror builds the script of one connection.
type mirror struct {
	conn int
	out  []segment
	// forever: the last segment lasts until the connection is closed.
	forever bool
}

// add adds what the server does for the flowops, and reports whether they end the
// connection.
func (m *mirror) add(iterations int, flowops []Flowop) (end bool, err error) {
	s := segment{Iterations: iterations}
	for _, f := range flowops {
		switch {
		case f.Kind == Disconnect && f.Conn == m.conn:
			end = true
		case end || f.moves() && f.Conn != m.conn:
		case f.moves() && m.forever:
			return false, wrong(f.Line, "%s after the transaction with a duration: only disconnect can follow, as the server cannot know when the time is over", f.Kind)
		default:
			s.Steps = append(s.Steps, f.mirror()...)
		}
	}
	if s.moves() {
		m.out = append(m.out, s)
		m.forever = m.forever || iterations == 0
	}
	return end, nil
}

// script is what the server does on the connection that flowop k of transaction
// i opens: the mirror of what the strand does with it until it disconnects.
func (g Group) script(i, k int) ([]segment, error) {
	own := g.Transactions[i]
	opens := own.Flowops[k]
	m := mirror{conn: opens.Conn}
	end, err := m.add(1, own.Flowops[k+1:])
	if end || err != nil {
		return m.out, err
	}
	if own.repeats() {
		return nil, wrong(opens.Line, "%s in a transaction that is repeated, without a disconnect in it", opens.Kind)
	}
	for _, t := range g.Transactions[i+1:] {
		iterations := t.Iterations
		if t.Duration > 0 {
			iterations = 0
		}
		end, err := m.add(iterations, t.Flowops)
		if err != nil {
			return nil, err
		}
		if end && t.repeats() {
			return nil, wrong(t.Line, "disconnect in a transaction that is repeated, of a connection that is opened before it")
		}
		if end {
			break
		}
	}
	return m.out, nil
}
