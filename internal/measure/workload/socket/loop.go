package socket

import (
	"runtime"
	"time"
)

// Loop is a loop over sockets in a goroutine that does nothing else.
type Loop struct {
	turned time.Time
	turns  uint
}

// breath is how often such a goroutine goes through the runtime's scheduler. One that
// has not for 10 ms (forcePreemptNS in runtime/proc.go) is taken for one that
// hogs its processor: in whatever system call it is found, however short, it loses it,
// which wakes other threads, and the runtime's monitor then looks every 20 us instead
// of every 10 ms. A connection of one request then costs half as much CPU time again.
const breath = 6 * time.Millisecond

// Turn is to be called in each turn of the loop.
func (l *Loop) Turn() {
	// A clock read in each would be a part of a short round trip.
	const look = 8
	if l.turns++; l.turns%look != 0 {
		return
	}
	if time.Since(l.turned) >= breath { // which reads one clock, and time.Now two
		l.TurnAt(time.Now())
	}
}

// TurnAt is Turn where the time is known. It says whether that took some time.
func (l *Loop) TurnAt(now time.Time) bool {
	if now.Sub(l.turned) < breath {
		return false
	}
	l.turned = now
	runtime.Gosched()
	return true
}
