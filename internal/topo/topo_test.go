package topo

import "testing"

func TestScenarioString(t *testing.T) {
	for want, s := range map[string]Scenario{
		"one-host":                            {Placement: OneHost, Pairs: 1, MTU: DefaultMTU},
		"two-hosts,pairs=4,mtu=9000":          {Placement: TwoHosts, Pairs: 4, MTU: 9000},
		"bmp2vmp-remote,vm=uml-6.1.176":       Scenario{Placement: BMP2VMPRemote, Pairs: 1, MTU: DefaultMTU}.On("", "uml-6.1.176"),
		"vmp2vmp-local,outside=vxlan,vm=qemu": Scenario{Placement: VMP2VMPLocal, Pairs: 1, MTU: DefaultMTU}.On(OutsideVXLAN, "qemu"),
		"two-hosts,outside=bridge":            Scenario{Placement: TwoHosts, Pairs: 1, MTU: DefaultMTU}.On(OutsideBridge, "qemu"),
		"one-host,kernel=uml-6.1.176":         {Placement: OneHost, Pairs: 1, MTU: DefaultMTU, Kernel: "uml-6.1.176"},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
