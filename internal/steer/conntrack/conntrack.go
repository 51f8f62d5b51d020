// Package conntrack has a host's kernel forget TCP connections that it tracks.
//
// A connection that comes back to a network in the middle is taken up there like one that
// was never seen (nf_conntrack_tcp_loose), unless an old entry knows of it: its window is
// not where the connection is by then, so that what comes is INVALID, which firewalls
// drop. It does not know which connections have left: that is said by who moves them.
package conntrack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Connection is one that the kernel tracks: From is the end whose packet it saw first.
type Connection struct{ From, To netip.AddrPort }

// established is the state of a connection that is neither opening nor closing
// (TCP_CONNTRACK_ESTABLISHED), answered that of one whose opening was answered
// (TCP_CONNTRACK_SYN_RECV): it stays so where the rest went another way. In the others, packets say
// by themselves what they are: half a handshake is taken up by nobody.
const established, answered = 3, 2

// answeredFor is how long the kernel keeps one that was answered, in seconds, by default
// (nf_conntrack_tcp_timeout_syn_recv), and patience for how many the rest may be on its way.
const answeredFor, patience = 60, 1

// Forget has the kernel forget the TCP connections of a family that which says and that have been opened,
// in the namespace called ns, "" for the caller's own. Those whose addresses or ports it
// translates stay, as nobody else knows what they were. It returns how many went.
func Forget(ns string, v6 bool, which func(Connection) bool) (n int, err error) {
	family := netlink.InetFamily(unix.AF_INET)
	if v6 {
		family = unix.AF_INET6
	}
	forget := func() error {
		found, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter(which))
		n = int(found)
		return err
	}
	if ns == "" {
		err = forget()
	} else {
		err = netns.Do(ns, forget)
	}
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return 0, nil // a kernel that does not track connections, or does not speak of them
	}
	if err != nil {
		return n, fmt.Errorf("forget tracked connections: %w", err)
	}
	return n, nil
}

type filter func(Connection) bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (which filter) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	state, ok := f.ProtoInfo.(*netlink.ProtoInfoTCP)
	opened := ok && (state.State == established || state.State == answered && f.TimeOut < answeredFor-patience)
	if !opened {
		return false
	}
	there, back := f.Forward, f.Reverse
	c := Connection{end(there.SrcIP, there.SrcPort), end(there.DstIP, there.DstPort)}
	return c.From == end(back.DstIP, back.DstPort) && c.To == end(back.SrcIP, back.SrcPort) && which(c)
}

func end(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip) // no address is nobody's
	return netip.AddrPortFrom(addr.Unmap(), port)
}
