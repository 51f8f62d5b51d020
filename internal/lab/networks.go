package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// built is a network on the lab's hosts.
type built struct {
	network.Network
	name string
	plug network.Plug
}

// conflist is the CNI configuration list by which the pod is attached.
func (b built) conflist(ctx context.Context, pod topo.Pod) (json.RawMessage, error) {
	if b.plug.Conflist != nil {
		return b.plug.Conflist(ctx, pod)
	}
	return b.plug.Conflists[pod.Host], nil
}

// Combinable returns a *FieldError when pods cannot be on all the networks at
// once, or when there is none on which agents could be.
func Combinable(nets []network.Network, agents bool) error {
	for i, n := range nets {
		if n == nil {
			continue
		}
		info := n.Info()
		if info.Alone != "" && len(nets) > 1 {
			return badField(fmt.Sprintf("networks[%d]", i), "%s cannot be combined with other networks: %s", info.Name,
				info.Alone)
		}
		if info.First != "" && i > 0 {
			return badField(fmt.Sprintf("networks[%d]", i), "%s can only be the first network: %s", info.Name, info.First)
		}
		if info.Alone != "" && agents {
			return badField("agents", "network %s takes no agents: %s", info.Name, info.Alone)
		}
		if err := uplinkFree(nets[:i], info); err != nil {
			return badField(fmt.Sprintf("networks[%d]", i), "%w", err)
		}
	}
	return nil
}

// uplinkFree wants no network before this one to receive the frames of the uplink
// in another way.
func uplinkFree(before []network.Network, info network.Info) error {
	for _, n := range before {
		if n == nil || info.Uplink == "" {
			continue
		}
		if other := n.Info(); other.Uplink != "" && other.Uplink != info.Uplink {
			return fmt.Errorf("%s cannot be combined with %s: frames that reach a host's uplink go to %s or to %s, not to both",
				info.Name, other.Name, info.Uplink, other.Uplink)
		}
	}
	return nil
}

// converge implements kernel.
func (l *local) converge(ctx context.Context) error {
	begin := l.opts.Now()
	defer func() { l.waited += l.opts.Now().Sub(begin) }()
	for _, n := range l.nets {
		if n.plug.Ready == nil {
			continue
		}
		if err := l.await(ctx, n, n.plug.Ready); err != nil {
			return fmt.Errorf("network %s: %w", n.name, err)
		}
	}
	return nil
}

// settleNetworks waits until the networks know the pods that have been attached.
func (l *local) settleNetworks(ctx context.Context) error {
	begin := l.opts.Now()
	defer func() { l.waited += l.opts.Now().Sub(begin) }()
	for _, n := range l.nets {
		if n.plug.Settled == nil {
			continue
		}
		var on []topo.Pod
		for _, p := range l.op.rec.pods() {
			if _, ok := p.On(n.name); ok {
				on = append(on, p)
			}
		}
		if err := l.await(ctx, n, func(ctx context.Context) error { return n.plug.Settled(ctx, on) }); err != nil {
			return fmt.Errorf("attach pods to %s: %w", n.name, err)
		}
	}
	return nil
}

// buildNetwork builds network number i on its own part of the hosts' addresses.
func (l *local) buildNetwork(ctx context.Context, i int) error {
	name := "network"
	if i > 0 {
		name = fmt.Sprintf("network-%d", i)
	}
	dir, err := l.op.rec.makeDir(name)
	if err != nil {
		return err
	}
	site, err := l.site(i)
	if err != nil {
		return err
	}
	site.Hosts = slices.DeleteFunc(slices.Clone(site.Hosts), func(h topo.Host) bool { return !l.has(h.Index) })
	site.Within, site.Dir, site.Lab, site.Self, site.Operator = l.within, dir, l.op.rec.dir, l.opts.Self, l.op
	n := &l.nets[i]
	n.plug, err = n.Build(ctx, site)
	mode := n.plug.Mode
	if several := mode == network.ByCNI || mode == network.ByEngine && i == 0; err == nil && len(l.nets) > 1 &&
		(!several || n.plug.Publish) {
		err = errors.New("it cannot be combined with other networks")
	}
	return err
}

// await waits for a network's daemons, and no longer than one of them lives.
func (l *local) await(ctx context.Context, n built, converged func(context.Context) error) error {
	most := max(l.opts.Timeout, n.plug.Patience)
	wait, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not ready after %v", most))
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- converged(wait) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ready:
			if err != nil {
				return errors.Join(fmt.Errorf("wait for daemons: %w", err), context.Cause(wait))
			}
			return nil
		case <-tick.C:
			if err := l.alive(); err != nil {
				cancel()
				<-ready
				return err
			}
		}
	}
}
