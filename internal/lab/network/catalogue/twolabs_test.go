package catalogue_test

import (
	"fmt"
	"net/netip"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
)

// TestTwoLabs builds two labs at a time of every network that this kernel has, with
// the same addresses, and takes one away again: the other works as before.
func TestTwoLabs(t *testing.T) {
	for i, n := range catalogue.All() {
		t.Run(n.Info().Name, func(t *testing.T) {
			if miss := network.NewMachine(cniPath(t)).Missing(n.Info().Needs); len(miss) > 0 {
				t.Logf("not tried: TestContract says where it runs; here is no %v", miss)
				return
			}
			spec := lab.Spec{Name: fmt.Sprintf("t-this%d", i), Hosts: 2,
				Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 1}, {Name: "c", Host: 2}}}
			this := up(t, n, spec)
			t.Run("near", func(t *testing.T) { // whose clean-up takes the second lab away
				spec.Name = fmt.Sprintf("t-that%d", i)
				that := up(t, n, spec)
				// Not the very address: engines that begin side by side share theirs out as they come.
				if a, b := subnet(this), subnet(that); a != b {
					t.Errorf("the first pod is in %v, and in the other lab in %v", a, b)
				}
				works(t, this, n.Info().Row)
				works(t, that, n.Info().Row)
			})
			works(t, this, n.Info().Row)
		})
	}
}

// subnet has the first pod's address.
func subnet(l *lab.Lab) netip.Prefix {
	return netip.PrefixFrom(l.Pods()[0].Service.Addr(), 24).Masked()
}

// works wants traffic within the lab, where the network carries any.
func works(t *testing.T, l *lab.Lab, row network.Quality) {
	t.Helper()
	from := l.Pods()[0]
	for i, reached := range []bool{row.ReachIntra, row.ReachInter && l.Plug().Mode != network.SharePod} {
		if to := l.Pods()[i+1]; reached {
			reach(t, l, from.Netns+" to "+to.Netns, true, from, to.Netns, to.Service, to.Listen)
		}
	}
}
