package route

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/topo"
)

// Keeper keeps what leads a pod's packets out by its interfaces. The kernel drops an
// interface's routes when it goes down or loses its address, and brings back none but
// that to its own link: the others were made as the pod was attached, and are made again
// by nobody. The Keeper puts back what went so once link and address are there again, but for what routing daemons have
// made, which make it again themselves.
//
// A route that was removed by itself stays removed, as that was somebody's will; but not
// those by which a path's own packets leave: the ones in the table that a rule for its
// address names, or without such a rule that to its link. It is for IPv4, as paths are,
// and leaves alone what Shape makes: its protocol is one of daemons.
type Keeper struct {
	mu     sync.Mutex // of what follows; held for a whole look, while the kernel is asked
	h      *netlink.Handle
	news   *news
	exits  []*exit
	closed bool
	// again: not all that is missing could be put back.
	again bool
}

// exit is an interface of the pod, and what is known of it.
type exit struct {
	dev  string
	addr netip.Addr
	path bool // and not of the default network
	// index is the kernel's number for the interface, 0 where it has not been seen.
	index int
	// lost: the link or the address has gone since the routes were last noted, or it is
	// not known whether they have.
	lost   bool
	routes []netlink.Route
	rules  []netlink.Rule // for the address
}

// Mended is an interface that is whole again.
type Mended struct {
	Dev string
	// Index is the kernel's number for the interface, another one if it was made again.
	Index int
	// Routes is how many routes and rules were put back.
	Routes int
}

// Keep begins to keep what leads out of the namespace by the attachments, the default
// network's first, and puts back at once what can be known to be missing. The namespace
// lives at least until Close.
func Keep(ns string, attachments []topo.Attachment) (*Keeper, []Mended, error) {
	k := &Keeper{again: true}
	for i, at := range attachments {
		if at.Addr.Is4() {
			k.exits = append(k.exits, &exit{dev: at.Dev, addr: at.Addr, path: i > 0})
		}
	}
	var err error
	// To listen comes before the first look: nothing falls between.
	if k.news, err = listen(ns); err != nil {
		return nil, nil, fmt.Errorf("keep routes of %s: %w", ns, err)
	}
	if k.h, err = netns.Netlink(ns); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("keep routes of %s: %w", ns, err), k.news.close())
	}
	mended, err := k.Look()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("keep routes of %s: %w", ns, err), k.Close())
	}
	return k, mended, nil
}

// Close ends it. Doing it twice changes nothing, nor does it on nil.
func (k *Keeper) Close() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	if k.h != nil {
		k.h.Close()
	}
	return k.news.close()
}

// Look puts back what is missing, and returns the interfaces where something was, or may
// have been. It is cheap while nothing changes. What fails is tried again at the next look.
func (k *Keeper) Look() ([]Mended, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil
	}
	changed, err := k.news.read(k.noteChange)
	if err != nil {
		return nil, err
	}
	if !changed && !k.again {
		return nil, nil
	}
	k.again = false
	rules, err := netns.Whole(func() ([]netlink.Rule, error) { return k.h.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		k.again = true
		return nil, fmt.Errorf("list rules: %w", err)
	}
	var out []Mended
	var errs []error
	for _, x := range k.exits {
		m, err := k.mend(x, rules)
		if err != nil {
			k.again = true
			errs = append(errs, fmt.Errorf("put back what leads out by %s: %w", x.dev, err))
		}
		if m != (Mended{}) {
			out = append(out, m)
		}
	}
	return out, errors.Join(errs...)
}

// noteChange takes what the kernel told: an interface that went, or lost an address, has lost
// its routes, also where both are there again by now. 0 represents any.
func (k *Keeper) noteChange(index int) {
	for _, x := range k.exits {
		if x.index == index || index == 0 && x.path {
			x.lost = true
		}
	}
}

// mend puts back what is missing of an exit that is whole, and notes what it has.
func (k *Keeper) mend(x *exit, rules []netlink.Rule) (Mended, error) {
	whole, index, err := k.whole(x)
	if err != nil {
		return Mended{}, err
	}
	if !whole {
		x.lost = x.lost || x.index != 0
		return Mended{}, nil
	}
	first := x.index == 0
	if index != x.index {
		for i := range x.routes {
			if x.routes[i].LinkIndex != 0 {
				x.routes[i].LinkIndex = index
			}
		}
		x.lost, x.index = x.lost || !first, index
	}
	n, err := k.putBack(x, rules)
	if err != nil {
		x.lost = true
		return Mended{}, err
	}
	was := x.lost
	x.lost = false
	if !was && n == 0 {
		return Mended{}, nil
	}
	return Mended{Dev: x.dev, Index: index, Routes: n}, nil
}

// whole reports whether the interface is there and up, with its address.
func (k *Keeper) whole(x *exit) (bool, int, error) {
	l, err := k.h.LinkByName(x.dev)
	if none := (netlink.LinkNotFoundError{}); errors.As(err, &none) {
		return false, 0, nil
	} else if err != nil {
		return false, 0, err
	}
	if l.Attrs().Flags&net.FlagUp == 0 {
		return false, 0, nil
	}
	all, err := netns.Whole(func() ([]netlink.Addr, error) { return k.h.AddrList(l, netlink.FAMILY_V4) })
	if err != nil {
		return false, 0, fmt.Errorf("list addresses: %w", err)
	}
	return slices.ContainsFunc(all, func(a netlink.Addr) bool { return a.IP.Equal(x.addr.AsSlice()) }),
		l.Attrs().Index, nil
}

