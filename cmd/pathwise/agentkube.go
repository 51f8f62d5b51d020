package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube"
	"pathwise.dev/pathwise/internal/steer/memory"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// kubeFlags are those of an agent on a node of Kubernetes.
func kubeFlags(cmd *cobra.Command, f *agentFlags) {
	fl := cmd.Flags()
	fl.BoolVar(&f.kube, "kube", false, "read pods and networks from a Kubernetes API server, instead of a lab")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "with --kube: file that says how to reach the server (default: as a pod does)")
	fl.StringVar(&f.ownPod, "own-pod", "", "with --kube: UID of the agent's own pod, from which it probes")
	fl.StringVar(&f.hostNetns, "host-netns", "",
		"with --kube: file of the node's network namespace, whose connection tracking forgets connections that have moved (default: the agent's own)")
	fl.StringVar(&f.prior, "prior", "", "with --kube: file that \"recommend --to-cluster\" has written; one that is not there says nothing")
	fl.StringVar(&f.cgroup, "cgroup", "", "root of the cgroup v2 hierarchy of the host's pods (default: the first that is mounted)")
}

func (f agentFlags) checkKube() error {
	if !f.kube {
		if f.kubeconfig != "" || f.ownPod != "" || f.hostNetns != "" || f.prior != "" {
			return usageError{errors.New("agent: --kubeconfig, --own-pod, --host-netns and --prior need --kube")}
		}
		return nil
	}
	if f.cluster != "" || f.lab != "" || len(f.encapsulate) > 0 {
		return usageError{errors.New("agent: --kube goes without --lab, --cluster and --encapsulate: PathNetworks say that")}
	}
	if f.host == "" || f.dir == "" || f.ownPod == "" || f.keyFile == "" && !f.remove {
		return usageError{errors.New("agent: --kube needs --host, --dir, --own-pod and --key-file")}
	}
	return nil
}

// cgroupRoot is where connections are watched: in a container, the first hierarchy that is
// mounted is its own.
func (f agentFlags) cgroupRoot() (string, error) {
	if f.cgroup == "" {
		return telemetry.CgroupRoot()
	}
	for _, dir := range []string{f.cgroup, filepath.Join(f.cgroup, "unified")} { // systemd's place on a host with both
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir, nil
		}
	}
	return "", fmt.Errorf("--cgroup %s: no cgroup v2 hierarchy is mounted there", f.cgroup)
}

// hasNamespaces wants the directory where a container runtime keeps pods' namespaces: that of the
// agent's own pod is to be among them, so that without it none would ever be found.
func hasNamespaces(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not there, where the node's container runtime keeps pods' namespaces: mount the node's", dir)
	}
	return nil
}

// kubeAgent runs the agent of a node by what an API server says.
func kubeAgent(ctx context.Context, e env, f agentFlags, cfg agent.Config) error {
	memory.Frugal()
	if err := hasNamespaces(netns.Dir); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	src, err := kube.Open(kube.Config{Kubeconfig: f.kubeconfig, Node: f.host, Pod: f.ownPod,
		Version: strings.TrimSpace(machine.Version()), Now: e.now, Quiet: f.remove,
		Log: slog.New(logHandler(f.logFormat, e.stderr)).With("host", f.host)})
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { src.Run(ctx) })
	if err := src.Ready(ctx); err != nil {
		return nil // told to end
	}
	wg.Go(func() {
		if err := memory.GiveBack(ctx, memory.Settled); err != nil {
			e.remark(fmt.Sprintf("agent: %v", err))
		}
	})
	cfg.Source, cfg.News, cfg.HostNetns = src.Cluster, src.News(), f.hostNetns
	if !f.remove {
		wg.Go(func() { src.Follow(ctx, agent.Dial(agent.Socket(f.dir, f.host))) })
	}
	return hostAgent(ctx, e, f, cfg)
}

// hostAgent runs the agent of a host that is no lab's.
func hostAgent(ctx context.Context, e env, f agentFlags, cfg agent.Config) error {
	cfg.Keys = keysOf(f.keyFile)
	if !f.remove { // else nobody is spoken to
		if _, err := cfg.Keys(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	var fs unix.Statfs_t
	pins := filepath.Join("/sys/fs/bpf", "pathwise-"+f.host)
	if err := unix.Statfs("/sys/fs/bpf", &fs); err != nil || fs.Type != unix.BPF_FS_MAGIC {
		return errors.New("/sys/fs/bpf is no BPF file system: mount one with \"mount -t bpf bpf /sys/fs/bpf\"")
	}
	cfg.Host, cfg.PinDir = f.host, pins
	return oneAgent(ctx, e, f, f.dir, cfg)
}
