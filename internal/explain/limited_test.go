package explain

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
)

// idle and loaded are a machine with time left, and one whose time other programs took.
func idle(s *Situation) {
	s.Machine, s.Cores = Modes{System: 0.2, Idle: 0.8}, []Modes{{System: 0.3, Idle: 0.7}, {System: 0.1, Idle: 0.9}}
	s.LabCores = []float64{0.3, 0.1}
}

func loaded(s *Situation) {
	s.Machine, s.Cores = Modes{User: 0.7, System: 0.3}, []Modes{{User: 0.7, System: 0.3}, {User: 0.7, System: 0.3}}
	s.LabCores, s.Others, s.Contended, s.LabShare = []float64{0.3, 0.3}, 0.7, 0.7, 0.3
}

// working is a machine whose time the lab itself took.
func working(*Situation) {}

// tcp is a cell of a stream that nothing limits: 100 MB in two seconds.
func tcp(s *Situation) {
	s.Watched, s.Trials, s.Bytes, s.Passed = true, 1, 1e8, 10000
	s.Streams = &Streams{Connections: 1, Seconds: 2, Busy: 2, Segments: 70000, RTT: 300e-6, MinRTT: 20e-6, Send: 4e6,
		Receive: 6e6, Fill: 0.001, MostFill: 0.001, BufferFill: 0.001, MostBuffer: 0.001, Rate: 4e8}
}

// queue lets through a part of its rate.
func queue(kind string, use float64) Queue {
	return Queue{Kind: kind, Handle: "1:10", Place: ServerHost, Dev: "veth7", Rate: 4e8 / use, Seconds: 2, Bytes: 1e8,
		Packets: 10000, Over: 3000, Dropped: 20}
}

