package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// plan is what all kernels of a lab agree on before anything is made.
type plan struct {
	Spec    Spec         `json:"spec"`
	Hosts   []topo.Host  `json:"hosts"`
	Gateway netip.Prefix `json:"gateway"`
	Mixed   bool         `json:"mixed,omitempty"`
	Seed    []byte       `json:"seed"`
}

// newPlan plans the lab that the spec asks for.
func newPlan(spec Spec, nets []built, opts Options) (*plan, error) {
	p := &plan{Spec: spec}
	var err error
	if p.Gateway, err = topo.GatewayAddr(spec.Underlay); err != nil {
		return nil, err
	}
	if p.Hosts, err = spec.hosts(); err != nil {
		return nil, err
	}
	if len(spec.VMs) > 0 {
		err = p.planVMs(nets, opts)
	}
	return p, errors.Join(err, p.needFamily())
}

// planVMs says of each host that is a virtual machine which kernel it has.
func (p *plan) planVMs(nets []built, opts Options) error {
	if opts.Hypervisor == nil {
		return errors.New("no means to boot virtual machines: see \"pathwise guest\"")
	}
	for _, v := range p.Spec.VMs {
		h := &p.Hosts[v.Host-1]
		h.VM, h.Control = opts.Hypervisor.Label(), p.Spec.machineNetns(h.Machine)
	}
	p.Mixed = len(p.Spec.VMs) < len(p.Hosts)
	for _, n := range nets {
		if why := n.Info().OneKernel; why != "" {
			return fmt.Errorf("network %s cannot have hosts in virtual machines: %s", n.name, why)
		}
	}
	p.Seed = make([]byte, 32)
	if _, err := opts.Random.Read(p.Seed); err != nil {
		return fmt.Errorf("make seed: %w", err)
	}
	return nil
}

// underlay is the namespace of the switch between the hosts.
func (p *plan) underlay() string { return p.Spec.netns("u") }

// site is the ground of network number i with its part of the hosts' addresses, all of
// which are on one kernel or on several.
func (p *plan) site(i int) (network.Site, error) {
	hosts, pods, err := p.Spec.on(i, p.Hosts)
	site := network.Site{Index: i, Hosts: hosts, Mixed: p.Mixed, Seed: p.Seed, Underlay: p.underlay(), Gateway: p.Gateway,
		MTU: p.Spec.wireMTU(), Pods: pods, IPv6: p.Spec.ipv6()}
	if len(p.Spec.VMs) > 0 {
		site.Everywhere = hosts
	}
	return site, err
}
