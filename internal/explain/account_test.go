package explain

import (
	"math"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func cellOf(network string) sample.Cell {
	return sample.Cell{Network: network, Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500},
		Workload: "tcp-stream"}
}

// profileOf is a window of a second on two cores, looked at 100 times each.
func profileOf(network string) Profile {
	frames := func(s string) []string { return strings.Fields(s) }
	return Profile{
		Record: Record{Cell: cellOf(network), Frequency: 100, Window: 1, Bytes: 1e9,
			Cores: []sample.CPU{{User: 0.1, System: 0.6, SoftIRQ: 0.3, Cores: 1}, {System: 0.2, Idle: 0.8, Cores: 1}},
			Devices: []Device{
				{Role: Uplink, Place: ClientHost, Direction: Sent, Packets: 1000, Bytes: 4e7, Segments: 30000,
					Sizes: []uint64{0, 1000}},
				{Role: Uplink, Place: ServerHost, Direction: Sent, Packets: 900, Bytes: 6e4},
				{Role: PodDevice, Place: Server, Direction: Received, Packets: 500, Bytes: 2e7, Segments: 15000},
				{Role: PodDevice, Place: Client, Direction: Received, Packets: 900, Bytes: 6e4},
			}},
		Stacks: []Stack{
			{Context: User, Place: Client, Process: "iperf3", Count: 10},
			{Context: System, Place: Client, Process: "iperf3", Frames: frames("do_syscall_64 tcp_sendmsg _copy_from_iter"),
				Count: 40},
			{Context: SoftIRQ, Place: ClientHost, Process: "iperf3",
				Frames: frames("handle_softirqs br_handle_frame vxlan_xmit ip_local_out"), Count: 30},
			{CPU: 1, Context: SoftIRQ, Place: Server, Process: "iperf3", Frames: frames("handle_softirqs ip_rcv tcp_v4_rcv"),
				Count: 20},
			{CPU: 1, Context: SoftIRQ, Place: Underlay, Process: "iperf3", Frames: frames("handle_softirqs br_handle_frame"),
				Count: 10},
			{CPU: 1, Context: System, Place: Outside, Process: "cc1", Frames: frames("do_syscall_64 mystery"), Count: 10},
			{CPU: 1, Context: Free, Place: Outside, Process: "swapper/1", Frames: frames("do_idle default_idle_call"),
				Count: 80},
		},
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAccounts(t *testing.T) {
	tab := table(t)
	// Two trials of one cell: twice the work in twice the time.
	got := Accounts(tab, []Profile{profileOf("vxlan"), profileOf("vxlan")})
	if len(got) != 1 || got[0].Trials != 2 || got[0].Samples != 400 || got[0].Unit != PerGB {
		t.Fatalf("got %+v", got)
	}
	a := got[0]
	near(t, "lab", a.Lab, 1) // 100 samples of 10 ms, for one GB
	near(t, "lab's share", a.LabShare, 0.5)
	near(t, "outside", a.Outside, 0.05)
	near(t, "tunnels", a.Tunnels, 0.3)
	for s, want := range map[Stage]float64{Generator: 0.1, Copy: 0.4, "ip": 0.3, "transport": 0.2, Bridging: 0,
		Unattributed: 0} {
		near(t, string(s), a.Share(s), want)
	}
	for c, want := range map[Context]float64{User: 0.1, System: 0.4, SoftIRQ: 0.5} {
		near(t, string(c), a.Contexts[c], want)
	}
	near(t, "machine idle", a.Machine.Idle, 0.4)
	near(t, "core 0 in softirq", a.Cores[0].SoftIRQ, 0.3)
	near(t, "client CPU", a.Demand["client"].CPU, 0.4)
	near(t, "client demand", a.Demand["client"].PerKB, 0.8e6/(1e9/1024))
	near(t, "underlay CPU", a.Demand["underlay"].CPU, 0.05)
	near(t, "uplink packets per GB", a.Uplink.PerWork, 1000)
	near(t, "uplink size", a.Uplink.Size, 4e4)
	near(t, "uplink segments", a.Uplink.Segments, 30)
	near(t, "pod packets per GB", a.Pod.PerWork, 500)
	near(t, "size class", a.Uplink.Sizes[1], 1)
	if len(a.Stacks) != 6 || a.Stacks[0].Count != 20 {
		t.Errorf("stacks: %+v", a.Stacks)
	}
}

func TestFind(t *testing.T) {
	tab := table(t)
	unsampled := profileOf("macvlan")
	unsampled.Stacks, unsampled.Missing = nil, "perf events: no such file"
	ok := func(network string) sample.Trial {
		return sample.Trial{Cell: cellOf(network), Status: sample.OK, CPU: &sample.CPU{User: 1, Idle: 1, Cores: 2},
			Metrics: map[string]float64{sample.Throughput: 8e9, sample.CPUPerGB: 2}}
	}
	trials := []sample.Trial{ok("vxlan"), ok("host"), ok("macvlan"), ok("routed"),
		{Cell: cellOf("none"), Status: sample.Failed}}
	got := Find(tab, trials, []Profile{profileOf("vxlan"), profileOf("host"), unsampled}, "host")
	var names []string
	for _, f := range got {
		names = append(names, f.Network)
	}
	if s := strings.Join(names, " "); s != "host macvlan routed vxlan" {
		t.Fatalf("order: %s", s)
	}
	if f := got[1]; f.Missing != unsampled.Missing || f.Pod == nil || len(f.Cores) != 2 {
		t.Errorf("a kernel that cannot be sampled: %+v", f)
	}
	if f := got[2]; f.Missing != NotSampled || f.Lab != 2 || f.Machine.User != 0.5 {
		t.Errorf("a trial that nobody looked into: %+v", f)
	}
	if f := got[3]; !strings.Contains(f.Sentence, "1 times host's") {
		t.Errorf("without the baseline: %s", f.Sentence)
	}
}

func TestScaled(t *testing.T) {
	d := Device{Packets: 1600, Bytes: 1e6}.Scaled(Device{Packets: 100, Segments: 250, Sizes: []uint64{10, 90}})
	if d.Packets != 1600 || d.Segments != 4000 || d.Sizes[1] != 1440 {
		t.Errorf("got %+v", d)
	}
	if d := (Device{Packets: 5}).Scaled(Device{}); d.Packets != 5 || d.Sizes != nil {
		t.Errorf("nothing was looked at: %+v", d)
	}
}

func TestFlame(t *testing.T) {
	frames := Flame(table(t), profileOf("vxlan").Stacks, 0.01)
	if frames[0].Name != "lab" || frames[0].Share != 1 {
		t.Fatalf("got %+v", frames)
	}
	var width float64
	found := false
	for _, f := range frames {
		if f.Depth == 1 {
			width += f.Share
		}
		if f.Name == "vxlan_xmit" {
			found = f.Stage == Encapsulation && math.Abs(f.Share-0.3) < 1e-9
		}
		if f.Name == "cc1" || f.Name == "mystery" {
			t.Errorf("%s is not the lab's", f.Name)
		}
	}
	near(t, "contexts", width, 1)
	if !found {
		t.Errorf("no vxlan_xmit of the right width and colour in %+v", frames)
	}
	if got := Flame(table(t), nil, 0.01); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}
