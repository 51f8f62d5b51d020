package decide

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Schedule is a course of loads and impairments, for live drills and for
// Play.
type Schedule struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	Need Need   `json:"need"`
	// Networks of the pair; the first is the default.
	Networks []SimNetwork `json:"networks"`
	Phases   []Phase      `json:"phases"`
	// Loss of a switch, in seconds of traffic.
	Loss float64 `json:"loss_s"`
	// Bare: no bench has told what the networks give, and what the pair needs is
	// learned. Probes are as agents make them: they remember what was lost a minute
	// ago, a path that failed is up after two seconds of answers, and flows that come
	// to a network that is too slow for them drown its probes.
	Bare bool `json:"bare,omitempty"`
	// Together: a pair's flows have one path, whatever class they are of.
	Together bool `json:"together,omitempty"`
	// Hashed: connections are spread over buckets by accident, and each is on one network.
	Hashed bool `json:"hashed,omitempty"`
	// Windows: connections that are moved keep their windows, and fill another network as these grow.
	Windows bool `json:"windows,omitempty"`
	// Beneath is what all networks carry at most, together: a link or a CPU is beneath them; 0
	// for no bound. Costs is the part of it that is lost where flows are on several.
	Beneath float64 `json:"beneath,omitempty"`
	Costs   float64 `json:"costs,omitempty"`
}

// SimNetwork is a network as Play models it; live drills use its name alone.
type SimNetwork struct {
	Name string `json:"name"`
	// Capacity in bit/s for one connection, and Many times that for 100, in
	// between by the logarithm.
	Capacity float64 `json:"capacity"`
	Many     float64 `json:"many"`
	// RTT of the idle network in seconds.
	RTT float64 `json:"rtt_s"`
	// Noise is the standard deviation of the logarithm of what is measured.
	Noise float64 `json:"noise"`
	// Bias is by how much a bench overstates the capacity: 0.03 for 3 %.
	Bias float64 `json:"bias"`
	// Queue is how long packets wait, in seconds, where bulk fills the network: other
	// flows notice it.
	Queue float64 `json:"queue_s,omitempty"`
}

// at is the network's capacity at a load.
func (n SimNetwork) at(connections int) float64 {
	return n.Capacity * (1 + (n.Many-1)*math.Log(float64(max(connections, 1)))/math.Log(100))
}

// Phase is a span with one load and some impairments.
type Phase struct {
	For         time.Duration `json:"for_ns"`
	Load        Load          `json:"load"`
	Impairments []Impairment  `json:"impairments,omitempty"`
	// Pause: nothing is asked, but by those that wait for answers.
	Pause bool `json:"pause,omitempty"`
	// Answers is how many connections wait for answers alongside the bulk of Load.
	Answers int `json:"answers,omitempty"`
}

// Fault is a way in which a network is impaired.
type Fault string

// Faults.
const (
	// RateLimit leaves Factor of the capacity.
	RateLimit Fault = "rate"
	// BlackHole drops all, in both directions or in one.
	BlackHole        Fault = "blackhole"
	BlackHoleForward Fault = "blackhole-forward"
	BlackHoleReverse Fault = "blackhole-reverse"
	// Competing load takes Factor of the capacity.
	Competing Fault = "competing"
	// Delay holds packets up by Factor seconds, each way.
	Delay Fault = "delay"
	// Loses Factor of the packets, each way.
	Loses Fault = "loss"
	// Choked: the way back carries acknowledgments so slowly that Factor of the capacity
	// is left, and answers to probes wait and are lost.
	Choked Fault = "choked"
	// Refused: probes pass, and what the pair sends does not.
	Refused Fault = "refused"
	// Credit: Factor of the capacity is left in the long run, and what goes unused is saved up, for a second at most, and
	// spent at full capacity, as clouds and policers with buckets of tokens have it.
	Credit Fault = "credit"
)

// Impairment is one fault of one network.
type Impairment struct {
	Network string  `json:"network"`
	Fault   Fault   `json:"fault"`
	Factor  float64 `json:"factor,omitempty"`
}

// dead: nothing comes through both ways, so no operation completes.
func (i Impairment) dead() bool {
	return i.Fault == BlackHole || i.Fault == BlackHoleForward || i.Fault == BlackHoleReverse
}

// Shape says what random schedules look like. The zero value is good.
type Shape struct {
	Need     Need
	Networks []string
	Phases   int
	// Least and Most bound a phase.
	Least, Most time.Duration
	Bare        bool
}

func (s Shape) withDefaults() Shape {
	if s.Need == "" {
		s.Need = Throughput
	}
	if len(s.Networks) == 0 {
		s.Networks = []string{"bgp", "vxlan", "macvlan"}
	}
	if s.Phases <= 0 {
		s.Phases = 8
	}
	if s.Least <= 0 {
		s.Least = 10 * time.Second
	}
	if s.Most < s.Least {
		s.Most = max(3*s.Least, s.Least)
	}
	return s
}

// RandomSchedule draws a schedule; the same seed and shape give the same one.
// Three phases of five impair one network, and of those the best network of the
// load half the time, so that there is something to decide.
func RandomSchedule(seed uint64, shape Shape) Schedule {
	shape = shape.withDefaults()
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	s := Schedule{Name: fmt.Sprintf("random-%d", seed), Seed: seed, Need: shape.Need, Bare: shape.Bare,
		Loss: 0.002 + 0.018*r.Float64()}
	base := 1e9 * math.Pow(10, r.Float64())
	for _, name := range shape.Networks {
		s.Networks = append(s.Networks, SimNetwork{
			Name: name, Capacity: base * (0.6 + 0.4*r.Float64()), Many: 0.75 + 0.5*r.Float64(),
			RTT: 30e-6 + 170e-6*r.Float64(), Noise: 0.02 + 0.03*r.Float64(), Bias: 0.03 * r.NormFloat64(),
		})
	}
	for range shape.Phases {
		p := Phase{For: shape.Least + time.Duration(r.Float64()*float64(shape.Most-shape.Least)).Round(100*time.Millisecond)}
		p.Load.Connections = []int{1, 4, 8, 16, 32, 64, 128}[r.IntN(7)]
		if r.IntN(2) == 0 {
			p.Load.Offered = base * (0.2 + r.Float64())
		}
		if r.IntN(5) < 3 && len(s.Networks) > 1 {
			p.Impairments = []Impairment{s.impair(r, p.Load)}
		}
		s.Phases = append(s.Phases, p)
	}
	return s
}

// impair draws a fault.
func (s Schedule) impair(r *rand.Rand, load Load) Impairment {
	target := s.Networks[0]
	for _, n := range s.Networks {
		if s.Need == Latency && n.RTT < target.RTT || s.Need != Latency &&
			n.at(load.Connections) > target.at(load.Connections) {
			target = n
		}
	}
	if r.IntN(2) == 0 {
		target = s.Networks[r.IntN(len(s.Networks))]
	}
	i := Impairment{Network: target.Name}
	switch k := r.IntN(10); {
	case k < 4:
		i.Fault, i.Factor = RateLimit, 0.1+0.4*r.Float64()
	case k < 7:
		i.Fault, i.Factor = Competing, 0.3+0.4*r.Float64()
	case k < 8:
		i.Fault = BlackHoleForward
	case k < 9:
		i.Fault = BlackHoleReverse
	default:
		i.Fault = BlackHole
	}
	return i
}
