package steer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/netns"
)

// ForgetConntrack deletes what the connection tracking of a namespace holds on
// the address pairs, and returns how many entries that were. It is for networks
// that drop what their tracking calls invalid, in each namespace that tracks,
// right before flows return to the path: the windows of TCP have moved on since
// the entry was last fed. What comes next is taken up as a flow under way
// (nf_conntrack_tcp_loose).
func ForgetConntrack(netnsName string, pairs []Pair) (int, error) {
	var n int
	err := netns.Do(netnsName, func() error {
		var errs []error
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			var filters []netlink.CustomConntrackFilter
			for _, p := range pairs {
				if p.Local.Is4() == (family == unix.AF_INET) {
					filters = append(filters, pairFilter(p))
				}
			}
			if len(filters) == 0 {
				continue
			}
			deleted, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filters...)
			n += int(deleted)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return n, fmt.Errorf("forget tracked connections in %s: %w", netnsName, err)
	}
	return n, nil
}

// pairFilter matches entries between the two addresses, whoever began and also
// where one of them was translated.
type pairFilter Pair

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f pairFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	for _, t := range []netlink.IPTuple{flow.Forward, flow.Reverse} {
		src, dst := addrOf(t.SrcIP), addrOf(t.DstIP)
		if src == f.Local && dst == f.Remote || src == f.Remote && dst == f.Local {
			return true
		}
	}
	return false
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
