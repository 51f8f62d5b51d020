package lab

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/ipvlan"
	"pathwise.dev/pathwise/internal/lab/network/macvlan"
	"pathwise.dev/pathwise/internal/lab/network/vlan"
)

// TestUplinkGoesToOne: macvlan's modes share an uplink, macvlan and ipvlan do not,
// nor do two modes of ipvlan; a VLAN's frames are nobody else's.
func TestUplinkGoesToOne(t *testing.T) {
	for _, tc := range []struct {
		nets []network.Network
		want string
	}{
		{[]network.Network{macvlan.New(macvlan.Bridge), macvlan.New(macvlan.Private)}, ""},
		{[]network.Network{macvlan.New(macvlan.Bridge), ipvlan.New(ipvlan.L2)},
			"networks[1]: ipvlan-l2 cannot be combined with macvlan: "},
		{[]network.Network{ipvlan.New(ipvlan.L3), vlan.New(vlan.IPvlan), ipvlan.New(ipvlan.L3S)},
			"networks[2]: ipvlan-l3s cannot be combined with ipvlan-l3: "},
		{[]network.Network{macvlan.New(macvlan.Bridge), vlan.New(vlan.IPvlan), vlan.New(vlan.Macvlan)}, ""},
	} {
		err := Combinable(tc.nets, true)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}
