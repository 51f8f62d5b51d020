package prior

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestDecode: figures that cannot be are refused.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"rates": {"shop/fast": 2e9, "default": 1e9}, "cpu": {"default": 0.5}}`: "",
		`{"rates": {"shop/fast": 0}}`:                                            "expected a rate above 0",
		`{"rates": {"shop/fast": 1}, "cpu": {"shop/fast": -1}}`:                  "expected a rate above 0",
		`{`: "unexpected end",
	} {
		p, err := Decode([]byte(text))
		switch {
		case want == "" && (err != nil || p.Rates["shop/fast"] != 2e9 || p.CPU["default"] != 0.5):
			t.Errorf("%s: %v, %v", text, p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// trial is one of tcp-bulk.
func trial(network string, status sample.Status, place topo.Placement, rate float64) sample.Trial {
	return sample.Trial{Status: status, Metrics: map[string]float64{sample.Throughput: rate, sample.CPUPerGB: 1},
		Cell: sample.Cell{Network: network, Workload: "tcp-bulk", Scenario: topo.Scenario{Placement: place}}}
}

// TestOf: what is promised are medians of trials between two hosts that ended well. Encode tells of a cluster's
// networks alone, and Decode reads that.
func TestOf(t *testing.T) {
	const fast = "shop/fast"
	p, err := Of([]sample.Trial{trial(fast, sample.OK, topo.TwoHosts, 1), trial(fast, sample.OK, topo.TwoHosts, 3),
		trial(fast, sample.OK, topo.TwoHosts, 2), trial(fast, sample.Failed, topo.TwoHosts, 9),
		trial(fast, sample.OK, topo.OneHost, 9), trial("host", sample.OK, topo.TwoHosts, 5)})
	if err != nil || p.Rates[fast] != 2 || p.CPU[fast] != 1 || len(p.Rates) != 2 {
		t.Errorf("%v, %v", p, err)
	}
	raw, err := p.Encode(func(network string) bool { return network == fast })
	if err != nil {
		t.Fatal(err)
	}
	if q, err := Decode(raw); err != nil || len(q.Rates) != 1 || q.Rates[fast] != 2 || q.CPU[fast] != 1 {
		t.Errorf("read again: %v, %v", q, err)
	}
	if _, err := p.Encode(func(string) bool { return false }); err == nil {
		t.Error("a prior of no network is told")
	}
	if _, err := Of([]sample.Trial{trial(fast, sample.OK, topo.OneHost, 9)}); err == nil {
		t.Error("what is on one host promises something between two")
	}
}
