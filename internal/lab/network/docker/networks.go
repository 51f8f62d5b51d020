package docker

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// madeNetwork is the name of the network that the engines are told to make.
const madeNetwork = "pathwise"

// networkConfig is the body of a request for a network.
type networkConfig struct {
	Name       string
	Driver     string
	Attachable bool
	IPAM       ipam
	Options    map[string]string
}

type ipam struct{ Config []ipamRange }

type ipamRange struct {
	Subnet             string
	IPRange            string            `json:",omitempty"`
	Gateway            string            `json:",omitempty"`
	AuxiliaryAddresses map[string]string `json:",omitempty"`
}

// mtuOption sets a network's MTU, which would be made for 1500 on the underlay.
const mtuOption = "com.docker.network.driver.mtu"

// makeChild makes the host's part of a network whose containers are on the
// underlay themselves.
func (d docker) makeChild(ctx context.Context, site network.Site, e *engine) error {
	part, err := site.OnUnderlay(e.host)
	if err != nil {
		return err
	}
	options := map[string]string{"parent": e.host.Dev, mtuOption: strconv.Itoa(site.MTU)}
	if d.kind == IPvlan {
		options["ipvlan_mode"] = "l2"
	}
	pool := ipamRange{Subnet: e.host.Addr.Masked().String(), IPRange: part.String(), Gateway: site.Gateway.Addr().String(),
		// Taken, as some take an address that ends in 0 for none.
		AuxiliaryAddresses: map[string]string{"first": part.Addr().String()}}
	err = e.post(ctx, "/networks/create", networkConfig{Name: madeNetwork, Driver: string(d.kind), Options: options,
		IPAM: ipam{[]ipamRange{pool}}}, nil)
	if err != nil {
		return fmt.Errorf("make network: %w", err)
	}
	return nil
}

// managerPort is the swarm's, by which engines join.
const managerPort = 2377

// makeOverlay joins the engines to a swarm, which the first host's manages, and
// makes a network in it that containers may use which are no swarm service's.
func makeOverlay(ctx context.Context, site network.Site, engines map[int]*engine) error {
	first := engines[site.Hosts[0].Index]
	manager := netip.AddrPortFrom(first.host.Addr.Addr(), managerPort)
	type member struct {
		ListenAddr, AdvertiseAddr string
		JoinToken                 string   `json:",omitempty"`
		RemoteAddrs               []string `json:",omitempty"`
		DefaultAddrPool           []string `json:",omitempty"`
		SubnetSize                int      `json:",omitempty"`
	}
	err := first.post(ctx, "/swarm/init", member{ListenAddr: manager.String(), AdvertiseAddr: manager.Addr().String(),
		DefaultAddrPool: []string{swarmPool}, SubnetSize: 24}, nil)
	if err != nil {
		return fmt.Errorf("make swarm: %w", err)
	}
	if err := first.removeIngress(ctx); err != nil {
		return fmt.Errorf("make swarm: %w", err)
	}
	var swarm struct{ JoinTokens struct{ Worker string } }
	if err := first.get(ctx, "/swarm", &swarm); err != nil {
		return fmt.Errorf("make swarm: %w", err)
	}
	err = sideBySide(site.Hosts[1:], func(h topo.Host) error {
		return engines[h.Index].post(ctx, "/swarm/join",
			member{ListenAddr: netip.AddrPortFrom(h.Addr.Addr(), managerPort).String(),
				AdvertiseAddr: h.Addr.Addr().String(), RemoteAddrs: []string{manager.String()}, JoinToken: swarm.JoinTokens.Worker},
			nil)
	})
	if err != nil {
		return fmt.Errorf("join swarm: %w", err)
	}
	err = first.post(ctx, "/networks/create", networkConfig{Name: madeNetwork, Driver: "overlay", Attachable: true,
		Options: map[string]string{mtuOption: strconv.Itoa(site.MTU)}, // of which the driver takes its overhead off
		IPAM:    ipam{[]ipamRange{{Subnet: site.Pods.Masked().String()}}}}, nil)
	if err != nil {
		return fmt.Errorf("make network: %w", err)
	}
	// Not more often: on a guest's only processor the asking would keep the engines from joining.
	return network.Poll(ctx, 50*time.Millisecond, func() error { return joined(ctx, first, len(site.Hosts)) })
}

// removeIngress takes the swarm's network for published ports of services away,
// before any other engine makes its part of it: nothing here is a service, and each
// part has the engine start itself again some times, which on a guest's only processor
// is time that attaching a container then lacks.
func (e *engine) removeIngress(ctx context.Context) error {
	return network.Poll(ctx, 20*time.Millisecond, func() error {
		_, err := e.request(ctx, http.MethodDelete, "/networks/ingress", "", nil)
		return err
	})
}

// joined asks whether all engines take part in the swarm.
func joined(ctx context.Context, manager *engine, want int) error {
	var nodes []struct{ Status struct{ State string } }
	if err := manager.get(ctx, "/nodes", &nodes); err != nil {
		return err
	}
	ready := 0
	for _, n := range nodes {
		if n.Status.State == "ready" {
			ready++
		}
	}
	if ready < want {
		return fmt.Errorf("%d of %d engines have joined the swarm", ready, want)
	}
	return nil
}
