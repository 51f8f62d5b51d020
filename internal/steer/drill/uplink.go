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
	lab    *lab.Lab
	nets   []string
	shaped bool // the uplink has classes
}

// uplink sets the rates by network in bit/s; the first call makes the classes.
func (s *shaper) uplink(ctx context.Context, rates map[string]float64) error {
	h := s.lab.Hosts()[0]
	tc := func(args ...string) error {
		_, err := s.lab.Run(ctx, h.Netns, append([]string{"tc"}, args...)...)
		return err
	}
	if !s.shaped {
		if err := tc("qdisc", "replace", "dev", h.Dev, "root", "handle", "1:", "htb", "default", "99", "r2q",
			"1000"); err != nil {
			return err
		}
		if err := tc("class", "replace", "dev", h.Dev, "parent", "1:", "classid", "1:99", "htb", "rate", "40gbit", "burst",
			"1m", "cburst", "1m"); err != nil {
			return err
		}
	}
	for i, network := range s.nets {
		rate, ok := rates[network]
		if !ok {
			continue
		}
		class := fmt.Sprintf("1:%d", 10+i)
		// The burst holds what a socket hands over at once (GSO), the queue 20 ms.
		queue := strconv.Itoa(max(int(rate/8*0.020), 150_000))
		bits := strconv.FormatInt(int64(rate), 10) + "bit"
		err := tc("class", "replace", "dev", h.Dev, "parent", "1:", "classid", class, "htb", "rate", bits, "burst", "140k",
			"cburst", "140k")
		err = errors.Join(err, tc("qdisc", "replace", "dev", h.Dev, "parent", class, "handle", fmt.Sprintf("%d:", 10+i),
			"bfifo", "limit", queue))
		if !s.shaped {
			err = errors.Join(err,
				tc(append([]string{"filter", "add", "dev", h.Dev, "parent", "1:", "protocol", "ip", "prio", "1", "u32"},
					append(s.match(network), "flowid", class)...)...))
		}
		if err != nil {
			return fmt.Errorf("shape %s: %w", network, err)
		}
	}
	s.shaped = true
	return nil
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
