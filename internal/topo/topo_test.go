package topo

import "testing"

func TestScenarioString(t *testing.T) {
	for want, s := range map[string]Scenario{
		"one-host":                    {Placement: OneHost, Pairs: 1, MTU: DefaultMTU},
		"two-hosts,pairs=4,mtu=9000":  {Placement: TwoHosts, Pairs: 4, MTU: 9000},
		"one-host,kernel=uml-6.1.176": {Placement: OneHost, Pairs: 1, MTU: DefaultMTU, Kernel: "uml-6.1.176"},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
