package agent

import (
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/topo"
)

// TestSteeringIPv6 is TestSteering of pods that have IPv6 alone, as far as that makes a
// difference.
func TestSteeringIPv6(t *testing.T) {
	b := newBedOf(t, lab.Spec{Name: "t-six", Agents: true, Family: topo.IPv6,
		Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}}, "routed-bgp", "vxlan", "macvlan")
	steers(t, b, []step{
		{"pairs open by handshake", "", pairsOpen},
		{"a switch by hand", "routed-bgp", switchByHand},
		{"a black hole of hosts", "vxlan", blackHole},
		{"a black hole of the default network", "routed-bgp", defaultBlackHole},
		{"restart", "vxlan", restart},
		{"a black hole of pods", "macvlan", podBlackHole(impair.Impairment{DropIngress: true, DropEgress: true})},
		{"agents gone", "vxlan", agentsGone},
	})
}
