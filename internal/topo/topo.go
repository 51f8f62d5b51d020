// Package topo is the vocabulary of the test bed as plain values: hosts, pods,
// attachments, paths and the scenario that says where pods stand.
//
// It is pure: it touches no kernel, file or clock. Package lab makes these
// values real.
package topo

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Placement says on which hosts the two pods of a pair stand.
type Placement string

// The placements of Suo et al. (2018) and Claassen (2015): both pods of a pair
// on one host, or one pod on each of two hosts.
const (
	OneHost  Placement = "one-host"
	TwoHosts Placement = "two-hosts"
)

// The placements of Sun et al. with pods in virtual machines: a bare-metal pod to
// one in a virtual machine, and two in virtual machines, on one physical machine
// (local) or on two (remote). Their BMP2BMP, local and remote, are OneHost and
// TwoHosts.
const (
	BMP2VMPLocal  Placement = "bmp2vmp-local"
	BMP2VMPRemote Placement = "bmp2vmp-remote"
	VMP2VMPLocal  Placement = "vmp2vmp-local"
	VMP2VMPRemote Placement = "vmp2vmp-remote"
)

// Placements lists every placement in the order in which results are shown.
func Placements() []Placement {
	return []Placement{OneHost, TwoHosts, BMP2VMPLocal, BMP2VMPRemote, VMP2VMPLocal, VMP2VMPRemote}
}

// Hosts is the number of hosts that pods so placed stand on: a virtual machine is
// a host of its own.
func (p Placement) Hosts() int {
	if p == OneHost {
		return 1
	}
	return 2
}

// VMs lists the hosts that are virtual machines.
func (p Placement) VMs() []VM {
	switch p {
	case BMP2VMPLocal:
		return []VM{{Host: 2, On: 1}}
	case BMP2VMPRemote:
		return []VM{{Host: 2, On: 2}}
	case VMP2VMPLocal:
		return []VM{{Host: 1, On: 1}, {Host: 2, On: 1}}
	case VMP2VMPRemote:
		return []VM{{Host: 1, On: 1}, {Host: 2, On: 2}}
	default:
		return nil
	}
}

// Virtual reports whether a host is a virtual machine.
func (p Placement) Virtual() bool { return len(p.VMs()) > 0 }

// VM is a host that is a virtual machine on a physical one.
type VM struct {
	// Host is the host's index.
	Host int `json:"host"`
	// On is the number of the physical machine that runs it. Machine n is the one
	// of host n; where that is a virtual machine, it runs nothing else.
	On int `json:"on"`
}

// Outside is what joins hosts to the wire on a physical machine that runs virtual
// ones; "" where hosts are joined to the underlay directly.
type Outside string

// Kinds of outside.
const (
	// OutsideBridge: a Linux bridge, with the wire as one of its ports.
	OutsideBridge Outside = "bridge"
	// OutsideVXLAN: a Linux bridge and VXLAN between the physical machines. An
	// overlay on top of it is encapsulated twice.
	OutsideVXLAN Outside = "vxlan"
	// OutsideOVS and OutsideOVSVXLAN are the same with Open vSwitch in place of the
	// Linux bridge, which in the second has the VXLAN ports too.
	OutsideOVS      Outside = "ovs"
	OutsideOVSVXLAN Outside = "ovs-vxlan"
)

// Outsides lists every kind of outside.
func Outsides() []Outside {
	return []Outside{OutsideBridge, OutsideVXLAN, OutsideOVS, OutsideOVSVXLAN}
}

// Overlay reports whether physical machines are joined by VXLAN, and not by the
// wire itself.
func (o Outside) Overlay() bool { return o == OutsideVXLAN || o == OutsideOVSVXLAN }

// OpenVSwitch reports whether machines have Open vSwitch and no Linux bridge.
func (o Outside) OpenVSwitch() bool { return o == OutsideOVS || o == OutsideOVSVXLAN }

// Overhead is what the outside's encapsulation takes from the wire's MTU, in
// bytes: outer Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section 5).
func (o Outside) Overhead() int {
	if o.Overlay() {
		return 14 + 20 + 8 + 8
	}
	return 0
}

// ParseOutside returns the outside called s.
func ParseOutside(s string) (Outside, error) {
	if o := Outside(s); slices.Contains(Outsides(), o) {
		return o, nil
	}
	return "", fmt.Errorf("unknown outside %q: expected bridge, vxlan, ovs or ovs-vxlan", s)
}

