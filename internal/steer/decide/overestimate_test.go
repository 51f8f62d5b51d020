package decide

import "time"

// overestimatesAreLearnt: a network that gives 200 Mbit/s for a moment and 50 in the long run is not gone to again and
// again, as policers have it that save up a second's worth.
func overestimatesAreLearnt(p *Params) bool {
	s := Schedule{Name: "credit", Need: Throughput, Bare: true, Loss: 0.01, Networks: []SimNetwork{
		{Name: "a", Capacity: 200e6, Many: 1, RTT: 1e-3, Noise: 0.03},
		{Name: "b", Capacity: 140e6, Many: 1, RTT: 1e-3, Noise: 0.03},
	}, Phases: []Phase{{For: 2 * time.Minute, Load: Load{Connections: 4},
		Impairments: []Impairment{{"a", Credit, 0.25}}}}}
	moves := 0
	for seed := range uint64(5) {
		moves += Play(s, CostAware{Params: p}, seed).Switches
	}
	return moves < 30
}
