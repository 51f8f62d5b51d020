package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

func kubeSysdumpCommand(e env) *cobra.Command {
	var k kubeFlag
	var out string
	cmd := &cobra.Command{
		Use: "sysdump", Short: "Write what helps to find a fault into an archive, no secrets",
		Long: `Write one archive (.tar.gz) to look into a fault with, or to send to somebody: what
"check" and "status" say, nodes, networks, policies, all PathNetworks and the like, the
agents' DaemonSet and pods, events, and of each agent its log, health, paths, events,
metrics and maps. Secrets are not asked for; names and addresses of nodes and pods are
in it. What could not be read is told, and is in its file not-read.txt.`,
		Example: "  pathwise kube sysdump\n  pathwise kube sysdump --out fault.tar.gz",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := k.open(cmd)
			if err != nil {
				return err
			}
			if out == "" {
				out = "pathwise-sysdump-" + e.now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return usageError{fmt.Errorf("kube sysdump: %s is there already: name another file by --out", out)}
			} else if err != nil {
				return fmt.Errorf("kube sysdump: %w", err)
			}
			o := manifest.Defaults("")
			o.Namespace = k.Agents
			faults, err := c.Dump(cmd.Context(), o, f)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("kube sysdump: %w", errors.Join(err, os.Remove(out)))
			}
			for _, said := range faults {
				fmt.Fprintf(e.stderr, "pathwise: kube sysdump: not read: %s\n", said)
			}
			_, err = fmt.Fprintln(e.stdout, out)
			return err
		},
	}
	k.agentsFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: pathwise-sysdump-TIME.tar.gz)")
	return cmd
}
