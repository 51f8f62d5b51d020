package claim_test

import (
	"errors"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestRelative: a grows fourfold and b threefold, though b is the faster one.
func TestRelative(t *testing.T) {
	trials := join(
		lot("a", "", conns(1), sample.Throughput, 10, 11, 12), lot("a", "", conns(50), sample.Throughput, 40, 44.1, 47.9),
		lot("b", "", conns(1), sample.Throughput, 30, 33, 36), lot("b", "", conns(50), sample.Throughput, 90, 99.1, 107.9))
	c := ordered(sample.Throughput, []string{"a"}, []string{"b"})
	c.Where.Loads = []sample.Load{conns(50)}
	if f := judge(t, c, trials); f[0].Verdict != claim.Fails {
		t.Errorf("by throughput: got %+v", f[0])
	}
	c.Relative = &claim.Where{Loads: []sample.Load{conns(1)}}
	f := judge(t, c, trials)
	if len(f) != 1 || f[0].Verdict != claim.Holds || f[0].Steps[0].Of.Mean.Center < 3.9 ||
		f[0].Steps[0].Of.Mean.Center > 4.1 {
		t.Errorf("by growth: got %+v", f)
	}
	f = judge(t, c, lot("a", "", conns(50), sample.Throughput, 40, 44), lot("b", "", conns(50), sample.Throughput, 90, 99))
	if f[0].Verdict != claim.NotTested || len(f[0].Lacks) != 2 {
		t.Errorf("without what it is relative to: got %+v", f)
	}
}

// TestGrowthsOfTwoWorkloads: a's datagrams grow fourfold and its stream twofold.
func TestGrowthsOfTwoWorkloads(t *testing.T) {
	datagrams := join(lot("a", "", conns(1), sample.Throughput, 10, 11, 12),
		lot("a", "", conns(50), sample.Throughput, 40, 44.1, 47.9))
	for i := range datagrams {
		datagrams[i].Workload = "udp-max"
	}
	trials := join(datagrams, lot("a", "", conns(1), sample.Throughput, 30, 33, 36),
		lot("a", "", conns(50), sample.Throughput, 60, 66.1, 71.9))
	c := claim.Claim{ID: "x", Metric: sample.Throughput, Where: claim.Where{Workload: "tcp-stream"},
		Networks: []string{"a"}, Relative: &claim.Where{Loads: []sample.Load{conns(1)}},
		Test: claim.Test{
			Ratio: &claim.Ratio{Of: claim.Side{Where: claim.Where{Workload: "udp-max", Loads: []sample.Load{conns(50)}}},
				To:    claim.Side{Where: claim.Where{Loads: []sample.Load{conns(50)}}},
				Range: claim.Range{Least: at(1.8), Most: at(2.2)}}}}
	if f := judge(t, c, trials); len(f) != 1 || f[0].Verdict != claim.Holds {
		t.Errorf("got %+v", f)
	}
}

// TestDerived: the share of softirqs follows from a trial's CPU time.
func TestDerived(t *testing.T) {
	trials := speed("vxlan", 1, 1, 1)
	for i := range trials {
		trials[i].CPU = &sample.CPU{User: 1, System: 1, SoftIRQ: 5.9 + 0.1*float64(i), IRQ: 1, Cores: 2}
		trials[i].Phases.Window = 10
	}
	c := claim.Claim{ID: "x", Metric: sample.SoftIRQShare, Where: claim.Where{Workload: "tcp-stream"},
		Networks: []string{"vxlan"}, Test: claim.Test{Value: &claim.Range{Least: at(0.5)}}}
	if f := judge(t, c, trials); f[0].Verdict != claim.Holds {
		t.Errorf("got %+v", f[0])
	}
	c.Metric, c.Test.Value = sample.CPUCores, &claim.Range{Most: at(0.5)}
	if f := judge(t, c, trials); f[0].Verdict != claim.Fails {
		t.Errorf("got %+v", f[0])
	}
}

func TestChoice(t *testing.T) {
	c := claim.Claim{ID: "x", Where: claim.Where{Placements: []topo.Placement{topo.OneHost}},
		Test: claim.Test{Choice: &claim.Choice{App: "web", Load: "high", Network: "a"}}}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[claim.Verdict]claim.Recommended{
		claim.Holds:     {Chosen: []string{"a"}, Ranked: []string{"a", "b"}},
		claim.Open:      {Chosen: []string{"b", "a"}, Ranked: []string{"a", "b"}},
		claim.Fails:     {Chosen: []string{"b"}, Ranked: []string{"a", "b"}},
		claim.NotTested: {Chosen: []string{"b"}, Ranked: []string{"b"}},
	} {
		out := claim.Judge([]claim.Claim{c}, speed("a", 1), claim.Rule{Level: 0.95},
			func(claim.Choice, topo.Scenario) (claim.Recommended, error) { return r, nil })
		if len(out[0].Findings) != 1 || out[0].Verdict() != want {
			t.Errorf("%+v: got %+v, want %s", r, out[0].Findings, want)
		}
	}
	out := claim.Judge([]claim.Claim{c}, speed("a", 1), claim.Rule{Level: 0.95},
		func(claim.Choice, topo.Scenario) (claim.Recommended, error) {
			return claim.Recommended{}, errors.New("not measured")
		})
	if out[0].Verdict() != claim.NotTested || out[0].Findings[0].Lacks[0].Why != "not measured" {
		t.Errorf("got %+v", out[0].Findings)
	}
	c.Test.Choice.Load = "low"
	if c.Check() == nil {
		t.Error("a load that is none passes")
	}
}

// TestUntested: the reason is the finding, and a test alongside it a mistake.
func TestUntested(t *testing.T) {
	f := judge(t, claim.Claim{ID: "x", Untested: "needs a network card"}, speed("a", 1))
	if len(f) != 1 || f[0].Verdict != claim.NotTested || f[0].Lacks[0].Why != "needs a network card" {
		t.Errorf("got %+v", f)
	}
	c := over("a", "b", 1, 2)
	c.Untested = "needs a network card"
	if c.Check() == nil {
		t.Error("a test alongside the reason passes")
	}
}

func TestVerdictOnTheWhole(t *testing.T) {
	for want, all := range map[claim.Verdict][]claim.Verdict{
		claim.Holds:     {claim.Holds, claim.NotTested},
		claim.InPart:    {claim.Holds, claim.Fails, claim.Open},
		claim.Fails:     {claim.Fails},
		claim.Open:      {claim.Holds, claim.Open},
		claim.NotTested: {claim.NotTested},
	} {
		var j claim.Judged
		for _, v := range all {
			j.Findings = append(j.Findings, claim.Finding{Verdict: v})
		}
		if got := j.Verdict(); got != want {
			t.Errorf("%v: got %s, want %s", all, got, want)
		}
	}
}
