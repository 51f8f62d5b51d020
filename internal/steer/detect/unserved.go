package detect

import "time"

// Unserved are a peer's services at which nothing was answered on any path, and for how long nothing is asked about
// them. The zero value is ready.
type Unserved map[Service]*unservedPause

// Service is a port of a protocol, by its number of IANA's.
type Service struct {
	Protocol uint8
	Port     uint16
}

type unservedPause struct {
	until time.Time
	lasts time.Duration
}

// Add notes that what went to the service was answered nowhere.
func (u *Unserved) Add(params *Params, to Service, now time.Time) {
	if *u == nil {
		*u = Unserved{}
	}
	for other, at := range *u {
		if now.Sub(at.until) > params.UnservedMost {
			delete(*u, other)
		}
	}
	at := (*u)[to]
	if at == nil {
		at = &unservedPause{}
		(*u)[to] = at
	}
	at.lasts = min(max(2*at.lasts, params.UnservedFirst), params.UnservedMost)
	at.until = now.Add(at.lasts)
}

// Bars reports whether nothing is asked about what goes to the service. Where many are unserved it bars all others too.
func (u Unserved) Bars(params *Params, to Service, now time.Time) bool {
	if at := u[to]; at != nil {
		return now.Before(at.until)
	}
	lately := 0
	for _, at := range u {
		if now.Sub(at.until) <= params.UnservedMost {
			lately++
		}
	}
	return lately >= params.UnservedServices
}
