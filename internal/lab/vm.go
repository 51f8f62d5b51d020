package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// GuestTimeout is an Options.Timeout for virtual machines and for labs in a guest:
// their processors may be programs, on which a daemon of 75 MB takes its time.
const GuestTimeout = 2 * time.Minute

// Hypervisor gives a lab virtual machines.
type Hypervisor interface {
	// Label is the machines' kernel, such as uml-6.1.176.
	Label() string
	// Boot returns a machine that is up. What it makes for it lies in the room.
	Boot(ctx context.Context, r Room) (Machine, error)
}

// Room is where a virtual machine may leave things that go with the lab.
type Room struct {
	// Netns is the namespace of the physical machine. The tap devices are made there:
	// Tap, which the lab joins to its networks, and Control, by which the machine is
	// spoken to.
	Netns, Tap, Control string
	// Number tells the machine from others in the namespace, from 1.
	Number int
	// Files is an empty directory, MarkedBy the mark of the lab's processes.
	Files, MarkedBy string
	// MTU of the machine's interface, in bytes.
	MTU int
}

// Dir is the room's directory.
func (r Room) Dir() string { return r.Files }

// Mark is the variable, as NAME=VALUE, of the lab's processes.
func (r Room) Mark() string { return r.MarkedBy }

// Machine is a virtual machine with one interface on the lab's networks.
type Machine interface {
	// MAC is the address of that interface.
	MAC() string
	// Call has the machine's Share do an operation, by a way that is none of the
	// lab's networks. out may be nil.
	Call(ctx context.Context, op string, in, out any) error
	// Failed says why the machine has ended; nil while it runs.
	Failed() error
}

// guestHost is a host in a virtual machine.
type guestHost struct {
	topo.Host
	Machine
	// ahead is how far this kernel's monotonic clock is ahead of the machine's.
	ahead time.Duration
}

// here lists the hosts on this kernel.
func (l *Lab) here() []topo.Host {
	var out []topo.Host
	for _, h := range l.hosts {
		if l.isHere(h) {
			out = append(out, h)
		}
	}
	return out
}

func (l *Lab) isHere(h topo.Host) bool {
	if l.share != nil {
		return h.Index == l.share.Host
	}
	return h.VM == ""
}

// part returns the site with the fields of a Site by which a network knows where it is.
func (l *Lab) part(site network.Site, all []topo.Host) network.Site {
	site.Hosts = nil
	for _, h := range all {
		if l.isHere(h) {
			site.Hosts = append(site.Hosts, h)
		}
	}
	if len(l.spec.VMs) > 0 {
		site.Everywhere, site.Mixed, site.Seed, site.Within = all, l.mixed, l.seed, l.share != nil
	}
	return site
}

// markVMs says of each host that is a virtual machine which kernel it has.
func (l *Lab) markVMs() error {
	if len(l.spec.VMs) == 0 {
		return nil
	}
	if l.opts.Hypervisor == nil {
		return errors.New("no means to boot virtual machines: see \"pathwise guest\"")
	}
	for _, v := range l.spec.VMs {
		h := &l.hosts[v.Host-1]
		h.VM, h.Control = l.opts.Hypervisor.Label(), l.spec.machineNetns(h.Machine)
	}
	l.mixed = len(l.spec.VMs) < len(l.hosts)
	for _, n := range l.nets {
		if why := n.Info().OneKernel; why != "" {
			return fmt.Errorf("network %s cannot have hosts in virtual machines: %s", n.name, why)
		}
	}
	l.seed = make([]byte, 32)
	if _, err := l.opts.Random.Read(l.seed); err != nil {
		return fmt.Errorf("make seed: %w", err)
	}
	return nil
}

