package drill

import (
	"fmt"
	"math"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// leg is a phase of a schedule as it is played live.
type leg struct {
	what string
	span time.Duration
	// goesOn: its connections are those of the leg before.
	goesOn bool
	// connections of the application, which together offer so much; 0 is all
	// that goes.
	connections int
	offered     float64
	// rates of the networks on the uplink.
	rates map[string]float64
	// credits are the rates of networks that spend what went unused, for a second at most.
	credits map[string]float64
	// crowd is what other pods send on a network.
	crowd map[string]float64
	// holes are what networks drop, by the names of faults: both, in, out, or TCP alone.
	holes map[string]string
	// delays are what each way takes longer, by network.
	delays map[string]time.Duration
	// losses are the shares of packets lost each way, by network.
	losses map[string]float64
	// chokes are the rates of the way back to the sender, by network.
	chokes map[string]float64
}

// faults are what impairs networks, at their pods on one host.
func (l leg) faults() map[string]impair.Impairment {
	out := map[string]impair.Impairment{}
	for network, how := range l.holes {
		out[network] = fault(how)
	}
	for network, lost := range l.losses {
		if _, dead := l.holes[network]; !dead {
			out[network] = impair.Impairment{LossIngress: lost, LossEgress: lost}
		}
	}
	for network, rate := range l.chokes {
		bad := out[network]
		bad.Rate, bad.Direction = max(uint64(rate), impair.MinRate), impair.In
		out[network] = bad
	}
	for network, d := range l.delays {
		bad := out[network]
		bad.Delay, bad.Direction = d, impair.Both
		out[network] = bad
	}
	return out
}

// acknowledged is for how many bits that are sent one comes back: an acknowledgment of some 80 bytes for what one
// socket hands over at once, about 32 kB in the mean.
const acknowledged = 400

// legs are a schedule's phases with the capacity of the fastest network scaled.
func legs(s decide.Schedule, capacity float64) []leg {
	top := 0.0
	for _, n := range s.Networks {
		top = max(top, n.Capacity, n.Capacity*n.Many)
	}
	scale := capacity / top
	var out []leg
	for i, p := range s.Phases {
		const most = 64 // connections: more would measure the generator
		l := leg{what: fmt.Sprintf("phase %d", i+1), span: p.For, connections: min(max(p.Load.Connections, 1), most),
			offered: p.Load.Offered * scale,
			rates:   map[string]float64{}, credits: map[string]float64{}, crowd: map[string]float64{},
			holes: map[string]string{}, delays: map[string]time.Duration{}, losses: map[string]float64{},
			chokes: map[string]float64{}}
		for _, n := range s.Networks {
			// As decide's model: the capacity changes with the load, by its logarithm.
			l.rates[n.Name] = scale * n.Capacity * (1 + (n.Many-1)*math.Log(float64(l.connections))/math.Log(100))
		}
		for _, bad := range p.Impairments {
			switch bad.Fault {
			case decide.RateLimit:
				l.rates[bad.Network] *= bad.Factor
			case decide.Credit:
				l.credits[bad.Network] = l.rates[bad.Network]
				l.rates[bad.Network] *= bad.Factor
			case decide.Competing:
				l.crowd[bad.Network] = l.rates[bad.Network] * bad.Factor
			case decide.BlackHole:
				l.holes[bad.Network] = "both"
			case decide.BlackHoleForward:
				l.holes[bad.Network] = "out"
			case decide.BlackHoleReverse:
				l.holes[bad.Network] = "in"
			case decide.Delay:
				l.delays[bad.Network] = time.Duration(bad.Factor * float64(time.Second))
			case decide.Loses:
				l.losses[bad.Network] = bad.Factor
			case decide.Choked:
				l.chokes[bad.Network] = l.rates[bad.Network] * bad.Factor / acknowledged
			case decide.Refused:
				if _, dead := l.holes[bad.Network]; !dead {
					l.holes[bad.Network] = faultTCP
				}
			}
			l.what += fmt.Sprintf(", %s %s", bad.Network, bad.Fault)
		}
		out = append(out, l)
	}
	return out
}
