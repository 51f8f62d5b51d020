package report

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/sample"
)

// explained is the small result as if somebody had looked into its trials on
// host and bridge, into one on macvlan where the kernel cannot be sampled, and
// into none on the others.
func explained() Input {
	in := Input{Results: smallPlan().results(), Dir: "results/explained"}
	table, err := explain.DefaultTable()
	if err != nil {
		panic(err) // it is embedded, and package explain tests it
	}
	profiles := []explain.Profile{madeProfile(in.Results.Trials, "host", 40),
		madeProfile(in.Results.Trials, "bridge", 160)}
	guest := madeProfile(in.Results.Trials, "macvlan", 1)
	guest.Stacks, guest.Missing = nil, "open sampler: sample CPU 0: open perf event: no such file or directory"
	guest.Limits = &explain.Limits{
		Unread: []string{"count dropped packets: load program: no BTF"},
		Queues: []explain.Queue{{Kind: "tbf", Handle: "1:0", Place: explain.ServerHost, Dev: "veth1", Rate: 21e9, Seconds: 10,
			Bytes: 26e9, Packets: 500000, Over: 80000, Dropped: 300}},
		Policers:  []explain.Policer{{Index: 1, Place: explain.ClientHost, Rate: 40e9, Packets: 500000}},
		Drops:     []explain.Drop{{Reason: "qdisc_overlimit", Place: explain.ServerHost, Packets: 300}},
		Datagrams: []explain.Datagram{{Place: explain.Server, Received: 12, NoRoom: 1}},
		Flows: []explain.Flow{{Place: explain.Client, Seconds: 10, Bytes: 2.5e10, Busy: 10, ByWindow: 0.5, Segments: 600000,
			Again: 900, RTT: 1e-3, MinRTT: 3e-5, Send: 4e6, SendMost: 4e6, Receive: 6e6, ReceiveMost: 6e6}},
	}
	profiles = append(profiles, guest)
	in.Table, in.Stages = table, StageDocs(table)
	in.Findings = explain.Find(table, in.Results.Trials, profiles, "host")
	return in
}

// madeProfile is an invented window of the network's first trial; extra samples are the bridge's.
func madeProfile(trials []sample.Trial, network string, extra uint64) explain.Profile {
	frames := func(s string) []string { return strings.Fields(s) }
	const receive = "handle_softirqs net_rx_action process_backlog __netif_receive_skb_one_core "
	var p explain.Profile
	for _, t := range trials {
		if t.Network == network && p.Order == 0 {
			p.Cell, p.Order = t.Cell, t.Order
		}
	}
	p.Frequency, p.Window, p.Bytes = 100, 10, 2.5e10
	for range 4 {
		p.Cores = append(p.Cores, sample.CPU{User: 0.3, System: 5, SoftIRQ: 4.6, Idle: 0.1, Cores: 1})
	}
	p.Devices = []explain.Device{
		{Role: explain.Uplink, Place: explain.ClientHost, Name: "eth0", Direction: explain.Sent, Packets: 500000, Bytes: 26e9,
			Segments: 18e6},
		{Role: explain.PodDevice, Place: explain.Server, Name: "eth0", Direction: explain.Received, Packets: 490000,
			Bytes: 25.5e9, Segments: 17.5e6},
	}
	p.Stacks = []explain.Stack{
		{Context: explain.User, Place: explain.Client, Process: `</script><b>`, Count: 60},
		{Context: explain.System, Place: explain.Client, Process: "iperf3",
			Frames: frames("do_syscall_64 sock_write_iter tcp_sendmsg tcp_sendmsg_locked _copy_from_iter"), Count: 900},
		{Context: explain.System, Place: explain.Server, Process: "iperf3",
			Frames: frames("do_syscall_64 sock_read_iter tcp_recvmsg skb_copy_datagram_iter _copy_to_iter"), Count: 1100},
		{Context: explain.SoftIRQ, Place: explain.ServerHost, Process: "iperf3",
			Frames: frames(receive + "br_handle_frame br_handle_frame_finish"), Count: extra},
		{CPU: 1, Context: explain.SoftIRQ, Place: explain.Server, Process: "iperf3",
			Frames: frames(receive + "ip_rcv tcp_v4_rcv tcp_rcv_established"), Count: 1200},
		{CPU: 2, Context: explain.SoftIRQ, Place: explain.Server, Process: "iperf3",
			Frames: frames(receive + "ip_rcv a_function_with_a_name_that_is_rather_long_for_a_box"), Count: 40},
		{CPU: 2, Context: explain.SoftIRQ, Place: explain.Underlay, Process: "iperf3",
			Frames: frames(receive + "br_handle_frame"), Count: 90},
		{CPU: 3, Context: explain.System, Place: explain.Outside, Process: "make", Frames: frames("do_syscall_64 mystery"),
			Count: 400 - extra},
		{CPU: 3, Context: explain.Free, Place: explain.Outside, Process: "swapper/3",
			Frames: frames("do_idle default_idle_call"), Count: 10},
	}
	return p
}

