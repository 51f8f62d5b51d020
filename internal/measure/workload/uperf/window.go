package uperf

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// windows are what all connections received in a window, by when it begins:
// clients that come later have another. Those that are long over are forgotten.
type windows struct {
	mu   sync.Mutex
	open map[time.Duration]*window
}

type window struct {
	received, arrived, sent atomic.Int64
	end                     time.Time
}

// add adds what was moved.
func (w *window) add(m moved) {
	w.received.Add(m.received)
	if m.arrived+m.sent > 0 {
		w.arrived.Add(m.arrived)
		w.sent.Add(m.sent)
	}
}

// Bounds of what clients can make a server remember.
const (
	mostWindows = 256
	// remembered is how long after its end a client may ask for a window's report.
	remembered = time.Minute
)

// enter is the count of the window that begins so, of one connection more.
func (w *windows) enter(begin time.Duration, end time.Time) (*window, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.open[begin]; one != nil {
		return one, nil
	}
	now := time.Now()
	maps.DeleteFunc(w.open, func(_ time.Duration, one *window) bool { return now.Sub(one.end) > remembered })
	if len(w.open) >= mostWindows {
		return nil, errors.New("too many windows at once")
	}
	if w.open == nil {
		w.open = map[time.Duration]*window{}
	}
	one := &window{end: end}
	w.open[begin] = one
	return one, nil
}

// report is what was moved in the window that begins so; nothing where none does.
func (w *windows) report(begin time.Duration) report {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.open[begin]; one != nil {
		return report{Received: one.received.Load(), Arrived: one.arrived.Load(), Sent: one.sent.Load()}
	}
	return report{}
}
