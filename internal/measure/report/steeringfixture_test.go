package report

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"pathwise.dev/pathwise/internal/measure/figure"
	"pathwise.dev/pathwise/internal/sample"
)

// Test data: an invented demo of steering. Nothing here was measured.

// madeRun plays level, in Mbit/s, with noise and TCP's dents.
func madeRun(name string, steered bool, step time.Duration, length float64, level func(t float64) float64) SteeringRun {
	h := fnv.New64a()
	fmt.Fprint(h, name)
	r := rand.New(rand.NewPCG(h.Sum64(), 3))
	out := SteeringRun{Name: name, Steered: steered, Step: step}
	dent := 1.0
	for i := range int(length / step.Seconds()) {
		if r.Float64() < 0.004 {
			dent = 0.6
		}
		dent += (1 - dent) * 0.2
		v := level(float64(i)*step.Seconds()) * dent * (1 + 0.03*r.NormFloat64())
		out.Points = append(out.Points, SteeringPoint{time.Duration(i) * step, max(v, 0) * 1e6})
	}
	return out
}

// level is what a network carries at a time of the made script.
func madeLevel(network string, t float64) float64 {
	offered := 180.0
	if t >= 20 {
		offered = 420
	}
	capacity := map[string]float64{"routed-bgp": 300, "vxlan": 390, "macvlan": 345}[network]
	if t < 20 {
		capacity = map[string]float64{"routed-bgp": 178, "vxlan": 164, "macvlan": 171}[network]
	}
	if network == "vxlan" && t >= 40 && t < 62 {
		capacity = 39
	}
	if network == "macvlan" && t >= 62 && t < 78 {
		capacity = 0
	}
	return min(offered, capacity)
}

// madeDemo is a demo's script: load, rate limit, black hole.
func madeDemo(step time.Duration) SteeringScript {
	s := SteeringScript{
		Name: "demo", About: "Two pods on three networks: TCP streams from a to b, first 4, then 32 connections; then the network in use is limited, then the next one swallows everything.",
		Quantity: "goodput", Unit: "bit/s",
		Phases: []SteeringPhase{
			{"load: 4 connections", PhaseLoad, 0, 20 * time.Second},
			{"load: 32 connections", PhaseLoad, 20 * time.Second, 0},
			{"rate limit vxlan to 40 Mbit/s", PhaseLimit, 40 * time.Second, 62 * time.Second},
			{"black hole macvlan", PhaseFault, 62 * time.Second, 78 * time.Second},
		},
	}
	on := func(t float64) string {
		switch {
		case t < 21.4:
			return "routed-bgp"
		case t < 40.62:
			return "vxlan"
		case t < 62.05:
			return "macvlan"
		case t < 66.3:
			return "routed-bgp"
		}
		return "vxlan"
	}
	s.Runs = append(s.Runs, madeRun("steered", true, step, 90, func(t float64) float64 { return madeLevel(on(t), t) }))
	for _, n := range []string{"routed-bgp", "vxlan", "macvlan"} {
		s.Runs = append(s.Runs, madeRun(n, false, step, 90, func(t float64) float64 { return madeLevel(n, t) }))
	}
	at := func(t float64) time.Duration { return time.Duration(t * 1e9) }
	got := func(v float64) *float64 { return &v }
	s.Events = []SteeringEvent{
		{ID: 1, At: at(0.004), Host: "node1", Kind: "started",
			Reason: "2 pods, 1 peer, 3 networks; policy cost-aware; lease 2 s"},
		{ID: 2, At: at(21.4), Host: "node1", Kind: "switch", Pair: "a>b", From: "routed-bgp", To: "vxlan", By: "policy",
			PredictedGain: 0.27, ExpectedLoss: 0.0021, Took: 1400,
			Reason: "vxlan is expected to carry 381 Mbit/s, routed-bgp carries 301: 27 % over 10 s exceed the loss of switching of 2.1 ms (change point 1.3 s ago)"},
		{ID: 3, At: at(22.41), Host: "node1", Kind: "outcome", Pair: "a>b", To: "vxlan", Of: 2, Gain: got(0.293),
			Reason: "goodput +29 % in the second after against the second before"},
		{ID: 4, At: at(40.62), Host: "node1", Kind: "switch", Pair: "a>b", From: "vxlan", To: "macvlan", By: "policy",
			PredictedGain: 7.6, ExpectedLoss: 0.0019, Took: 1100,
			Reason: "vxlan carries 39 Mbit/s of 388 before: change point 0.6 s ago; macvlan is expected to carry 340"},
		{ID: 5, At: at(41.65), Host: "node1", Kind: "outcome", Of: 4, Gain: got(7.82),
			Reason: "goodput +782 % in the second after against the second before"},
		{ID: 6, At: at(62.016), Host: "node1", Kind: "suspect", Pair: "a>b", From: "macvlan",
			Reason: "42 packets sent and none received for 9 ms on macvlan: 3 probes on each path"},
		{ID: 7, At: at(62.0375), Host: "node1", Kind: "failover", Pair: "a>b", From: "macvlan", To: "routed-bgp",
			By: "policy", Took: 1900, Detected: 21 * time.Millisecond,
			Reason: "macvlan answered none of 3 probes, routed-bgp and vxlan answered later ones in 0.09 ms and 0.14 ms"},
		{ID: 2, At: at(62.0379), Host: "node2", Kind: "failover", Pair: "b>a", From: "macvlan", To: "routed-bgp", By: "peer",
			Took: 1200, Reason: "node1 moved the pair"},
		{ID: 8, At: at(63.05), Host: "node1", Kind: "outcome", Of: 7, Gain: got(-0.04),
			Reason: "goodput -4 % in the second after against the second before"},
		{ID: 9, At: at(66.3), Host: "node1", Kind: "switch", Pair: "a>b", From: "routed-bgp", To: "vxlan", By: "policy",
			PredictedGain: 0.28, ExpectedLoss: 0.0024, Took: 1300,
			Reason: "vxlan carries again: 388 Mbit/s expected, dwell time of 4 s is over"},
		{ID: 10, At: at(67.31), Host: "node1", Kind: "outcome", Of: 9, Gain: got(0.27),
			Reason: "goodput +27 % in the second after against the second before"},
	}
	s.Shares = []SteeringShare{
		{0, map[string]float64{"routed-bgp": 64}}, {at(21.2), map[string]float64{"routed-bgp": 60, "vxlan": 4}},
		{at(21.4), map[string]float64{"vxlan": 64}},
		{at(40.62), map[string]float64{"macvlan": 64}}, {at(62.0375), map[string]float64{"routed-bgp": 64}},
		{at(65.2), map[string]float64{"routed-bgp": 56, "vxlan": 8}},
		{at(66.3), map[string]float64{"vxlan": 64}},
	}
	return s
}

