package report

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Test data: invented networks on an invented machine. Nothing here was measured.

// made describes an invented network by how it compares with host.
type made struct {
	name string
	// speed and delay are factors, noise a coefficient of variation.
	speed, delay, noise float64
}

func madeNetworks() []made {
	return []made{
		{"host", 1, 1, 0.01}, {"bridge", 0.86, 1.25, 0.02}, {"macvlan", 0.97, 1.06, 0.015},
		{"ipvlan-l2", 0.965, 1.07, 0.02}, {"vxlan", 0.55, 1.6, 0.03}, {"flannel-vxlan", 0.53, 1.65, 0.06},
		{"calico-bgp", 0.82, 1.3, 0.02}, {"ovn-geneve", 0.48, 1.9, 0.2}, {"slirp", 0.04, 9, 0.3},
	}
}

// madePlan is what an invented experiment asks.
type madePlan struct {
	networks  []made
	questions []sample.Question
	reps      int
	// fail returns the status of a trial and why; "" is OK.
	fail func(c sample.Cell, rep int) (sample.Status, string)
}

func question1(workload string, place topo.Placement, pairs int, l sample.Load) sample.Question {
	return sample.Question{Scenario: topo.Scenario{Placement: place, Pairs: pairs, MTU: 1500}, Workload: workload, Load: l}
}

// fullPlan has every workload, several loads, failures and warnings.
func fullPlan() madePlan {
	p := madePlan{networks: madeNetworks(), reps: 5}
	for _, place := range topo.Placements() {
		for _, c := range []int{1, 8, 64} {
			p.questions = append(p.questions, question1("tcp-stream", place, 1, sample.Load{Connections: c}))
		}
		for _, s := range []int{64, 1024, 16384} {
			p.questions = append(p.questions, question1("tcp-latency", place, 1, sample.Load{Connections: 1, Size: s}))
		}
		p.questions = append(p.questions, question1("udp-stream", place, 1, sample.Load{Rate: 2e8}))
	}
	p.questions = append(p.questions, question1("startup", topo.TwoHosts, 1, sample.Load{}))
	p.fail = func(c sample.Cell, rep int) (sample.Status, string) {
		switch {
		case c.Network == "slirp" && c.Scenario.Placement == topo.TwoHosts:
			return sample.Unsupported, "slirp has no route between hosts"
		case c.Network == "ovn-geneve" && rep == 3:
			return sample.Failed, "ovn-controller did not answer within 20s: exit status 1: ovs-vsctl: unix:/run/ovs/db.sock: database connection failed (No such file or directory)"
		case c.Network == "calico-bgp" && c.Workload == "udp-stream":
			return sample.Invalid, "device: 3 of 1200 MB crossed the claimed device"
		}
		return sample.OK, ""
	}
	return p
}

// results plays the plan: the same plan gives the same trials.
func (p madePlan) results() sample.Results {
	out := sample.Results{Header: sample.Header{
		Format: sample.Format, Version: sample.Version, Experiment: "made-up", Seed: 20261121,
		Planned: len(p.networks) * len(p.questions) * p.reps,
	}}
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for rep := 1; rep <= p.reps; rep++ {
		for _, q := range p.questions {
			for _, n := range p.networks {
				c := sample.Cell{Network: n.name, Scenario: q.Scenario, Workload: q.Workload, Load: q.Load}
				t := n.trial(c, rep)
				t.Order = len(out.Trials) + 1
				t.Started = start.Add(time.Duration(t.Order) * 14 * time.Second)
				if p.fail != nil {
					t.Status, t.Reason = p.fail(c, rep)
				}
				if t.Status != sample.OK {
					t.Metrics, t.Latency, t.CPU, t.Warnings = nil, nil, nil, nil
				}
				out.Trials = append(out.Trials, t)
			}
		}
	}
	out.Footer = &sample.Footer{Trials: len(out.Trials), Wall: float64(len(out.Trials)) * 14}
	return out
}

