package evpn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// asn is private (RFC 6996): one autonomous system, iBGP in a full mesh.
const asn = 64512

// program is where FRR's daemons are: not on PATH, but in a directory of their own.
func program(name string) string {
	const debian, redhat = "/usr/lib/frr", "/usr/libexec/frr"
	if _, err := os.Stat(filepath.Join(redhat, name)); err == nil {
		return filepath.Join(redhat, name)
	}
	return filepath.Join(debian, name)
}

// startRouter starts the host's FRR: zebra, which speaks to the kernel, and bgpd,
// which speaks to the other hosts.
func startRouter(ctx context.Context, site network.Site, h topo.Host) error {
	dir := filepath.Join(site.Dir, h.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	for _, d := range []daemon{
		{name: "zebra", config: "frr defaults datacenter\n"},
		// A bgpd that meets no zebra tries again after ten seconds (lib/zclient.c, zclient_event).
		{name: "bgpd", config: config(site, h), wait: "until [ -S /var/tmp/zserv.api ]; do sleep 0.01; done; ",
			args: []string{"-p", fmt.Sprint(bgpPort(site))}},
	} {
		if err := os.WriteFile(filepath.Join(dir, d.name+".conf"), []byte(d.config), 0o644); err != nil {
			return fmt.Errorf("write FRR configuration: %w", err)
		}
		err := site.Start(ctx, network.Daemon{Name: fmt.Sprintf("%s%d-%s", d.name, site.Index, h.Name), Netns: h.Netns,
			Argv: d.argv(dir)})
		if err != nil {
			return err
		}
	}
	return nil
}

// daemon is one of a host's.
type daemon struct {
	name, config string
	// wait is what its shell does before it becomes the daemon.
	wait string
	args []string
}

// argv runs the daemon in the foreground with the directory dir in the place of
// /var/tmp, where it makes a directory for crashes, whatever it is told, and does
// not remove it. There is all else that it needs too, under a path that is short
// enough for a socket (unix(7)). Mounts that others undo must go from the daemon's
// sight as well, or it would hold their namespaces.
func (d daemon) argv(dir string) []string {
	const run = "/var/tmp/"
	return append([]string{"unshare", "--mount", "--propagation", "slave",
		"sh", "-c", `mount --bind "$0" /var/tmp && { ` + d.wait + `exec "$@"; }`, dir,
		program(d.name), "-u", "root", "-g", "frrvty", "-f", run + d.name + ".conf", "-i", run + d.name + ".pid",
		"-z", run + "zserv.api", "--vty_socket", run, "-P", "0", "--log", "stdout", "--log-level", "warnings"}, d.args...)
}

// bgpPort is IANA's; on a host where it may be another network's, one of its own.
func bgpPort(site network.Site) int {
	if site.Default() {
		return 179
	}
	return 1790 + site.Index
}

// config is bgpd's configuration. Of each pair of hosts only the first calls, as
// two that call each other first collide (RFC 4271 section 6.8). What is learnt is
// told at once: by default an iBGP speaker waits up to five seconds for more.
func config(site network.Site, h topo.Host) string {
	var b strings.Builder
	fmt.Fprintf(&b, "frr defaults datacenter\nrouter bgp %d\n bgp router-id %v\n no bgp default ipv4-unicast\n", asn, h.Addr.Addr())
	for _, p := range site.All() {
		if p.Index == h.Index {
			continue
		}
		peer := p.Addr.Addr()
		fmt.Fprintf(&b, " neighbor %v remote-as %d\n neighbor %v port %d\n neighbor %v timers connect 1\n neighbor %v advertisement-interval 0\n",
			peer, asn, peer, bgpPort(site), peer, peer)
		if p.Index < h.Index {
			fmt.Fprintf(&b, " neighbor %v passive\n", peer)
		}
	}
	b.WriteString(" address-family l2vpn evpn\n")
	for _, p := range site.All() {
		if p.Index != h.Index {
			fmt.Fprintf(&b, "  neighbor %v activate\n", p.Addr.Addr())
		}
	}
	b.WriteString("  advertise-all-vni\n exit-address-family\n")
	return b.String()
}
