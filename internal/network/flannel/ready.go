package flannel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/topo"
)

// startup is what is known of a network between Build and the end of Ready.
type startup struct {
	flannel
	site network.Site
	// etcd is the URL of etcd.
	etcd string
	// reached holds the pairs of hosts, by index, that are known to reach each other.
	reached map[[2]int]bool
}

// etcdPrefix is flannel's default.
const etcdPrefix = "/coreos.com/network"

// ready gives the daemons their configuration and waits until every host can
// send to the subnet of every other one.
func (s *startup) ready(ctx context.Context) error {
	const every = 2 * time.Millisecond
	if err := network.Poll(ctx, every, s.listening); err != nil {
		return err
	}
	// etcdctl, and not a client of etcd's: a version of it comes with each server.
	_, err := s.site.Run(ctx, s.site.Underlay, "env", "ETCDCTL_API=3", "etcdctl", "--endpoints", s.etcd,
		"put", path.Join(etcdPrefix, "config"), s.config(s.site))
	if err != nil {
		return fmt.Errorf("configure flannel: %w", err)
	}
	s.reached = map[[2]int]bool{}
	return network.Poll(ctx, every, func() error { return s.converged(ctx) })
}

// listening tries whether etcd takes connections: etcdctl, refused once, waits
// a second before it tries again.
func (s *startup) listening() error {
	return netns.Do(s.site.Underlay, func() error {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.etcd, "http://"), time.Second)
		if err != nil {
			return fmt.Errorf("connect to etcd: %w", err)
		}
		return conn.Close()
	})
}

// converged returns what is still missing, nil if nothing is.
func (s *startup) converged(ctx context.Context) error {
	subnets := map[int]netip.Prefix{}
	for _, h := range s.site.Hosts {
		subnet, err := readSubnet(subnetFile(s.site, h))
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		subnets[h.Index] = subnet
	}
	for _, h := range s.site.Hosts {
		var err error
		if s.backend == UDP {
			err = s.reach(ctx, h, subnets)
		} else {
			err = s.routed(h, subnets)
		}
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// routed looks for the host's routes to all other subnets. With VXLAN the route
// is what flannel adds last for a peer, after neighbour and forwarding entry.
func (s *startup) routed(h topo.Host, subnets map[int]netip.Prefix) error {
	nl, err := s.site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	link, err := nl.LinkByName(s.device(h))
	if err != nil {
		return fmt.Errorf("find %s: %w", s.device(h), err)
	}
	routes, err := nl.RouteList(link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	have := map[string]bool{}
	for _, r := range routes {
		if r.Dst != nil && r.Gw != nil {
			have[r.Dst.String()] = true
		}
	}
	for _, peer := range s.site.Hosts {
		if subnet := subnets[peer.Index]; peer.Index != h.Index && !have[subnet.String()] {
			return fmt.Errorf("no route to %v of host %s yet", subnet, peer.Name)
		}
	}
	return nil
}

// reach has a packet go from the host to each host after it, and back: with the
// UDP backend, which subnet lies where is known to the daemons alone.
func (s *startup) reach(ctx context.Context, h topo.Host, subnets map[int]netip.Prefix) error {
	for _, peer := range s.site.Hosts {
		pair := [2]int{h.Index, peer.Index}
		if peer.Index <= h.Index || s.reached[pair] {
			continue
		}
		// The first address of a subnet is that of its host's flannel0. One
		// answer ends it, as does the daemon's "network unreachable".
		addr := subnets[peer.Index].Masked().Addr().String()
		if _, err := s.site.Run(ctx, h.Netns, "ping", "-n", "-q", "-i", "0.01", "-c", "1", "-w", "1", addr); err != nil {
			return fmt.Errorf("host %s does not answer yet: %w", peer.Name, err)
		}
		s.reached[pair] = true
	}
	return nil
}

var errNotYet = errors.New("the daemon has not written its subnet file yet")

// readSubnet returns the subnet that the daemon wrote to its subnet file. The
// file is there before, with the subnet that the daemon was told to ask for.
func readSubnet(file string) (netip.Prefix, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("read subnet file: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	if values["FLANNEL_MTU"] == "" {
		return netip.Prefix{}, errNotYet
	}
	subnet, err := netip.ParsePrefix(values["FLANNEL_SUBNET"])
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("read subnet file: %w", err)
	}
	return subnet.Masked(), nil
}
