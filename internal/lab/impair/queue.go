package impair

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Handles mark queueing disciplines as ours ("pw"): that of the device, and the
// shaper inside a netem.
const (
	handle       = 0x7077
	shaperHandle = 0x7078
)

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

// queue sets the queueing disciplines of both ends: on the pod's interface, which
// also what is redirected to it must pass, and on the far end where that is the
// pod's own. It returns the plan changed to what the kernel has.
func (m Impairer) queue(p Port, w wire, want plan) (plan, error) {
	line := want.lineAlone(w)
	if !line {
		err := shapeBoth(p, w, want)
		if !errors.Is(err, ErrNoNetem) || len(m.Line) == 0 {
			return want, err
		}
	}
	if len(m.Line) == 0 {
		return nil, ErrNoNetem
	}
	want, err := want.withoutNetem(w)
	if err != nil {
		return nil, err
	}
	return want, shapeBoth(p, w, want)
}

func shapeBoth(p Port, w wire, want plan) error {
	if err := shape(p.Netns, w.near, want[outOfPod]); err != nil || !w.own() {
		return err
	}
	return shape(w.netns, w.index, want[intoPod])
}

// shape sets the queueing disciplines of a device.
func shape(ns string, index int, c course) error {
	nl, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer nl.Close()
	link, err := nl.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("find device %d in %s: %w", index, ns, err)
	}
	have, err := ours(nl, link)
	if err != nil {
		return err
	}
	wants := disciplines(index, c)
	for _, old := range have {
		if slices.ContainsFunc(wants,
			func(q netlink.Qdisc) bool { return q.Type() == old.Type() && q.Attrs().Handle == old.Attrs().Handle }) {
			continue
		}
		// The outer one takes the inner one with it.
		if err := nl.QdiscDel(old); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("remove %s: %w", old.Type(), err)
		}
	}
	for _, want := range wants {
		err := nl.QdiscReplace(want)
		if errors.Is(err, unix.ENOENT) && want.Type() == ByNetem {
			return ErrNoNetem
		} else if err != nil {
			return fmt.Errorf("set %s: %w", want.Type(), err)
		}
	}
	return nil
}

// ours returns our disciplines on the link. Somebody else's is left alone, with an
// error; the kernel's own defaults have no handle.
func ours(nl *netlink.Handle, link netlink.Link) (out []netlink.Qdisc, err error) {
	all, err := netns.Whole(func() ([]netlink.Qdisc, error) { return nl.QdiscList(link) })
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	for _, q := range all {
		a := q.Attrs()
		switch {
		case a.Handle == netlink.MakeHandle(handle, 0) || a.Handle == netlink.MakeHandle(shaperHandle, 0):
			out = append(out, q)
		case a.Parent == netlink.HANDLE_ROOT && a.Handle != 0:
			return nil, fmt.Errorf("%s has a queueing discipline already: %s", link.Attrs().Name, q.Type())
		}
	}
	return out, nil
}

// disciplines are what a course asks for, from the device inwards.
func disciplines(index int, c course) (out []netlink.Qdisc) {
	attrs := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(handle, 0), Parent: netlink.HANDLE_ROOT}
	if n := c.netem; n != (netem{}) {
		const room = 100_000 // packets in flight, more than the rates here fill
		out = append(out, netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{Latency: uint32(n.Delay.Microseconds()),
			Jitter: uint32(n.Jitter.Microseconds()), ReorderProb: float32(n.Reorder * 100), Loss: float32(n.loss * 100),
			Limit: room}))
		attrs.Handle, attrs.Parent = netlink.MakeHandle(shaperHandle, 0), netlink.MakeHandle(handle, 1)
	}
	if c.shaper > 0 {
		bytes := float64(c.shaper) / 8
		burst := max(oneBurst, bytes*bucketTime.Seconds())
		out = append(out, &netlink.Tbf{QdiscAttrs: attrs, Rate: uint64(bytes), Buffer: ticks(burst / bytes),
			Limit: uint32(min(burst+bytes*queueTime.Seconds(), math.MaxUint32))})
	}
	return out
}

// ticks is a time as the kernel's packet schedulers count it.
func ticks(seconds float64) uint32 {
	return uint32(min(seconds*1e6*netlink.TickInUsec(), math.MaxUint32))
}
