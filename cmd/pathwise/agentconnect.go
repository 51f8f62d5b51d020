package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
)

// agentConnectCommand joins standard input and output to the agent in a directory: an API server
// runs it in the agent's pod for who may run commands there.
func agentConnectCommand(e env) *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "agent-connect", Short: "Join standard input and output to an agent", Hidden: true,
		Example: "  pathwise agent-connect --dir /run/pathwise/agent", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return agentConnect(cmd.Context(), e, dir) }}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the agent")
	return cmd
}

func agentConnect(ctx context.Context, e env, dir string) error {
	socks, err := agent.Sockets(dir)
	if err != nil {
		return err
	}
	for _, sock := range socks {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", sock)
		if err != nil {
			return fmt.Errorf("connect to agent: %w", err)
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		if _, err := io.WriteString(e.stdout, admin.Hello); err != nil {
			return fmt.Errorf("say that the agent is there: %w", err)
		}
		go func() {
			_, _ = io.Copy(conn, e.stdin) // its end is the end
			conn.Close()
		}()
		if _, err := io.Copy(e.stdout, conn); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("hand on what the agent says: %w", err)
		}
		return nil
	}
	return fmt.Errorf("no agent is in %s yet", dir)
}
