package uperf

import (
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
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
	// Rate is how many a strand begins in a second; 0 is as fast as it can. It goes
	// with a Duration.
	Rate    int      `json:"rate,omitempty"`
	Flowops []Flowop `json:"flowops"`
	Line    int      `json:"line,omitempty"`
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
	// Proto is UDP for the opening of a connection by it, and for what moves on one.
	Proto workload.Proto `json:"proto,omitempty"`
	// NoDelay turns Nagle's algorithm off, Window sets the sockets' buffers in
	// bytes, Congestion is the congestion control, at both ends of a connection.
	NoDelay    bool   `json:"no_delay,omitempty"`
	Window     int    `json:"window,omitempty"`
	Congestion string `json:"congestion,omitempty"`
	// Chunk is how many bytes the other end moves at once, where Count is above 1.
	Chunk int `json:"chunk,omitempty"`
	// Pause is how long to think, Busy by computing instead of sleeping.
	Pause time.Duration `json:"pause,omitempty"`
	Busy  bool          `json:"busy,omitempty"`
	// Timeout is how long a read may wait; CanFail leaves a failure out of the
	// errors, and goes on where the connection lasts.
	Timeout time.Duration `json:"timeout,omitempty"`
	CanFail bool          `json:"can_fail,omitempty"`
	Line    int           `json:"line,omitempty"`
	// repeat is uperf's option, until it is known whether it counts: see resolve.
	repeat int
}

// moves reports whether the flowop moves payload.
func (f Flowop) moves() bool { return f.Kind == Read || f.Kind == Write }

// thinks is how long the flowop thinks.
func (f Flowop) thinks() time.Duration {
	return time.Duration(min(float64(f.Count)*float64(f.Pause), 1e18))
}

// opens reports whether the flowop opens a connection.
func (f Flowop) opens() bool { return f.Kind == Connect || f.Kind == Accept }

// datagrams reports whether the flowop is of a connection by UDP.
func (f Flowop) datagrams() bool { return f.Proto == workload.UDP }

// asks reports whether the flowop opens a connection whose congestion control the
// profile leaves open.
func (f Flowop) asks() bool { return f.opens() && !f.datagrams() && f.Congestion == "" }

// under is the profile with that congestion control where it leaves it open.
func (p Profile) under(congestion string) Profile {
	p.Groups = slices.Clone(p.Groups)
	for i := range p.Groups {
		g := &p.Groups[i]
		g.Transactions = slices.Clone(g.Transactions)
		for j := range g.Transactions {
			t := &g.Transactions[j]
			t.Flowops = slices.Clone(t.Flowops)
			for k := range t.Flowops {
				if t.Flowops[k].asks() {
					t.Flowops[k].Congestion = congestion
				}
			}
		}
	}
	return p
}

// moves reports whether the transaction moves payload.
func (t Transaction) moves() bool { return slices.ContainsFunc(t.Flowops, Flowop.moves) }

// thinks is how long the transaction's flowops think in all, at one end.
func (t Transaction) thinks() time.Duration {
	var sum time.Duration
	for _, f := range t.Flowops {
		sum += f.thinks()
	}
	return sum
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

// checkThinks returns an error for a transaction that thinks for longer than it may
// take to end after the window.
func (t Transaction) checkThinks() error {
	var sum time.Duration
	for _, f := range t.Flowops {
		if sum += f.thinks(); sum > maxPause {
			return wrong(f.Line, "think: %v in one transaction: expected at most %v", sum, maxPause)
		}
	}
	return nil
}

// any reports whether a flowop of the profile is so.
func (p Profile) any(is func(Flowop) bool) bool {
	for _, g := range p.Groups {
		for _, t := range g.Transactions {
			if slices.ContainsFunc(t.Flowops, is) {
				return true
			}
		}
	}
	return false
}

// byDatagrams reports whether anything goes by UDP.
func (p Profile) byDatagrams() bool { return p.any(Flowop.datagrams) }

// Threads are what the strands need: connections by UDP have one of control each.
func (p Profile) Threads() int {
	if p.byDatagrams() {
		return 2 * p.Strands()
	}
	return p.Strands()
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
		if err := t.checkThinks(); err != nil {
			return err
		}
		if t.Duration > 0 && i != timed {
			return wrong(t.Line, "a second transaction with a duration in the group: they cannot both last as long as the trial's window")
		}
	}
	for i, t := range g.Transactions {
		for k, f := range t.Flowops {
			if !f.opens() {
				continue
			}
			if _, err := g.script(i, k); err != nil {
				return err
			}
		}
	}
	return g.follow(func(f *Flowop, _ workload.Proto) error { return nil })
}
