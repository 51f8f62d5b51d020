// Package lab turns a topology into namespaces: an underlay, hosts, one or
// several networks on them, and pods attached to these through real CNI plugins.
//
// Everything that a lab makes lies in network namespaces named pw-LAB-*, in
// processes that carry the lab's mark, and in one directory under the store;
// it is recorded before it is made, and Down removes it also when the process
// that made it was killed. A lab offers no load and measures nothing.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// Options are the lab's means.
type Options struct {
	// CNIPath lists the directories of CNI plugins.
	CNIPath []string
	// Timeout bounds each CNI call and the wait for daemons; 0 means 20 s, and
	// GuestTimeout in a guest or where a host is a virtual machine.
	Timeout time.Duration
	// Owned ties the lab to this process: another one does not remove it
	// while this one lives.
	Owned bool
	// Self is the pathwise executable, which pods started by Launch run.
	Self string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Random is where pods' UIDs come from; nil means crypto/rand.
	Random io.Reader
	// Hypervisor boots the virtual machines, where the spec has any.
	Hypervisor Hypervisor
}

// fill returns the options with defaults where they say nothing.
func (o Options) fill() Options {
	if o.Timeout == 0 && os.Getenv(GuestVariable) != "" {
		o.Timeout = GuestTimeout
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// Counters are what a device has carried, both ways.
type Counters struct {
	Bytes   uint64 `json:"bytes"`
	Packets uint64 `json:"packets"`
}

// Lab is a test bed that is up, or was as far as Up came.
type Lab struct {
	store Store
	rec   *record
	plan  *plan
	// kernels are all that hold hosts: own, which is this one, and guests, which are
	// virtual machines'.
	kernels    []kernel
	own        *local
	guests     []*guest
	hypervisor Hypervisor
	fabric     *fabric
	launcher   *launcher

	// Booted is how long virtual machines took to boot, as part of Built.
	Booted time.Duration
	// Built is how long hosts, networks and pods took to make, Waited how long
	// the networks' daemons took to converge.
	Built, Waited time.Duration
}

// Up builds the lab with one network, as UpAll does.
func (s Store) Up(ctx context.Context, spec Spec, net network.Network, opts Options) (*Lab, error) {
	return s.UpAll(ctx, spec, []network.Network{net}, opts)
}

// UpAll builds the lab with all the networks, the default one first. On an
// error, also of a cancelled ctx, what was made is removed again.
func (s Store) UpAll(ctx context.Context, spec Spec, nets []network.Network, opts Options) (*Lab, error) {
	spec = spec.Fill()
	var all []built
	spec.Networks = nil
	for _, n := range nets {
		all = append(all, built{Network: n, name: n.Info().Name})
		spec.Networks = append(spec.Networks, n.Info().Name)
	}
	if len(all) == 0 {
		return nil, errors.New("build lab: expected at least one network")
	}
	if err := errors.Join(spec.Check(), Combinable(nets, spec.Agents), Speak(nets, spec)); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("building a lab needs root: run as root, for example with sudo")
	}
	if opts.Timeout == 0 && len(spec.VMs) > 0 {
		opts.Timeout = GuestTimeout
	}
	opts = opts.fill()
	p, err := newPlan(spec, all, opts)
	if err != nil {
		return nil, err
	}
	l, err := s.begin(p, all, opts)
	if err != nil {
		return nil, err
	}
	if err := l.up(ctx); err != nil {
		return nil, errors.Join(err, l.Down(context.WithoutCancel(ctx)))
	}
	if !opts.Owned {
		l.release()
	}
	return l, nil
}

// begin records the lab that is planned, and makes nothing of it yet.
func (s Store) begin(p *plan, nets []built, opts Options) (*Lab, error) {
	rec, err := s.open(p, nets, opts)
	if err != nil {
		return nil, err
	}
	l := &Lab{store: s, rec: rec, plan: p, hypervisor: opts.Hypervisor,
		own: newLocal(p, rec, nets, opts, func(h topo.Host) bool { return h.VM == "" })}
	l.fabric = &fabric{plan: p, op: l.own.op, cniPath: opts.CNIPath}
	l.own.uplink, l.own.between, l.own.alive = l.fabric.plugUplink, l.fabric.links, l.Failed
	l.launcher = &launcher{pods: l.own.pods, alive: l.Failed}
	l.kernels = []kernel{l.own}
	for _, h := range p.Hosts {
		if h.VM != "" {
			g := &guest{host: h, plan: p, rec: rec, nets: nets}
			l.guests, l.kernels = append(l.guests, g), append(l.kernels, g)
		}
	}
	return l, nil
}

// open makes the record of the lab that is planned; its first save is the recipe's.
func (s Store) open(p *plan, nets []built, opts Options) (*record, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	rec, err := s.create(p.Spec.Name)
	if err != nil {
		return nil, err
	}
	st := State{Spec: p.Spec, Network: nets[0].name, Created: opts.Now(), Hosts: p.Hosts}
	if opts.Owned {
		st.Owner = os.Getpid()
	}
	rec.change(func(s *State) { *s = st })
	return rec, nil
}

// prepare readies the store and /run/netns.
func (s Store) prepare() error {
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", s.Root, err)
	}
	return netns.Prepare()
}

