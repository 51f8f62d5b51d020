package decide

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Family is a kind of random schedules.
type Family struct {
	Name  string `json:"name"`
	About string `json:"about"`

	draw func(seed uint64) Schedule
}

// Schedule is the one of a seed.
func (f Family) Schedule(seed uint64) Schedule { return f.draw(seed) }

// Families lists those that policies are compared on.
func Families() []Family {
	shaped := func(s Shape) func(uint64) Schedule {
		return func(seed uint64) Schedule { return RandomSchedule(seed, s) }
	}
	return slices.Concat([]Family{
		{"throughput", "loads and faults, a bench promises rates", shaped(Shape{Need: Throughput})},
		{"latency", "the same for pairs that wait for answers", shaped(Shape{Need: Latency})},
		{"bare", "nothing is promised, and probes are as agents make them", shaped(Shape{Need: Throughput, Bare: true})},
		{"bare-latency", "the same for pairs that wait for answers", shaped(Shape{Need: Latency, Bare: true})},
		{"quiet", "paths nearly alike on which nothing happens", quiet},
		{"loss", "paths that lose some packets, more and more", drawn("loss", losing)},
		{"swing", "capacities that swing, with no fault", drawn("swing", swinging)},
		{"flap", "a path that fails and comes back, again and again", drawn("flap", flapping)},
		{"turns", "paths that fail by turns, some at the same time", drawn("turns", failingByTurns)},
		{"all-fail", "outages of all paths at once", drawn("all-fail", failingTogether)},
		{"bursts", "senders that pause, on paths that others use too", drawn("bursts", bursting)},
		{"choked", "a way back that is choked", drawn("choked", choking)},
		{"refused", "paths that probes pass and connections do not", drawn("refused", refusing)},
		{"credit", "a network that gives more for a moment than in the long run", drawn("credit", lending)},
		{"delay", "delays that come and go, for pairs that wait for answers", drawn("delay", delaying)},
		{"mixed", "bulk and dialogues of one pair, where rate and delay disagree, each on a path of its own",
			drawn("mixed", mixing)},
		{"mixed-together", "the same with one path for all flows of the pair, as where its need is declared",
			drawn("mixed", func(c *course, load Load) { mixing(c, load); c.Together = true })},
	}, sharers())
}

// course draws the phases of a schedule.
type course struct {
	*rand.Rand
	Schedule
}

// drawn are schedules of half a minute to two on three networks of 50 to 1000 Mbit/s and
// round trips of 0.2 to 20 ms, of which nothing is promised. The same load lasts
// throughout.
func drawn(name string, phases func(*course, Load)) func(uint64) Schedule {
	return func(seed uint64) Schedule {
		c := course{Rand: rand.New(rand.NewPCG(seed, 0xfa317)), Schedule: Schedule{
			Name: fmt.Sprintf("%s-%d", name, seed), Seed: seed, Need: Throughput, Bare: true}}
		c.Loss = c.between(0.002, 0.02)
		base := 100e6 * math.Pow(10, c.Float64())
		for _, network := range []string{"bgp", "vxlan", "macvlan"} {
			c.Networks = append(c.Networks, SimNetwork{Name: network,
				Capacity: base * c.between(0.5, 1), Many: c.between(0.9, 1.1),
				RTT: 200e-6 * math.Pow(100, c.Float64()), Noise: c.between(0.02, 0.05)})
		}
		phases(&c, Load{Connections: 1 << c.IntN(7)})
		return c.Schedule
	}
}

func (c *course) between(a, b float64) float64 { return a + (b-a)*c.Float64() }

// add adds a phase of so many seconds, to 100 ms.
func (c *course) add(seconds float64, load Load, bad ...Impairment) {
	span := time.Duration(seconds * float64(time.Second)).Round(Period)
	c.Phases = append(c.Phases, Phase{For: max(span, Period), Load: load, Impairments: bad})
}

// length is how long the phases last, in seconds.
func (c *course) length() (sum float64) {
	for _, p := range c.Phases {
		sum += p.For.Seconds()
	}
	return sum
}

// network draws one, the fastest half of the time.
func (c *course) network() string {
	best := c.Networks[0]
	for _, n := range c.Networks {
		if n.Capacity > best.Capacity {
			best = n
		}
	}
	if c.IntN(2) == 0 {
		return best.Name
	}
	return c.Networks[c.IntN(len(c.Networks))].Name
}

// hole draws the direction of a black hole.
func (c *course) hole(network string) Impairment {
	return Impairment{Network: network, Fault: []Fault{BlackHole, BlackHoleForward, BlackHoleReverse}[c.IntN(3)]}
}

func losing(c *course, load Load) {
	for range 2 {
		c.add(c.between(5, 15), load)
		network := c.network()
		for _, lost := range []float64{0.001, 0.003, 0.01, 0.03, 0.05}[:2+c.IntN(4)] {
			c.add(c.between(4, 12), load, Impairment{network, Loses, lost * c.between(0.7, 1.4)})
		}
	}
	c.add(c.between(5, 15), load)
}

func swinging(c *course, load Load) {
	const step = 0.5
	type swing struct{ low, high, period, phase float64 }
	swings := map[string]swing{}
	for _, n := range c.Networks {
		if c.IntN(3) > 0 {
			swings[n.Name] = swing{c.between(0.15, 0.5), c.between(0.7, 1), c.between(4, 40), c.between(0, 2*math.Pi)}
		}
	}
	for at := 0.0; at < 80; at += step {
		var bad []Impairment
		for _, n := range c.Networks {
			if s, ok := swings[n.Name]; ok {
				level := s.low + (s.high-s.low)*(1+math.Sin(2*math.Pi*at/s.period+s.phase))/2
				bad = append(bad, Impairment{n.Name, RateLimit, level})
			}
		}
		c.add(step, load, bad...)
	}
}

