package lab

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// carrierLimit bounds the wait for links that need not come up: a bridge of a
// user's own that has no pod yet has no carrier either.
const carrierLimit = 5 * time.Second

// awaitLinks returns when the kernel has noticed the carrier of every device in
// the lab's namespaces, which it may do up to a second late (the rate limit of
// net/core/link_watch.c): until then it drops what is sent, and a first segment
// that is lost costs a TCP connection a second of the window.
func (l *Lab) awaitLinks(ctx context.Context) error {
	seen := map[string]bool{}
	must := map[network.Device]bool{}
	var names []string
	if l.share == nil {
		names = append(names, l.underlay)
	}
	for _, m := range l.made() {
		if l.share != nil {
			break
		}
		names = append(names, l.spec.machineNetns(m))
	}
	for _, h := range l.hosts {
		if h.VM != "" && l.share == nil {
			must[network.Device{Netns: l.spec.machineNetns(h.Machine), Name: h.Name}] = true
		}
	}
	for _, h := range l.here() {
		names = append(names, h.Netns)
		must[network.Device{Netns: h.Netns, Name: h.Dev}] = true
	}
	for _, p := range l.pods {
		if p.Host < 1 || p.Host > len(l.hosts) || !l.isHere(l.hosts[p.Host-1]) {
			continue
		}
		names = append(names, p.Netns)
		for _, a := range p.Attachments {
			must[network.Device{Netns: p.Netns, Name: a.Dev}] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, carrierLimit)
	defer cancel()
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		down := ""
		err := network.Poll(ctx, time.Millisecond, func() (err error) {
			if down, err = l.firstDown(name); err == nil && down != "" {
				err = fmt.Errorf("%s in %s has no carrier", down, name)
			}
			return err
		})
		if err != nil && (down == "" || must[network.Device{Netns: name, Name: down}]) {
			return fmt.Errorf("wait for links: %w", err)
		}
	}
	return l.awaitAddresses(ctx)
}

// awaitAddresses returns when no IPv6 address of pods and hosts is tentative any
// more, where pods have such: the kernel uses one only after a second in which nobody
// else claims it (RFC 4862 section 5.4), and a server cannot listen at it before.
func (l *Lab) awaitAddresses(ctx context.Context) error {
	six := func(a topo.Attachment) bool { return a.Addr6.IsValid() }
	if !slices.ContainsFunc(l.pods, func(p topo.Pod) bool { return slices.ContainsFunc(p.Attachments, six) }) {
		return nil
	}
	var names []string
	for _, p := range l.pods {
		if p.Host >= 1 && p.Host <= len(l.hosts) && l.isHere(l.hosts[p.Host-1]) {
			names = append(names, p.Netns)
		}
	}
	for _, h := range l.here() {
		names = append(names, h.Netns)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if err := network.Poll(ctx, 5*time.Millisecond, func() error { return l.settled(name) }); err != nil {
			return fmt.Errorf("wait for addresses: %w", err)
		}
	}
	return nil
}

// settled wants no address of the namespace to be tentative, but on devices that have
// no carrier and thus no neighbours.
func (l *Lab) settled(ns string) error {
	nl, err := l.Netlink(ns)
	if err != nil {
		return err
	}
	links, err := nl.LinkList()
	if err != nil {
		return fmt.Errorf("list devices of %s: %w", ns, err)
	}
	for _, link := range links {
		if link.Attrs().RawFlags&unix.IFF_RUNNING == 0 {
			continue
		}
		addrs, err := nl.AddrList(link, netlink.FAMILY_V6)
		if err != nil {
			return fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range addrs {
			if a.Flags&unix.IFA_F_TENTATIVE != 0 && a.Flags&unix.IFA_F_DADFAILED == 0 {
				return fmt.Errorf("address %v in %s is still tentative", a.IP, ns)
			}
		}
	}
	return nil
}

// firstDown names a device of the namespace that is up but not running, "" when
// there is none.
func (l *Lab) firstDown(ns string) (string, error) {
	nl, err := l.Netlink(ns)
	if err != nil {
		return "", err
	}
	links, err := nl.LinkList()
	if err != nil {
		return "", fmt.Errorf("list devices of %s: %w", ns, err)
	}
	for _, link := range links {
		a := link.Attrs()
		// Devices without a carrier of their own (lo, tun, vxlan) stay "unknown".
		if a.Flags&net.FlagUp != 0 && a.OperState != netlink.OperUp && a.OperState != netlink.OperUnknown {
			return a.Name, nil
		}
	}
	return "", nil
}
