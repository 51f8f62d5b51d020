package agent

import (
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// Two pods that have both IP families are two pairs: one of their IPv4 addresses and one of
// those of IPv6. What passes in one family need not in the other, so each has its own paths,
// echoes, choices and flows. The IPv6 one knows the pods by other UIDs.

// ofIPv6 ends such a UID; it is in none that is told.
const ofIPv6 = "/6"

// dual reports whether the pod has stable addresses of both families.
func dual(p topo.Pod) bool {
	return len(p.Attachments) > 0 && p.Attachments[0].Addr.Is4() && p.Attachments[0].Addr6.Is6()
}

// uidIn is the pod's UID among pairs of a family.
func uidIn(p topo.Pod, v6 bool) string {
	if v6 && dual(p) {
		return p.UID + ofIPv6
	}
	return p.UID
}

// in6 is a pod of both families as pairs of IPv6 know it: on the networks on which it has an
// address of that.
func in6(p topo.Pod) topo.Pod {
	p.UID = uidIn(p, true)
	p.Attachments = slices.Clone(p.Attachments)
	for i := range p.Attachments {
		at := &p.Attachments[i]
		at.Addr, _ = route.AddrIn(*at, true)
	}
	p.Attachments = slices.DeleteFunc(p.Attachments, func(at topo.Attachment) bool { return !at.Addr.IsValid() })
	return p
}

// families are the pod as pairs of each family know it.
func families(p topo.Pod) []topo.Pod {
	if !dual(p) {
		return []topo.Pod{p}
	}
	return []topo.Pod{p, in6(p)}
}

// v6 reports whether the pair is of IPv6 addresses.
func (p *pair) v6() bool { return p.remote.Addr().Is6() }

// localUID is the local pod's UID in the pair.
func (p *pair) localUID() string { return uidIn(p.local.Pod, p.v6()) }

// pairName is how a pair is shown.
func pairName(local, remote topo.Pod) string {
	name := local.Name + ">" + remote.Name
	if remote.Addr().Is6() && dual(local) && strings.HasSuffix(remote.UID, ofIPv6) {
		return InIPv6(name)
	}
	return name
}

// InIPv6 is how the pair of that name is shown that is of IPv6 addresses, where pods have both.
func InIPv6(name string) string { return name + " (IPv6)" }

// notIn6 lists the networks on which IPv4 packets of two pods of both families are steered,
// and those of IPv6 are not.
func (c Cluster) notIn6(local, remote topo.Pod, rs routes) (out []string) {
	if !dual(local) || !dual(remote) || remote.Addr().Is6() {
		return nil
	}
	six := c.eligible(route.Between(local, in6(remote)))
	for _, r := range rs[1:] {
		if six.on(r.Network) < 0 {
			out = append(out, r.Network)
		}
	}
	return out
}