func (n made) trial(c sample.Cell, rep int) sample.Trial {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", c, rep)
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	wobble := math.Exp(r.NormFloat64() * n.noise)
	t := sample.Trial{
		Cell: c, Repetition: rep, Status: sample.OK, Kernel: "host",
		Phases: sample.Phases{Build: 0.8 * n.delay, Ready: 0.3 * n.delay * n.delay, Warmup: 1, Window: 10, Teardown: 0.5,
			Total: 13 + n.delay},
	}
	switch c.Workload {
	case "tcp-stream", "udp-stream":
		n.stream(&t, wobble, r)
	case "startup":
		total := 0.12 * n.delay * wobble
		t.Metrics = map[string]float64{sample.Startup: total, sample.StartupNetwork: total * 0.6}
	default:
		n.roundTrips(&t, wobble, r)
	}
	return t
}

func (n made) stream(t *sample.Trial, wobble float64, r *rand.Rand) {
	conns := float64(max(t.Load.Connections, 1)) * float64(t.Scenario.Pairs)
	bits := 22e9 * n.speed * wobble * math.Pow(conns, 0.25) / (1 + conns/160)
	if t.Scenario.Placement == topo.TwoHosts {
		bits *= 0.7
	}
	t.Metrics = map[string]float64{sample.Retransmits: 40 * (1 - n.speed) * wobble}
	if t.Workload == "udp-stream" {
		bits = min(bits, t.Load.Rate*float64(t.Scenario.Pairs))
		t.Metrics = map[string]float64{sample.Jitter: 4e-6 * n.delay * wobble, sample.Loss: 0.001 * (1 - n.speed) * wobble}
	}
	gb := bits * t.Phases.Window / 8e9
	t.Metrics[sample.Throughput] = bits
	t.Metrics[sample.CPUPerGB] = 0.5 / n.speed * wobble
	t.CPU = madeCPU(t.Metrics[sample.CPUPerGB] * gb)
	if n.name == "flannel-vxlan" && conns > 1 {
		t.Warnings = []sample.Warning{
			{Gate: "cpu-saturated", Text: "the busiest CPU was 97 % busy: the machine, not the network, may be the limit"}}
	}
}

func (n made) roundTrips(t *sample.Trial, wobble float64, r *rand.Rand) {
	t.Latency = sample.NewHistogram()
	base := 28 * n.delay * wobble * (1 + float64(t.Load.Size)/20000)
	for range 5000 {
		us := base * math.Exp(r.NormFloat64()*0.12)
		if r.Float64() < 0.004*n.delay {
			us *= 4 + 20*r.Float64()
		}
		t.Latency.Record(time.Duration(us * 1000))
	}
	t.Metrics = map[string]float64{
		sample.Rate: 1 / t.Latency.Mean(), sample.LatencyMean: t.Latency.Mean(), sample.LatencyP50: t.Latency.Percentile(50),
		sample.LatencyP99: t.Latency.Percentile(99), sample.LatencyP999: t.Latency.Percentile(99.9),
		sample.CPUPerKop: 0.031 * n.delay * wobble,
	}
	t.CPU = madeCPU(t.Metrics[sample.CPUPerKop] * t.Metrics[sample.Rate] * t.Phases.Window / 1000)
}

func madeCPU(busy float64) *sample.CPU {
	return &sample.CPU{User: busy * 0.14, System: busy * 0.51, SoftIRQ: busy * 0.33, IRQ: busy * 0.02, Steal: 0.01,
		Idle: max(40-busy, 0), Cores: 4}
}

// fixtures are the inputs that every format must bear, by name. They are made once, as
// their histograms take half a second; a test may change the trials that it gets.
func fixtures() map[string]Input {
	out := maps.Clone(madeOnce())
	for name, in := range out {
		in.Results.Trials = slices.Clone(in.Results.Trials)
		out[name] = in
	}
	return out
}

var madeOnce = sync.OnceValue(makeFixtures)

