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
	received atomic.Int64
	end      time.Time
}

// Bounds of what clients can make a server remember.
const (
	mostWindows = 256
	// remembered is how long after its end a client may ask for a window's report.
	remembered = time.Minute
)

// enter is the count of the window that begins so, of one connection more.
func (w *windows) enter(begin time.Duration, end time.Time) (*atomic.Int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.open[begin]; one != nil {
		return &one.received, nil
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
	return &one.received, nil
}

// received is what came in the window that begins so; 0 where none does.
func (w *windows) received(begin time.Duration) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.open[begin]; one != nil {
		return one.received.Load()
	}
	return 0
}
