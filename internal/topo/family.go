package topo

import (
	"cmp"
	"fmt"
	"net/netip"
)

// IP families.
const (
	IPv4 = 4
	IPv6 = 6
)

// LeastIPv6 is the least MTU of a link that carries IPv6 (RFC 8200 section 5).
const LeastIPv6 = 1280

// ParseFamily returns the family, as Scenario has it, of one of the words 4 and 6.
func ParseFamily(s string) (int, error) {
	switch s {
	case "4":
		return 0, nil
	case "6":
		return IPv6, nil
	}
	return 0, fmt.Errorf("unknown IP family %q: expected 4 or 6", s)
}

// IP is the family of the scenario's traffic, 4 or 6.
func (s Scenario) IP() int { return cmp.Or(s.Family, IPv4) }

// FamilyOf is the IP family of an address.
func FamilyOf(a netip.Addr) int {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Range6 is the range of unique local IPv6 addresses (RFC 4193) that goes with a range of
// IPv4 addresses: that range's own bits behind a prefix of 32. A network's range of /16
// makes a /48, a host's of /24 a /56.
func Range6(p netip.Prefix) netip.Prefix {
	if !p.Addr().Is4() || p.Bits() == 0 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0) // of everything, or of a host without pods
	}
	raw := [16]byte{0xfd, 0x70, 0x70, 0x77} // "pw" behind the eight bits of local ranges
	v4 := p.Masked().Addr().As4()
	copy(raw[4:], v4[:])
	return netip.PrefixFrom(netip.AddrFrom16(raw), 32+p.Bits())
}

// Subnet6 is the first /64 of Range6, as subnets are in IPv6 (RFC 4291 section 2.5.1).
func Subnet6(p netip.Prefix) netip.Prefix {
	const bits = 64
	return netip.PrefixFrom(Range6(p).Addr(), bits)
}

// Addr6 is the address in Subnet6 that goes with an IPv4 address in its subnet: what is
// the host's part of the one is the interface identifier of the other.
func Addr6(p netip.Prefix) netip.Prefix {
	subnet := Subnet6(p)
	raw, v4, net := subnet.Addr().As16(), p.Addr().As4(), p.Masked().Addr().As4()
	for i := range v4 {
		raw[12+i] |= v4[i] &^ net[i]
	}
	return netip.PrefixFrom(netip.AddrFrom16(raw), subnet.Bits())
}
