package topo

import (
	"net/netip"
	"testing"
)

func TestParseFamily(t *testing.T) {
	for word, want := range map[string]int{"4": IPv4, "6": IPv6} {
		f, err := ParseFamily(word)
		if got := (Scenario{Family: f}).IP(); err != nil || got != want {
			t.Errorf("%s: %d, %v", word, got, err)
		}
	}
	for _, word := range []string{"", "0", "10", "ipv6", "dual"} {
		if _, err := ParseFamily(word); err == nil {
			t.Errorf("%q is a family", word)
		}
	}
}

// TestAddresses6: each IPv4 range has an IPv6 one of its own, and each address its own in it.
func TestAddresses6(t *testing.T) {
	for _, tc := range []struct{ v4, whole, subnet, addr string }{
		{"10.77.0.0/16", "fd70:7077:a4d::/48", "fd70:7077:a4d::/64", "fd70:7077:a4d::/64"},
		{"10.77.1.0/24", "fd70:7077:a4d:100::/56", "fd70:7077:a4d:100::/64", "fd70:7077:a4d:100::/64"},
		{"10.77.1.2/16", "fd70:7077:a4d::/48", "fd70:7077:a4d::/64", "fd70:7077:a4d::102/64"},
		{"198.18.0.1/16", "fd70:7077:c612::/48", "fd70:7077:c612::/64", "fd70:7077:c612::1/64"},
		{"198.18.255.254/16", "fd70:7077:c612::/48", "fd70:7077:c612::/64", "fd70:7077:c612::fffe/64"},
		{"172.16.3.4/12", "fd70:7077:ac10::/44", "fd70:7077:ac10::/64", "fd70:7077:ac10::304/64"},
		{"11.200.3.4/8", "fd70:7077:b00::/40", "fd70:7077:b00::/64", "fd70:7077:b00::c8:304/64"},
		{"0.0.0.0/0", "::/0", "::/64", "::/64"},
	} {
		p := netip.MustParsePrefix(tc.v4)
		if got := [3]string{Range6(p).String(), Subnet6(p).String(), Addr6(p).String()}; got != [3]string{tc.whole, tc.subnet,
			tc.addr} {
			t.Errorf("%s: %v", tc.v4, got)
		}
	}
}

func TestPodAddress(t *testing.T) {
	four, six := netip.MustParseAddr("10.77.1.2"), netip.MustParseAddr("fd70::2")
	for name, tc := range map[string]struct {
		at   Attachment
		want map[int]netip.Addr
	}{
		"both":      {Attachment{Addr: four, Addr6: six}, map[int]netip.Addr{0: four, IPv4: four, IPv6: six}},
		"IPv4":      {Attachment{Addr: four}, map[int]netip.Addr{0: four, IPv4: four, IPv6: {}}},
		"IPv6":      {Attachment{Addr: six, Addr6: six}, map[int]netip.Addr{0: six, IPv4: {}, IPv6: six}},
		"no record": {Attachment{Addr: six}, map[int]netip.Addr{0: six, IPv4: {}, IPv6: six}},
	} {
		p := Pod{Attachments: []Attachment{tc.at}}
		for family, want := range tc.want {
			if got := p.Address(family); got != want {
				t.Errorf("%s, family %d: %v, want %v", name, family, got, want)
			}
		}
	}
	p := Pod{Attachments: []Attachment{{Addr: four, Addr6: six}, {Addr: netip.MustParseAddr("10.78.1.2")}}}
	if !p.Has(four) || !p.Has(six) || p.Has(netip.MustParseAddr("10.78.1.2")) || p.Has(netip.Addr{}) ||
		(Pod{}).Has(netip.Addr{}) {
		t.Error("Has is of the default network's addresses")
	}
}
