package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// ipv6 reports whether hosts have IPv6 addresses on the underlay and forward.
func (s Spec) ipv6() bool { return s.Family == topo.IPv6 }

func (s Spec) checkFamily() error {
	switch {
	case s.Family != 0 && s.Family != topo.IPv4 && s.Family != topo.IPv6:
		return badField("family", "%d: expected 4 or 6", s.Family)
	case s.ipv6() && len(s.VMs) > 0:
		return badField("family", "hosts in virtual machines have IPv4 addresses alone: expected 4")
	default:
		return nil
	}
}

// Speak returns a *FieldError where pods of a network would have no addresses of the spec's
// family.
func Speak(nets []network.Network, s Spec) error {
	for _, n := range nets {
		if n == nil || s.Family == 0 {
			continue
		}
		info := n.Info()
		if why := info.Speaks(s.Family); why != "" {
			return badField("family", "%d: network %s: %s", s.Family, info.Name, why)
		}
		if left := s.wireMTU() - info.Overhead; s.ipv6() && left < topo.LeastIPv6 {
			return badField("mtu", "%d leaves %d bytes inside network %s: expected %d for IPv6 (RFC 8200 section 5)", s.MTU,
				left, info.Name, topo.LeastIPv6)
		}
	}
	return nil
}

// needFamily wants the kernel to have IPv6 where the lab is to have it.
func (p *plan) needFamily() error {
	if !p.Spec.ipv6() {
		return nil
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); errors.Is(err, fs.ErrNotExist) {
		return errors.New("this kernel has no IPv6: it needs CONFIG_IPV6, and to be booted without ipv6.disable=1")
	}
	return nil
}

// openIPv6 turns IPv6 on in a namespace that has no devices yet. Addresses are used at
// once and not after a second of duplicate address detection (RFC 4862 section 5.4), as
// nobody else gives any here; forwarding is a router's, as hosts are their pods'.
func (p *plan) openIPv6(ns string, forwards bool) error {
	if !p.Spec.ipv6() {
		return nil
	}
	values := map[string]string{}
	for _, which := range []string{"all", "default"} {
		base := "net/ipv6/conf/" + which + "/"
		values[base+"disable_ipv6"], values[base+"accept_dad"], values[base+"dad_transmits"] = "0", "0", "0"
		if forwards {
			values[base+"forwarding"] = "1"
		}
	}
	return sysctl(ns, values)
}

// address6 gives a device the IPv6 address that goes with an IPv4 one, where the lab has
// IPv6.
func (p *plan) address6(nl *netlink.Handle, link netlink.Link, v4 netip.Prefix) error {
	if !p.Spec.ipv6() {
		return nil
	}
	if err := nl.AddrAdd(link, &netlink.Addr{IPNet: ipNet(topo.Addr6(v4))}); err != nil {
		return fmt.Errorf("set IPv6 address of %s: %w", link.Attrs().Name, err)
	}
	return nil
}

// gateway6 is the underlay's own IPv6 address; the zero value where the lab has none.
func (p *plan) gateway6() netip.Prefix {
	if !p.Spec.ipv6() {
		return netip.Prefix{}
	}
	return topo.Addr6(p.Gateway)
}

// serve sets where others reach the pod's service port: at its address of the lab's
// family.
func (p *plan) serve(pod *topo.Pod) error {
	if !pod.Addr().IsValid() {
		return nil // on no network
	}
	a := pod.Address(p.Spec.Family)
	if !a.IsValid() {
		return fmt.Errorf("the pod's interface %s got no IPv%d address, by which it is to be reached", pod.Attachments[0].Dev, p.Spec.Family)
	}
	pod.Service = netip.AddrPortFrom(a, pod.Listen)
	return nil
}
