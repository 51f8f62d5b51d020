package claim_test

import (
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// placed moves trials to a topology with a kind of virtual machine.
func placed(trials []sample.Trial, p topo.Placement, o topo.Outside, vm string) []sample.Trial {
	for i := range trials {
		s := &trials[i].Scenario
		s.Placement = p
		*s = s.On(o, vm)
	}
	return trials
}

// TestVirtualMachinesAgainstNone: each kind of virtual machine is held against bare
// metal, and none against another kind; and only what the topologies do not bring of
// themselves tells outsides apart.
func TestVirtualMachinesAgainstNone(t *testing.T) {
	c := claim.Claim{ID: "x", Source: "Sun et al. 2019", Metric: sample.Throughput, Networks: []string{"a"},
		Where: claim.Where{Workload: "tcp-stream"}, Test: claim.Test{Ratio: &claim.Ratio{
			Of:    claim.Side{Where: claim.Where{Placements: []topo.Placement{topo.BMP2VMPRemote}}},
			To:    claim.Side{Where: claim.Where{Placements: []topo.Placement{topo.TwoHosts}}},
			Range: claim.Range{Most: at(1)}}}}
	trials := join(
		placed(speed("a", 100, 101, 99), topo.TwoHosts, "", ""),
		placed(speed("a", 50, 51, 49), topo.BMP2VMPRemote, "", "uml"),
		placed(speed("a", 200, 201, 199), topo.BMP2VMPRemote, "", "qemu"),
	)
	found := judge(t, c, trials)
	if len(found) != 2 {
		t.Fatalf("%d findings: %+v", len(found), found)
	}
	want := map[string]claim.Verdict{"uml": claim.Holds, "qemu": claim.Fails}
	for _, f := range found {
		if f.Verdict != want[f.Question.Scenario.VM] {
			t.Errorf("%s: %s", f.Question.Scenario.VM, f.Verdict)
		}
	}
}

func TestOutsidesAgainstEachOther(t *testing.T) {
	place := func(o topo.Outside) claim.Side {
		return claim.Side{Where: claim.Where{Placements: []topo.Placement{topo.VMP2VMPRemote}, Outsides: []topo.Outside{o}}}
	}
	c := claim.Claim{ID: "x", Source: "Sun et al. 2019", Metric: sample.Throughput, Networks: []string{"a"},
		Where: claim.Where{Workload: "tcp-stream"}, Test: claim.Test{Ratio: &claim.Ratio{
			Of: place(topo.OutsideVXLAN), To: place(topo.OutsideBridge), Range: claim.Range{Most: at(1)}}}}
	trials := join(
		placed(speed("a", 100, 101, 99), topo.VMP2VMPRemote, topo.OutsideBridge, "uml"),
		placed(speed("a", 50, 51, 49), topo.VMP2VMPRemote, topo.OutsideVXLAN, "uml"),
	)
	found := judge(t, c, trials)
	if len(found) != 1 || found[0].Verdict != claim.Holds {
		t.Errorf("%+v", found)
	}
}
