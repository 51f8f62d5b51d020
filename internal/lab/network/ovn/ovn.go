// Package ovn holds ovn-geneve: real OVN with a northbound and a southbound
// database and ovn-northd alongside the underlay's switch, and ovn-controller over
// Open vSwitch on each host. Each host's pods are on a logical switch of their
// own, a distributed logical router joins the switches, and Geneve the hosts, as
// with ovn-kubernetes; gateways to the outside, load balancers and policies are
// not here.
package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// overhead is outer Ethernet, IPv4, UDP and Geneve header (RFC 8926 section
	// 3.4) with OVN's one option, in which logical ports are (ovn-architecture(7)).
	overhead = 14 + 20 + 8 + 8 + 8
	// udpPort is Geneve's (RFC 8926 section 3.3).
	udpPort = 6081
	// southPort is where ovn-controllers find the southbound database.
	southPort = 6642
	bridge    = "br-int"
	router    = "cluster"
)

// Where Debian and Ubuntu put the databases' schemas.
const (
	northSchema = "/usr/share/ovn/ovn-nb.ovsschema"
	southSchema = "/usr/share/ovn/ovn-sb.ovsschema"
)

// New returns the network.
func New() network.Network { return ovn{} }

type ovn struct{}

// Info implements network.Network.
func (ovn) Info() network.Info {
	return network.Info{
		Name: "ovn-geneve", Family: "ovn", Overhead: overhead, Extra: time.Second,
		OneKernel: "the lab binds each pod in OVN's databases as it attaches it, which virtual machines do not reach",
		Summary:   "OVN: a logical switch for each host's pods, a distributed logical router, Geneve between hosts",
		Needs: append(append(ovs.Needs(), ovs.TunnelNeeds()...), network.NeedPlugin("host-device"),
			network.NeedProgram("ovn-northd", "ovn-central"), network.NeedProgram("ovn-nbctl", "ovn-common"),
			network.NeedProgram("ovn-controller", "ovn-host")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Open vSwitch, logical switch",
			InterHost: "Geneve overlay, logical router", Outside: "- (no gateway router)", KeyValue: "OVSDB (OVN's databases)",
			Encryption: "no", Isolation: "moderate", ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
}

// plane is OVN of one site.
type plane struct {
	site network.Site
	*ovs.Fabric
	version string
}

// Build implements network.Network.
func (o ovn) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	f, err := ovs.Open(ctx, site, ovs.BestTracking())
	if err != nil {
		return plug, err
	}
	p := plane{site: site, Fabric: f}
	raw, err := site.Run(ctx, site.Underlay, "ovn-controller", "--version")
	if err != nil {
		return plug, fmt.Errorf("ask for the version of OVN: %w", err)
	}
	p.version = ovs.Version(raw)
	if err := p.startCentral(ctx); err != nil {
		return plug, err
	}
	if err := f.PrepareTunnels(); err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		if err := p.startController(ctx, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
	}
	plug.Datapath = f
	plug.Crossing, plug.Notes = f.Crossed("genev", udpPort), []string{"OVN " + p.version, f.Note()}
	plug.Conflist = func(ctx context.Context, pod topo.Pod) (json.RawMessage, error) {
		return p.conflist(ctx, o.Info().Name, pod)
	}
	plug.Ready, plug.Attached = p.ready, p.attached
	return plug, nil
}

// conflist returns the pod's CNI configuration list. ovn-controller binds the
// pod's port to the logical one that iface-id names.
func (p plane) conflist(ctx context.Context, name string, pod topo.Pod) (json.RawMessage, error) {
	h, err := p.Host(pod.Host)
	if err != nil {
		return nil, err
	}
	ipam := conflist.HostLocal(filepath.Join(p.site.Dir, h.Name), conflist.Range{Subnet: h.Pods, Gateway: gateway(h)},
		p.site.Beyond(p.site.Pods))
	return p.Conflist(ctx, pod, ovs.Port{Network: name, Bridge: bridge, MTU: p.site.MTU - overhead, IPAM: ipam,
		Interface: []string{fmt.Sprintf("external_ids:iface-id=%q", pod.Name)}})
}

// gateway is the router's address among the host's pods.
func gateway(h topo.Host) netip.Addr { return h.Pods.Masked().Addr().Next() }

func (p plane) db(name string) string { return filepath.Join(p.site.Dir, name+".db") }
func (p plane) socket(name string) string {
	return "unix:" + filepath.Join(p.site.Dir, name+".sock")
}

// startCentral starts the databases, and ovn-northd, which translates one into
// the other.
func (p plane) startCentral(ctx context.Context) error {
	south := fmt.Sprintf("ptcp:%d:%v", southPort, p.site.Gateway.Addr())
	for _, db := range []struct {
		name, schema string
		remotes      []string
	}{{"nb", northSchema, nil}, {"sb", southSchema, []string{south}}} {
		if err := ovs.CreateDB(ctx, p.site, p.db(db.name), db.schema); err != nil {
			return err
		}
		d := network.Daemon{Name: "ovn-" + db.name, Netns: p.site.Underlay}
		if err := ovs.ServeDB(ctx, p.site, d, p.db(db.name), db.name, db.remotes...); err != nil {
			return err
		}
	}
	for _, name := range []string{"nb", "sb"} {
		if err := ovs.AwaitDB(ctx, p.socket(name)); err != nil {
			return err
		}
	}
	return p.site.Start(ctx, network.Daemon{Name: "ovn-northd", Netns: p.site.Underlay, Env: p.env(),
		Argv: []string{"ovn-northd",
			"--ovnnb-db=" + p.socket("nb"), "--ovnsb-db=" + p.socket("sb"),
			"--unixctl=" + filepath.Join(p.site.Dir, "northd.ctl"), "--pidfile=" + filepath.Join(p.site.Dir, "northd.pid"),
			"-vsyslog:off", "-vconsole:warn"}})
}

// env keeps OVN's programs out of the machine's own directories.
func (p plane) env() []string {
	return []string{"OVN_RUNDIR=" + p.site.Dir, "OVN_LOGDIR=" + p.site.Dir, "OVN_DBDIR=" + p.site.Dir,
		"OVN_SYSCONFDIR=" + p.site.Dir}
}

// startController tells the host's Open vSwitch where OVN is, and starts
// ovn-controller. The bridge is made first: ovn-controller would make one with
// the kernel's datapath. It runs under its own monitor, as the packages' ovn-ctl
// starts it: ovn-controller 23.03.1 was seen to end by SIGSEGV at its start.
func (p plane) startController(ctx context.Context, h topo.Host) error {
	err := p.Record(ctx, h, "set", "Open_vSwitch", ".", "external_ids:system-id="+h.Name,
		fmt.Sprintf("external_ids:ovn-remote=%q", fmt.Sprintf("tcp:%v:%d", p.site.Gateway.Addr(), southPort)),
		"external_ids:ovn-encap-type=geneve", fmt.Sprintf("external_ids:ovn-encap-ip=%v", p.Endpoint(h)),
		"external_ids:ovn-bridge="+bridge, "external_ids:ovn-bridge-datapath-type="+string(p.Datapath),
		"--", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type="+string(p.Datapath), "fail_mode=secure")
	if err != nil {
		return err
	}
	return p.site.Start(ctx,
		network.Daemon{Name: "ovn-controller-" + h.Name, Netns: h.Netns, Env: append(p.Env(h), p.env()...),
			Argv: []string{"ovn-controller", p.DB(h), "--monitor", "--pidfile=" + filepath.Join(p.site.Dir, h.Name+".pid"),
				"-vsyslog:off", "-vconsole:warn"}})
}

// north changes the northbound database by ovn-nbctl.
func (p plane) north(ctx context.Context, args ...string) ([]byte, error) {
	return p.site.Run(ctx, p.site.Underlay, append([]string{"ovn-nbctl", "--db=" + p.socket("nb"), "--timeout=30"},
		args...)...)
}

// ready lays out the logical network and waits until every host has it.
func (p plane) ready(ctx context.Context) error {
	if err := p.RaiseTunnels(ctx); err != nil {
		return err
	}
	args := []string{"lr-add", router}
	for _, h := range p.site.Hosts {
		args = append(args, "--", "ls-add", h.Name)
		args = append(args, "--", "lrp-add", router, "to-"+h.Name, ovs.MAC(gateway(h)).String(),
			netip.PrefixFrom(gateway(h), h.Pods.Bits()).String())
		port := h.Name + "-to-" + router
		args = append(args, "--", "lsp-add", h.Name, port, "--", "lsp-set-type", port, "router",
			"--", "lsp-set-addresses", port, "router", "--", "lsp-set-options", port, "router-port=to-"+h.Name)
	}
	if _, err := p.north(ctx, args...); err != nil {
		return fmt.Errorf("lay out the logical network: %w", err)
	}
	if err := network.Poll(ctx, 10*time.Millisecond, func() error { return p.registered(ctx) }); err != nil {
		return err
	}
	if _, err := p.north(ctx, "--wait=hv", "sync"); err != nil {
		return fmt.Errorf("wait for ovn-controllers: %w", err)
	}
	return p.Each(func(h topo.Host) error { return p.Sound(ctx, h) })
}

// registered wants every host in the southbound database: nobody waits for one
// that is not there yet.
func (p plane) registered(ctx context.Context) error {
	raw, err := p.site.Run(ctx, p.site.Underlay, "ovn-sbctl", "--db="+p.socket("sb"), "--timeout=30", "--bare",
		"--columns=name", "list", "Chassis")
	if err != nil {
		return fmt.Errorf("list hosts in OVN: %w", err)
	}
	if n := len(strings.Fields(string(raw))); n < len(p.site.Hosts) {
		return fmt.Errorf("%d of %d hosts have registered with OVN", n, len(p.site.Hosts))
	}
	return nil
}

// attached does for a pod what ovn-kubernetes does: a logical port with the
// pod's addresses and no others, and then patience until it is up and every
// host knows of it.
func (p plane) attached(ctx context.Context, pod topo.Pod, a topo.Attachment) error {
	if err := p.Fabric.Attached(ctx, pod, a); err != nil {
		return err
	}
	h, err := p.Host(pod.Host)
	if err != nil {
		return err
	}
	own := fmt.Sprintf("%s %v", a.MAC, a.Addr)
	_, err = p.north(ctx, "lsp-add", h.Name, pod.Name, "--", "lsp-set-addresses", pod.Name, own, "--",
		"lsp-set-port-security", pod.Name, own)
	if err != nil {
		return fmt.Errorf("add logical port: %w", err)
	}
	err = network.Poll(ctx, 10*time.Millisecond, func() error {
		raw, err := p.north(ctx, "lsp-get-up", pod.Name)
		if err == nil && strings.TrimSpace(string(raw)) != "up" {
			err = fmt.Errorf("logical port %s is not up", pod.Name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for logical port: %w", err)
	}
	if _, err := p.north(ctx, "--wait=hv", "sync"); err != nil {
		return fmt.Errorf("wait for ovn-controllers: %w", err)
	}
	return nil
}
