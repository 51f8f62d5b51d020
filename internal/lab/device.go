package lab

import (
	"context"
	"fmt"

	"github.com/safchain/ethtool"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// Counters are what a device has carried, both ways.
type Counters struct {
	Bytes   uint64 `json:"bytes"`
	Packets uint64 `json:"packets"`
}

// Counters reads those of a device of the lab.
func (l *Lab) Counters(d network.Device) (Counters, error) {
	var out Counters
	if g := l.guestOf(d.Netns); g != nil {
		err := g.Call(context.Background(), opCount, d, &out)
		return out, err
	}
	nl, err := l.Netlink(d.Netns)
	if err != nil {
		return out, err
	}
	link, err := nl.LinkByName(d.Name)
	if err != nil {
		return out, fmt.Errorf("read counters of %s: %w", d.Name, err)
	}
	s := link.Attrs().Statistics
	return Counters{s.RxBytes + s.TxBytes, s.RxPackets + s.TxPackets}, nil
}

// Features reads which offloads of a device of the lab are on.
func (l *Lab) Features(d network.Device) (map[string]bool, error) {
	var on map[string]bool
	if g := l.guestOf(d.Netns); g != nil {
		err := g.Call(context.Background(), opFeatures, d, &on)
		return on, err
	}
	err := netns.Do(d.Netns, func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return fmt.Errorf("open ethtool: %w", err)
		}
		defer e.Close()
		if on, err = e.Features(d.Name); err != nil {
			return fmt.Errorf("read offloads of %s: %w", d.Name, err)
		}
		return nil
	})
	return on, err
}