// bootVMs boots the virtual machines, side by side.
func (l *Lab) bootVMs(ctx context.Context) error {
	var vms []topo.Host
	for _, h := range l.hosts {
		if h.VM != "" {
			vms = append(vms, h)
		}
	}
	l.guests = make([]*guestHost, len(vms))
	errs := make([]error, len(vms))
	rooms := make([]Room, len(vms))
	for i, h := range vms {
		var err error
		if rooms[i], err = l.room(h); err != nil {
			return fmt.Errorf("boot host %s: %w", h.Name, err)
		}
	}
	var wg sync.WaitGroup
	for i, h := range vms {
		wg.Go(func() {
			m, err := l.opts.Hypervisor.Boot(ctx, rooms[i])
			if err != nil {
				errs[i] = fmt.Errorf("boot host %s: %w", h.Name, err)
				return
			}
			l.guests[i] = &guestHost{Host: h, Machine: m}
			errs[i] = l.guests[i].setClock(ctx)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, g := range l.guests {
		if err := l.joinTap(ctx, g.Host.Machine, g.Name); err != nil {
			return err
		}
	}
	return nil
}

// inVMs has all virtual machines do something, side by side.
func (l *Lab) inVMs(fn func(g *guestHost) error) error {
	errs := make([]error, len(l.guests))
	var wg sync.WaitGroup
	for i, g := range l.guests {
		wg.Go(func() {
			if err := fn(g); err != nil {
				errs[i] = fmt.Errorf("host %s: %w", g.Name, errors.Join(err, g.Failed()))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// raiseInVMs starts the networks in the virtual machines.
func (l *Lab) raiseInVMs(ctx context.Context) error {
	said := make([]Built, len(l.hosts)+1)
	var find []string
	for _, n := range l.nets {
		find = append(find, cmp.Or(n.Info().Find, n.name))
	}
	err := l.inVMs(func(g *guestHost) error {
		o := Order{Spec: l.spec, Find: find, Hosts: l.hosts, Gateway: l.gateway, Mixed: l.mixed, Seed: l.seed, Host: g.Index,
			MAC: g.MAC()}
		return g.Call(ctx, opBuild, o, &said[g.Index])
	})
	if err != nil {
		return err
	}
	for _, b := range said {
		for i := range b.Notes {
			plug := &l.nets[i].plug
			plug.Crossing = append(plug.Crossing, b.Crossing[i]...)
			for _, note := range b.Notes[i] {
				if !slices.Contains(plug.Notes, note) {
					plug.Notes = append(plug.Notes, note)
				}
			}
		}
	}
	return nil
}

// attachInVMs attaches the pods there.
func (l *Lab) attachInVMs(ctx context.Context) error {
	var mu sync.Mutex
	return l.inVMs(func(g *guestHost) error {
		var pods []topo.Pod
		if err := g.Call(ctx, opAttach, nil, &pods); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, p := range pods {
			if p.Host == g.Index && i < len(l.pods) {
				l.pods[i] = p
			}
		}
		return nil
	})
}

// room makes what a virtual machine for the host may use.
func (l *Lab) room(h topo.Host) (Room, error) {
	dir, err := l.makeDir("vm-" + h.Name)
	return Room{Netns: l.spec.machineNetns(h.Machine), Tap: h.Name, Control: "c-" + h.Name, Number: h.Index,
		Files: dir, MarkedBy: labEnv + "=" + l.rec.dir, MTU: l.spec.wireMTU()}, err
}

// setClock finds out how far the machine's clock is behind this kernel's: by the
// quickest of some answers, as half of its way there is the error's bound.
func (g *guestHost) setClock(ctx context.Context) error {
	best := time.Hour
	for range 8 {
		sent, err := program.Kernel()
		if err != nil {
			return err
		}
		var there time.Duration
		if err := g.Call(ctx, opClock, nil, &there); err != nil {
			return fmt.Errorf("compare clocks: %w", err)
		}
		now, err := program.Kernel()
		if err != nil {
			return err
		}
		if took := now - sent; took < best {
			best, g.ahead = took, sent+took/2-there
		}
	}
	return nil
}

// guestOf returns the virtual machine that has the namespace; nil where this
// kernel has it.
func (l *Lab) guestOf(ns string) *guestHost {
	if len(l.guests) == 0 {
		return nil
	}
	for _, g := range l.guests {
		if g == nil {
			continue
		}
		if g.Netns == ns || slices.ContainsFunc(l.pods, func(p topo.Pod) bool { return p.Netns == ns && p.Host == g.Index }) {
			return g
		}
	}
	return nil
}

// exec runs the program in the machine.
func (g *guestHost) exec(ctx context.Context, ns string, argv []string) (program.Result, error) {
	var ran Ran
	if err := g.Call(ctx, opExec, Program{ns, argv, g.ahead}, &ran); err != nil {
		return program.Result{}, &program.Error{Argv: argv, Err: cmp.Or(ctx.Err(), errors.Join(err, g.Failed()))}
	}
	if ran.Failure != "" {
		return ran.Result, &program.Error{Argv: argv, Stderr: ran.Stderr, Err: errors.New(ran.Failure)}
	}
	return ran.Result, nil
}

// Clock implements workload.Clocked.
func (l *Lab) Clock(pod topo.Pod) time.Duration {
	if g := l.guestOf(pod.Netns); g != nil {
		return g.ahead
	}
	return 0
}

// VM is the kernel of the virtual machines; "" where there are none.
func (l *Lab) VM() string {
	for _, h := range l.hosts {
		if h.VM != "" {
			return h.VM
		}
	}
	return ""
}
