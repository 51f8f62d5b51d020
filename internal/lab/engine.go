package lab

import (
	"context"
	"fmt"
	"strconv"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// runPod has the default network's engine run the pod as a container, and makes
// the namespace that this made known by the pod's name. With shared, the
// namespace is known already, and the container must be in it.
func (a *attacher) runPod(ctx context.Context, pod topo.Pod, published uint16, shared bool) error {
	plug := a.nets[0].plug
	c := network.Container{Name: a.Spec.netns(pod.Name), Host: pod.Host, Env: []string{a.op.rec.mark()},
		Listen: pod.Listen, Published: published}
	if plug.Mode == network.SharePod {
		leader := pod.Netns + ".leader" // no pod's name has a dot
		if shared {
			c.Leader = leader
		} else {
			c.Name = leader
		}
	}
	most := max(a.opts.Timeout, plug.Patience)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("the engine took longer than %v", most))
	defer cancel()
	pid, err := plug.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("run container: %w", err)
	}
	if !shared {
		if err := a.op.rec.intend(kindNetns, pod.Netns); err != nil {
			return err
		}
		return netns.Attach(pod.Netns, pid)
	}
	want, err := netns.Inode(pod.Netns)
	if err != nil {
		return err
	}
	if got, err := netns.InodeOf(strconv.Itoa(pid)); err != nil || got != want {
		return fmt.Errorf("run container: it is in network namespace %d, not in that of %s (%w)", got, pod.Netns, err)
	}
	return nil
}
