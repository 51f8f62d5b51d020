package lab

import (
	"context"
	"fmt"
)

// step is a part of the recipe.
type step struct {
	name string
	do   func(ctx context.Context) error
}

// recipe is how a lab is built, from top to bottom. What a network needs once is on this
// kernel, so that this one goes first where others build on what it has made.
func (l *Lab) recipe() []step {
	return []step{
		{"record lab", func(context.Context) error { return l.rec.save() }},
		{"build underlay", l.fabric.buildUnderlay},
		{"build machines", l.fabric.buildMachines},
		{"boot virtual machines", l.boot},
		{"build networks", l.inTurn(kernel.raise)},
		{"wait for networks", l.together(kernel.converge)},
		{"attach pods", l.inTurn(kernel.attach)},
		{"tell pods apart", l.tellPodsApart},
		{"wait for pods", l.together(kernel.settle)},
	}
}

// up follows the recipe.
func (l *Lab) up(ctx context.Context) error {
	now := l.own.opts.Now
	begin := now()
	for _, s := range l.recipe() {
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	l.Waited = l.own.waited
	l.Built = now().Sub(begin) - l.Waited
	l.rec.change(func(st *State) { st.Up = true })
	return l.rec.save()
}

// boot boots the virtual machines, side by side.
func (l *Lab) boot(ctx context.Context) error {
	begin := l.own.opts.Now()
	err := sideBySide(l.guests, func(g *guest) error {
		if err := g.boot(ctx, l.hypervisor); err != nil {
			return fmt.Errorf("host %s: %w", g.host.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range l.guests {
		if err := l.fabric.joinTap(ctx, g.host.Machine, g.host.Name); err != nil {
			return err
		}
	}
	l.Booted = l.own.opts.Now().Sub(begin)
	return nil
}

// inTurn has this kernel do something, and then those of virtual machines, side by side.
func (l *Lab) inTurn(do func(kernel, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := do(l.kernels[0], ctx); err != nil {
			return err
		}
		return sideBySide(l.kernels[1:], func(k kernel) error { return do(k, ctx) })
	}
}

// together has all kernels do something, side by side.
func (l *Lab) together(do func(kernel, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return sideBySide(l.kernels, func(k kernel) error { return do(k, ctx) })
	}
}
