package bench_test

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/lab/network/bridge"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/iperf3"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestExplain looks into a stream that takes all it can get: through tunnels and
// bridges between hosts, and through a bridge alone on one.
func TestExplain(t *testing.T) {
	var r run
	c := config(t, &r, datagrams{}, vxlan.New(), bridge.New(bridge.Private))
	c.Workloads = map[string]workload.Workload{"tcp-stream": iperf3.TCPStream{}}
	c.Experiment.Repeat.Min, c.Experiment.Repeat.Max = 2, 2 // a trial may fail while other packages' tests take the CPUs
	entry := &c.Experiment.Entries[0]
	entry.Workload, entry.Loads = "tcp-stream", []sample.Load{iperf3.TCPStream{}.Info().Default}
	entry.Window = workload.Window{Warmup: 200 * time.Millisecond, Duration: 1800 * time.Millisecond}
	entry.Scenarios = append(entry.Scenarios, topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500})
	var profiles []explain.Profile
	c.Explain = func(p explain.Profile) error { profiles = append(profiles, p); return nil }
	res := r.do(t, c)

	table, err := explain.DefaultTable()
	if err != nil {
		t.Fatal(err)
	}
	findings := explain.Find(table, res.Trials, profiles, "host")
	if len(findings) != 3 { // a bridge alone does not reach the other host
		for _, trial := range res.Trials {
			t.Logf("%v: %s: %s", trial.Cell, trial.Status, trial.Reason)
		}
		t.Fatalf("got %d findings of %d trials", len(findings), len(res.Trials))
	}
	// What a bridge floods goes into a tunnel too, such as questions for neighbours: a sample or two.
	const stray = 0.005
	for _, f := range findings {
		tunnelled := f.Network == "vxlan" && f.Scenario.Placement == topo.TwoHosts
		switch own := f.Share(explain.Encapsulation) + f.Share(explain.Decapsulation); {
		case f.Missing != "" || f.Samples == 0:
			t.Errorf("%v: no samples: %s", f.Cell, f.Missing)
		case f.Share(explain.Bridging) == 0:
			t.Errorf("%v: nothing in the bridge", f.Cell)
		case (own > stray) != tunnelled:
			t.Errorf("%v: %.1f %% in tunnels", f.Cell, 100*own)
		case f.Share(explain.Unattributed) >= 0.15:
			t.Errorf("%v: %.1f %% unattributed", f.Cell, 100*f.Share(explain.Unattributed))
		case f.Pod == nil || f.Pod.PerWork == 0 || f.Pod.Size < 100:
			t.Errorf("%v: packets of pods: %+v", f.Cell, f.Pod)
		case tunnelled != (f.Uplink != nil):
			t.Errorf("%v: packets of uplinks: %+v", f.Cell, f.Uplink)
		case f.Demand["client"].PerKB <= 0 || f.Demand["server"].PerKB <= 0:
			t.Errorf("%v: demand %+v", f.Cell, f.Demand)
		}
		t.Log(f.Sentence)
	}
}
