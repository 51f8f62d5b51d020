// Package docker holds the networks of Docker's engine: a real dockerd on each
// host, which runs the pods as its containers and attaches them itself. They are
// the modes that Suo et al. (2018) compare, and the swarm overlay, which is the
// libnetwork of Atici and Boluk (2020).
//
// It speaks to the engine by its API: the docker command is not used, nor are
// images fetched. Whatever an engine writes stays in the lab; see start.
package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// Kind says which of the engine's networks it is.
type Kind string

// Kinds.
const (
	// Bridge: the engine's default, docker0.
	Bridge Kind = "bridge"
	// Host: containers in their host's namespace.
	Host Kind = "host"
	// None: containers with nothing but their loopback.
	None Kind = "none"
	// Container: the containers of a host in the namespace of the first (container:ID).
	Container Kind = "container"
	// NAT: as Bridge, and each container's service port published by its host.
	NAT Kind = "nat"
	// Macvlan and IPvlan: libnetwork's drivers of that name.
	Macvlan Kind = "macvlan"
	IPvlan  Kind = "ipvlan"
	// Overlay: libnetwork's VXLAN driver with the engines joined to a swarm.
	Overlay Kind = "overlay"
)

// overhead of Overlay is outer Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section 5).
const overhead = 14 + 20 + 8 + 8

// patience is twenty times what two engines took to begin on User-mode Linux, and
// two hundred times what they took on the machine's own kernel.
const patience = 2 * time.Minute

// New returns the network of that kind.
func New(kind Kind) network.Network { return docker{kind} }

type docker struct{ kind Kind }

// needs are those of any engine.
func needs(more ...network.Need) []network.Need {
	return append([]network.Need{network.NeedRoot(), network.NeedMachineRoot("the engine wants mounts and control groups"),
		network.NeedProgram("dockerd", "docker.io"), network.NeedProgram("containerd", "containerd"),
		network.NeedProgram("containerd-shim-runc-v2", "containerd"), network.NeedProgram("runc", "runc"),
		network.NeedProgram("iptables", "iptables"), network.NeedProgram("unshare", "util-linux"),
		network.NeedProgram("mount", "mount")}, more...)
}

// Info implements network.Network.
func (d docker) Info() network.Info {
	veth, bridge := network.NeedLink("veth", "CONFIG_VETH"), network.NeedLink("bridge", "CONFIG_BRIDGE")
	info := network.Info{Name: "docker-" + string(d.kind), Family: "docker", Needs: needs(veth, bridge),
		Extra: time.Second, // an engine starts
		First: "its pods are containers that the engine makes"}
	switch d.kind {
	case None:
		return d.none(info)
	case Host:
		return d.host(info)
	case Container:
		return d.container(info)
	case Macvlan, IPvlan:
		return d.child(info)
	case Overlay:
		return d.overlay(info)
	default:
		return d.bridge(info)
	}
}

const behindHost = "containers have private addresses behind their host: publish a port (network docker-nat) or use docker-overlay"

// bridge completes what is said of Bridge and NAT.
func (d docker) bridge(info network.Info) network.Info {
	info.Summary = "Docker's default: containers on docker0, masqueraded to the outside"
	info.Cannot = map[topo.Placement]string{topo.TwoHosts: behindHost}
	info.Row = network.Quality{Namespace: "independent, isolated", IntraHost: "docker0 bridge", InterHost: "-",
		Outside: "masquerade", KeyValue: "no", Encryption: "no", Isolation: "moderate",
		ReachIntra: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true}
	if d.kind == NAT {
		info.Summary = "Docker's default bridge, containers reached at their host's address and a published port"
		info.Cannot, info.First = nil, ""
		info.Alone = "its pods are reached at a published port of their host, not at an address on each network"
		info.Row.InterHost, info.Row.ReachInter = "published port (DNAT)", true
		info.Row.IntraHost = "docker0 bridge; a published port by docker-proxy, in user space"
	}
	return info
}

func (d docker) none(info network.Info) network.Info {
	why := "the network carries no traffic: that is its purpose"
	info.Summary = "Docker's network none: a container with nothing but its loopback"
	info.Cannot = map[topo.Placement]string{topo.OneHost: why, topo.TwoHosts: why}
	info.First, info.Alone, info.Needs, info.Closed = "", "it keeps pods without any network", needs(), true
	info.Row = network.Quality{Namespace: "independent, isolated", IntraHost: "-", InterHost: "-", Outside: "-",
		KeyValue: "no", Encryption: "no", Isolation: "high", OwnNamespace: true}
	return info
}

