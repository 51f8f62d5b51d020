package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/flannel-io/flannel/pkg/backend"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/etcd"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
	"k8s.io/klog/v2"

	// A backend registers itself when it is imported.
	_ "github.com/flannel-io/flannel/pkg/backend/extension"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
)

const (
	// renewMargin is how many minutes before its end a lease is renewed; flannel's default.
	renewMargin = 60
	// resync is how often, in seconds, rules of iptables are looked after; flannel's default.
	resync = 5
)

// run serves the host until ctx ends, which is no error, or until the host
// loses its subnet.
func run(parent context.Context, opts options) error {
	ctx, cancel := context.WithCancel(parent)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	err := serve(ctx, opts, &running)
	if parent.Err() != nil {
		return nil
	}
	return err
}

func serve(ctx context.Context, opts options, running *sync.WaitGroup) error {
	if err := waitForConfig(ctx, opts.endpoints, opts.prefix); err != nil {
		return fmt.Errorf("wait for network configuration: %w", err)
	}
	previous, err := previousSubnet(opts.subnetFile)
	if err != nil {
		return err
	}
	at := &etcd.EtcdConfig{Endpoints: opts.endpoints, Prefix: opts.prefix}
	sm, err := etcd.NewLocalManager(ctx, at, previous, ip.IP6Net{}, renewMargin)
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	config, err := sm.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("read network configuration: %w", err)
	}
	network, err := register(ctx, opts, sm, config, running)
	if err != nil {
		return fmt.Errorf("start backend %s: %w", config.BackendType, err)
	}
	if err := filter(ctx, opts, config, network); err != nil {
		return fmt.Errorf("set up packet filter: %w", err)
	}
	own := network.Lease()
	if err := sm.HandleSubnetFile(opts.subnetFile, config, opts.masquerade, own.Subnet, own.IPv6Subnet,
		network.MTU()); err != nil {
		return fmt.Errorf("write subnet file: %w", err)
	}
	klog.Infof("subnet %v, MTU %d", own.Subnet, network.MTU())
	running.Go(func() { network.Run(ctx) })
	if err := sm.CompleteLease(ctx, own, running); err != nil {
		return fmt.Errorf("lose subnet %v: %w", own.Subnet, err)
	}
	return nil
}

// register starts the configured backend, which takes a subnet for this host.
func register(ctx context.Context, opts options, sm subnet.Manager, config *subnet.Config,
	running *sync.WaitGroup) (backend.Network, error) {
	family, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return nil, fmt.Errorf("choose address family: %w", err)
	}
	uplink, err := ipmatch.LookupExtIface(opts.iface, "", "", family, ipmatch.PublicIPOpts{PublicIP: opts.publicIP})
	if err != nil {
		return nil, fmt.Errorf("find interface: %w", err)
	}
	registerUDP()
	chosen, err := backend.NewManager(ctx, sm, uplink).GetBackend(config.BackendType)
	if err != nil {
		return nil, err
	}
	return chosen.RegisterNetwork(ctx, running, config)
}

// filter accepts forwarded traffic of the network and, if asked for,
// masquerades what leaves it.
func filter(ctx context.Context, opts options, config *subnet.Config, network backend.Network) error {
	var rules trafficmngr.TrafficManager = &iptables.IPTablesManager{}
	if config.EnableNFTables {
		rules = &nftables.NFTablesManager{}
	}
	if err := rules.Init(ctx); err != nil {
		return err
	}
	if opts.masquerade {
		var none4 ip.IP4Net // there are no rules of an earlier run
		var none6 ip.IP6Net
		err := rules.SetupAndEnsureMasqRules(ctx, config.Network, none4, none4, config.IPv6Network, none6, none6,
			network.Lease(), resync, false)
		if err != nil {
			return err
		}
	}
	rules.SetupAndEnsureForwardRules(ctx, config.Network, config.IPv6Network, resync)
	return nil
}
