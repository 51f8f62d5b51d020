package detect

import "time"

// Unserved are a peer's services at which nothing was answered on any path, and for how long nothing is asked about
// them. The zero value is ready.
type Unserved map[Service]*pause

// Service is a port of a protocol, by its number of IANA's.
type Service struct {
	Protocol uint8
	Port     uint16
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
		at = &pause{}
		(*u)[to] = at
	}
	at.begin(params.UnservedFirst, params.UnservedMost, now)
}

// Bars reports whether nothing is asked about what goes to the service. Where many are unserved it bars all others too.
func (u Unserved) Bars(params *Params, to Service, now time.Time) bool {
	if at := u[to]; at != nil {
		return !at.over(now)
	}
	lately := 0
	for _, at := range u {
		if now.Sub(at.until) <= params.UnservedMost {
			lately++
		}
	}
	return lately >= params.UnservedServices
}