func makeFixtures() map[string]Input {
	full := Input{Name: "made-up", Dir: "results/made-up", Results: fullPlan().results(), Machine: madeMachine(),
		Experiment: madeYAML}
	one := fullPlan()
	one.networks, one.questions = one.networks[1:2], one.questions[:1]
	failed := fullPlan()
	failed.networks, failed.questions, failed.reps = failed.networks[:3], failed.questions[:1], 2
	failed.fail = func(sample.Cell, int) (sample.Status, string) {
		return sample.Failed, `iperf3: error - unable to connect to server: <script>alert("x")</script> Connection refused`
	}
	tiny := smallPlan()
	tiny.networks, tiny.questions, tiny.reps = []made{tiny.networks[0], tiny.networks[1], tiny.networks[4]},
		tiny.questions[:1], 2
	zero := sample.Results{Header: sample.Header{Experiment: "made-up", Seed: 7, Planned: 120}}
	half := fullPlan().results()
	half.Trials, half.Footer = half.Trials[:150], nil
	half.Header.Warnings = []sample.Warning{{Gate: "busy", Text: "the machine was 31 % busy before the first trial"}}
	for _, network := range []string{"vxlan", "slirp", "ovn-geneve"} {
		full.Results.Footer.Warnings = append(full.Results.Footer.Warnings,
			sample.Warning{Gate: "wide", Text: network + ": interval ±12 % after 5 repetitions (wanted ±5 %)"})
	}
	return map[string]Input{
		"full": full, "half": {Results: half, Dir: "results/half"},
		"one": {Results: one.results()}, "failed": {Results: failed.results()}, "zero": {Results: zero},
		"many": {Results: manyPlan().results()}, "small": {Results: smallPlan().results()}, "tiny": {Results: tiny.results()},
		"claims": {Results: smallPlan().results(), Claims: madeClaims()}, "explained": explained(),
	}
}

// smallPlan is short enough for golden files.
func smallPlan() madePlan {
	p := fullPlan()
	p.networks, p.reps = p.networks[:5], 3
	p.questions = []sample.Question{
		question1("tcp-stream", topo.TwoHosts, 1, sample.Load{Connections: 1}),
		question1("tcp-stream", topo.TwoHosts, 1, sample.Load{Connections: 8}),
		question1("tcp-latency", topo.TwoHosts, 1, sample.Load{Connections: 1, Size: 64}),
	}
	p.fail = func(c sample.Cell, rep int) (sample.Status, string) {
		switch {
		case c.Network == "vxlan":
			return sample.Failed, "vxlan: add device: operation not supported"
		case c.Network == "bridge" && rep == 2:
			return sample.Invalid, "device: no traffic crossed br0"
		}
		return sample.OK, ""
	}
	return p
}

// manyPlan has more networks than colours and up to 128 pairs.
func manyPlan() madePlan {
	p := madePlan{reps: 3}
	for i := range 24 {
		f := float64(i)
		p.networks = append(p.networks, made{fmt.Sprintf("net-%02d-with-a-name", i), 1 - f*0.03, 1 + f*0.1, 0.02})
	}
	p.networks[0].name = "host"
	for _, pairs := range []int{1, 4, 16, 64, 128} {
		p.questions = append(p.questions,
			question1("tcp-stream", topo.OneHost, pairs, sample.Load{Connections: 1}),
			question1("tcp-latency", topo.OneHost, pairs, sample.Load{Connections: 1, Size: 64}))
	}
	p.fail = func(c sample.Cell, _ int) (sample.Status, string) {
		if c.Network == "net-05-with-a-name" && c.Scenario.Pairs > 16 {
			return sample.Failed, "no address left in 10.77.1.0/24"
		}
		return sample.OK, ""
	}
	return p
}

func madeMachine() map[string]any {
	return map[string]any{
		"cpu":      map[string]any{"model": "Invented 9000", "cores": 4.0, "governor": "performance"},
		"kernel":   "6.18.0-made-up",
		"memory":   17179869184.0,
		"programs": map[string]any{"iperf3": "3.12", "flanneld": nil},
		"sysctl":   map[string]any{"net.core.rmem_max": "212992", "net.ipv4.tcp_congestion_control": "cubic"},
		"warnings": []any{"turbo is on", "no </script> isolation"},
	}
}

const madeYAML = `name: made-up
networks: [host, bridge, macvlan] # </script><b>not markup</b>
repetitions: 5
`
