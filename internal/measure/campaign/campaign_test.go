package campaign

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestChoose: the caller rules, then the experiment, and each kernel has a baseline.
func TestChoose(t *testing.T) {
	for _, tc := range []struct{ choice, want string }{
		{"host", "host bridge vxlan"},
		{"uml", "host@uml bridge@uml vxlan@uml"},
		{Auto, "host@uml host bridge vxlan@uml"},
	} {
		c := New(Config{Kernels: NewKernels(network.NewMachine(nil), Guests{})}, experiment.Experiment{
			Networks: []experiment.Network{{Name: "bridge", Find: "bridge"}, {Name: "vxlan", Find: "vxlan", Kernel: "uml"}}})
		for _, n := range c.exp.Networks {
			c.networks[n.Name] = anywhere{name: n.Name}
		}
		if err := c.choose(context.Background(), tc.choice); err != nil {
			t.Fatal(err)
		}
		c.baselines()
		var got []string
		for _, n := range c.exp.Networks {
			word := n.Name
			if n.Kernel != "" {
				word += "@" + n.Kernel
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %v, want %s", tc.choice, got, tc.want)
		}
	}
}

// anywhere is a network that needs nothing.
type anywhere struct {
	network.Network
	name string
}

func (a anywhere) Info() network.Info { return network.Info{Name: a.name} }

// TestShare divides a budget by what the groups' cells take.
func TestShare(t *testing.T) {
	cell := func(d time.Duration) experiment.Planned {
		return experiment.Planned{Window: workload.Window{Duration: d}}
	}
	groups := []group{{cells: []experiment.Planned{cell(time.Second), cell(time.Second), cell(time.Second)}},
		{label: "uml-6", cells: []experiment.Planned{cell(time.Second)}}}
	share(groups, time.Minute)
	if groups[0].exp.Budget != 45*time.Second || groups[1].exp.Budget != 15*time.Second {
		t.Errorf("got %v and %v", groups[0].exp.Budget, groups[1].exp.Budget)
	}
}

// plan reads an experiment whose networks need nothing.
func plan(t *testing.T, text string) *Campaign {
	t.Helper()
	exp, err := experiment.Parse("test.yaml", strings.NewReader(text), experiment.Recorded())
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Kernels: NewKernels(network.NewMachine(nil), Guests{})}, exp)
	for _, n := range exp.Networks {
		c.networks[n.Name] = anywhere{name: n.Name}
	}
	return c
}

const twoKernels = `name: two
networks: [host, bridge, {name: host, kernel: uml}, {name: vxlan, kernel: uml}]
topologies: one-host
warmup: 0s
duration: 1s
repetitions: {min: 2, max: 5}
budget: 1m
workloads: [w]
`

// TestPart: the guest finds the part that the host gave it, with the same share of the budget.
func TestPart(t *testing.T) {
	c := plan(t, twoKernels)
	host, guest := c.part("", ""), c.part("uml", "uml-6.1")
	var outside []group
	for kind, label := range map[string]string{"": "", "uml": "uml-6.1"} {
		exp := c.exp.On(kind, label)
		outside = append(outside, group{label: label, exp: exp, cells: exp.Cells(infos(c.networks))})
	}
	share(outside, c.exp.Budget)
	for _, g := range outside {
		b := g.exp.Budget
		if g.label == guest.label && (b != guest.exp.Budget || b < 30*time.Second || b > time.Minute) {
			t.Errorf("budget %v, outside %v", guest.exp.Budget, b)
		}
	}
	for _, tc := range []struct {
		g     group
		label string
		want  string
	}{{host, "", "host bridge"}, {guest, "uml-6.1", "host vxlan"}} {
		var got []string
		for _, cell := range tc.g.cells {
			got = append(got, cell.Network)
			if cell.Scenario.Kernel != tc.label {
				t.Errorf("%s is on %q, expected %q", cell.Network, cell.Scenario.Kernel, tc.label)
			}
		}
		if tc.g.label != tc.label || strings.Join(got, " ") != tc.want {
			t.Errorf("part %q has %v, expected %q with %s", tc.g.label, got, tc.label, tc.want)
		}
	}
}

