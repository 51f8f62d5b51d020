package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/explain/limit"
	"pathwise.dev/pathwise/internal/explain/profile"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// lens looks inside the measured window of one trial. That a kernel cannot be
// sampled fails no trial: its record says so, and counters are used.
type lens struct {
	table   *explain.Table
	sampler *profile.Sampler
	missing string
	places  map[uint64]explain.Place
	devices []observed
	// before and then are the counters of the devices at the window's ends.
	before, then []netlink.LinkStatistics
	// limits reads the counters of what may limit traffic; drops is nil where the
	// kernel does not say why it drops packets, and unread says why.
	limits *limit.Watch
	drops  *profile.Drops
	unread []string
	// window is how long the window is about to last.
	window time.Duration
	err    error
}

// observed is a device whose packets are counted.
type observed struct {
	profile.Device
	role  string
	place explain.Place
	netns string
	links *netlink.Handle
}

// newLens prepares to look at a trial in the lab, whose window is about so long.
func newLens(l *lab.Lab, b workload.Bed, window time.Duration) (*lens, error) {
	table, err := explain.DefaultTable()
	if err != nil {
		return nil, err
	}
	v := &lens{table: table, places: map[uint64]explain.Place{}, window: window}
	if err := v.place(l, b); err != nil {
		return nil, fmt.Errorf("look at the lab's namespaces: %w", err)
	}
	if err := v.watch(l, b); err != nil {
		return nil, fmt.Errorf("look at the lab's devices: %w", err)
	}
	if v.sampler, err = profile.Open(); err != nil {
		v.missing = Reason(err)
	}
	if v.drops, err = profile.OpenDrops(); err != nil {
		v.unread = append(v.unread, Reason(err))
	}
	spaces, err := v.spaces(l, b)
	if err != nil {
		v.close()
		return nil, fmt.Errorf("look at the lab's limits: %w", err)
	}
	v.limits = limit.Open(spaces, v.missing != "")
	return v, nil
}

// spaces lists the namespaces that something may limit traffic in, those with
// generators first.
func (v *lens) spaces(l *lab.Lab, b workload.Bed) (out []limit.Namespace, err error) {
	add := func(name string, pod bool) {
		if err != nil || slices.ContainsFunc(out, func(n limit.Namespace) bool { return n.Name == name }) {
			return
		}
		n := limit.Namespace{Name: name, Pod: pod}
		if n.Inode, err = netns.Inode(name); err != nil {
			return
		}
		n.Place = v.places[n.Inode]
		if n.Links, err = l.Netlink(name); err == nil {
			out = append(out, n)
		}
	}
	for _, p := range b.Pairs {
		add(p.Client.Netns, true)
		add(p.Server.Netns, true)
	}
	for _, h := range l.Hosts() {
		add(h.Netns, false)
	}
	add(l.Underlay(), false)
	return out, err
}

// place says whose each namespace is. Pods come after hosts, as they may share
// the host's.
func (v *lens) place(l *lab.Lab, b workload.Bed) error {
	set := map[string]explain.Place{l.Underlay(): explain.Underlay}
	hosts := l.Hosts()
	for _, h := range hosts {
		set[h.Netns] = hostPlace(len(hosts), h.Index, b)
	}
	for _, p := range b.Pairs {
		set[p.Client.Netns], set[p.Server.Netns] = explain.Client, explain.Server
	}
	for _, p := range b.Pairs {
		if p.Client.Netns == p.Server.Netns {
			set[p.Client.Netns] = explain.Shared
		}
	}
	for name, place := range set {
		inode, err := netns.Inode(name)
		if err != nil {
			return err
		}
		v.places[inode] = place
	}
	return nil
}

func hostPlace(hosts, index int, b workload.Bed) explain.Place {
	switch {
	case hosts == 1:
		return explain.Shared
	case index == b.Pairs[0].Client.Host:
		return explain.ClientHost
	}
	return explain.ServerHost
}

