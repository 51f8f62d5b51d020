package bgp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

// asn is private (RFC 6996): one autonomous system, iBGP in a full mesh.
const asn = 64512

// meet is about how long two speakers take to find each other: BIRD waits a second
// before it calls, and no less.
const meet = 800 * time.Millisecond

// mesh is all of a network's speakers.
type mesh struct {
	site     network.Site
	speakers []speaker
}

// speaker is one BGP router: a host, or the underlay as the rack's switch.
type speaker struct {
	name, netns, dev string
	addr             netip.Addr
	// pods is what the speaker announces.
	pods []netip.Prefix
	// tunnel is the device by which it reaches the other speakers' pods; "" where
	// it reaches them by dev.
	tunnel string
}

// hosts returns the mesh of the site's hosts.
func hosts(site network.Site, tunnel string) mesh {
	m := mesh{site: site}
	for _, h := range site.All() {
		pods := []netip.Prefix{h.Pods}
		if tunnel == "" { // IPIP carries IPv4 alone
			pods = routed.Ranges(site, h)
		}
		m.speakers = append(m.speakers, speaker{h.Name, h.Netns, h.Dev, h.Addr.Addr(), pods, tunnel})
	}
	return m
}

// family is an IP family by the names of BIRD and the kernel.
type family struct {
	channel string
	number  int
}

// families are those of the pods' ranges. A session over IPv4 carries both
// (RFC 4760), with the IPv6 address of the speaker's interface as next hop.
func (m mesh) families() []family {
	out := []family{{"ipv4", netlink.FAMILY_V4}}
	for _, s := range m.speakers {
		if slices.ContainsFunc(s.pods, func(p netip.Prefix) bool { return !p.Addr().Is4() }) {
			return append(out, family{"ipv6", netlink.FAMILY_V6})
		}
	}
	return out
}

// port is IANA's; a host's second BIRD takes one of its own.
func (m mesh) port() int {
	if m.site.Default() {
		return 179
	}
	return 1790 + m.site.Index
}

// table is the kernel's routing table: a BIRD takes every route that is a BIRD's
// for its own, and removes those that it does not know. So a host's second one has
// a table, and the host a rule for it, by which it also goes.
func (m mesh) table() int {
	if m.site.Default() {
		return unix.RT_TABLE_MAIN
	}
	return 7600 + m.site.Index
}

// here reports whether the speaker is in this part of the site.
func (m mesh) here(s speaker) bool {
	if s.netns == m.site.Underlay {
		return !m.site.Within
	}
	return slices.ContainsFunc(m.site.Hosts, func(h topo.Host) bool { return h.Netns == s.netns })
}

// start starts the speakers of this part of the site.
func (m mesh) start(ctx context.Context) error {
	for i, s := range m.speakers {
		if !m.here(s) {
			continue
		}
		if err := m.startOne(ctx, i); err != nil {
			return fmt.Errorf("configure %s: %w", s.name, err)
		}
	}
	return nil
}

// startOne writes the speaker's configuration and starts its BIRD.
func (m mesh) startOne(ctx context.Context, index int) error {
	s := m.speakers[index]
	if err := m.lookUp(s); err != nil {
		return err
	}
	file := "bird-" + s.name
	if err := os.WriteFile(filepath.Join(m.site.Dir, file+".conf"), []byte(m.config(index)), 0o644); err != nil {
		return fmt.Errorf("write BIRD configuration: %w", err)
	}
	bird, err := network.FindProgram("bird")
	if err != nil {
		return err
	}
	name := file
	if !m.site.Default() {
		name = fmt.Sprintf("bird-%d-%s", m.site.Index, s.name)
	}
	// From within its directory: a socket's path is no longer than 107 bytes
	// (unix(7)), and of a longer one BIRD ends without a word.
	return m.site.Start(ctx, network.Daemon{Name: name, Netns: s.netns, Argv: []string{"env", "--chdir", m.site.Dir,
		bird, "-f", "-c", file + ".conf", "-s", file + ".ctl", "-P", file + ".pid"}})
}

