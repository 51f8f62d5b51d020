package topo

import "testing"

func TestScenarioString(t *testing.T) {
	for want, s := range map[string]Scenario{
		"one-host":                   {Placement: OneHost, Pairs: 1, MTU: DefaultMTU},
		"two-hosts,pairs=4,mtu=9000": {Placement: TwoHosts, Pairs: 4, MTU: 9000},
		"bmp2vmp-remote,vm=uml-6.1.176": Scenario{Placement: BMP2VMPRemote, Pairs: 1, MTU: DefaultMTU}.On("",
			"uml-6.1.176"),
		"vmp2vmp-local,outside=vxlan,vm=qemu": Scenario{Placement: VMP2VMPLocal, Pairs: 1, MTU: DefaultMTU}.On(OutsideVXLAN,
			"qemu"),
		"vmp2vmp-local,outside=ovs,vm=uml": Scenario{Placement: VMP2VMPLocal, Pairs: 1,
			MTU: DefaultMTU}.On(OutsideOVS, "uml"),
		"two-hosts,outside=bridge": Scenario{Placement: TwoHosts, Pairs: 1, MTU: DefaultMTU}.On(OutsideBridge,
			"qemu"),
		"two-hosts,cores=apart,family=6": {Placement: TwoHosts, Pairs: 1, MTU: DefaultMTU, Cores: CoresApart,
			Family: IPv6},
		"one-host,kernel=uml-6.1.176": {Placement: OneHost, Pairs: 1, MTU: DefaultMTU, Kernel: "uml-6.1.176"},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestWire: an overlay outside takes its headers of the hosts' MTU, whatever makes it.
func TestWire(t *testing.T) {
	for o, want := range map[Outside]int{"": 1500, OutsideBridge: 1500, OutsideOVS: 1500, OutsideVXLAN: 1450,
		OutsideOVSVXLAN: 1450} {
		if got := (Scenario{Placement: VMP2VMPRemote, Pairs: 1, MTU: DefaultMTU}).On(o, "").Wire(); got != want {
			t.Errorf("outside %q: %d, want %d", o, got, want)
		}
	}
}
