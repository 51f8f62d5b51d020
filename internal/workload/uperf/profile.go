package uperf

import (
	"fmt"
	"time"
)

// Profile is what uperf is to do, as its XML files say.
type Profile struct {
	Name   string  `json:"name"`
	Groups []Group `json:"groups"`
}

// Group is strands that do the same side by side: uperf's threads or processes,
// which for the network are one.
type Group struct {
	Strands      int           `json:"strands"`
	Transactions []Transaction `json:"transactions"`
	Line         int           `json:"line,omitempty"`
}

// Transaction is flowops in order, some times over, or for a time.
type Transaction struct {
	// Iterations is at least 1; with a Duration it does not count.
	Iterations int `json:"iterations"`
	// Duration is what the file says. The trial's window takes its place: see Check.
	Duration time.Duration `json:"duration,omitempty"`
	Flowops  []Flowop      `json:"flowops"`
	Line     int           `json:"line,omitempty"`
}

// Kind is what a flowop does.
type Kind string

// Kinds of flowops.
const (
	Connect    Kind = "connect"
	Accept     Kind = "accept"
	Read       Kind = "read"
	Write      Kind = "write"
	Disconnect Kind = "disconnect"
	Think      Kind = "think"
	Nop        Kind = "nop"
)

// Flowop is one step, Count times.
type Flowop struct {
	Kind  Kind `json:"kind"`
	Count int  `json:"count"`
	// Conn is the number of the strand's connection; 0 where the file gives none.
	Conn int `json:"conn,omitempty"`
	// Size in bytes, of a read or write; with Max, evenly distributed from Size to Max.
	Size int `json:"size,omitempty"`
	Max  int `json:"max,omitempty"`
	// NoDelay turns Nagle's algorithm off, Window sets the sockets' buffers in
	// bytes, at both ends of a connection.
	NoDelay bool `json:"no_delay,omitempty"`
	Window  int  `json:"window,omitempty"`
	// Pause is how long to think, Busy by computing instead of sleeping.
	Pause time.Duration `json:"pause,omitempty"`
	Busy  bool          `json:"busy,omitempty"`
	Line  int           `json:"line,omitempty"`
}

// moves reports whether the flowop moves payload.
func (f Flowop) moves() bool { return f.Kind == Read || f.Kind == Write }

// moves reports whether the transaction moves payload.
func (t Transaction) moves() bool {
	for _, f := range t.Flowops {
		if f.moves() {
			return true
		}
	}
	return false
}

// repeats reports whether the flowops may be done more than once.
func (t Transaction) repeats() bool { return t.Duration > 0 || t.Iterations > 1 }

// timed is the index of the group's transaction with a duration; -1 if it has none.
func (g Group) timed() int {
	for i, t := range g.Transactions {
		if t.Duration > 0 {
			return i
		}
	}
	return -1
}

// measured reports whether the i-th transaction is one whose number and time are
// the result: that with a duration; without one all that move payload, or if
// none does, all.
func (g Group) measured(i int) bool {
	if timed := g.timed(); timed >= 0 {
		return i == timed
	}
	for _, t := range g.Transactions {
		if t.moves() {
			return g.Transactions[i].moves()
		}
	}
	return true
}

// Strands of all groups.
func (p Profile) Strands() int {
	n := 0
	for _, g := range p.Groups {
		n += g.Strands
	}
	return n
}

// lineError is what is wrong at a line of a profile.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

func wrong(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

// Check returns an error for a profile that cannot be run here.
//
// A trial has a window of its own, so the transaction with a duration lasts until
// the window is over, and those after it come then. A group without one is begun
// again until then. Several in a group would have to share the window: refused.
func (p Profile) Check() error {
	if len(p.Groups) == 0 {
		return wrong(1, "the profile has no group")
	}
	if n := p.Strands(); n > maxStrands {
		return wrong(p.Groups[0].Line, "%d threads and processes in all: expected at most %d", n, maxStrands)
	}
	for _, g := range p.Groups {
		if err := g.check(); err != nil {
			return err
		}
	}
	return nil
}

func (g Group) check() error {
	if len(g.Transactions) == 0 {
		return wrong(g.Line, "the group has no transaction")
	}
	timed := g.timed()
	for i, t := range g.Transactions {
		if len(t.Flowops) == 0 {
			return wrong(t.Line, "the transaction has no flowop")
		}
		if t.Duration > 0 && i != timed {
			return wrong(t.Line, "a second transaction with a duration in the group: they cannot both last as long as the trial's window")
		}
	}
	for i, t := range g.Transactions {
		for k, f := range t.Flowops {
			if f.Kind != Connect && f.Kind != Accept {
				continue
			}
			if _, err := g.script(i, k); err != nil {
				return err
			}
		}
	}
	return g.checkConnected()
}

// checkConnected follows the connections through the group in order.
func (g Group) checkConnected() error {
	open := map[int]bool{}
	for _, t := range g.Transactions {
		for _, f := range t.Flowops {
			switch {
			case f.Kind == Think || f.Kind == Nop:
			case f.Kind == Connect || f.Kind == Accept:
				if open[f.Conn] {
					return wrong(f.Line, "%s: connection %d is open already", f.Kind, f.Conn)
				}
				open[f.Conn] = true
			case !open[f.Conn]:
				return wrong(f.Line, "%s: connection %d is not open", f.Kind, f.Conn)
			case f.Kind == Disconnect:
				delete(open, f.Conn)
			}
		}
	}
	return nil
}

// segment is a part of what the server does on one connection.
type segment struct {
	// Iterations of Steps; 0 is until the connection is closed.
	Iterations int    `json:"iterations"`
	Steps      []step `json:"steps"`
}

// step is reading or writing, as the server sees it.
type step struct {
	Write bool `json:"write,omitempty"`
	Count int  `json:"count"`
	Size  int  `json:"size"`
	Max   int  `json:"max,omitempty"`
}

// script is what the server does on the connection that flowop k of transaction
// i opens: the mirror of what the strand does with it until it disconnects.
func (g Group) script(i, k int) ([]segment, error) {
	opens := g.Transactions[i].Flowops[k]
	var out []segment
	forever := false
	add := func(iterations int, flowops []Flowop) (end bool, err error) {
		s := segment{Iterations: iterations}
		for _, f := range flowops {
			switch {
			case f.Conn != opens.Conn || f.Kind == Think || f.Kind == Nop:
			case f.Kind == Disconnect:
				end = true
			case !f.moves() || end:
			case forever:
				return false, wrong(f.Line, "%s after the transaction with a duration: only disconnect can follow, as the server cannot know when the time is over", f.Kind)
			default:
				s.Steps = append(s.Steps, step{f.Kind == Read, f.Count, f.Size, f.Max})
			}
		}
		if len(s.Steps) > 0 {
			out = append(out, s)
			forever = forever || iterations == 0
		}
		return end, nil
	}
	own := g.Transactions[i]
	end, err := add(1, own.Flowops[k+1:])
	if end || err != nil {
		return out, err
	}
	if own.repeats() {
		return nil, wrong(opens.Line, "%s in a transaction that is repeated, without a disconnect in it", opens.Kind)
	}
	for _, t := range g.Transactions[i+1:] {
		iterations := t.Iterations
		if t.Duration > 0 {
			iterations = 0
		}
		end, err := add(iterations, t.Flowops)
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
	return out, nil
}
