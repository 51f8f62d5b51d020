package impair

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/netns"
)

// ErrNoNetem: the kernel cannot delay packets.
var ErrNoNetem = errors.New("delay and jitter need the queueing discipline netem: a kernel with CONFIG_NET_SCH_NETEM")

// handle marks a queueing discipline as ours ("pw").
const handle = 0x7077

const (
	// oneBurst exceeds what a socket hands over at once (GSO, 64 KiB): a smaller
	// bucket would make the kernel cut the burst into single packets.
	oneBurst = 66 << 10
	// bucketTime is the bucket's size at high rates, queueTime how long a packet
	// may wait behind others: some bandwidth-delay products of a data centre,
	// and short enough that a sender notices.
	bucketTime = 2 * time.Millisecond
	queueTime  = 25 * time.Millisecond
)

// shape sets the queueing discipline of the pod's interface, which also what is
// redirected to it must pass.
func shape(p Port, i Impairment) error {
	nl, err := netns.Netlink(p.Netns)
	if err != nil {
		return err
	}
	defer nl.Close()
	link, err := nl.LinkByName(p.Dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", p.Dev, err)
	}
	have, err := root(nl, link)
	if err != nil {
		return err
	}
	want := discipline(link, i)
	if have != nil && (want == nil || have.Type() != want.Type()) {
		if err := nl.QdiscDel(have); err != nil {
			return fmt.Errorf("remove %s: %w", have.Type(), err)
		}
	}
	if want == nil {
		return nil
	}
	err = nl.QdiscReplace(want)
	if errors.Is(err, unix.ENOENT) && want.Type() == "netem" {
		return ErrNoNetem
	} else if err != nil {
		return fmt.Errorf("set %s: %w", want.Type(), err)
	}
	return nil
}

// root returns our discipline on the link, nil where there is none. Somebody
// else's is left alone, with an error; the kernel's own defaults have no handle.
func root(nl *netlink.Handle, link netlink.Link) (netlink.Qdisc, error) {
	all, err := nl.QdiscList(link)
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	for _, q := range all {
		a := q.Attrs()
		if a.Parent != netlink.HANDLE_ROOT || a.Handle == 0 {
			continue
		}
		if a.Handle != netlink.MakeHandle(handle, 0) {
			return nil, fmt.Errorf("%s has a queueing discipline already: %s", link.Attrs().Name, q.Type())
		}
		return q, nil
	}
	return nil, nil
}

// discipline is what the impairment asks for, nil for nothing. netem shapes too.
func discipline(link netlink.Link, i Impairment) netlink.Qdisc {
	attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(handle, 0), Parent: netlink.HANDLE_ROOT}
	bytes := float64(i.Rate) / 8
	switch {
	case i.Delay > 0:
		const room = 100_000 // packets in flight, more than the rates here fill
		return netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{Latency: uint32(i.Delay.Microseconds()),
			Jitter: uint32(i.Jitter.Microseconds()), Limit: room, Rate64: uint64(bytes)})
	case i.Rate > 0:
		burst := max(oneBurst, bytes*bucketTime.Seconds())
		return &netlink.Tbf{QdiscAttrs: attrs, Rate: uint64(bytes), Buffer: ticks(burst / bytes),
			Limit: uint32(min(burst+bytes*queueTime.Seconds(), math.MaxUint32))}
	default:
		return nil
	}
}

// ticks is a time as the kernel's packet schedulers count it.
func ticks(seconds float64) uint32 {
	return uint32(min(seconds*1e6*netlink.TickInUsec(), math.MaxUint32))
}