func madeFigures() []SteeringFigure {
	most := func(v float64) *figure.Bar { return &figure.Bar{Limit: v} }
	least := func(v float64) *figure.Bar { return &figure.Bar{AtLeast: true, Limit: v} }
	var out []SteeringFigure
	for _, f := range []figure.Figure{
		{Drill: "switch", Name: "map write of a switch", Unit: "s", Value: 1.34e-6, Low: 1.31e-6, High: 1.38e-6, N: 20000,
			Least: 0.9e-6, Median: 1.34e-6, P99: 4.2e-6, Most: 38e-6, Bar: most(2e-6)},
		{Drill: "switch", Name: "packets lost over 10,000 switches", Unit: "count", N: 1, Bar: most(0),
			Note: "600,112 datagrams at 50 us spacing; drops of the receiving socket are not the path's and are counted apart (0)"},
		{Drill: "switch", Name: "reordered more than the difference of path delays explains", Unit: "count", N: 1,
			Bar: most(0)},
		{Drill: "switch", Name: "connections lost", Unit: "count", N: 4, Bar: most(0)},
		{Drill: "inserts", Name: "longer run with 3,000 switches", Unit: "change", Value: 0.0031, Low: -0.0012, High: 0.0074,
			N: 20, Least: -0.021, Median: 0.0031, P99: 0.024, Most: 0.025, Bar: most(0.005), Note: "the paper: +9.7 %"},
		{Drill: "overhead", Name: "throughput, steered against native", Unit: "ratio", Value: 0.9713, Low: 0.9651,
			High: 0.9786, N: 30, Least: 0.91, Median: 0.9713, P99: 1.031, Most: 1.04, Bar: least(0.95)},
		{Drill: "overhead", Name: "Gbit per CPU-second, steered against native", Unit: "ratio", Value: 0.9487, Low: 0.9411,
			High: 0.9571, N: 30, Least: 0.88, Median: 0.9487, P99: 1.01, Most: 1.02, Bar: least(0.95),
			Note: "both ends on two CPUs that also run the agents"},
		{Drill: "blackhole", Name: "median stall, both directions", Unit: "s", Value: 0.0471, Low: 0.0446, High: 0.0502,
			N: 60, Least: 0.031, Median: 0.0471, P99: 0.221, Most: 0.227, Bar: most(0.06)},
		{Drill: "blackhole", Name: "99th percentile of the stall, both directions", Unit: "s", Value: 0.2500004, Low: 0.21,
			High: 0.2503, N: 60, Least: 0.031, Median: 0.0471, P99: 0.2500004, Most: 0.2503, Bar: most(0.25)},
		{Drill: "blackhole", Name: "median stall with MPTCP", Unit: "s", Value: 0.251, Low: 0.248, High: 0.263, N: 20,
			Least: 0.206, Median: 0.251, P99: 0.406, Most: 0.408},
		{Drill: "schedules", Name: "achieved of the best in hindsight", Unit: "share", Value: 0.981, Low: 0.974, High: 0.986,
			N: 12, Least: 0.962, Median: 0.983, P99: 0.99, Most: 0.991, Bar: least(0.97)},
		{Drill: "peers", Name: "agent's memory with 50 active hosts", Unit: "B", Value: 41 << 20, Low: 41 << 20,
			High: 41 << 20, N: 1, Bar: most(64 << 20)},
		{Drill: "quiet", Name: "false switches in an hour", Unit: "count", Bar: most(0), Note: "nothing was measured"},
	} {
		out = append(out, SteeringFigure{Figure: f})
	}
	return out
}

