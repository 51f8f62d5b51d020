package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/oci"
	"pathwise.dev/pathwise/internal/workload"
)

// Launch implements workload.Ground: it makes one more pod on the host, attaches
// it as the network's other pods, and starts a container in it by runc, where the
// network's own engine has not done so.
func (l *Lab) Launch(ctx context.Context, host int) (workload.Launch, error) {
	if host < 1 || host > len(l.hosts) {
		return workload.Launch{}, fmt.Errorf("launch pod: no host %d", host)
	}
	n := len(l.pods) + l.launched
	l.launched++
	name := fmt.Sprintf("l%d", l.launched)
	dir := filepath.Join(l.rec.dir, "containers", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return workload.Launch{}, fmt.Errorf("launch pod: %w", err)
	}
	cgroup, err := l.Cgroup() // one for all of the lab's
	if err != nil {
		return workload.Launch{}, err
	}
	c := oci.Container{ID: "pw-" + l.spec.Name + "-" + name, Dir: dir, Cgroup: cgroup + "/" + name,
		Self: l.opts.Self, Env: []string{labEnv + "=" + l.rec.dir}}
	out := workload.Launch{Requested: l.opts.Now()}
	pod, err := l.makePod(ctx, l.hosts[host-1], PodSpec{Name: name, Host: host}, n)
	if err != nil {
		return out, fmt.Errorf("launch pod: %w", err)
	}
	out.Pod, out.Network = pod, l.opts.Now().Sub(out.Requested)
	if l.nets[0].plug.Run != nil { // the pod is a container already
		out.Engine, out.Network, out.Runtime = true, 0, out.Network
		return out, nil
	}
	c.Netns = netns.Path(pod.Netns)
	if _, err := oci.Start(ctx, c); err != nil {
		return out, fmt.Errorf("launch pod: %w", err)
	}
	out.Runtime = l.opts.Now().Sub(out.Requested) - out.Network
	return out, nil
}
