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
	"path/filepath"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/topo"
)

// Options are the lab's means.
type Options struct {
	// CNIPath lists the directories of CNI plugins.
	CNIPath []string
	// Timeout bounds each CNI call and the wait for daemons; 0 means 20 s, and
	// GuestTimeout where a host is a virtual machine.
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

// Lab is a test bed that is up, or was as far as Up came.
type Lab struct {
	store Store
	rec   *record
	spec  Spec
	opts  Options

	// nets are the networks; the first is the default one.
	nets     []built
	hosts    []topo.Host
	pods     []topo.Pod
	underlay string
	gateway  netip.Prefix

	// outside is Open vSwitch on the physical machines, where that joins their hosts.
	outside *ovs.Fabric
	// guests are the hosts in virtual machines; share is set within one of them.
	guests []*guestHost
	share  *Order
	seed   []byte
	mixed  bool

	daemons []*daemon
	handles map[string]*netlink.Handle
	deletes []deletion
	// launched counts the pods that Launch made.
	launched int
	// runtime is the lab's containerd, once it runs.
	runtime oci.Daemon
	// cgroup is set once the lab's cgroup is recorded.
	cgroup  bool
	created time.Time
	mu      sync.Mutex // serialises records and UIDs while hosts attach side by side

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
	if err := s.prepare(); err != nil {
		return nil, err
	}
	rec, err := s.create(spec.Name)
	if err != nil {
		return nil, err
	}
	l := &Lab{store: s, rec: rec, spec: spec, opts: opts, nets: all, created: opts.Now(),
		underlay: spec.netns("u"), handles: map[string]*netlink.Handle{}}
	if err := l.up(ctx); err != nil {
		return nil, errors.Join(err, l.Down(context.WithoutCancel(ctx)))
	}
	if !opts.Owned {
		l.release()
	}
	return l, nil
}

// prepare readies the store and /run/netns.
func (s Store) prepare() error {
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", s.Root, err)
	}
	return netns.Prepare()
}

func (l *Lab) up(ctx context.Context) error {
	begin := l.opts.Now()
	var err error
	if l.gateway, err = topo.GatewayAddr(l.spec.Underlay); err != nil {
		return err
	}
	if l.hosts, err = l.spec.hosts(); err != nil {
		return err
	}
	if err := l.markVMs(); err != nil {
		return err
	}
	if err := l.needFamily(); err != nil {
		return err
	}
	if err := l.save(false); err != nil {
		return err
	}
	if err := l.buildUnderlay(); err != nil {
		return err
	}
	if err := l.buildMachines(ctx); err != nil {
		return err
	}
	if err := l.bootVMs(ctx); err != nil {
		return err
	}
	l.Booted = l.opts.Now().Sub(begin)
	for _, h := range l.here() {
		if err := errors.Join(ctx.Err(), l.buildHost(ctx, h)); err != nil {
			return fmt.Errorf("build host %s: %w", h.Name, err)
		}
	}
	if err := l.acquaint(); err != nil {
		return err
	}
	if err := l.join(ctx); err != nil {
		return err
	}
	l.Built = l.opts.Now().Sub(begin) - l.Waited
	return l.save(true)
}

// join builds the networks and attaches pods to them, here and in the virtual
// machines: what is here first, as what a network needs once is here.
func (l *Lab) join(ctx context.Context) error {
	if err := errors.Join(l.raise(ctx), l.raiseInVMs(ctx)); err != nil {
		return err
	}
	if err := l.both(func() error { return l.converge(ctx) },
		func(g *guestHost) error { return g.Call(ctx, opReady, nil, nil) }); err != nil {
		return err
	}
	if err := l.attachAll(ctx); err != nil {
		return err
	}
	if err := l.attachInVMs(ctx); err != nil {
		return err
	}
	return l.both(func() error { return l.finish(ctx) },
		func(g *guestHost) error { return g.Call(ctx, opSettle, l.pods, nil) })
}

// both does something here and in the virtual machines, side by side.
func (l *Lab) both(here func() error, there func(g *guestHost) error) error {
	done := make(chan error, 1)
	go func() { done <- l.inVMs(there) }()
	err := here()
	return errors.Join(err, <-done)
}

// finish waits until what has been made carries packets.
func (l *Lab) finish(ctx context.Context) error {
	if err := l.awaitLinks(ctx); err != nil {
		return err
	}
	return l.settle(ctx)
}

// makeDir makes a directory that goes with the lab.
func (l *Lab) makeDir(name string) (string, error) {
	dir := filepath.Join(l.rec.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("create directory: %w", err)
	}
	return dir, nil
}

// save records the lab's state.
func (l *Lab) save(up bool) error {
	st := State{Spec: l.spec, Network: l.nets[0].name, Created: l.created, Up: up,
		Hosts: l.hosts, Pods: l.pods, Delete: l.deletes}
	if l.opts.Owned {
		st.Owner = os.Getpid()
	}
	return l.rec.save(st)
}

// Netlink implements network.Operator; the handle lives as long as the lab.
func (l *Lab) Netlink(ns string) (*netlink.Handle, error) {
	if h, ok := l.handles[ns]; ok {
		return h, nil
	}
	h, err := netns.Netlink(ns)
	if err != nil {
		return nil, err
	}
	l.handles[ns] = h
	return h, nil
}

// Pods returns the pods in the order of the spec, the agents' last.
func (l *Lab) Pods() []topo.Pod { return l.pods }

// Hosts returns the hosts.
func (l *Lab) Hosts() []topo.Host { return l.hosts }

// Gateway is the underlay's own address: the world outside the hosts.
func (l *Lab) Gateway() netip.Prefix { return l.gateway }

// Underlay is the name of the underlay's namespace.
func (l *Lab) Underlay() string { return l.underlay }

// Plug says how the default network attached the pods.
func (l *Lab) Plug() network.Plug { return l.nets[0].plug }

// Dir is the lab's directory, for files that go with it.
func (l *Lab) Dir() string { return l.rec.dir }

// release closes what this process holds of the lab.
func (l *Lab) release() {
	for _, h := range l.handles {
		h.Close()
	}
	l.handles = nil
	l.rec.close()
}

// Down removes the lab and everything in it.
func (l *Lab) Down(ctx context.Context) error {
	for _, h := range l.handles {
		h.Close()
	}
	l.handles = nil
	err := l.store.remove(ctx, l.spec.Name)
	l.rec.close()
	return err
}
