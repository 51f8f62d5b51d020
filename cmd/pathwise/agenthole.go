package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// agentHoleCommand loses what comes to a pod over one of its interfaces, until its input ends:
// "kube test" runs it in an agent's pod.
func agentHoleCommand(e env) *cobra.Command {
	var inode uint64
	var dev string
	cmd := &cobra.Command{Use: "agent-hole", Short: "Lose what comes to a pod", Hidden: true,
		Example: "  pathwise agent-hole --sandbox 4026532567 --dev net1", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return agentHole(cmd.Context(), e, inode, dev) }}
	cmd.Flags().Uint64Var(&inode, "sandbox", 0, "inode of the pod's namespace")
	cmd.Flags().StringVar(&dev, "dev", "", "interface")
	return cmd
}

func agentHole(ctx context.Context, e env, inode uint64, dev string) (err error) {
	all, faults, err := sandbox.Look()
	if err != nil {
		return fmt.Errorf("find namespace: %w", err)
	}
	for _, s := range all {
		if s.Inode != inode {
			continue
		}
		hole, err := impair.Hole(s.Netns, dev)
		if err != nil {
			return fmt.Errorf("make hole: %w", err)
		}
		if _, err := io.WriteString(e.stdout, admin.HoleMade); err != nil {
			return errors.Join(fmt.Errorf("say that the hole is there: %w", err), hole.Close())
		}
		ended := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, e.stdin); close(ended) }()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return hole.Close()
	}
	return errors.Join(append(faults, fmt.Errorf("no namespace has inode %d", inode))...)
}
