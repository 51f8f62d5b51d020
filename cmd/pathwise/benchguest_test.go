package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/bench"
	"pathwise.dev/pathwise/internal/experiment"
	"pathwise.dev/pathwise/internal/machine"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload"
)

// TestMerger feeds what a guest tells in pieces of any size.
func TestMerger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	out, err := result.Create(dir, result.Plan{Header: sample.Header{Experiment: "x"}, Machine: machine.Record{OS: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	cell := sample.Cell{Network: "ipvlan-l2", Scenario: topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500, Kernel: "uml-6"}, Workload: "w"}
	first := sample.Trial{Cell: cell, Repetition: 1, Order: 1, Status: sample.OK, Kernel: "uml-6"}
	second := sample.Trial{Cell: cell, Repetition: 2, Order: 2, Kernel: "uml-6"}
	var text strings.Builder
	for _, m := range []message{{Machine: &machine.Record{OS: "guest"}}, {Event: &bench.Event{Trial: first}}, {Event: &bench.Event{Trial: first, Ended: true}},
		{Event: &bench.Event{Trial: second}}} {
		if err := json.NewEncoder(&text).Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	order, seen := 41, 0
	m := &merger{out: out, label: "uml-6", order: &order, watch: func(bench.Event) { seen++ }, fail: func(err error) { t.Error(err) }}
	for piece := range strings.SplitSeq(text.String(), "e") { // the separator is put back
		if _, err := m.Write([]byte(piece + "e")); err != nil {
			t.Fatal(err)
		}
		if seen == 3 {
			break
		}
	}
	if err := m.lost(errors.New("the guest died")); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := result.Open(dir)
	if err != nil || len(got.Samples.Trials) != 2 || seen != 3 || m.merged != 1 {
		t.Fatalf("%d trials, %d events, %d merged, %v", len(got.Samples.Trials), seen, m.merged, err)
	}
	a, b := got.Samples.Trials[0], got.Samples.Trials[1]
	if a.Order != 42 || a.Status != sample.OK || b.Order != 43 || b.Status != sample.Failed || b.Reason != "the guest died" || b.Repetition != 2 {
		t.Errorf("got %+v and %+v", a, b)
	}
	if rec, _ := got.Machine["guest uml-6"].(map[string]any); rec["os"] != "guest" {
		t.Errorf("machine %v", got.Machine)
	}
}

func TestMergerRefusesNonsense(t *testing.T) {
	var failed error
	m := &merger{label: "uml-6", fail: func(err error) { failed = err }}
	if _, err := m.Write([]byte("pathwise: what\n")); err == nil || failed == nil {
		t.Errorf("got %v, %v", err, failed)
	}
}

// TestChoose: the flag rules, then the experiment, and a baseline stands on each kernel.
func TestChoose(t *testing.T) {
	for _, tc := range []struct{ choice, want string }{
		{"host", "host bridge vxlan"},
		{"uml", "host@uml bridge@uml vxlan@uml"},
		{kernelAuto, "host@uml host bridge vxlan@uml"},
	} {
		b := newBenchRun(env{getenv: func(string) string { return "" }}, experiment.Experiment{
			Networks: []experiment.Network{{Name: "bridge", Find: "bridge"}, {Name: "vxlan", Find: "vxlan", Kernel: "uml"}}})
		for _, n := range b.exp.Networks {
			b.networks[n.Name] = anywhere{name: n.Name}
		}
		if err := b.choose(context.Background(), tc.choice); err != nil {
			t.Fatal(err)
		}
		b.baselines()
		var got []string
		for _, n := range b.exp.Networks {
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
	groups := []group{{cells: []experiment.Planned{cell(time.Second), cell(time.Second), cell(time.Second)}}, {label: "uml-6", cells: []experiment.Planned{cell(time.Second)}}}
	share(groups, time.Minute)
	if groups[0].exp.Budget != 45*time.Second || groups[1].exp.Budget != 15*time.Second {
		t.Errorf("got %v and %v", groups[0].exp.Budget, groups[1].exp.Budget)
	}
}
