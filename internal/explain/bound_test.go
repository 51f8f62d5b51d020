package explain

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
)

// full and half are two cores without idle time, and one of two.
func full() (Modes, []Modes) {
	m := Modes{User: 0.05, System: 0.55, SoftIRQ: 0.4}
	return m, []Modes{m, m}
}

func situation(change func(*Situation)) Situation {
	s := Situation{Account: Account{Cell: sample.Cell{Network: "net"}, Unit: PerGB, Lab: 1, Samples: 1000}}
	s.Machine, s.Cores = full()
	s.Stages = []Cost{{"copy", 0.3, 0.3}, {"transport", 0.28, 0.28}, {"device", 0.22, 0.22}, {Sampling, 0.1, 0.1},
		{"ip", 0.1, 0.1}}
	base := Account{Cell: sample.Cell{Network: "host"}, Unit: PerGB, Lab: 0.5, Samples: 1000,
		Stages: []Cost{{"copy", 0.5, 0.25}, {"transport", 0.5, 0.25}}, Uplink: &Packets{Size: 48000}}
	s.Baseline = &base
	s.Uplink = &Packets{Size: 44000, Segments: 30.4}
	change(&s)
	return s
}

func TestBound(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Situation)
		want   Bound
		says   string
	}{
		"nothing is conspicuous": {func(*Situation) {}, ByCPU,
			"net: bound by the CPU: 2 cores have no time left (0 % idle); 1 CPU-s per GB, 2 times host's: copy 30 %, transport 28 %, device 22 %, " +
				"and most of what it adds is device (0.22); packets of 44 kB on average (30.4 segments each) against 48 kB."},
		"the baseline itself": {func(s *Situation) { s.Network, s.Lab = "host", 0.5 }, ByCPU, "0.5 CPU-s per GB: copy 30 %"},
		"all that was offered": {func(s *Situation) {
			s.Offered, s.Got, s.Machine = 300e6, 299e6, Modes{Idle: 0.8}
		}, ByRate, "300 Mbit/s"},
		"a rate that does not come through": {func(s *Situation) { s.Offered, s.Got = 300e6, 200e6 }, ByCPU, "no time left"},
		"the generator": {func(s *Situation) { s.GeneratorUser = 0.97 }, ByGenerator,
			"spent 97 % of its time in user mode"},
		"one core in softirq": {func(s *Situation) {
			s.Machine = Modes{System: 0.1, SoftIRQ: 0.48, Idle: 0.42}
			s.Cores = []Modes{{System: 0.2, Idle: 0.8}, {System: 0.03, SoftIRQ: 0.94, Idle: 0.03}}
		}, ByOneCore, "core 1 spent 94 % of its time there, while 42 % of the machine was idle"},
		"one core, not in softirq": {func(s *Situation) {
			s.Machine = Modes{System: 0.55, Idle: 0.45}
			s.Cores = []Modes{{System: 0.97, Idle: 0.03}, {System: 0.13, Idle: 0.87}}
		}, ByOneTask, "core 0, which was full (user 0 %, system 97 %, softirq 0 %)"},
		"tunnels": {func(s *Situation) {
			s.Tunnels = 0.15
			s.Stages = append(s.Stages, Cost{Encapsulation, 0.05, 0.05}, Cost{Decapsulation, 0.03, 0.03})
		}, ByTunnel, "15 % of the lab's time went into tunnels and what they call (8.0 % in their own functions)"},
		"tunnels that cost no more than the baseline": {func(s *Situation) { s.Tunnels, s.Lab = 0.15, 0.51 }, ByCPU,
			"no time left"},
		"encryption": {func(s *Situation) { s.Stages = append(s.Stages, Cost{Crypto, 0.5, 0.5}) }, ByCrypto,
			"50 % of the lab's time went there"},
		"a user-space datapath": {func(s *Situation) { s.Stages = append(s.Stages, Cost{Datapath, 0.6, 0.6}) }, ByDatapath,
			"60 % of the lab's time"},
		"small packets": {func(s *Situation) { s.Uplink.Size = 1500 }, ByPackets,
			"packets of 1.5 kB on average (30.4 segments each) against 48 kB"},
		"waiting": {func(s *Situation) {
			s.Machine, s.Cores = Modes{System: 0.3, Idle: 0.7}, []Modes{{System: 0.4, Idle: 0.6}, {System: 0.2, Idle: 0.8}}
		}, ByWaiting, "70 % of the machine was idle, and no core was full (the fullest 40 %)"},
		"not sampled, by core": {func(s *Situation) { s.Missing, s.Stages, s.Uplink = "no perf events", nil, nil },
			ByCPU, "user 5.0 %, system 55 %, softirq 40 %."},
		"not sampled, the machine alone": {func(s *Situation) { s.Missing, s.Stages, s.Cores = NotSampled, nil, nil },
			Unknown, "what each core did is not known"},
		"a core that others filled": {func(s *Situation) {
			s.Others, s.Machine = 0.5, Modes{User: 0.5, System: 0.2, Idle: 0.3}
			s.Cores, s.LabCores = []Modes{{User: 0.99, Idle: 0.01}, {System: 0.4, Idle: 0.6}}, []float64{0, 0.4}
		}, ByWaiting, "not bound by CPU"},
		"a core that the lab filled, another others": {func(s *Situation) {
			s.Others, s.Machine = 0.4, Modes{User: 0.4, System: 0.5, Idle: 0.1}
			s.Cores, s.LabCores = []Modes{{User: 1}, {System: 0.98, Idle: 0.02}, {Idle: 1}}, []float64{0, 0.98, 0}
		}, ByOneTask, "bound by core 1"},
		"one core in the machine": {func(s *Situation) { s.Cores = s.Cores[:1] }, ByCPU, "the one core has no time left"},
		"other programs": {func(s *Situation) { s.Others, s.LabShare = 0.41, 0.57 }, ByOthers,
			"net: cannot be told on this busy machine: programs outside the lab took 41 % of it, the lab 57 %; measure again while it is idle; 1 CPU-s"},
		"the kernel's own threads": {func(s *Situation) { s.Outside, s.Others = 0.41, 0.01 }, ByCPU, "no time left"},
		"programs alongside a guest": {func(s *Situation) { s.Limits.Host = &Host{Others: 0.6, Idle: 0.02} }, ByOthers,
			"programs alongside the guest took 60 % of its host"},
		"programs alongside a guest on a host with time left": {func(s *Situation) {
			s.Limits.Host = &Host{Others: 0.3,
				Idle: 0.4}
		}, ByCPU, "no time left"},
		"other guests": {func(s *Situation) { s.Machine.Steal = 0.2 }, ByOthers,
			"its hypervisor gave 20 % of it to others"},
		"rules": {func(s *Situation) { s.Stages = append(s.Stages, Cost{Netfilter, 0.7, 0.7}) },
			ByNetfilter, "70 % of the lab's time went there"},
		"another unit than the baseline": {func(s *Situation) { s.Unit = PerKop }, ByCPU, "1 CPU-s per 1000 ops: copy"},
	} {
		t.Run(name, func(t *testing.T) {
			got, text := situation(tc.change).Bound()
			if got != tc.want || !strings.Contains(text, tc.says) {
				t.Errorf("got %s, %q\nwant %s, %q", got, text, tc.want, tc.says)
			}
		})
	}
}