func TestExplainGolden(t *testing.T) {
	in := explained()
	only := in.Findings[4:7]
	for name, write := range map[string]func(io.Writer) error{
		"explain.txt": func(w io.Writer) error { return Explain(w, Text, "made-up", in.Findings, in.Stages, Options{}) },
		"explain-80.txt": func(w io.Writer) error {
			return Explain(w, Text, "made-up", in.Findings, in.Stages, Options{Width: 80})
		},
		"explain.md":     func(w io.Writer) error { return Explain(w, Markdown, "made-up", only, in.Stages, Options{}) },
		"explain.csv":    func(w io.Writer) error { return Explain(w, CSV, "made-up", only, in.Stages, Options{}) },
		"explain.json":   func(w io.Writer) error { return Explain(w, JSON, "made-up", only[:1], nil, Options{}) },
		"explain.folded": func(w io.Writer) error { return Explain(w, Folded, "made-up", only, in.Stages, Options{}) },
		"explain-no.txt": func(w io.Writer) error { return Explain(w, Text, "made-up", nil, in.Stages, Options{Width: 80}) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, name, got.Bytes())
			for line := range strings.Lines(got.String()) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); strings.HasSuffix(name, "-80.txt") && n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
	if err := Explain(io.Discard, "fold", "x", nil, nil, Options{}); err == nil ||
		!strings.Contains(err.Error(), `"folded"`) {
		t.Errorf("unknown format: %v", err)
	}
}

// TestExplainedReport: the section is there where somebody looked, and only there.
func TestExplainedReport(t *testing.T) {
	for name, want := range map[string]bool{"explained": true, "small": false} {
		var out bytes.Buffer
		if err := Render(&out, HTML, fixtures()[name], quick()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), `<section id="explain"`); got != want {
			t.Errorf("%s: section %v, want %v", name, got, want)
		}
	}
}

// TestFlameGraphInBrowser enlarges a box, and shows all again.
func TestFlameGraphInBrowser(t *testing.T) {
	tab := open(t, browser(t), writeReport(t, explained()), views()[0])
	eval[bool](t, tab, `document.querySelectorAll("details.flame").forEach(d => { d.open = true; }), true`)
	const width = `Math.round(document.querySelector('.graph g[data-n="br_handle_frame"] rect').getAttribute("width"))`
	click := func(name string) {
		eval[bool](t, tab, `document.querySelector('.graph g[data-n="`+name+
			`"] rect').dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	}
	before := eval[int](t, tab, width)
	click("br_handle_frame")
	if got := eval[int](t, tab, width); got != 1200 || before >= 1200 {
		t.Errorf("a box of %d became %d wide, want 1200", before, got)
	}
	click("lab")
	if got := eval[int](t, tab, width); got != before {
		t.Errorf("the box is %d wide, not %d as it was", got, before)
	}
	tab.report(t)
}