func flapping(c *course, load Load) {
	c.add(c.between(3, 10), load)
	network := c.network()
	up, down := c.between(0.5, 8), c.between(0.3, 3)
	for c.length() < 60 {
		c.add(down*c.between(0.7, 1.3), load, c.hole(network))
		c.add(up*c.between(0.7, 1.3), load)
	}
	c.add(20, load)
}

func failingByTurns(c *course, load Load) {
	c.add(c.between(3, 10), load)
	for at := c.IntN(3); c.length() < 80; at++ {
		bad := []Impairment{c.hole(c.Networks[at%3].Name)}
		if c.IntN(3) == 0 {
			bad = append(bad, c.hole(c.Networks[(at+1)%3].Name))
		}
		c.add(c.between(3, 12), load, bad...)
		if c.IntN(2) == 0 {
			c.add(c.between(1, 5), load)
		}
	}
}

func failingTogether(c *course, load Load) {
	for c.length() < 70 {
		network := Impairment{c.network(), RateLimit, c.between(0.2, 0.5)}
		c.add(c.between(6, 15), load)
		var all []Impairment
		for _, n := range c.Networks {
			all = append(all, c.hole(n.Name))
		}
		c.add(c.between(0.5, 6), load, all...)
		c.add(c.between(6, 12), load, network)
	}
}

func bursting(c *course, load Load) {
	on, off := c.between(0.3, 5), c.between(0.2, 5)
	if c.IntN(2) == 0 {
		load.Offered = c.Networks[0].Capacity * c.between(0.2, 1)
	}
	for c.length() < 80 {
		var bad []Impairment
		if c.IntN(2) == 0 {
			bad = []Impairment{{c.network(), Competing, c.between(0.3, 0.7)}}
		}
		for end := c.length() + c.between(8, 20); c.length() < end; {
			c.add(on*c.between(0.5, 1.5), load, bad...)
			c.add(off*c.between(0.5, 1.5), load, bad...)
			c.Phases[len(c.Phases)-1].Pause = true
		}
	}
}

func choking(c *course, load Load) {
	for c.length() < 70 {
		c.add(c.between(6, 15), load)
		c.add(c.between(6, 20), load, Impairment{c.network(), Choked, c.between(0.1, 0.5)})
	}
}

func refusing(c *course, load Load) {
	for c.length() < 80 {
		c.add(c.between(5, 15), load)
		c.add(c.between(5, 25), load, Impairment{Network: c.network(), Fault: Refused})
	}
}

func lending(c *course, load Load) {
	c.add(c.between(3, 10), load)
	for c.length() < 80 {
		c.add(c.between(15, 40), load, Impairment{c.network(), Credit, c.between(0.15, 0.6)})
		c.add(c.between(3, 10), load)
	}
}

func delaying(c *course, load Load) {
	c.Need = Latency
	for c.length() < 80 {
		c.add(c.between(6, 15), load)
		c.add(c.between(6, 15), load, Impairment{c.network(), Delay, c.between(0.2e-3, 10e-3)})
	}
}

// mixing has the more delay the faster a network is. The bulk comes and goes.
func mixing(c *course, load Load) {
	base := c.Networks[0].Capacity
	for i, at := range c.Perm(len(c.Networks)) {
		n := &c.Networks[at]
		far := float64(i) / 2
		n.Capacity = base * c.between(0.8, 1.2) * math.Pow(0.4, 1-far)
		n.RTT = 0.4e-3 * c.between(0.7, 1.4) * math.Pow(20, far)
		n.Queue = c.between(1e-3, 10e-3)
	}
	c.Windows = true
	answers := 1 << c.IntN(4)
	for c.length() < 80 {
		c.add(c.between(6, 15), load)
		fault := []Impairment{{c.network(), RateLimit, c.between(0.2, 0.6)}, {c.network(), Competing, c.between(0.3, 0.7)},
			{c.network(), Delay, c.between(0.2e-3, 10e-3)}}[c.IntN(3)]
		c.add(c.between(6, 15), load, fault)
		if c.IntN(3) == 0 {
			c.add(c.between(1, 5), load)
			c.Phases[len(c.Phases)-1].Pause = true
		}
	}
	for i := range c.Phases {
		c.Phases[i].Answers = answers
	}
}

// quiet is three minutes on three networks of which none is worth a move.
func quiet(seed uint64) Schedule {
	const rate, rtt, noise = 5e9, 60e-6, 0.05
	kind := seed / 2 // seeds are all odd or all even
	s := Schedule{Name: fmt.Sprintf("quiet-%d", seed), Seed: seed, Need: Throughput, Loss: 0.005, Bare: kind%8 >= 4,
		Networks: []SimNetwork{
			{Name: "a", Capacity: rate, Many: 1, RTT: rtt, Noise: noise},
			{Name: "b", Capacity: rate, Many: 1, RTT: rtt, Noise: noise},
			{Name: "c", Capacity: 0.96 * rate, Many: 1, RTT: rtt, Noise: noise, Bias: 0.03},
		}, Phases: []Phase{{For: 3 * time.Minute, Load: Load{Connections: 16}}}}
	if kind%2 == 1 {
		s.Need = Latency
	}
	if kind%4 >= 2 {
		s.Phases[0].Load.Offered = 0.6 * rate
	}
	return s
}
