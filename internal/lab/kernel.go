package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// kernel holds hosts of the lab: this one those that are namespaces, a virtual machine's
// the one host that it is. Hosts on one kernel are built together, as networks are.
type kernel interface {
	builder
	prober
}

// builder makes a kernel's part of the lab, in this order.
type builder interface {
	// raise makes the hosts and starts the networks on them.
	raise(ctx context.Context) error
	// converge waits for the daemons of all networks.
	converge(ctx context.Context) error
	// attach makes and attaches the hosts' pods, and records them.
	attach(ctx context.Context) error
	// settle waits until what has been made carries packets of the pods that are recorded.
	settle(ctx context.Context) error
}

// prober looks at namespaces of a kernel, and runs programs there.
type prober interface {
	exec(ctx context.Context, ns string, argv []string) (program.Result, error)
	enter(pod topo.Pod, fn func() error) error
	count(d network.Device) (Counters, error)
	features(d network.Device) (map[string]bool, error)
	// ahead is how far this kernel's monotonic clock is ahead of that one's.
	ahead() time.Duration
}

// local is this kernel with the lab's hosts on it, which are namespaces.
type local struct {
	*plan
	op   *operator
	opts Options
	// hosts are those of the plan that are on this kernel.
	hosts []topo.Host
	nets  []built
	pods  *attacher
	// within: this kernel is a virtual machine's.
	within bool
	// uplink joins a host, whose namespace is there, to what is between hosts.
	uplink func(ctx context.Context, h topo.Host) error
	// between are the links that are neither hosts' nor pods'.
	between func() links
	// alive says why something of the lab has ended; nil while all of it runs.
	alive func() error
	// waited is how long the networks' daemons took to converge.
	waited time.Duration
}

// newLocal returns this kernel, on which the plan's hosts are that here says.
func newLocal(p *plan, rec *record, nets []built, opts Options, here func(topo.Host) bool) *local {
	op := &operator{rec, &wiring{rec: rec, handles: map[string]*netlink.Handle{}}, &programs{rec: rec}}
	l := &local{plan: p, op: op, opts: opts, nets: nets, alive: op.failed, between: func() links { return links{} },
		pods: &attacher{plan: p, op: op, nets: nets, opts: opts}}
	for _, h := range p.Hosts {
		if here(h) {
			l.hosts = append(l.hosts, h)
		}
	}
	return l
}

// has reports whether the host is on this kernel.
func (l *local) has(host int) bool {
	return slices.ContainsFunc(l.hosts, func(h topo.Host) bool { return h.Index == host })
}

// raise implements kernel.
func (l *local) raise(ctx context.Context) error {
	for _, h := range l.hosts {
		if err := errors.Join(ctx.Err(), l.buildHost(ctx, h)); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	if err := l.acquaint(); err != nil {
		return err
	}
	for i := range l.nets {
		if err := l.buildNetwork(ctx, i); err != nil {
			return fmt.Errorf("network %s: %w", l.nets[i].name, err)
		}
	}
	return nil
}

// attach implements kernel. Hosts are side by side: plugins of one host may hold a
// lock there, those of different hosts do not meet.
func (l *local) attach(ctx context.Context) error {
	specs := l.Spec.pods()
	l.op.rec.change(func(st *State) { st.Pods = make([]topo.Pod, len(specs)) })
	return sideBySide(l.hosts, func(h topo.Host) error {
		for n, p := range specs {
			if p.Host != h.Index {
				continue
			}
			pod, err := l.pods.makePod(ctx, h, p, n)
			l.op.rec.change(func(st *State) { st.Pods[n] = pod })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// settle implements kernel.
func (l *local) settle(ctx context.Context) error {
	own, all := links{}, l.between()
	six := false
	for _, h := range l.hosts {
		own.add(h.Netns, h.Dev)
	}
	for _, p := range l.op.rec.pods() {
		six = six || slices.ContainsFunc(p.Attachments, func(a topo.Attachment) bool { return a.Addr6.IsValid() })
		if l.has(p.Host) {
			own.add(p.Netns, devices(p)...)
		}
	}
	all.names, all.must = append(all.names, own.names...), append(all.must, own.must...)
	if err := all.await(ctx, l.op.wiring); err != nil {
		return err
	}
	if six {
		if err := own.awaitAddresses(ctx, l.op.wiring); err != nil {
			return err
		}
	}
	return l.settleNetworks(ctx)
}

// devices are the names of the pod's interfaces.
func devices(p topo.Pod) []string {
	var out []string
	for _, a := range p.Attachments {
		out = append(out, a.Dev)
	}
	return out
}

// exec implements kernel.
func (l *local) exec(ctx context.Context, ns string, argv []string) (program.Result, error) {
	return l.op.run(ctx, ns, argv)
}

// enter implements kernel.
func (l *local) enter(pod topo.Pod, fn func() error) error { return netns.Do(pod.Netns, fn) }

// ahead implements kernel.
func (l *local) ahead() time.Duration { return 0 }

// count implements kernel.
func (l *local) count(d network.Device) (Counters, error) {
	nl, err := l.op.Netlink(d.Netns)
	if err != nil {
		return Counters{}, err
	}
	link, err := nl.LinkByName(d.Name)
	if err != nil {
		return Counters{}, fmt.Errorf("read counters of %s: %w", d.Name, err)
	}
	s := link.Attrs().Statistics
	return Counters{s.RxBytes + s.TxBytes, s.RxPackets + s.TxPackets}, nil
}

// features implements kernel.
func (l *local) features(d network.Device) (map[string]bool, error) {
	var on map[string]bool
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

// sideBySide does fn with all of them at once.
func sideBySide[T any](all []T, fn func(T) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = fn(one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// operator does in the lab's namespaces on this kernel what a network asks for.
type operator struct {
	rec *record
	*wiring
	*programs
}

// Cgroup implements network.Operator.
func (o *operator) Cgroup() (string, error) {
	o.rec.mu.Lock()
	defer o.rec.mu.Unlock()
	path := cgroupOf(o.rec.state.Spec.Name)
	if !o.rec.cgroup { // recorded once, and for all that is in it
		if err := o.rec.intend(kindCgroup, path); err != nil {
			return "", err
		}
		o.rec.cgroup = true
	}
	return path, nil
}
