package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
)

// launcher makes pods that are containers, while the lab is up.
type launcher struct {
	pods *attacher
	// alive says why something of the lab has ended; nil while all of it runs.
	alive func() error
	// launched counts the pods.
	launched int
	// runtime is the lab's containerd, once it runs.
	runtime oci.Daemon
}

// launch makes one more pod on the host, attaches
// it as the network's other pods, and starts a container in it by the runtime, where
// the network's own engine has not done so.
func (l *launcher) launch(ctx context.Context, host int, r oci.Runtime) (oci.Launch, error) {
	if host < 1 || host > len(l.pods.Hosts) {
		return oci.Launch{}, fmt.Errorf("launch pod: no host %d", host)
	}
	if r == oci.Containerd {
		if l.pods.nets[0].plug.Run != nil {
			return oci.Launch{}, fmt.Errorf("launch pod: network %s has an engine of its own that runs its pods: use the workload startup", l.pods.nets[0].name)
		}
		if err := l.containerd(ctx); err != nil {
			return oci.Launch{}, fmt.Errorf("launch pod: %w", err)
		}
	}
	n := len(l.pods.op.rec.pods()) + l.launched
	l.launched++
	name := fmt.Sprintf("l%d", l.launched)
	dir := filepath.Join(l.pods.op.rec.dir, "containers", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return oci.Launch{}, fmt.Errorf("launch pod: %w", err)
	}
	cgroup, err := l.pods.op.Cgroup() // one for all of the lab's
	if err != nil {
		return oci.Launch{}, err
	}
	c := oci.Container{ID: "pw-" + l.pods.Spec.Name + "-" + name, Dir: dir, Cgroup: cgroup + "/" + name,
		Self: l.pods.opts.Self, Env: []string{l.pods.op.rec.mark()}}
	out := oci.Launch{Requested: l.pods.opts.Now()}
	pod, err := l.pods.makePod(ctx, l.pods.Hosts[host-1], PodSpec{Name: name, Host: host}, n)
	if err != nil {
		return out, fmt.Errorf("launch pod: %w", err)
	}
	out.Pod, out.Network = pod, l.pods.opts.Now().Sub(out.Requested)
	if l.pods.nets[0].plug.Run != nil { // the pod is a container already
		out.Engine, out.Network, out.Runtime = true, 0, out.Network
		return out, nil
	}
	c.Netns = netns.Path(pod.Netns)
	if r == oci.Containerd {
		err = l.runtime.Start(ctx, c)
	} else {
		_, err = oci.Start(ctx, c)
	}
	if err != nil {
		return out, fmt.Errorf("launch pod: %w", err)
	}
	out.Runtime = l.pods.opts.Now().Sub(out.Requested) - out.Network
	return out, nil
}

// containerd starts the lab's containerd, where it does not run yet.
func (l *launcher) containerd(ctx context.Context) error {
	if l.runtime.Dir != "" {
		return nil
	}
	d := oci.Daemon{Dir: filepath.Join(l.pods.op.rec.dir, "containerd")}
	if _, err := os.Stat(oci.ShimDir); errors.Is(err, os.ErrNotExist) {
		if err := l.pods.op.rec.intend(kindDir, oci.ShimDir); err != nil {
			return err
		}
	}
	argv, err := d.Command()
	if err != nil {
		return err
	}
	if err := l.pods.op.Start(ctx, network.Daemon{Name: "containerd", Argv: argv}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.pods.opts.Timeout,
		fmt.Errorf("containerd did not answer within %v", l.pods.opts.Timeout))
	defer cancel()
	err = network.Poll(ctx, 20*time.Millisecond, func() error { return errors.Join(l.alive(), d.Ready(ctx)) })
	if err != nil {
		return fmt.Errorf("start containerd: %w", errors.Join(context.Cause(ctx), err))
	}
	l.runtime = d
	return nil
}