// TestExtent: what cannot run takes no time, and the budget bounds the most and not the least.
func TestExtent(t *testing.T) {
	for _, tc := range []struct {
		budget time.Duration
		want   Extent
	}{
		{0, Extent{Cells: 2, Trials: 4, Least: 6 * time.Second, Most: 14 * time.Second}},
		{10 * time.Second, Extent{Cells: 2, Trials: 4, Least: 6 * time.Second, Most: 10 * time.Second}},
		{time.Second, Extent{Cells: 2, Trials: 4, Least: 6 * time.Second, Most: 6 * time.Second}},
	} {
		cell := experiment.Planned{Cell: sample.Cell{Scenario: topo.Scenario{Pairs: 1}}, Least: 2,
			Window: workload.Window{Duration: time.Second}}
		absent := cell
		absent.Unsupported = "no"
		c := New(Config{}, experiment.Experiment{Budget: tc.budget, Repeat: experiment.Repeat{Max: 5}})
		c.groups = []group{{cells: []experiment.Planned{cell, absent}}, {cells: []experiment.Planned{cell}}}
		if got := c.Extent(); got != tc.want {
			t.Errorf("budget %v: got %+v, expected %+v", tc.budget, got, tc.want)
		}
	}
}

// shown keeps what a progress is told.
type shown struct{ events []bench.Event }

func (s *shown) Observe(e bench.Event) { s.events = append(s.events, e) }
func (s *shown) Clear()                {}

// TestShifted: the steps of a part are counted over all parts, of which a later one has as
// many trials as it has least, or has had.
func TestShifted(t *testing.T) {
	c := plan(t, twoKernels)
	later := c.part("uml", "uml-6.1")
	var done []sample.Trial
	for range 7 {
		done = append(done, sample.Trial{Cell: sample.Cell{Scenario: topo.Scenario{Kernel: "uml-6.1"}}})
	}
	for _, tc := range []struct {
		done  []sample.Trial
		total int
	}{{nil, 3 + 4 + 4}, {done, 3 + 4 + 7}} {
		var s shown
		watch := c.shifted(&s, 3, []group{later}, tc.done)
		watch(bench.Event{Done: 1, Total: 4, Left: time.Second, Ended: true, Trial: sample.Trial{Order: 9}})
		e := s.events[0]
		if e.Done != 4 || e.Total != tc.total || e.Left <= time.Second || c.order != 9 {
			t.Errorf("got %+v after order %d, expected 4 of %d", e, c.order, tc.total)
		}
	}
}

// TestServed: one workload has one server in a result, and only where it has a choice.
func TestServed(t *testing.T) {
	entry := func(server string) experiment.Entry { return experiment.Entry{Workload: "w", Server: server} }
	find := func(string) (workload.Workload, error) { return plain{}, nil }
	for _, tc := range []struct {
		entries []experiment.Entry
		want    string
	}{
		{[]experiment.Entry{entry(""), entry("")}, ""},
		{[]experiment.Entry{entry(""), entry("mongod")},
			`workload w has the servers "" and "mongod": results could not tell them apart`},
		{[]experiment.Entry{entry("mongod")}, "workload w has no choice of a server"},
	} {
		c := New(Config{Workload: find}, experiment.Experiment{Entries: tc.entries})
		got := ""
		if err := c.find(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%+v: got %q, expected %q", tc.entries, got, tc.want)
		}
	}
	nowhere := errors.New("no such workload")
	find = func(string) (workload.Workload, error) { return nil, nowhere }
	c := New(Config{Workload: find}, experiment.Experiment{Entries: []experiment.Entry{entry("")}})
	if err := c.find(); !errors.Is(err, nowhere) {
		t.Errorf("got %v", err)
	}
}

// plain is a workload that has no choice of a server.
type plain struct{ workload.Workload }
