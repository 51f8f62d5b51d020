package report

import (
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

// TestScenarioWords: the page says a scenario as a person would.
func TestScenarioWords(t *testing.T) {
	base := topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: topo.DefaultMTU}
	busy := topo.Scenario{Placement: topo.TwoHosts, Pairs: 4, MTU: 9000, Cores: topo.CoresSame, Rmem: 4 << 20,
		Family: topo.IPv6, Kernel: "uml-6.1.176"}
	for want, s := range map[string]topo.Scenario{
		"one host": base,
		"two hosts (pairs 4, mtu 9000, cores same, rmem 4m, IPv6, kernel uml-6.1.176)": busy,
	} {
		if got := scenarioWords(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