// ParsePlacement returns the placement called s, which may also be named as Sun et
// al. do.
func ParsePlacement(s string) (Placement, error) {
	switch s {
	case "bmp2bmp-local":
		return OneHost, nil
	case "bmp2bmp-remote":
		return TwoHosts, nil
	}
	if p := Placement(s); slices.Contains(Placements(), p) {
		return p, nil
	}
	return "", fmt.Errorf("unknown topology %q: expected one-host, two-hosts, bmp2vmp-local, bmp2vmp-remote, vmp2vmp-local or vmp2vmp-remote", s)
}

// Scenario says where the pods of a trial stand and over what.
type Scenario struct {
	Placement Placement `json:"placement"`
	// Pairs is the number of client-server pod pairs that carry load at once, 1 to 128.
	Pairs int `json:"pairs"`
	// MTU of the underlay between the hosts, in bytes, 1280 to 9000.
	MTU int `json:"mtu"`
	// Outside is what joins hosts to the wire where there are virtual machines, or
	// where it was asked for.
	Outside Outside `json:"outside,omitempty"`
	// Cores says on which processors the generators run.
	Cores Cores `json:"cores,omitempty"`
	// Rmem is what the receive buffer of a TCP socket in a pod begins with.
	Rmem Rmem `json:"rmem,omitempty"`
	// Family is the IP family of the traffic: 6, or 0 for IPv4. See IP.
	Family int `json:"family,omitempty"`
	// VM is the kernel of the hosts that are virtual machines, such as
	// uml-6.1.176; "" where none is. In an experiment it is the kind, uml or qemu,
	// or "" to leave it to the run.
	VM string `json:"vm,omitempty"`
	// Kernel is that of the guest in which hosts and pods stood, such as
	// uml-6.1.176; "" for the machine's own. Figures of two kernels answer
	// different questions.
	Kernel string `json:"kernel,omitempty"`
}

// String is the scenario in one word, as it is in keys and tables.
func (s Scenario) String() string {
	out := string(s.Placement)
	if s.Pairs != 1 {
		out += fmt.Sprintf(",pairs=%d", s.Pairs)
	}
	if s.MTU != DefaultMTU {
		out += fmt.Sprintf(",mtu=%d", s.MTU)
	}
	out += s.factors()
	if s.Kernel != "" {
		out += ",kernel=" + s.Kernel
	}
	return out
}

// Outside is what the placement has where nothing else is asked for.
func (p Placement) Outside() Outside {
	if p.Virtual() {
		return OutsideBridge
	}
	return ""
}

// On returns the scenario with the outside, "" being the one that its placement
// has by itself, and with virtual machines of the kind where it has any.
func (s Scenario) On(outside Outside, vm string) Scenario {
	if s.Outside = outside; outside == "" {
		s.Outside = s.Placement.Outside()
	}
	if s.VM = ""; s.Placement.Virtual() {
		s.VM = vm
	}
	return s
}

// Place is where pods are, in one word: the placement, and what is outside, on which
// processors they are, what their receive buffers begin with, by which IP family they
// speak and which virtual machines there are where it does not tell.
func (s Scenario) Place() string {
	return string(s.Placement) + s.factors()
}

// factors is what Place says behind the placement.
func (s Scenario) factors() (out string) {
	if s.Outside != s.Placement.Outside() {
		out += ",outside=" + string(s.Outside)
	}
	if s.Cores != CoresFree {
		out += ",cores=" + string(s.Cores)
	}
	if s.Rmem != RmemAuto {
		out += ",rmem=" + s.Rmem.Word()
	}
	if s.Family == IPv6 {
		out += ",family=6"
	}
	if s.VM != "" {
		out += ",vm=" + s.VM
	}
	return out
}

// Wire is the MTU that hosts have left of the underlay's.
func (s Scenario) Wire() int { return s.MTU - s.Outside.Overhead() }

// Limits of a scenario.
const (
	DefaultMTU = 1500
	MinMTU     = 1280 // RFC 8200 section 5
	MaxMTU     = 9000
	MaxPairs   = 128 // the largest count of Claassen (2015)
)

// HostDev is the name of a host's interface on the underlay.
const HostDev = "eth0"

// Host is a machine that runs pods; in the lab, a network namespace or a virtual
// machine.
type Host struct {
	// Index counts hosts from 1.
	Index int    `json:"index"`
	Name  string `json:"name"`
	// Netns is the name of the host's network namespace.
	Netns string `json:"netns"`
	// Dev is the host's interface on the underlay.
	Dev string `json:"dev"`
	// Addr is the host's address on the underlay.
	Addr netip.Prefix `json:"addr"`
	// Addr6 is its IPv6 address there; the zero value where it has none but of the link.
	Addr6 netip.Prefix `json:"addr6,omitzero"`
	// Pods is the range from which pods on this host get their stable addresses.
	// Those of IPv6 are of Subnet6.
	Pods netip.Prefix `json:"pods"`
	// VM is the kernel of the virtual machine that the host is, such as
	// uml-6.1.176; "" where it is a namespace of this kernel. A virtual machine's
	// namespaces are its own kernel's.
	VM string `json:"vm,omitempty"`
	// Control is the namespace from which the virtual machine is spoken to, over a
	// device that is on none of the lab's networks.
	Control string `json:"control,omitempty"`
	// Machine is the number of the physical machine that the host is or runs on;
	// 0 where the lab makes no difference.
	Machine int `json:"machine,omitempty"`
}