func (d docker) host(info network.Info) network.Info {
	info.Summary = "Docker's network host: containers share their host's network namespace"
	info.First, info.Alone = "", "its pods have no namespace of their own, but their host's"
	info.Row = network.Quality{Namespace: "shared with the host", IntraHost: "host network stack",
		InterHost: "host network stack", Outside: "host network stack", KeyValue: "no", Encryption: "no", Isolation: "low",
		ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true}
	return info
}

func (d docker) container(info network.Info) network.Info {
	info.Summary = "Docker's network container:ID: containers share the namespace of a first one, which is on docker0"
	info.Cannot = map[topo.Placement]string{topo.TwoHosts: "containers that share a namespace are on one host"}
	info.First, info.Alone = "", "its pods share one namespace"
	info.Row = network.Quality{Namespace: "shared with the group leader", IntraHost: "loopback of the shared namespace",
		InterHost: "-", Outside: "masquerade", KeyValue: "no", Encryption: "no", Isolation: "medium",
		ReachIntra: true, ReachOwnHost: true, ReachOutside: true}
	return info
}

func (d docker) child(info network.Info) network.Info {
	kernel := map[Kind]string{Macvlan: "CONFIG_MACVLAN", IPvlan: "CONFIG_IPVLAN"}[d.kind]
	info.Needs = append(info.Needs, network.NeedLink(string(d.kind), kernel))
	info.Uplink = string(d.kind)
	info.Summary = "Docker's macvlan driver: a MAC address on the underlay for each container"
	if d.kind == IPvlan {
		info.Uplink += " l2"
		info.Summary = "Docker's ipvlan driver, layer 2: an address on the underlay for each container, the MAC address is their host's"
	}
	info.Row = network.Quality{Namespace: "independent, isolated", IntraHost: "in the " + string(d.kind) + " driver",
		InterHost: "the underlay's layer 2", Outside: "the underlay's layer 2", KeyValue: "no", Encryption: "no",
		Isolation: "moderate", ReachIntra: true, ReachInter: true, ReachOutside: true, OwnNamespace: true}
	return info
}

func (d docker) overlay(info network.Info) network.Info {
	info.Summary = "Docker's overlay: VXLAN between the engines of a swarm, which learn peers by gossip"
	info.Extra = 2300 * time.Millisecond // two engines, and a swarm of them
	info.Overhead = overhead
	info.Needs = append(info.Needs, network.NeedLink("vxlan", "CONFIG_VXLAN"))
	info.First, info.Alone = "", "the engine gives its pods a second interface, by which their default route goes"
	info.OneKernel = "an engine joins the swarm by a token that the first one draws, and a virtual machine learns nothing of the lab after its boot but what its own host needs"
	info.Row = network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", InterHost: "VXLAN overlay",
		Outside: "masquerade, by a second interface (docker_gwbridge)", KeyValue: "no (swarm: Raft and gossip)",
		Encryption: "no (IPsec where asked for)", Isolation: "moderate",
		ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true}
	return info
}

// Build implements network.Network.
func (d docker) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByEngine, Publish: d.kind == NAT, Patience: patience}
	switch d.kind {
	case Host:
		plug.Mode = network.ShareHost
	case None:
		plug.Mode = network.Closed
	case Container:
		plug.Mode = network.SharePod
	}
	if d.Info().Row.ReachInter {
		plug.Crossing = network.Uplinks(site)
	}
	engines := map[int]*engine{}
	for _, h := range site.Hosts {
		e, err := start(ctx, site, h, d.flags(h))
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		engines[h.Index] = e
	}
	raw, err := site.Run(ctx, "", "dockerd", "--version") // while the engines begin
	if err != nil {
		return plug, err
	}
	plug.Notes = []string{strings.TrimSpace(string(raw))}
	plug.Ready = func(ctx context.Context) error { return d.ready(ctx, site, engines) }
	if d.kind == Overlay {
		plug.Settled = told
	}
	plug.Run = func(ctx context.Context, c network.Container) (int, error) { return d.run(ctx, engines[c.Host], c) }
	return plug, nil
}

// ready waits until the engines answer, and makes their networks.
func (d docker) ready(ctx context.Context, site network.Site, engines map[int]*engine) error {
	err := sideBySide(site.Hosts, func(h topo.Host) error {
		e := engines[h.Index]
		if err := e.answers(ctx); err != nil {
			return err
		}
		if err := e.importImage(ctx); err != nil {
			return err
		}
		if d.kind != Macvlan && d.kind != IPvlan {
			return nil
		}
		return d.makeChild(ctx, site, e)
	})
	if err != nil || d.kind != Overlay {
		return err
	}
	return makeOverlay(ctx, site, engines)
}

// sideBySide calls f for all hosts at once.
func sideBySide(hosts []topo.Host, f func(topo.Host) error) error {
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			if err := f(h); err != nil {
				errs[i] = fmt.Errorf("host %s: %w", h.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