func TestLimits(t *testing.T) {
	type verdict struct {
		bound Bound
		says  string
	}
	busy := verdict{ByOthers, "cannot be told on this busy machine"}
	waiting := verdict{ByWaiting, "or a limit of the network that has no counter"}
	cpu := verdict{ByCPU, "no time left"}
	for name, tc := range map[string]struct {
		change                func(*Situation)
		idle, loaded, working verdict
	}{
		"nothing": {func(*Situation) {}, waiting, busy, cpu},
		"HTB": {func(s *Situation) { s.Limits.Queues = []Queue{queue("htb", 0.97)} },
			verdict{ByShaper, "bound by the rate of a queue: htb 1:10 on veth7 of the server's host let through 97 % of its 412 Mbit/s, held packets back 3000 times and dropped 20"},
			verdict{ByShaper, "programs outside the lab took 70 % of the machine"}, verdict{ByShaper, "htb"}},
		"TBF of each pod": {func(s *Situation) {
			q := queue("tbf", 0.9)
			q.Bytes, q.Rate = q.Bytes/2, q.Rate/2
			s.Limits.Queues = []Queue{q, q}
		}, verdict{ByShaper, "and so did 1 more"}, verdict{ByShaper, "tbf"}, verdict{ByShaper, "tbf"}},
		"TBF whose sender had no CPU": {func(s *Situation) { s.Limits.Queues = []Queue{queue("tbf", 0.6)} },
			verdict{ByShaper, "whose drops TCP gives way to: tbf"},
			verdict{ByOthers, "(seen: tbf 1:10 on veth7 of the server's host let through 60 %"}, cpu},
		"a queue far below its rate": {func(s *Situation) {
			q := queue("htb", 0.1)
			q.Dropped = 0
			s.Limits.Queues = []Queue{q}
		}, waiting, busy, cpu},
		"a queue at its rate by chance": {func(s *Situation) {
			q := queue("htb", 0.97)
			q.Over, q.Dropped = 0, 0
			s.Limits.Queues = []Queue{q}
		}, waiting, busy, cpu},
		"a queue that others' packets pass": {func(s *Situation) {
			q := queue("htb", 0.97)
			q.Bytes, q.Rate, q.Dropped = q.Bytes/10, q.Rate/10, 0
			s.Limits.Queues = []Queue{q}
		}, waiting, busy, cpu},
		"a queue of a kind with an unknown rate": {func(s *Situation) {
			q := queue("cake", 1)
			q.Rate = 0
			s.Limits.Queues = []Queue{q}
		}, verdict{ByShaper, "bound by a queue: cake 1:10"}, busy, cpu},
		"netem with a rate, which counts nothing": {func(s *Situation) {
			q := queue("netem", 0.95)
			q.Over, q.Dropped = 0, 0
			s.Limits.Queues = []Queue{q}
		}, verdict{ByShaper, "netem"}, verdict{ByShaper, ""}, verdict{ByShaper, ""}},
		"netem that loses": {func(s *Situation) {
			q := queue("netem", 1)
			q.Rate, q.Over, q.Dropped = 0, 0, 40
			s.Limits.Queues = []Queue{q}
		}, verdict{ByLoss, "bound by loss: netem 1:10 on veth7 of the server's host dropped 0.4 % of the packets (40)"},
			verdict{ByOthers, "seen: netem"}, cpu},
		"a rate for each flow": {func(s *Situation) {
			q := queue("fq", 1)
			q.Rate, q.FlowRate, q.Over, q.Dropped, s.Streams.Connections = 0, 1e8, 0, 0, 4
			s.Limits.Queues = []Queue{q}
		}, verdict{ByShaper, "fq 1:10 on veth7 of the server's host lets 100 Mbit/s through, and connections had 100 Mbit/s"},
			verdict{ByShaper, ""}, verdict{ByShaper, ""}},
		"a rate for each flow that flows do not have": {func(s *Situation) {
			q := queue("fq", 1)
			q.Rate, q.FlowRate, q.Over, q.Dropped = 0, 1e9, 0, 0
			s.Limits.Queues = []Queue{q}
		}, waiting, busy, cpu},
		"a policer of tc": {func(s *Situation) {
			s.Limits.Policers = []Policer{{Index: 3, Place: Client, Rate: 5e8, Packets: 10000, Over: 300, Dropped: 300}}
		}, verdict{ByPolicer,
			"tc's action police 3 in the client pod dropped 3.0 % of its packets (300), those over 500 Mbit/s"}, verdict{ByPolicer, ""}, verdict{ByPolicer, ""}},
		"a policer that drops nothing": {func(s *Situation) {
			s.Limits.Policers = []Policer{{Index: 3, Place: Client, Rate: 5e8, Packets: 10000}}
		}, waiting, busy, cpu},
		"a limit of nftables": {func(s *Situation) {
			s.Limits.Drops = []Drop{{"netfilter_drop", Server, 400}, {"tcp_old_data", Server, 9000}}
		}, verdict{ByPolicer,
			"a rule of netfilter (nftables, iptables) dropped 3.8 % of the packets (400) in the server pod"}, verdict{ByPolicer, ""}, verdict{ByPolicer, ""}},
		"a few packets that a rule drops": {func(s *Situation) { s.Limits.Drops = []Drop{{"netfilter_drop", Server, 4}} },
			waiting, busy, cpu},
		"some packets that a rule drops": {func(s *Situation) { s.Limits.Drops = []Drop{{"netfilter_drop", Server, 40}} },
			verdict{ByLoss, "netfilter"}, verdict{ByOthers, "seen: a rule of netfilter"}, cpu},
		"drops elsewhere": {func(s *Situation) { s.Limits.Drops = []Drop{{"netfilter_drop", Outside, 4000}} }, waiting,
			busy, cpu},
		"an eBPF program that drops": {func(s *Situation) { s.Limits.Drops = []Drop{{"tc_egress", Client, 400}} },
			verdict{ByPolicer, "a filter or eBPF program of tc or XDP"}, verdict{ByPolicer, ""}, verdict{ByPolicer, ""}},
		"a small window": {func(s *Situation) {
			s.Streams.ByWindow, s.Streams.Fill, s.Streams.MostFill, s.Streams.Receive = 1.9, 0.4, 0.4, 16384
		}, verdict{ByWindow, "for 95 % of the time that connections had data to send, a receive buffer of 16.4 kB kept them from it (least round trip 20 us)"},
			verdict{ByWindow, ""}, verdict{ByWindow, ""}},
		"a window that has not grown": {func(s *Situation) { s.Streams.ByWindow, s.Streams.Fill = 1.9, 0.4 },
			verdict{ByWindow, ""}, verdict{ByOthers, "receivers' windows kept connections from sending for 95 % of the time"}, cpu},
		"a slow reader": {func(s *Situation) { s.Streams.ByWindow = 1.9 }, verdict{ByReader, "full buffer of 6 MB"},
			busy, cpu},
		"a small send buffer": {func(s *Situation) {
			s.Streams.ByBuffer, s.Streams.BufferFill, s.Streams.MostBuffer, s.Streams.Send = 1.5, 0.3, 0.3, 8192
		}, verdict{ByBuffer, "a send buffer of 8.19 kB kept them from it"}, verdict{ByBuffer, ""}, verdict{ByBuffer, ""}},
		"a send buffer below the congestion window": {func(s *Situation) {
			s.Streams.MostBuffer, s.Streams.Send, s.Streams.Congestion = 0.3, 8192, 14480
		}, verdict{ByBuffer, "it holds 8.19 kB, less than the congestion window of 14.5 kB, and 30 % of it came through in each least round trip (20 us)"},
			verdict{ByBuffer, ""}, verdict{ByBuffer, ""}},
		"a send buffer of which more was under way": {func(s *Situation) {
			s.Streams.MostBuffer, s.Streams.BufferFill, s.Streams.Send, s.Streams.Congestion = 10, 10, 65536, 4e6
		}, waiting, busy, cpu},
		"a stray packet": {func(s *Situation) { s.Passed, s.Limits.Drops = 20, []Drop{{"netfilter_drop", Server, 1}} },
			waiting, busy, cpu},
		"a large send buffer below the congestion window": {func(s *Situation) { s.Streams.Congestion = 2e7 }, waiting,
			busy, cpu},
		"overflowing sockets": {func(s *Situation) {
			s.Streams, s.Limits.Datagrams = nil, []Datagram{{Server, 9000, 1000}}
		}, verdict{ByOverflow, "no room for 10 % of the datagrams that came (1000)"},
			verdict{ByOthers, "no room for 10 %"}, cpu},
		"more datagrams without room than a program drops": {func(s *Situation) {
			s.Streams, s.Limits.Datagrams, s.Limits.Drops = nil, []Datagram{{Server, 9000, 1000}},
				[]Drop{{"tc_ingress", Server, 400}}
		}, verdict{ByOverflow, "no room for 10 %"}, busy, cpu},
		"loss that nobody counts": {func(s *Situation) { s.Streams.Again = 700 },
			verdict{ByLoss, "TCP sent 1.0 % of its segments again (700), and no counter"}, busy, cpu},
		"the generator pauses": {func(s *Situation) { s.Streams.Busy = 0.4 },
			verdict{ByPauses, "nothing to send for 80 % of the time"}, busy, cpu},
		"work that goes from core to core": {func(s *Situation) {
			if s.Others == 0 && s.Machine.Idle > 0 {
				s.Machine, s.Cores = Modes{System: 0.3, SoftIRQ: 0.45, Idle: 0.25},
					[]Modes{{System: 0.3, SoftIRQ: 0.42, Idle: 0.28}, {System: 0.3, SoftIRQ: 0.48, Idle: 0.22}}
				s.LabCores = []float64{0.7, 0.7}
			}
		}, verdict{BySerial, "the lab kept 1.4 cores of 2 busy, now one and now another (25 % of the machine was idle)"}, busy, cpu},
		"round trips of which every part is work": {func(s *Situation) {
			s.Streams, s.Unit = nil, PerKop
			if s.Others == 0 && s.Machine.Idle > 0 {
				s.LabCores = []float64{0.49, 0.49}
			}
		}, verdict{BySerial, "the lab kept 0.98 cores of 2 busy"}, busy, cpu},
		"round trips of many, for whom that is little": {func(s *Situation) {
			s.Streams, s.Unit, s.Load.Connections = nil, PerKop, 8
			if s.Others == 0 && s.Machine.Idle > 0 {
				s.LabCores = []float64{0.49, 0.49}
			}
		}, waiting, busy, cpu},
		"a rate that came through": {func(s *Situation) { s.Offered, s.Got = 4e8, 3.99e8 },
			verdict{ByRate, "bound by the rate offered, not by the network: 399 Mbit/s of 400 Mbit/s"}, verdict{ByRate, ""},
			verdict{ByRate, ""}},
		"a rate that did not": {func(s *Situation) { s.Offered, s.Got = 4e8, 2e8 }, waiting,
			verdict{ByOthers, "200 Mbit/s of the 400 Mbit/s offered came through"}, cpu},
		"a rate of operations": {func(s *Situation) { s.Offered, s.Got, s.PerSecond = 2000, 1990, true },
			verdict{ByRate, "1990 operations/s of 2000 operations/s"}, verdict{ByRate, ""}, verdict{ByRate, ""}},
		"paced sockets": {func(s *Situation) { s.Streams.Pacing = 4.1e8 },
			verdict{ByRate, "400 Mbit/s of the 410 Mbit/s that its sockets are paced at"}, verdict{ByRate, ""},
			verdict{ByRate, ""}},
	} {
		for at, m := range map[string]struct {
			machine func(*Situation)
			want    verdict
		}{"idle": {idle, tc.idle}, "loaded": {loaded, tc.loaded}, "working": {working, tc.working}} {
			t.Run(name+"/"+at, func(t *testing.T) {
				s := situation(func(s *Situation) { tcp(s); m.machine(s); tc.change(s) })
				got, text := s.Bound()
				if got != m.want.bound || !strings.Contains(text, m.want.says) {
					t.Errorf("got %s, %q\nwant %s, %q", got, text, m.want.bound, m.want.says)
				}
			})
		}
	}
}