// Pods returns the pods in the order of the spec, the agents' last.
func (l *Lab) Pods() []topo.Pod { return l.rec.pods() }

// Hosts returns the hosts.
func (l *Lab) Hosts() []topo.Host { return l.plan.Hosts }

// Gateway is the underlay's own address: the world outside the hosts.
func (l *Lab) Gateway() netip.Prefix { return l.plan.Gateway }

// Underlay is the name of the underlay's namespace.
func (l *Lab) Underlay() string { return l.plan.underlay() }

// Gateway6 is the underlay's own IPv6 address; the zero value where the lab has none.
func (l *Lab) Gateway6() netip.Prefix { return l.plan.gateway6() }

// Plug says how the default network attached the pods, on all kernels.
func (l *Lab) Plug() network.Plug {
	plug := l.own.nets[0].plug
	plug.Notes, plug.Crossing = slices.Clone(plug.Notes), slices.Clone(plug.Crossing)
	for _, g := range l.guests {
		if len(g.built.Notes) == 0 {
			continue
		}
		plug.Crossing = append(plug.Crossing, g.built.Crossing[0]...)
		for _, note := range g.built.Notes[0] {
			if !slices.Contains(plug.Notes, note) {
				plug.Notes = append(plug.Notes, note)
			}
		}
	}
	return plug
}

// Notes are facts of how the lab was built that its spec leaves open: those of the
// default network, and of what is outside.
func (l *Lab) Notes() []string {
	out := l.Plug().Notes
	if l.fabric.outside != nil {
		out = append(out, l.fabric.note())
	}
	return out
}

// Dir is the lab's directory, for files that go with it.
func (l *Lab) Dir() string { return l.rec.dir }

// VM is the kernel of the virtual machines; "" where there are none.
func (l *Lab) VM() string {
	for _, g := range l.guests {
		return g.host.VM
	}
	return ""
}

// Failed returns why a daemon or virtual machine of the lab has ended; nil while all of
// them run.
func (l *Lab) Failed() error {
	for _, g := range l.guests {
		if err := g.Failed(); err != nil {
			return fmt.Errorf("host %s: %w", g.host.Name, err)
		}
	}
	return l.own.op.failed()
}

// at is the kernel that has the namespace.
func (l *Lab) at(ns string) prober {
	for _, g := range l.guests {
		if g.has(ns) {
			return g
		}
	}
	return l.own
}

// Exec implements workload.Ground.
func (l *Lab) Exec(ctx context.Context, pod topo.Pod, argv ...string) (program.Result, error) {
	return l.at(pod.Netns).exec(ctx, pod.Netns, argv)
}

// Run runs a program in the namespace and returns what it printed.
func (l *Lab) Run(ctx context.Context, ns string, argv ...string) ([]byte, error) {
	res, err := l.at(ns).exec(ctx, ns, argv)
	return res.Stdout, err
}

// Do implements workload.Ground.
func (l *Lab) Do(pod topo.Pod, fn func() error) error { return l.at(pod.Netns).enter(pod, fn) }

// Launch implements workload.Ground.
func (l *Lab) Launch(ctx context.Context, host int, r oci.Runtime) (oci.Launch, error) {
	return l.launcher.launch(ctx, host, r)
}

// Clock implements workload.Clocked.
func (l *Lab) Clock(pod topo.Pod) time.Duration { return l.at(pod.Netns).ahead() }

// Forget implements workload.Forgetful.
func (l *Lab) Forget(ctx context.Context) (bool, error) {
	d := l.own.nets[0].plug.Datapath
	if d == nil {
		return false, nil
	}
	return true, d.Forget(ctx)
}

// Counters reads those of a device of the lab.
func (l *Lab) Counters(d network.Device) (Counters, error) { return l.at(d.Netns).count(d) }

// Features reads which offloads of a device of the lab are on.
func (l *Lab) Features(d network.Device) (map[string]bool, error) { return l.at(d.Netns).features(d) }

// Netlink returns a handle in a namespace of this kernel, which lives as long as the lab.
func (l *Lab) Netlink(ns string) (*netlink.Handle, error) { return l.own.op.Netlink(ns) }

// release closes what this process holds of the lab.
func (l *Lab) release() {
	l.own.op.wiring.close()
	l.rec.close()
}

// Down removes the lab and everything in it.
func (l *Lab) Down(ctx context.Context) error {
	l.own.op.wiring.close()
	err := l.store.remove(ctx, l.plan.Spec.Name)
	l.rec.close()
	return err
}
