// Package flannel holds the networks of flannel: its daemon on each host, a
// real etcd from which the daemons learn of one another, and its CNI plugin,
// which hands the pod to the bridge plugin. The backend decides how packets
// get to the other host: in VXLAN, by plain routes, or in UDP by the daemon.
//
// The daemon is tools/flannel of this repository: flannel's own packages under
// a main of ours. Its backends that need more than the kernel and etcd (ipip,
// wireguard, clouds) are not here.
package flannel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// Backends of flannel.
const (
	VXLAN  = "vxlan"
	HostGW = "host-gw"
	UDP    = "udp"
)

// New returns the network with that backend of flannel. It panics when the
// backend is none of the constants: the catalogue names them.
func New(backend string) network.Network {
	switch backend {
	case VXLAN, HostGW, UDP:
		return flannel{backend}
	default:
		panic(fmt.Sprintf("flannel: unknown backend %q", backend))
	}
}

type flannel struct{ backend string }

// Info implements network.Network.
func (f flannel) Info() network.Info {
	info := network.Info{
		Name: "flannel-" + f.backend, Family: "flannel",
		Needs: []network.Need{network.NeedRoot(),
			network.NeedProgram("etcd", "etcd-server"), network.NeedProgram("etcdctl", "etcd-client"),
			network.NeedProgram("nft", "nftables"),
			{Kind: network.Program, Name: "flanneld", From: "make plugins"},
			network.NeedPlugin("flannel"), network.NeedPlugin("bridge"), network.NeedPlugin("host-local"),
			network.NeedLink("veth", "CONFIG_VETH"), network.NeedLink("bridge", "CONFIG_BRIDGE")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", Outside: "masquerade",
			KeyValue: "etcd", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
	if f.backend == UDP {
		info.OneKernel = "whether its daemons have found one another is only known by sending from every host"
	}
	switch f.backend {
	case VXLAN:
		info.Summary = "flannel, VXLAN backend: the kernel's VXLAN between hosts, peers from etcd"
		info.Overhead = 14 + 20 + 8 + 8 // Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section 5)
		info.Needs = append(info.Needs, network.NeedLink("vxlan", "CONFIG_VXLAN"))
		info.Row.InterHost = "VXLAN overlay"
	case HostGW:
		info.Summary = "flannel, host-gw backend: routes between hosts of one layer 2, peers from etcd"
		info.Row.InterHost = "routes of the host"
	case UDP:
		info.Summary = "flannel, UDP backend: the daemon itself carries packets between hosts, peers from etcd"
		info.Overhead = 20 + 8 // IPv4 and UDP header
		info.Needs = append(info.Needs, network.NeedLink("tun", "CONFIG_TUN"))
		info.Row.InterHost = "UDP overlay in user space"
		if runtime.GOARCH != "amd64" {
			info.Needs = append(info.Needs, network.Need{Kind: network.Program, Name: "flanneld with its UDP backend",
				From: "flannel has it for amd64 only"})
		}
	}
	return info
}

// device is the interface over which traffic for other hosts leaves the host.
func (f flannel) device(h topo.Host) string {
	switch f.backend {
	case VXLAN:
		return "flannel.1"
	case UDP:
		return "flannel0"
	default:
		return h.Dev
	}
}

// Build implements network.Network.
func (f flannel) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}}
	// flannel wants room for four subnets, of which it leaves the first unused.
	if subnetBits := site.Hosts[0].Pods.Bits(); site.Pods.Bits() > subnetBits-2 {
		return plug, fmt.Errorf("pod range %v is too small for flannel: expected /%d or larger", site.Pods, subnetBits-2)
	}
	start := startup{flannel: f, site: site,
		etcd: "http://" + netip.AddrPortFrom(site.Gateway.Addr(), ports(site)).String()}
	if !site.Within {
		if err := start.startEtcd(ctx); err != nil {
			return plug, err
		}
	}
	for _, h := range site.Hosts {
		if err := start.startDaemon(ctx, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		list, err := f.conflist(site, h)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: f.device(h)})
	}
	plug.Ready = start.ready
	return plug, nil
}

// ports is the first of the two ports of the network's etcd, of which each
// flannel of a lab has one of its own.
func ports(site network.Site) uint16 { return 2379 + uint16(2*site.Index) }