func madeSteering() SteeringInput {
	return SteeringInput{
		Name: "made-up steering", Dir: "results/steering", Started: time.Date(2026, 11, 22, 3, 10, 0, 0, time.UTC),
		Took: 38*time.Minute + 12*time.Second, Seed: 20261122,
		Method: []SteeringFact{
			{"Traffic", "pathwise generate stream, TCP, goodput as the receiving application read it, in steps of 50 ms; four runs of 90 s one after another in random order."},
			{"Faults", "Rate limit: token bucket at the underlay's port. Black hole: an nftables rule in the underlay drops the network's packets in both directions."},
		},
		Versions: map[string]string{"pathwise": "v0.3.0-12-gabcdef0", "go": "go1.26.8", "kernel": "6.18.0-made-up"},
		Machine:  madeMachine(), Experiment: madeDrills,
		Warnings: []sample.Warning{{Gate: "busy", Text: "the machine was 12 % busy before the first run </script>"}},
		Scripts:  []SteeringScript{madeDemo(50 * time.Millisecond)}, Figures: madeFigures(),
	}
}

const madeDrills = `name: made-up steering # </script><b>not markup</b>
networks: [routed-bgp, vxlan, macvlan]
drills: [switch, {drill: blackhole, repetitions: 60}, demo]
`

// steeringFixtures are the inputs that every rendering must bear, by name.
func steeringFixtures() map[string]SteeringInput {
	demo := madeSteering()
	small := SteeringInput{Name: "small", Seed: 7, Scripts: []SteeringScript{madeDemo(500 * time.Millisecond)}}
	odd := madeDemo(time.Second)
	odd.Name, odd.Runs[0].Note = `odd <b>"script"</b>`, "values are missing from 10 s to 30 s"
	for i := range odd.Runs[0].Points {
		if i >= 10 && i < 30 && i != 20 || i == 80 {
			odd.Runs[0].Points[i].Value = math.NaN()
		}
	}
	odd.Runs[1].Points[3].Value = math.Inf(1)
	odd.Runs[3].Points = append(odd.Runs[3].Points[:50:50], odd.Runs[3].Points[58:]...)
	odd.Runs[2] = SteeringRun{Name: "vxlan", Note: "failed: iperf3: </script>connection refused"}
	odd.Phases = append(odd.Phases, SteeringPhase{"ends before it begins", "surprise", 50 * time.Second, 45 * time.Second})
	odd.Events = append(odd.Events, SteeringEvent{At: time.Hour, Kind: "switch", From: "x", To: "y"},
		SteeringEvent{ID: 99, Of: 98, Kind: "outcome", Reason: "of nothing"})
	odd.Shares = []SteeringShare{{0, nil}, {time.Second, map[string]float64{"z": -4, "vxlan": 0}}}
	nan := SteeringFigure{Figure: figure.Figure{Drill: "odd", Name: "not a number", Unit: "s", Value: math.NaN(),
		Low: math.NaN(), High: math.Inf(1), N: 3, Bar: &figure.Bar{Limit: 1}}}
	huge := madeDemo(5 * time.Millisecond)
	huge.Name, huge.Lower, huge.Quantity, huge.Unit = "huge", true, "latency", "s"
	for i := range huge.Runs {
		for j, p := range huge.Runs[i].Points {
			huge.Runs[i].Points[j].Value = 1e4 / max(p.Value, 1e6)
		}
	}
	for i := range 6000 {
		on := []string{"routed-bgp", "vxlan", "macvlan"}
		t := time.Duration(i) * 15 * time.Millisecond
		huge.Events = append(huge.Events, SteeringEvent{ID: 100 + i, At: t, Host: "node1", Kind: "switch", From: on[i%3],
			To: on[(i+1)%3], By: "user"})
		huge.Shares = append(huge.Shares, SteeringShare{t, map[string]float64{on[i%3]: 32, on[(i+1)%3]: 32}})
	}
	one := SteeringScript{Name: "one", Unit: "1/s",
		Runs: []SteeringRun{madeRun("steered", true, time.Second, 12, func(float64) float64 { return 0.02 })}}
	return map[string]SteeringInput{
		"demo": demo, "small": small, "zero": {}, "one": {Scripts: []SteeringScript{one}},
		"odd": {Incomplete: "incomplete: 3 of 4 runs", Scripts: []SteeringScript{odd, {Name: "empty"}},
			Figures: []SteeringFigure{nan}},
		"huge": {Name: "huge", Scripts: []SteeringScript{huge}},
	}
}
