package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// carried has all kinds of traffic go over the network.
func (r *run) carried(ctx context.Context, network string) (string, error) {
	all := r.three(settling + 10*time.Second)
	err := r.during(ctx, func(ctx context.Context) error {
		return r.on(ctx, network, func() error {
			if err := wait(ctx, 3*time.Second); err != nil {
				return err
			}
			return r.stays(ctx, network)
		})
	}, all...)
	return counts(all), err
}

// stays wants the flows to be there.
func (r *run) stays(ctx context.Context, network string) error {
	all, err := r.Paths(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Network == network && p.Active {
			return nil
		}
	}
	return fmt.Errorf("the flows are not on %s", network)
}

// switches moves the flows from network to network. Traffic goes on for as long as that takes.
func (r *run) switches(ctx context.Context) (string, error) {
	const apart = 50 * time.Millisecond
	const begun = 2 * time.Second // the traffic: else the first switches are under none
	const one = time.Second       // at most, on average
	all := r.three(settling + time.Duration(r.Switches)*one)
	began := time.Now()
	var took time.Duration
	err := r.during(ctx, func(ctx context.Context) error {
		if err := r.up(ctx); err != nil {
			return err
		}
		if err := wait(ctx, begun); err != nil {
			return err
		}
		began = time.Now()
		for n := range r.Switches {
			if err := r.Switch(ctx, r.next(n)); err != nil {
				return fmt.Errorf("switch %d: %w", n+1, err)
			}
			if err := wait(ctx, apart); err != nil {
				return err
			}
		}
		took = time.Since(began)
		return nil
	}, all...)
	return fmt.Sprintf("in %.1f s; %s", took.Seconds(), counts(all)), err
}

// next goes round the networks.
func (r *run) next(n int) string {
	all := r.networks()
	return all[(n+1)%len(all)]
}

// hole makes a black hole where the flows are.
func (r *run) hole(ctx context.Context, network string) (string, error) {
	t := r.rr(settling + 15*time.Second)
	err := r.during(ctx, func(ctx context.Context) error {
		return r.on(ctx, network, func() error {
			if err := wait(ctx, time.Second); err != nil {
				return err
			}
			hole, err := r.Hole(ctx, network)
			if err != nil {
				return err
			}
			return errors.Join(wait(ctx, 3*time.Second), hole.Close())
		})
	}, t)
	gap := t.longest()
	if err == nil && gap > r.Gap {
		err = fmt.Errorf("no answer for %v: expected %v at most", gap.Round(time.Millisecond), r.Gap)
	}
	return fmt.Sprintf("the longest time without an answer is %v", gap.Round(time.Millisecond)), err
}

// killed has the agent of the client's node die while flows are elsewhere.
func (r *run) killed(ctx context.Context) (string, error) {
	t := r.rr(2*settling + 60*time.Second)
	var took time.Duration
	err := r.during(ctx, func(ctx context.Context) error {
		if err := r.up(ctx); err != nil {
			return err
		}
		if err := r.Switch(ctx, r.Networks[0]); err != nil {
			return err
		}
		if err := r.Kill(ctx); err != nil {
			return err
		}
		began := time.Now()
		err := r.Agents(ctx)
		took = time.Since(began)
		if err != nil {
			return err
		}
		return r.up(ctx)
	}, t)
	return fmt.Sprintf("at work after %.1f s; %s", took.Seconds(), counts([]*traffic{t})), err
}
