package topo

import (
	"encoding/binary"
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

// PodRange returns the range of all pods on network number i (from 0): the
// first network has pods itself, the others the ranges of the same size behind
// it. Where pods is private (RFC 1918), so are they all.
func PodRange(pods netip.Prefix, i int) (netip.Prefix, error) {
	if !pods.Addr().Is4() {
		return netip.Prefix{}, fmt.Errorf("pod range %v: expected an IPv4 range", pods)
	}
	a, err := offset(netip.PrefixFrom(netip.IPv4Unspecified(), 0),
		int64(be(pods.Masked().Addr()))+int64(i)<<(32-pods.Bits()))
	if err != nil || pods.Addr().IsPrivate() && !a.IsPrivate() {
		return netip.Prefix{}, fmt.Errorf("pod range %v is exhausted: no range of its size is left behind it for network %d", pods, i+1)
	}
	return netip.PrefixFrom(a, pods.Bits()), nil
}

func be(a netip.Addr) uint32 {
	raw := a.As4()
	return binary.BigEndian.Uint32(raw[:])
}

// PodBits is how long the prefix of a host's pod range is where the host has so many
// pods: a /24, as most clusters have it, unless that has too few addresses.
func PodBits(pods int) int {
	bits := 24
	for bits > 1 && 1<<(32-bits)-notPods < pods {
		bits--
	}
	return bits
}

// notPods are the addresses of a range that no pod has: the range's own, the gateway's
// and the broadcast address.
const notPods = 3

// HostPods cuts the range of host index (1-based) out of that of all pods; bits is the
// length of its prefix.
func HostPods(pods netip.Prefix, bits, index int) (netip.Prefix, error) {
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
	if n >= 0 && sum.BitLen() <= p.Addr().BitLen() {
		a, ok := netip.AddrFromSlice(sum.FillBytes(make([]byte, p.Addr().BitLen()/8)))
		if ok && p.Contains(a) {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("offset %d lies outside %v", n, p)
}