// putBack puts back what the exit had and has not, and notes what it has then.
func (k *Keeper) putBack(x *exit, rules []netlink.Rule) (n int, err error) {
	own := rulesFor(x.addr, rules)
	for _, r := range x.rules {
		if slices.ContainsFunc(own, func(q netlink.Rule) bool { return q.Table == r.Table && q.Priority == r.Priority }) {
			continue
		}
		if err := k.h.RuleAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
			return n, fmt.Errorf("add rule for %s: %w", x.addr, err)
		}
		own = append(own, r)
		n++
	}
	x.rules = own
	now, err := k.routes(x)
	if err != nil {
		return n, err
	}
	has := map[place]bool{}
	for _, r := range now {
		has[placeOf(r)] = true
	}
	want := slices.DeleteFunc(slices.Clone(x.routes), func(r netlink.Route) bool {
		return !x.lost && !x.always(r) || has[placeOf(r)]
	})
	want = append(want, x.copied(append(slices.Clone(now), want...))...)
	// Those to the link first, as the others' gateways are looked up by them.
	slices.SortStableFunc(want, func(a, b netlink.Route) int { return cmp.Compare(len(a.Gw), len(b.Gw)) })
	for _, r := range want {
		if err := k.h.RouteAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
			return n, fmt.Errorf("add route to %v: %w", r.Dst, err)
		}
		n++
	}
	x.routes = append(now, want...)
	return n, nil
}

// copied are the main table's routes by the interface, for a path's own table that has
// none by it: its packets have lost them before they could be noted.
func (x *exit) copied(have []netlink.Route) (out []netlink.Route) {
	for _, rule := range x.rules {
		if !x.path || slices.ContainsFunc(have, func(r netlink.Route) bool {
			return r.Table == rule.Table && r.LinkIndex == x.index
		}) {
			continue
		}
		for _, r := range have {
			if r.Table == unix.RT_TABLE_MAIN && r.LinkIndex == x.index && bits(r.Dst) > 0 {
				r.Table, r.Protocol = rule.Table, unix.RTPROT_BOOT
				out = append(out, r)
			}
		}
	}
	return out
}

// always reports whether a route of the exit is to be there whatever has removed it.
func (x *exit) always(r netlink.Route) bool {
	if !x.path {
		return false
	}
	if len(x.rules) == 0 {
		return r.Protocol == unix.RTPROT_KERNEL
	}
	return slices.ContainsFunc(x.rules, func(rule netlink.Rule) bool { return rule.Table == r.Table })
}

// routes lists those that lead out by the exit, and what else is in the path's own tables.
func (k *Keeper) routes(x *exit) ([]netlink.Route, error) {
	ofAny := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	all, err := netns.Whole(func() ([]netlink.Route, error) {
		return k.h.RouteListFiltered(netlink.FAMILY_V4, ofAny, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var out []netlink.Route
	for _, r := range all {
		own := x.path && r.LinkIndex == 0 && len(r.MultiPath) == 0 &&
			slices.ContainsFunc(x.rules, func(rule netlink.Rule) bool { return rule.Table == r.Table })
		if daemons(r) || r.Table == unix.RT_TABLE_LOCAL || r.LinkIndex != x.index && !own {
			continue
		}
		if r.Dst == nil {
			r.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		}
		r.Flags &= int(netlink.FLAG_ONLINK) // the others tell of the kernel's state
		out = append(out, r)
	}
	return out, nil
}

// place is what the kernel holds one route for.
type place struct {
	table, tos, priority int
	to                   string
}

func placeOf(r netlink.Route) place { return place{r.Table, r.Tos, r.Priority, r.Dst.String()} }

// daemons reports whether a routing daemon has made the route, and makes it again itself if it is to be there. Those of
// the kernel, of ip(8), of the administrator and of DHCP nobody makes again (rtnetlink.h, RTPROT_*).
func daemons(r netlink.Route) bool {
	return r.Protocol > unix.RTPROT_STATIC && r.Protocol != unix.RTPROT_DHCP
}

func bits(n *net.IPNet) int {
	if n == nil {
		return 0
	}
	ones, _ := n.Mask.Size()
	return ones
}

// rulesFor are the rules that name a table for packets from the address, and ask for
// nothing else.
func rulesFor(addr netip.Addr, all []netlink.Rule) (out []netlink.Rule) {
	for _, r := range all {
		plain := netlink.NewRule()
		plain.Family, plain.Priority, plain.Table, plain.Src = r.Family, r.Priority, r.Table, r.Src
		from := bits(r.Src) == addr.BitLen() && r.Src.IP.Equal(addr.AsSlice())
		if !from || r.Table <= 0 || r.Invert || r.Tos != 0 || r.Mark != 0 || r.Dst != nil || r.IifName+r.OifName != "" ||
			r.Goto >= 0 || r.Dport != nil || r.Sport != nil || r.UIDRange != nil ||
			slices.Contains([]int{unix.RT_TABLE_MAIN, unix.RT_TABLE_LOCAL, unix.RT_TABLE_DEFAULT}, r.Table) {
			continue
		}
		out = append(out, *plain)
	}
	return out
}
