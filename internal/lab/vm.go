package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// GuestTimeout is an Options.Timeout for virtual machines and for labs in a guest:
// their processors may be programs, on which a daemon of 75 MB takes its time.
const GuestTimeout = 2 * time.Minute

// GuestVariable is in the environment of what runs in a guest: package guest's first process
// gives it to the command.
const GuestVariable = "PATHWISE_IN_GUEST"

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

// guest is a virtual machine's kernel with the one host on it. Machine is nil until it boots.
type guest struct {
	Machine
	host topo.Host
	plan *plan
	rec  *record
	nets []built
	// built is what it has said of the networks.
	built Built
	// behind is how far the machine's monotonic clock is behind this kernel's.
	behind time.Duration
}

// boot boots the machine in a room of its own.
func (g *guest) boot(ctx context.Context, by Hypervisor) error {
	dir, err := g.rec.makeDir("vm-" + g.host.Name)
	if err != nil {
		return err
	}
	g.Machine, err = by.Boot(ctx, Room{Netns: g.plan.Spec.machineNetns(g.host.Machine), Tap: g.host.Name,
		Control: "c-" + g.host.Name, Number: g.host.Index, Files: dir, MarkedBy: g.rec.mark(), MTU: g.plan.Spec.wireMTU()})
	if err != nil {
		return err
	}
	return g.setClock(ctx)
}

// ask is Call with the host and its end in errors.
func (g *guest) ask(ctx context.Context, op string, in, out any) error {
	if err := g.Call(ctx, op, in, out); err != nil {
		return fmt.Errorf("host %s: %w", g.host.Name, errors.Join(err, g.Failed()))
	}
	return nil
}

// raise implements kernel.
func (g *guest) raise(ctx context.Context) error {
	o := Order{plan: *g.plan, Host: g.host.Index, MAC: g.MAC()}
	for _, n := range g.nets {
		o.Find = append(o.Find, cmp.Or(n.Info().Find, n.name))
	}
	return g.ask(ctx, opBuild, o, &g.built)
}

// converge implements kernel.
func (g *guest) converge(ctx context.Context) error { return g.ask(ctx, opReady, nil, nil) }

// attach implements kernel.
func (g *guest) attach(ctx context.Context) error {
	var pods []topo.Pod
	if err := g.ask(ctx, opAttach, nil, &pods); err != nil {
		return err
	}
	g.rec.change(func(st *State) {
		for i, p := range pods {
			if p.Host == g.host.Index && i < len(st.Pods) {
				st.Pods[i] = p
			}
		}
	})
	return nil
}

// settle implements kernel.
func (g *guest) settle(ctx context.Context) error { return g.ask(ctx, opSettle, g.rec.pods(), nil) }

// has reports whether the namespace is the machine's.
func (g *guest) has(ns string) bool {
	return g.host.Netns == ns || slices.ContainsFunc(g.rec.pods(), func(p topo.Pod) bool {
		return p.Netns == ns && p.Host == g.host.Index
	})
}

// setClock finds out how far the machine's clock is behind this kernel's: by the
// quickest of some answers, as half of its way there is the error's bound.
func (g *guest) setClock(ctx context.Context) error {
	best := time.Hour
	for range 8 {
		sent := program.Kernel()
		var there time.Duration
		if err := g.Call(ctx, opClock, nil, &there); err != nil {
			return fmt.Errorf("compare clocks: %w", err)
		}
		if took := program.Kernel() - sent; took < best {
			best, g.behind = took, sent+took/2-there
		}
	}
	return nil
}

// exec implements kernel.
func (g *guest) exec(ctx context.Context, ns string, argv []string) (program.Result, error) {
	var ran Ran
	if err := g.Call(ctx, opExec, Program{ns, argv, g.behind}, &ran); err != nil {
		return program.Result{}, &program.Error{Argv: argv, Err: cmp.Or(ctx.Err(), errors.Join(err, g.Failed()))}
	}
	if ran.Failure != "" {
		return ran.Result, &program.Error{Argv: argv, Stderr: ran.Stderr, Err: errors.New(ran.Failure)}
	}
	return ran.Result, nil
}

// enter implements kernel.
func (g *guest) enter(pod topo.Pod, _ func() error) error {
	return fmt.Errorf("enter pod %s: %w", pod.Name, program.ErrElsewhere)
}

// ahead implements kernel.
func (g *guest) ahead() time.Duration { return g.behind }

// count implements kernel.
func (g *guest) count(d network.Device) (Counters, error) {
	var out Counters
	err := g.Call(context.Background(), opCount, d, &out)
	return out, err
}

// features implements kernel.
func (g *guest) features(d network.Device) (map[string]bool, error) {
	var on map[string]bool
	err := g.Call(context.Background(), opFeatures, d, &on)
	return on, err
}