// TestLimitsOfTrialsAddUp: from profiles to the account.
func TestLimitsOfTrialsAddUp(t *testing.T) {
	table := table(t)
	flow := Flow{Place: Client, Seconds: 2, Bytes: 1e8, Busy: 2, ByWindow: 1, Segments: 1000, Again: 10, RTT: 100e-6,
		MinRTT: 50e-6, Send: 1e6, SendMost: 4e6, Receive: 25e3, ReceiveMost: 25e3}
	talk := Flow{Place: Client, Seconds: 2, Bytes: 100, Busy: 0.01, Receive: 1e5, ReceiveMost: 6e6, MinRTT: 50e-6}
	p := Profile{Record: Record{Cell: sample.Cell{Network: "n"}, Window: 2, Bytes: 1e8,
		Cores:   []sample.CPU{{System: 1, Idle: 1, Cores: 1}},
		Devices: []Device{{Role: PodDevice, Place: Server, Direction: Received, Packets: 5000, Bytes: 1.1e8}},
		Limits: &Limits{Flows: []Flow{flow, talk}, Drops: []Drop{{"netfilter_drop", Server, 7}}, Others: 0.5,
			Unread: []string{"x"}}},
		Stacks: []Stack{
			{Context: User, Place: Outside, Process: "loop", Count: 60},
			{Context: System, Place: Outside, Process: "kworker/0:1",
				Frames: []string{"ret_from_fork_asm", "ret_from_fork", "kthread", "worker_thread"}, Count: 10},
			{Context: System, Place: Client, Process: "iperf3", Frames: []string{"do_syscall_64", "tcp_sendmsg"}, Count: 30},
		}}
	a := Accounts(table, []Profile{p, p})[0]
	if s := a.Streams; s == nil || s.Connections != 2 || s.Busy != 4 || s.ByWindow != 2 || s.Again != 20 ||
		s.MinRTT != 50e-6 || s.Fill != 0.1 || s.MostFill != 0.1 {
		t.Errorf("streams %+v", s)
	}
	if a.Bytes != 2e8 || a.Passed != 10000 || !a.Watched || len(a.Limits.Drops) != 1 || a.Limits.Drops[0].Packets != 14 ||
		len(a.Limits.Unread) != 1 {
		t.Errorf("%+v", a.Limits)
	}
	// the core slept half of the time, unsampled
	if a.Others != 0.3 || a.Contended != 0.3 || a.Outside != 0.7 || len(a.LabCores) != 1 || a.LabCores[0] != 0.15 {
		t.Errorf("others %v, outside %v, contended %v, lab %v", a.Others, a.Outside, a.Contended, a.LabCores)
	}
	p.Stacks, p.Missing = nil, "no perf events"
	if a := Accounts(table, []Profile{p})[0]; a.Others != 0.25 {
		t.Errorf("others %v by processes", a.Others)
	}
	p.Limits = nil
	if a := Accounts(table, []Profile{p})[0]; a.Watched || a.Others != 0 || a.Streams != nil {
		t.Errorf("of an older result: %+v", a)
	}
}
