package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/topo"
)

// labAgents runs one agent for each host of the lab, in its namespace, until
// the first ends or the user stops them.
func labAgents(ctx context.Context, e env, f agentFlags, st lab.State) error {
	user := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, h := range st.Hosts {
		args := []string{"agent", "--lab", st.Spec.Name, "--host", h.Name, "--policy", f.policy, "--need", f.need, "--log",
			f.logFormat, "--share", f.share, "--rto-min", f.rtoMin.String(), "--seed", fmt.Sprint(f.seed)}
		if f.dryRun {
			args = append(args, "--dry-run")
		}
		if f.remove {
			args = append(args, "--remove")
		}
		if len(f.encapsulate) > 0 {
			args = append(args, "--encapsulate", strings.Join(f.encapsulate, ","))
		}
		if f.table != "" {
			args = append(args, "--table", f.table)
		}
		if f.record != "" {
			args = append(args, "--record", f.record+"-"+h.Name)
		}
		cmd := exec.CommandContext(ctx, e.self, args...)
		cmd.Env = append(os.Environ(), e.store().Mark(st.Spec.Name))
		cmd.Stdout, cmd.Stderr = e.stdout, e.stderr
		// A group of its own: a Ctrl-C at the terminal reaches it through us, once.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 5 * time.Second
		if err := netns.Start(h.Netns, cmd); err != nil {
			cancel(err)
			break
		}
		wg.Go(func() {
			if err := cmd.Wait(); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("agent of %s: %w", h.Name, untold(err)))
			}
		})
	}
	wg.Wait()
	cause := context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(cause, context.Canceled):
		return nil
	case killed(cause) && e.removed(user, st.Spec.Name):
		fmt.Fprintf(e.stderr, "lab %s was removed: its agents have ended\n", st.Spec.Name)
		return nil
	}
	return cause
}

// killed reports whether the error is of a process that a signal has ended.
func killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && !exit.Exited()
}

// untold is the error of an agent's process that has ended. One that exits has said why.
func untold(err error) error {
	if killed(err) {
		return err
	}
	return silentError{err}
}

// removed reports whether a lab is gone, or is within seconds: "lab down" ends its processes first. The user need not
// wait for that.
func (e env) removed(ctx context.Context, name string) bool {
	for range 50 {
		if _, err := e.store().Load(name); errors.Is(err, lab.ErrNoLab) {
			return true
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// labAgent runs the agent of one host of a lab.
func labAgent(ctx context.Context, e env, f agentFlags, st lab.State, cfg agent.Config) error {
	if !slices.ContainsFunc(st.Hosts, func(h topo.Host) bool { return h.Name == f.host }) {
		return usageError{fmt.Errorf("agent: lab %s has no host %q", st.Spec.Name, f.host)}
	}
	pins, err := e.store().MountBPF(st.Spec.Name)
	if err != nil {
		return err
	}
	dir := e.store().Dir(st.Spec.Name)
	file := filepath.Join(dir, "agent.key")
	if err := makeKey(file); err != nil {
		return err
	}
	cfg.Keys, cfg.Host, cfg.PinDir = keysOf(file), f.host, filepath.Join(pins, f.host)
	cfg.Source = whenChanged(e.store().StateFile(st.Spec.Name), func() (agent.Cluster, error) {
		st, err := e.store().Load(st.Spec.Name)
		// A lab enforces no policy on its pods: no network refuses what another lets through.
		return agent.Cluster{Hosts: st.Hosts, Pods: st.Pods, Equal: st.Spec.Networks, Encapsulated: f.encapsulate,
			OpenElsewhere: true}, err
	})
	return oneAgent(ctx, e, f, dir, cfg)
}
