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
func (l *Lab) runPod(ctx context.Context, pod topo.Pod, published uint16, shared bool) error {
	plug := l.nets[0].plug
	c := network.Container{Name: l.spec.netns(pod.Name), Host: pod.Host, Env: []string{labEnv + "=" + l.rec.dir},
		Listen: pod.Listen, Published: published}
	if plug.Mode == network.SharePod {
		leader := pod.Netns + ".leader" // no pod's name has a dot
		if shared {
			c.Leader = leader
		} else {
			c.Name = leader
		}
	}
	most := max(l.opts.Timeout, plug.Patience)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("the engine took longer than %v", most))
	defer cancel()
	pid, err := plug.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("run container: %w", err)
	}
	if !shared {
		if err := l.rec.intend(kindNetns, pod.Netns); err != nil {
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

// Cgroup implements network.Operator.
func (l *Lab) Cgroup() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := cgroupOf(l.spec.Name)
	if !l.cgroup { // recorded once, and for all that is in it
		if err := l.rec.intend(kindCgroup, path); err != nil {
			return "", err
		}
		l.cgroup = true
	}
	return path, nil
}
