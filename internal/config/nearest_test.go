package config

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"vxlan", "macvlan", "macvlan-vlan", "routed-bgp", "nat", "gre"}
	for name, want := range map[string]string{"vxlam": "vxlan", "xvlan": "vxlan",
		"mcvlan": "macvlan", "routed": "routed-bgp",
		"natt": "nat", "openvswitch": "", "": "", "q": "", "gr": "gre", "macvlan-v": "macvlan", "vxlan": "vxlan"} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: %q, expected %q", name, got, want)
		}
	}
}