// watch finds the pods' own interfaces and, between hosts, the hosts' on the
// underlay. Pods that share a namespace talk over its loopback.
func (v *lens) watch(l *lab.Lab, b workload.Bed) error {
	hosts := l.Hosts()
	if len(hosts) > 1 {
		for _, h := range hosts {
			if err := v.add(l, explain.Uplink, h.Netns, h.Dev); err != nil {
				return err
			}
		}
	}
	for _, p := range b.Pairs {
		for _, pod := range []topo.Pod{p.Client, p.Server} {
			dev := "lo" // where both pods share a namespace
			if p.Client.Netns != p.Server.Netns {
				if len(pod.Attachments) == 0 {
					continue // the host's, which is watched already
				}
				dev = pod.Attachments[0].Dev
			}
			if err := v.add(l, explain.PodDevice, pod.Netns, dev); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *lens) add(l *lab.Lab, role, ns, dev string) error {
	if slices.ContainsFunc(v.devices, func(o observed) bool { return o.netns == ns && o.Name == dev }) {
		return nil
	}
	inode, err := netns.Inode(ns)
	if err != nil {
		return err
	}
	links, err := l.Netlink(ns)
	if err != nil {
		return err
	}
	link, err := links.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	d := profile.Device{Netns: inode, Index: link.Attrs().Index, Name: dev}
	v.devices = append(v.devices, observed{Device: d, role: role, place: v.places[inode], netns: ns, links: links})
	return nil
}

// begin and end stand at the ends of the window.
func (v *lens) begin() {
	v.before = v.count()
	v.limits.Begin(v.window)
	v.err = errors.Join(v.err, v.countDrops(true))
	if v.sampler != nil {
		v.err = errors.Join(v.err, v.sampler.Start())
	}
}

func (v *lens) end() {
	if v.sampler != nil {
		v.err = errors.Join(v.err, v.sampler.Stop())
	}
	v.err = errors.Join(v.err, v.countDrops(false))
	v.limits.End()
	v.then = v.count()
}

func (v *lens) countDrops(on bool) error {
	if v.drops == nil {
		return nil
	}
	return v.drops.Count(on)
}

// limited is what the counters of limits counted.
func (v *lens) limited() *explain.Limits {
	out := v.limits.Limits()
	out.Unread = append(out.Unread, v.unread...)
	if v.drops != nil {
		drops, err := v.drops.Read(v.places)
		if err != nil {
			out.Unread = append(out.Unread, Reason(err))
		}
		out.Drops = drops
	}
	return out
}

// count reads the devices' own counters.
func (v *lens) count() []netlink.LinkStatistics {
	out := make([]netlink.LinkStatistics, len(v.devices))
	for i, d := range v.devices {
		link, err := d.links.LinkByName(d.Name)
		if err != nil {
			v.err = errors.Join(v.err, fmt.Errorf("read counters of %s: %w", d.Name, err))
			continue
		}
		out[i] = *link.Attrs().Statistics
	}
	return out
}

// profile is what was seen, for a trial that has ended well. The lab must still stand.
func (v *lens) profile(t *sample.Trial, m *meter, out workload.Outcome) (explain.Profile, error) {
	p := explain.Profile{Record: explain.Record{
		Cell: t.Cell, Repetition: t.Repetition, Order: t.Order, Window: m.end.At.Sub(m.begin.At).Seconds(),
		Bytes: out.Bytes, Operations: out.Operations, GeneratorUser: out.GeneratorUser, Missing: v.missing,
	}}
	err := v.err
	if err == nil {
		p.Cores, err = cost.PerCore(m.begin, m.end)
	}
	if err != nil {
		return p, err
	}
	p.Limits = v.limited()
	if v.sampler == nil {
		p.Devices = sum(v.counted(nil))
		return p, nil
	}
	p.Frequency = profile.Frequency
	wanted := make([]profile.Device, len(v.devices))
	for i, d := range v.devices {
		wanted[i] = d.Device
	}
	var looked [][2]explain.Device
	p.Stacks, looked, p.Lost, err = v.sampler.Read(v.table, v.places, wanted)
	if err != nil {
		p.Missing, p.Frequency, p.Stacks = Reason(err), 0, nil
	}
	p.Devices = sum(v.counted(looked))
	return p, nil
}

// counted is how many packets passed, by the devices' own counters. What is known
// of the packets that were looked at, as sent and received by device, is scaled
// up to all.
func (v *lens) counted(looked [][2]explain.Device) (out []explain.Device) {
	for i, d := range v.devices {
		a, z := v.before[i], v.then[i]
		for received, e := range []explain.Device{
			{Direction: explain.Sent, Packets: z.TxPackets - a.TxPackets, Bytes: z.TxBytes - a.TxBytes},
			{Direction: explain.Received, Packets: z.RxPackets - a.RxPackets, Bytes: z.RxBytes - a.RxBytes},
		} {
			e.Role, e.Place, e.Name = d.role, d.place, d.Name
			if looked != nil {
				e = e.Scaled(looked[i][received])
			}
			out = append(out, e)
		}
	}
	return out
}

// sum adds up the devices of many pods.
func sum(in []explain.Device) (out []explain.Device) {
	for _, d := range in {
		i := slices.IndexFunc(out, func(o explain.Device) bool {
			return o.Role == d.Role && o.Place == d.Place && o.Name == d.Name && o.Direction == d.Direction
		})
		if i < 0 {
			d.Sizes = slices.Clone(d.Sizes)
			out = append(out, d)
			continue
		}
		o := &out[i]
		o.Packets += d.Packets
		o.Bytes += d.Bytes
		o.Segments += d.Segments
		for j, n := range d.Sizes {
			o.Sizes[j] += n
		}
	}
	return out
}

func (v *lens) close() {
	if v.sampler != nil {
		_ = v.sampler.Close() // descriptors alone
	}
	if v.drops != nil {
		_ = v.drops.Close() // likewise
	}
	if v.limits != nil {
		v.limits.Close()
	}
}
