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

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// startup is what is known of a network between Build and the end of Ready.
type startup struct {
	flannel
	site network.Site
	// etcd is the URL of etcd.
	etcd string
}

// etcdPrefix is flannel's default.
const etcdPrefix = "/coreos.com/network"

// ready gives the daemons their configuration and waits until every host can
// send to the subnet of every other one.
func (s *startup) ready(ctx context.Context) error {
	const every = 2 * time.Millisecond
	if !s.site.Within {
		if err := s.configure(ctx); err != nil {
			return err
		}
	}
	// Hosts elsewhere are given what their daemons ask for.
	subnets := map[int]netip.Prefix{}
	for _, h := range s.site.All() {
		subnets[h.Index] = h.Pods.Masked()
	}
	if err := network.Poll(ctx, every, func() error { return s.assigned(subnets) }); err != nil {
		return err
	}
	if s.backend == UDP {
		return s.carried(ctx, subnets)
	}
	return network.Poll(ctx, every, func() error { return s.routed(subnets) })
}

// configure gives etcd flannel's configuration once it takes connections.
func (s *startup) configure(ctx context.Context) error {
	if err := network.Poll(ctx, 2*time.Millisecond, s.listening); err != nil {
		return err
	}
	config, err := s.config(ctx)
	if err == nil {
		_, err = s.etcdctl(ctx, "put", path.Join(etcdPrefix, "config"), config)
	}
	if err != nil {
		return fmt.Errorf("configure flannel: %w", err)
	}
	return nil
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

// etcdctl speaks to etcd: not a client of ours, as etcdctl comes with the server
// and speaks its version.
func (s *startup) etcdctl(ctx context.Context, argv ...string) ([]byte, error) {
	argv = append([]string{"env", "ETCDCTL_API=3", "etcdctl", "--endpoints", s.etcd}, argv...)
	return s.site.Run(ctx, s.site.Underlay, argv...)
}

// assigned fills in each host's subnet by its index.
func (s *startup) assigned(subnets map[int]netip.Prefix) error {
	for _, h := range s.site.Hosts {
		subnet, err := readSubnet(subnetFile(s.site, h))
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		subnets[h.Index] = subnet
	}
	return nil
}

// routed looks for every host's routes to all other subnets.
func (s *startup) routed(subnets map[int]netip.Prefix) error {
	for _, h := range s.site.Hosts {
		if err := s.hostRouted(h, subnets); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// hostRouted looks for the host's routes to all other subnets. With VXLAN the
// route is what flannel adds last for a peer, after neighbour and forwarding
// entry.
func (s *startup) hostRouted(h topo.Host, subnets map[int]netip.Prefix) error {
	nl, err := s.site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	link, err := nl.LinkByName(s.device(h))
	if err != nil {
		return fmt.Errorf("find %s: %w", s.device(h), err)
	}
	routes, err := netns.Whole(func() ([]netlink.Route, error) { return nl.RouteList(link, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	have := map[string]bool{}
	for _, r := range routes {
		if r.Dst != nil && r.Gw != nil {
			have[r.Dst.String()] = true
		}
	}
	for _, peer := range s.site.All() {
		if subnet := subnets[peer.Index]; peer.Index != h.Index && !have[subnet.String()] {
			return fmt.Errorf("no route to %v of host %s yet", subnet, peer.Name)
		}
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
