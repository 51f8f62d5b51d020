package main

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/topo"
)

// What a path costs is shown where it is known, and with the reason that packets go in UDP.
func TestPrintPaths(t *testing.T) {
	ps := []agent.PathStatus{
		{Pair: "a>b", Network: "vxlan", State: "up", RTT: 40e-6, Goodput: 2e9, Buckets: 64, Active: true, Why: "best"},
		{Pair: "a>b", Network: "ovn", State: "up", Encapsulated: true},
	}
	var plain, costs strings.Builder
	if err := printPaths(&plain, ps, report.Options{}); err != nil {
		t.Fatal(err)
	}
	ps[0].CPU = 0.25
	if err := printPaths(&costs, ps, report.Options{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plain.String(), "\n  vxlan: best\n") || !strings.Contains(plain.String(), "\n  ovn (in UDP)\n") ||
		strings.Contains(plain.String(), "cpu/GB") {
		t.Error(plain.String())
	}
	if !strings.Contains(costs.String(), "cpu/GB") || !strings.Contains(costs.String(), "250.0ms") {
		t.Error(costs.String())
	}
	for _, line := range strings.Split(costs.String(), "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
}

// TestPathsOnTerminals: no line of long names and reasons is longer than the terminal, what is
// left out is said once, and -o wide has all.
func TestPathsOnTerminals(t *testing.T) {
	var ps []agent.PathStatus
	for _, pair := range []string{"client-with-a-name>server", "server>client-with-a-name"} {
		for _, network := range []string{"openshift-shortcut-3-untracked", "weave-fastdp-like"} {
			ps = append(ps, agent.PathStatus{Pair: pair, Network: network, State: "failed", RTT: 0.1234, Jitter: 0.0234, CPU: 1,
				Loss: 1, Goodput: 123e6, Retrans: 0.2, Score: -12.3, Buckets: 64,
				Why: strings.Repeat("because of a reason that has many words ", 4)})
		}
	}
	for _, columns := range []int{60, 80, 132} {
		var out, wide strings.Builder
		if err := printPaths(&out, ps, report.Options{Width: columns}); err != nil {
			t.Fatal(err)
		}
		if l := longest(out.String()); len(l) > columns {
			t.Errorf("%d columns on a terminal of %d: %q", len(l), columns, l)
		}
		if n := strings.Count(out.String(), "left out to fit"); n > 1 || (n == 0) != (columns == 132) {
			t.Errorf("said %d times at %d:\n%s", n, columns, out.String())
		}
		if err := printPaths(&wide, ps, report.Options{Width: columns, Whole: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(wide.String(), "jitter") {
			t.Error(wide.String())
		}
	}
}

// TestLabOnTerminals: the table of a lab fits the terminal too.
func TestLabOnTerminals(t *testing.T) {
	st := lab.State{Up: true, Spec: lab.Spec{Name: "failover", Networks: []string{"routed-bgp", "vxlan"}}}
	host := topo.Host{Index: 1, Name: "h1", Netns: "pw-failover-h1", Addr: netip.MustParsePrefix("198.18.0.1/24")}
	st.Hosts = []topo.Host{host}
	var on []topo.Attachment
	for i, network := range st.Spec.Networks {
		on = append(on, topo.Attachment{Dev: "net" + strconv.Itoa(i), Network: network, MTU: 1450,
			Addr: netip.MustParseAddr("198.18.3.1")})
	}
	st.Pods = []topo.Pod{{Name: "agent-h1", Host: 1, Netns: "pw-failover-agent-h1", Attachments: on}}
	for _, columns := range []int{60, 80, 132} {
		var out strings.Builder
		if err := printLab(&out, st, report.Options{Width: columns}); err != nil {
			t.Fatal(err)
		}
		if l := longest(out.String()); len(l) > columns {
			t.Errorf("%d columns on a terminal of %d: %q", len(l), columns, l)
		}
		if !strings.Contains(out.String(), "    net1") || !strings.Contains(out.String(), "pw-failover-agent-h1") {
			t.Error(out.String())
		}
	}
}
