package lab

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// carrierLimit bounds the wait for links that need not come up: a bridge of a
// user's own that has no pod yet has no carrier either.
const carrierLimit = 5 * time.Second

// links are those of some namespaces.
type links struct {
	// names of the namespaces.
	names []string
	// must are the devices that come up; others may.
	must []network.Device
}

// add adds a namespace with devices that come up.
func (a *links) add(ns string, devs ...string) {
	a.names = append(a.names, ns)
	for _, d := range devs {
		a.must = append(a.must, network.Device{Netns: ns, Name: d})
	}
}

// await returns when the kernel has noticed the carrier of every device in
// the namespaces, which it may do up to a second late (the rate limit of
// net/core/link_watch.c): until then it drops what is sent, and a first segment
// that is lost costs a TCP connection a second of the window.
func (a links) await(ctx context.Context, w *wiring) error {
	ctx, cancel := context.WithTimeout(ctx, carrierLimit)
	defer cancel()
	for i, name := range a.names {
		if slices.Contains(a.names[:i], name) {
			continue
		}
		down := ""
		err := network.Poll(ctx, time.Millisecond, func() (err error) {
			if down, err = w.firstDown(name); err == nil && down != "" {
				err = fmt.Errorf("%s in %s has no carrier", down, name)
			}
			return err
		})
		if err != nil && (down == "" || slices.Contains(a.must, network.Device{Netns: name, Name: down})) {
			return fmt.Errorf("wait for links: %w", err)
		}
	}
	return nil
}

// awaitAddresses returns when no IPv6 address in the namespaces is tentative any
// more: the kernel uses one only after a second in which nobody else claims it
// (RFC 4862 section 5.4), and a server cannot listen at it before.
func (a links) awaitAddresses(ctx context.Context, w *wiring) error {
	for i, name := range a.names {
		if slices.Contains(a.names[:i], name) {
			continue
		}
		if err := network.Poll(ctx, 5*time.Millisecond, func() error { return w.settled(name) }); err != nil {
			return fmt.Errorf("wait for addresses: %w", err)
		}
	}
	return nil
}

// settled wants no address of the namespace to be tentative, but on devices that have
// no carrier and thus no neighbours.
func (w *wiring) settled(ns string) error {
	nl, err := w.Netlink(ns)
	if err != nil {
		return err
	}
	links, err := netns.Whole(nl.LinkList)
	if err != nil {
		return fmt.Errorf("list devices of %s: %w", ns, err)
	}
	for _, link := range links {
		if link.Attrs().RawFlags&unix.IFF_RUNNING == 0 {
			continue
		}
		addrs, err := netns.Whole(func() ([]netlink.Addr, error) { return nl.AddrList(link, netlink.FAMILY_V6) })
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
func (w *wiring) firstDown(ns string) (string, error) {
	nl, err := w.Netlink(ns)
	if err != nil {
		return "", err
	}
	links, err := netns.Whole(nl.LinkList)
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
