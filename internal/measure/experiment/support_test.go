package experiment_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestFamilyParsesAndEncodes: the key is a question of its own each, and an experiment
// without it is what it was before there was one.
func TestFamilyParsesAndEncodes(t *testing.T) {
	e := parse(t, head+"workloads:\n  - {name: tcp, family: [4, 6]}\n  - {name: slow, family: 6, duration: 11s}\n  - {name: lonely, family: 4}\n  - {name: served}\n")
	var got []string
	for _, entry := range e.Entries {
		for _, s := range entry.Scenarios {
			got = append(got, entry.Workload+" "+s.String())
		}
	}
	want := []string{"tcp two-hosts", "tcp two-hosts,family=6", "slow two-hosts,family=6", "lonely two-hosts",
		"served two-hosts"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "family:"); n != 2 {
		t.Errorf("%d keys family, expected 2, of what is not IPv4 alone:\n%s", n, b.String())
	}
	if again := parse(t, b.String()); !reflect.DeepEqual(e, again) {
		t.Errorf("got  %+v\nwant %+v", again, e)
	}
}

func TestOver(t *testing.T) {
	e := parse(t, head+"topologies: [one-host, two-hosts]\nworkloads: [{name: tcp, family: 6}, lonely]\n")
	both, err := e.Over([]string{"6", "4", "6"})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range both.Entries {
		var got []string
		for _, s := range entry.Scenarios {
			got = append(got, s.String())
		}
		if !slices.Equal(got, []string{"one-host,family=6", "one-host", "two-hosts,family=6", "two-hosts"}) {
			t.Errorf("%s: %v", entry.Workload, got)
		}
	}
	if e.Entries[0].Scenarios[0].Family != topo.IPv6 || len(e.Entries[1].Scenarios) != 2 {
		t.Error("the experiment itself has changed")
	}
	if _, err := e.Over([]string{"4", "5"}); err == nil ||
		!strings.Contains(err.Error(), `unknown IP family "5": expected 4 or 6`) {
		t.Errorf("got %v", err)
	}
}

// TestFamiliesThatAreUnsupported: with the reason, and none where both ends can.
func TestFamiliesThatAreUnsupported(t *testing.T) {
	both := network.Info{Families: network.Both()}
	overlay := network.Info{Families: network.Both(), Overhead: 50}
	plain := topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500, Family: topo.IPv6}
	at := func(change func(*topo.Scenario)) topo.Scenario { s := plain; change(&s); return s }
	for name, tc := range map[string]struct {
		info     network.Info
		workload workload.Info
		s        topo.Scenario
		want     string
	}{
		"both":                  {both, workload.Info{}, plain, ""},
		"both, in IPv4":         {both, workload.Info{OnlyIPv4: "old"}, at(func(s *topo.Scenario) { s.Family = 0 }), ""},
		"says nothing":          {network.Info{}, workload.Info{}, at(func(s *topo.Scenario) { s.Family = 0 }), ""},
		"says nothing, in IPv6": {network.Info{}, workload.Info{}, plain, "its pods get IPv4 addresses alone"},
		"IPv6 alone":            {network.Info{Families: []int{6}}, workload.Info{}, plain, ""},
		"IPv6 alone, in IPv4": {network.Info{Families: []int{6}}, workload.Info{},
			at(func(s *topo.Scenario) { s.Family = 0 }), "its pods get IPv6 addresses alone: expected family: 6"},
		"the workload": {both, workload.Info{OnlyIPv4: "the tool is old"}, plain, "the tool is old"},
		"a guest":      {both, workload.Info{}, at(func(s *topo.Scenario) { s.Kernel = "uml-6.1" }), ""},
		"a virtual machine": {both, workload.Info{}, at(func(s *topo.Scenario) { s.Placement = topo.VMP2VMPLocal }),
			"hosts in virtual machines have IPv4 addresses alone"},
		"room in an overlay": {overlay, workload.Info{}, at(func(s *topo.Scenario) { s.MTU = 1330 }), ""},
		"no room in it": {overlay, workload.Info{}, at(func(s *topo.Scenario) { s.MTU = 1329 }),
			"MTU 1329 leaves 1279 bytes inside the network, and IPv6 needs 1280 (RFC 8200 section 5)"},
		"no room, in IPv4": {overlay, workload.Info{}, at(func(s *topo.Scenario) { s.MTU, s.Family = 1280, 0 }), ""},
		"no room outside": {overlay, workload.Info{},
			at(func(s *topo.Scenario) { s.MTU, s.Outside = 1370, topo.OutsideVXLAN }), "leaves 1270 bytes"},
		"where it cannot be": {network.Info{Cannot: map[topo.Placement]string{topo.TwoHosts: "far"}}, workload.Info{}, plain,
			"far"},
	} {
		e := experiment.Experiment{Networks: []experiment.Network{{Name: "n"}},
			Entries: []experiment.Entry{{Workload: "w", Scenarios: []topo.Scenario{tc.s},
				Loads: parse(t, head+"workloads: [tcp]").Entries[0].Loads, OnlyIPv4: tc.workload.OnlyIPv4}}}
		got := e.Cells(map[string]network.Info{"n": tc.info})[0].Unsupported
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestWorkloadsThatSpeakIPv4Alone tell the plan so.
func TestWorkloadsThatSpeakIPv4Alone(t *testing.T) {
	known := catalogue()
	known.Workload = func(name string) (workload.Info, error) {
		return workload.Info{Name: name, Metrics: []string{"m"}, OnlyIPv4: "because of " + name}, nil
	}
	e, err := experiment.Parse("e.yaml", strings.NewReader(head+"family: 6\nworkloads: [tcp]"), known)
	if err != nil {
		t.Fatal(err)
	}
	cells := e.Cells(map[string]network.Info{"vxlan": {Families: network.Both()}})
	if got := fmt.Sprint(cells[0].Cell, " ", cells[0].Unsupported); !strings.HasPrefix(got,
		"vxlan/two-hosts,family=6/tcp/") || !strings.HasSuffix(got, " because of tcp") {
		t.Error(got)
	}
}

// TestClaimsOfFamilies: what IPv6 costs is a ratio of one network's figures.
func TestClaimsOfFamilies(t *testing.T) {
	e := parse(t, head+"workloads: [{name: tcp, family: [4, 6]}]\nclaims:\n"+
		"  - {id: cost, source: s, claim: x, workload: tcp, networks: vxlan, ratio: {of: {family: 6}, to: {family: [4]}, most: 1}}\n"+
		"  - {id: six, source: s, claim: x, workload: tcp, family: 6, networks: vxlan, value: {least: 1}}\n")
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if again := parse(t, b.String()); !reflect.DeepEqual(e, again) {
		t.Errorf("got  %+v\nwant %+v\nfrom\n%s", again.Claims, e.Claims, b.String())
	}
	var trials []sample.Trial
	for rep := 1; rep <= 6; rep++ {
		for family, rate := range map[int]float64{0: 100, topo.IPv6: 80} {
			c := sample.Cell{Network: "vxlan", Workload: "tcp", Load: e.Entries[0].Loads[0],
				Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500, Family: family}}
			trials = append(trials, sample.Trial{Cell: c, Repetition: rep, Status: sample.OK, Kernel: "host",
				Metrics: map[string]float64{sample.Throughput: rate + 0.1*float64(rep)}})
		}
	}
	for _, j := range claim.Judge(e.Claims, trials, claim.Rule{Level: 0.95}, nil) {
		if len(j.Findings) != 1 || j.Verdict() != claim.Holds {
			t.Errorf("%s: %s: %+v", j.ID, j.Verdict(), j.Findings)
		}
	}
}
