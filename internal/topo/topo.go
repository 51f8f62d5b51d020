// Package topo is the vocabulary of the test bed as plain values: hosts, pods,
// attachments, paths and the scenario that says where pods stand.
//
// It is pure: it touches no kernel, file or clock. Package lab makes these
// values real.
package topo

import (
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

// Placements lists every placement in the order in which results are shown.
func Placements() []Placement { return []Placement{OneHost, TwoHosts} }

// ParsePlacement returns the placement called s.
func ParsePlacement(s string) (Placement, error) {
	if p := Placement(s); slices.Contains(Placements(), p) {
		return p, nil
	}
	return "", fmt.Errorf("unknown topology %q: expected one-host or two-hosts", s)
}

// Scenario says where the pods of a trial stand and over what.
type Scenario struct {
	Placement Placement `json:"placement"`
	// Pairs is the number of client-server pod pairs that carry load at once, 1 to 128.
	Pairs int `json:"pairs"`
	// MTU of the underlay between the hosts, in bytes, 1280 to 9000.
	MTU int `json:"mtu"`
	// Kernel is that of the guest in which hosts and pods stood, such as
	// uml-6.1.176; "" for the machine's own. Figures of two kernels answer
	// different questions.
	Kernel string `json:"kernel,omitempty"`
}

// String is the scenario in one word, as it stands in keys and tables.
func (s Scenario) String() string {
	out := string(s.Placement)
	if s.Pairs != 1 {
		out += fmt.Sprintf(",pairs=%d", s.Pairs)
	}
	if s.MTU != DefaultMTU {
		out += fmt.Sprintf(",mtu=%d", s.MTU)
	}
	if s.Kernel != "" {
		out += ",kernel=" + s.Kernel
	}
	return out
}

// Limits of a scenario.
const (
	DefaultMTU = 1500
	MinMTU     = 1280 // RFC 8200 section 5
	MaxMTU     = 9000
	MaxPairs   = 128 // the largest count of Claassen (2015)
)

// Host is a machine that runs pods; in the lab, a network namespace.
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
	// Pods is the range from which pods on this host get their stable addresses.
	Pods netip.Prefix `json:"pods"`
}

// Attachment is one interface of a pod on one network.
type Attachment struct {
	Network string     `json:"network"`
	Dev     string     `json:"dev"`
	Addr    netip.Addr `json:"addr"`
	// MAC is the interface's hardware address, such as 0a:58:0a:4d:01:02.
	MAC string `json:"mac,omitempty"`
	// MTU of the interface in bytes, as the network set it.
	MTU int `json:"mtu"`
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
	// Host is the index of the host that the pod stands on.
	Host int `json:"host"`
	// Netns is the name of the pod's network namespace. Pods of the networks
	// host and container share one with their host or with one another.
	Netns string `json:"netns"`
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
