package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/network"
)

// awaitLinks returns when the kernel has noticed the carrier of every uplink and
// pod interface, which it may do up to a second late (the rate limit of
// net/core/link_watch.c): until then it drops what is sent, and a first TCP
// segment that is lost costs its connection a second of the window.
func (l *Lab) awaitLinks(ctx context.Context) error {
	devs := []network.Device{}
	for _, h := range l.hosts {
		devs = append(devs, network.Device{Netns: h.Netns, Name: h.Dev}, network.Device{Netns: l.underlay, Name: h.Name})
	}
	for _, p := range l.pods {
		for _, a := range p.Attachments {
			devs = append(devs, network.Device{Netns: p.Netns, Name: a.Dev})
		}
	}
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("gave up after %v", limit))
	defer cancel()
	for _, d := range devs {
		nl, err := l.Netlink(d.Netns)
		if err != nil {
			return err
		}
		err = network.Poll(ctx, time.Millisecond, func() error {
			link, err := nl.LinkByName(d.Name)
			if err != nil {
				return fmt.Errorf("find %s: %w", d.Name, err)
			}
			// Devices without a carrier of their own (tun) stay "unknown".
			if s := link.Attrs().OperState; s != netlink.OperUp && s != netlink.OperUnknown {
				return fmt.Errorf("%s in %s is %v", d.Name, d.Netns, s)
			}
			return nil
		})
		if err != nil {
			return errors.Join(fmt.Errorf("wait for link: %w", err), context.Cause(ctx))
		}
	}
	return nil
}
