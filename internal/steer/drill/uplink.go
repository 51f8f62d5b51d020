package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/lab"
)

// An uplink gives each network a share of its own of the first host's way out,
// which all pods on the network have in common: classes of HTB on the host's
// interface (tc-htb(8)). On one machine all networks else compete for the same
// processors, and none is ever better for being less crowded.

// shaper gives the networks of a ground rates of their own on the uplink of its first host.
type shaper struct {
	lab  *lab.Lab
	nets []string
	// shaped is how the uplink has classes: one of each network, or one of all.
	shaped shape
}

type shape int

const (
	unshaped shape = iota
	apart
	together
)

// uplink sets the rates by network in bit/s, and the credits of those that save what goes unused, up to a
// second's worth, and spend it at so many; the first call makes the classes.
func (s *shaper) uplink(ctx context.Context, rates, credits map[string]float64) error {
	first := s.shaped != apart
	if first {
		if err := s.root(ctx, apart); err != nil {
			return err
		}
	}
	for i, network := range s.nets {
		rate, ok := rates[network]
		if !ok {
			continue
		}
		err := s.class(ctx, firstClass+i, rate, credits[network])
		if first {
			err = errors.Join(err, s.steer(ctx, network, firstClass+i))
		}
		if err != nil {
			return fmt.Errorf("shape %s: %w", network, err)
		}
	}
	return nil
}

// bottleneck gives all networks one class and queue, of a rate in bit/s.
func (s *shaper) bottleneck(ctx context.Context, rate float64) error {
	first := s.shaped != together
	if first {
		if err := s.root(ctx, together); err != nil {
			return err
		}
	}
	err := s.class(ctx, firstClass, rate, 0)
	for _, network := range s.nets {
		if first {
			err = errors.Join(err, s.steer(ctx, network, firstClass))
		}
	}
	if err != nil {
		return fmt.Errorf("shape the uplink: %w", err)
	}
	return nil
}

// firstClass is the number of the first network's class.
const firstClass = 10

// root makes the uplink's root, without a limit for what belongs to no network.
func (s *shaper) root(ctx context.Context, as shape) error {
	dev := s.lab.Hosts()[0].Dev
	if s.shaped != unshaped {
		if err := s.tc(ctx, "qdisc", "del", "dev", dev, "root"); err != nil {
			return err
		}
	}
	s.shaped = as
	if err := s.tc(ctx, "qdisc", "replace", "dev", dev, "root", "handle", "1:", "htb", "default", "99", "r2q",
		"1000"); err != nil {
		return err
	}
	return s.tc(ctx, "class", "replace", "dev", dev, "parent", "1:", "classid", "1:99", "htb", "rate", "40gbit", "burst",
		"1m", "cburst", "1m")
}

// class sets the rate of a class, and its credit, or 0. It has none to borrow from, so that above its rate it
// sends what its bucket holds.
func (s *shaper) class(ctx context.Context, number int, rate, credit float64) error {
	dev, class := s.lab.Hosts()[0].Dev, fmt.Sprintf("1:%d", number)
	// The burst holds what a socket hands over at once (GSO), the queue 20 ms.
	queue := strconv.Itoa(max(int(rate/8*0.020), 150_000))
	const once = 140_000
	bits := func(rate float64) string { return strconv.FormatInt(int64(rate), 10) + "bit" }
	bucket, peak := once, rate
	if credit > 0 {
		bucket, peak = max(int(rate/8), once), credit
	}
	err := s.tc(ctx, "class", "replace", "dev", dev, "parent", "1:", "classid", class, "htb", "rate", bits(rate),
		"ceil", bits(peak), "burst", strconv.Itoa(bucket), "cburst", strconv.Itoa(once))
	return errors.Join(err, s.tc(ctx, "qdisc", "replace", "dev", dev, "parent", class,
		"handle", fmt.Sprintf("%d:", number), "bfifo", "limit", queue))
}

// steer has a network's packets go to a class.
func (s *shaper) steer(ctx context.Context, network string, number int) error {
	return s.tc(ctx, append([]string{"filter", "add", "dev", s.lab.Hosts()[0].Dev, "parent", "1:", "protocol", "ip",
		"prio", "1", "u32"}, append(s.match(network), "flowid", fmt.Sprintf("1:%d", number))...)...)
}

func (s *shaper) tc(ctx context.Context, args ...string) error {
	_, err := s.lab.Run(ctx, s.lab.Hosts()[0].Netns, append([]string{"tc"}, args...)...)
	return err
}

// match tells a network's packets on the underlay by u32's matches: a tunnel's by
// its port, others by the pods' addresses.
func (s *shaper) match(network string) []string {
	if strings.Contains(network, "vxlan") {
		port := "8472" // Linux's own
		if strings.HasPrefix(network, "ovs-") {
			port = "4789" // IANA's
		}
		return []string{"match", "ip", "protocol", "17", "0xff", "match", "ip", "dport", port, "0xffff"}
	}
	at, _ := podOf(s.lab, "b").On(network)
	const host = 24
	p, err := at.Addr.Prefix(host)
	if err != nil {
		p = netip.PrefixFrom(at.Addr, at.Addr.BitLen())
	}
	return []string{"match", "ip", "dst", p.String()}
}