// lookUp has the speaker's host look into the mesh's table.
func (m mesh) lookUp(s speaker) error {
	if m.table() == unix.RT_TABLE_MAIN {
		return nil
	}
	nl, err := m.site.Netlink(s.netns)
	if err != nil {
		return err
	}
	for _, f := range m.families() {
		rule := netlink.NewRule()
		rule.Family, rule.Table, rule.Priority = f.number, m.table(), m.table()
		if err := nl.RuleAdd(rule); err != nil {
			return fmt.Errorf("add rule for table %d: %w", m.table(), err)
		}
	}
	return nil
}

// config is the speaker's BIRD configuration. Of each pair of speakers only the
// first calls, and it does so at once: two that call each other first collide
// and then wait out their timers (RFC 4271 section 6.8).
func (m mesh) config(index int) string {
	s := m.speakers[index]
	var b strings.Builder
	fmt.Fprintf(&b, "router id %v;\n", s.addr)
	b.WriteString("protocol device { scan time 10; }\n")
	// Next hops must resolve over the uplink, not over the default route.
	for _, f := range m.families() {
		fmt.Fprintf(&b, "protocol direct { %s; interface \"%s\"; }\n", f.channel, s.dev)
	}
	for _, p := range s.pods {
		fmt.Fprintf(&b, "protocol static { ipv%d; route %v blackhole; }\n", topo.FamilyOf(p.Addr()), p)
	}
	b.WriteString(m.tunnelled(s))
	channels := ""
	for _, f := range m.families() {
		fmt.Fprintf(&b, "protocol kernel { kernel table %d; %s { import none; export filter { if source = RTS_BGP then accept; reject; }; }; }\n", m.table(), f.channel)
		channels += fmt.Sprintf("%s { import all; export where source = RTS_STATIC; next hop self; %s}; ", f.channel, resolve(s))
	}
	for i, peer := range m.speakers {
		if i == index {
			continue
		}
		calls := ""
		if i < index {
			calls = "passive on; "
		}
		fmt.Fprintf(&b, "protocol bgp to_%s { local %v port %d as %d; neighbor %v port %d as %d; %sdirect; "+
			"connect delay time 1; connect retry time 1; error wait time 1, 2; %s}\n",
			peer.name, s.addr, m.port(), asn, peer.addr, m.port(), asn, calls, channels)
	}
	return b.String()
}

// converged waits until every speaker's kernel routes every other's pods.
func (m mesh) converged(ctx context.Context) error {
	return network.Poll(ctx, 5*time.Millisecond, func() error {
		for _, s := range m.speakers {
			if !m.here(s) {
				continue
			}
			have, err := m.learnt(s)
			if err != nil {
				return err
			}
			for _, peer := range m.speakers {
				if peer.name != s.name && slices.ContainsFunc(peer.pods, func(p netip.Prefix) bool { return !have[p] }) {
					return fmt.Errorf("%s has no route to the pods of %s", s.name, peer.name)
				}
			}
		}
		return nil
	})
}

func (m mesh) learnt(s speaker) (map[netip.Prefix]bool, error) {
	nl, err := m.site.Netlink(s.netns)
	if err != nil {
		return nil, err
	}
	out := map[netip.Prefix]bool{}
	for _, f := range m.families() {
		routes, err := netns.Whole(func() ([]netlink.Route, error) {
			return nl.RouteListFiltered(f.number, &netlink.Route{Protocol: unix.RTPROT_BIRD, Table: m.table()},
				netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes of %s: %w", s.name, err)
		}
		for _, r := range routes {
			if r.Dst != nil {
				out[prefix(*r.Dst)] = true
			}
		}
	}
	return out, nil
}

func prefix(n net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP) // the kernel gave it
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}
