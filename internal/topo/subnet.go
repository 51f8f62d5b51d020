package topo

import (
	"fmt"
	"math/big"
	"net/netip"
)

// DefaultUnderlay is the range of the hosts' addresses, inside the one that
// RFC 2544 (appendix C.2.2) sets aside for benchmarks of network devices.
func DefaultUnderlay() netip.Prefix { return netip.MustParsePrefix("198.18.0.0/16") }

// DefaultPods is the range from which every host's pod range is cut.
func DefaultPods() netip.Prefix { return netip.MustParsePrefix("10.77.0.0/16") }

// UnderlayAddr returns the address of host index (1-based) on the underlay.
func UnderlayAddr(underlay netip.Prefix, index int) (netip.Prefix, error) {
	a, err := offset(underlay, int64(index))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("underlay %v has no address for host %d: %w", underlay, index, err)
	}
	return netip.PrefixFrom(a, underlay.Bits()), nil
}

// GatewayAddr returns the address of the underlay itself: the last usable one.
func GatewayAddr(underlay netip.Prefix) (netip.Prefix, error) {
	size := int64(1) << (underlay.Addr().BitLen() - underlay.Bits())
	a, err := offset(underlay, size-2)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("underlay %v has no room for a gateway: %w", underlay, err)
	}
	return netip.PrefixFrom(a, underlay.Bits()), nil
}

// HostPods cuts the /24 for host index (1-based) out of the range of all pods.
func HostPods(pods netip.Prefix, index int) (netip.Prefix, error) {
	const bits = 24
	if !pods.Addr().Is4() || pods.Bits() > bits-1 {
		return netip.Prefix{}, fmt.Errorf("pod range %v is too small: expected an IPv4 range of /%d or larger, a /%d for each host", pods, bits-1, bits)
	}
	a, err := offset(pods, int64(index)<<(32-bits))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("pod range %v is exhausted: no /%d left for host %d", pods, bits, index)
	}
	return netip.PrefixFrom(a, bits), nil
}

// offset returns the address n after the first of p, or an error outside p.
func offset(p netip.Prefix, n int64) (netip.Addr, error) {
	p = p.Masked()
	sum := new(big.Int).Add(new(big.Int).SetBytes(p.Addr().AsSlice()), big.NewInt(n))
	raw := sum.FillBytes(make([]byte, p.Addr().BitLen()/8))
	a, ok := netip.AddrFromSlice(raw)
	if !ok || n < 0 || !p.Contains(a) {
		return netip.Addr{}, fmt.Errorf("offset %d lies outside %v", n, p)
	}
	return a, nil
}