// Attachment is one interface of a pod on one network.
type Attachment struct {
	Network string `json:"network"`
	Dev     string `json:"dev"`
	// Addr is the IPv4 address, or that of IPv6 where there is no other.
	Addr netip.Addr `json:"addr"`
	// Addr6 is the IPv6 address; the zero value where there is none.
	Addr6 netip.Addr `json:"addr6,omitzero"`
	// MAC is the interface's hardware address, such as 0a:58:0a:4d:01:02.
	MAC string `json:"mac,omitempty"`
	// MTU of the interface in bytes, as the network set it.
	MTU int `json:"mtu"`
}

// SetAddrs gives the attachment the first address of each family, and as Addr that of IPv6
// where there is no other.
func (a *Attachment) SetAddrs(addrs []netip.Addr) {
	first := func(is func(netip.Addr) bool) netip.Addr {
		if i := slices.IndexFunc(addrs, is); i >= 0 {
			return addrs[i]
		}
		return netip.Addr{}
	}
	a.Addr6 = first(netip.Addr.Is6)
	a.Addr = cmp.Or(first(netip.Addr.Is4), a.Addr6)
}

// Pod is one network namespace with one stable address, on one host.
type Pod struct {
	Name string `json:"name"`
	// UID is this instance's own: a pod made again under the same name, or
	// with the same address, has another one.
	UID string `json:"uid,omitempty"`
	// Agent: the pod is the steering agent's own, for its probes, and runs no
	// application.
	Agent bool `json:"agent,omitempty"`
	// Host is the index of the host that the pod is on.
	Host int `json:"host"`
	// Netns is the name of the pod's network namespace. Pods of the networks
	// host and container share one with their host or with one another.
	Netns string `json:"netns"`
	// Barred are networks of its that no flow of the pod's may be moved to, as policies forbid.
	Barred []string `json:"barred,omitempty"`
	// Need is what its flows ask of their path, as agents have it; "" leaves it to the agent.
	Need string `json:"need,omitempty"`
	// Pin is the network that flows which the pod has opened are kept on, failures excepted;
	// nothing is for pairs that have no path there.
	Pin string `json:"pin,omitempty"`
	// DryRun: of flows that the pod has opened is decided and told, and none is moved.
	DryRun bool `json:"dry_run,omitempty"`
	// Policy names what says Need, Pin and DryRun, for people.
	Policy string `json:"policy,omitempty"`
	// Attachments: the first is the default network, which gives the stable address.
	Attachments []Attachment `json:"attachments,omitempty"`
	// Listen is the port, TCP and UDP, on which the pod's server listens:
	// ServicePort, or one after it where pods share a namespace.
	Listen uint16 `json:"listen,omitempty"`
	// Service is where other pods reach the pod's service port. On a network
	// that publishes ports it is the host's address and a mapped port.
	Service netip.AddrPort `json:"service,omitzero"`
}

// Addr is the pod's stable address; the zero value where it has none.
func (p Pod) Addr() netip.Addr {
	if len(p.Attachments) == 0 {
		return netip.Addr{}
	}
	return p.Attachments[0].Addr
}

// Address is the pod's address of the family on its default network; of the family 0, for
// any, the stable one. It is the zero value where the pod has none.
func (p Pod) Address(family int) netip.Addr {
	a := p.Addr()
	switch {
	case family == 0 || !a.IsValid() || FamilyOf(a) == family:
		return a
	case family == IPv6:
		return p.Attachments[0].Addr6
	default:
		return netip.Addr{}
	}
}

// Has reports whether the address is one of the pod's own, and not of its host, which
// publishes a port of it.
func (p Pod) Has(a netip.Addr) bool {
	return a.IsValid() && (a == p.Address(IPv4) || a == p.Address(IPv6))
}

// On returns the pod's attachment on the network.
func (p Pod) On(network string) (Attachment, bool) {
	i := slices.IndexFunc(p.Attachments, func(a Attachment) bool { return a.Network == network })
	if i < 0 {
		return Attachment{}, false
	}
	return p.Attachments[i], true
}

// ServicePort is the port on which a pod's server listens where the pod has a
// namespace of its own: that of iperf3, so that a figure can be checked by
// hand without flags.
const ServicePort = 5201
