package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestReadTold: a prior that is not there says nothing, and one with figures that cannot be is
// refused.
func TestReadTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prior.json")
	if rates, cpu, err := readTold(file); rates != nil || cpu != nil || err != nil {
		t.Errorf("%v, %v, %v", rates, cpu, err)
	}
	for text, want := range map[string]string{
		`{"rates": {"shop/fast": 2e9, "default": 1e9}, "cpu": {"default": 0.5}}`: "",
		`{"rates": {"shop/fast": 0}}`:                                            "expected a rate above 0",
		`{"rates": {"shop/fast": 1}, "cpu": {"shop/fast": -1}}`:                  "expected a rate above 0",
		`{`: "unexpected end",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rates, cpu, err := readTold(file)
		switch {
		case want == "" && (err != nil || rates["shop/fast"] != 2e9 || cpu["default"] != 0.5):
			t.Errorf("%s: %v, %v, %v", text, rates, cpu, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPromised: medians of trials between two hosts that ended well.
func TestPromised(t *testing.T) {
	trial := func(status sample.Status, place topo.Placement, rate float64) sample.Trial {
		return sample.Trial{Status: status, Metrics: map[string]float64{sample.Throughput: rate, sample.CPUPerGB: 1},
			Cell: sample.Cell{Network: "shop/fast", Workload: "tcp-bulk", Scenario: topo.Scenario{Placement: place}}}
	}
	rates, cpu := promised([]sample.Trial{trial(sample.OK, topo.TwoHosts, 1), trial(sample.OK, topo.TwoHosts, 3),
		trial(sample.OK, topo.TwoHosts, 2), trial(sample.Failed, topo.TwoHosts, 9), trial(sample.OK, topo.OneHost, 9)},
		"tcp-bulk")
	if rates["shop/fast"] != 2 || cpu["shop/fast"] != 1 || len(rates) != 1 {
		t.Errorf("%v, %v", rates, cpu)
	}
}