// daemonName is base, told apart from that of another flannel in the lab.
func daemonName(site network.Site, base string) string {
	if site.Default() {
		return base
	}
	return fmt.Sprintf("%s-%d", base, site.Index)
}

// startEtcd starts a cluster of one. It elects itself only after a timer has run
// out, so timers are shorter than the default (100 and 1000 ms), which would be
// most of the start-up. Not as short as they could be: at 10 and 100 ms an idle
// etcd takes 1.8 % of a processor, as against 1.0 % here and 0.6 % by default,
// and it runs while other things are measured.
func (s *startup) startEtcd(ctx context.Context) error {
	peers := fmt.Sprintf("http://127.0.0.1:%d", ports(s.site)+1) // etcd insists on one; there are none
	return s.site.Start(ctx, network.Daemon{Name: daemonName(s.site, "etcd"), Netns: s.site.Underlay,
		Argv: []string{"etcd",
			"--name", "lab", "--data-dir", filepath.Join(s.site.Dir, "etcd"),
			"--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd,
			"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "lab=" + peers,
			"--heartbeat-interval", "50", "--election-timeout", "250"}})
}

// startDaemon starts flannel's daemon on the host.
func (s *startup) startDaemon(ctx context.Context, h topo.Host) error {
	file := subnetFile(s.site, h)
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	// The subnet that the daemon is to ask for, as if it had had it before.
	// Left to choose by chance, two daemons that start at once may take the
	// same one, and the second then ends with "subnet already exists".
	first := netip.PrefixFrom(h.Pods.Masked().Addr().Next(), h.Pods.Bits())
	if err := os.WriteFile(file, fmt.Appendf(nil, "FLANNEL_SUBNET=%v\n", first), 0o644); err != nil {
		return fmt.Errorf("write subnet file: %w", err)
	}
	argv := []string{"flanneld", "--etcd-endpoints", s.etcd, "--etcd-prefix", etcdPrefix, "--iface", h.Dev,
		"--public-ip", h.Addr.Addr().String(), "--subnet-file", file}
	if s.site.Default() {
		// Nothing leaves the range of another network than the default one. And
		// all of a host's daemons share one nftables table, whose rules for
		// masquerading each of them would replace by its own.
		argv = append(argv, "--ip-masq")
	}
	return s.site.Start(ctx, network.Daemon{Name: daemonName(s.site, "flanneld-"+h.Name), Netns: h.Netns, Argv: argv})
}

func subnetFile(site network.Site, h topo.Host) string {
	return filepath.Join(site.Dir, h.Name, "subnet.env")
}

// conflist returns the host's CNI configuration list. The plugin takes subnet
// and MTU from the subnet file and knows the specification up to 0.4.0.
func (f flannel) conflist(site network.Site, h topo.Host) (json.RawMessage, error) {
	type object = map[string]any
	dir := filepath.Join(site.Dir, h.Name)
	delegate := object{"bridge": site.Bridge(), "isDefaultGateway": true, "hairpinMode": true}
	if !site.Default() { // the plugin itself adds a route to the whole range
		delegate = object{"bridge": site.Bridge(), "isGateway": true, "ipMasq": false, "hairpinMode": true}
	}
	raw, err := json.Marshal(object{"cniVersion": "0.4.0", "name": f.Info().Name, "plugins": []object{{
		"type": "flannel", "subnetFile": subnetFile(site, h), "dataDir": filepath.Join(dir, "cni"),
		"ipam":     object{"dataDir": filepath.Join(dir, "ipam")},
		"delegate": delegate,
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode CNI configuration list: %w", err)
	}
	return raw, nil
}

// config is flannel's configuration as it is in etcd. Rules are nftables'
// where the kernel has it: with iptables, flannel reads all of them back every
// five seconds, which is load on the machine while something else is measured.
// There is one configuration for all hosts, and what each kernel takes is iptables'.
func (s *startup) config(ctx context.Context) (string, error) {
	rules := network.IPTables
	if s.site.Everywhere == nil {
		var err error
		if rules, err = network.Firewall(ctx, s.site, s.site.Underlay); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(`{"Network":%q,"SubnetLen":%d,"EnableNFTables":%t,"Backend":{"Type":%q}}`,
		s.site.Pods.Masked(), s.site.Hosts[0].Pods.Bits(), rules == network.NFTables, s.backend), nil
}
