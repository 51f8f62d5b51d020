package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
	"pathwise.dev/pathwise/internal/steer/kube/selftest"
)

func kubeTestCommand(e env) *cobra.Command {
	var k kubeFlag
	var nodes []string
	o := manifest.Defaults("")
	p := selftest.Plan{Switches: 200, Holes: 1, Gap: time.Second}
	cmd := &cobra.Command{
		Use: "test", Short: "Try the agents of a cluster with two pods of its own on two nodes",
		Long: `Make two pods on two nodes, in a namespace of their own (` + manifest.TestNamespace + `), and
try: a path on each network that PathNetworks allow, TCP, UDP and ICMP over each, switches
under traffic, of which nothing may be lost, black holes in front of the server, and an
agent that is killed. Each step is a line that begins with PASS or FAIL; where one fails
the exit code is 1. All that was made is removed, also after Ctrl-C; what a test has left
that was killed, the next one and "uninstall" remove. It takes a minute or two. Other pods
keep what they have; those of the client's node have no agent for some seconds.`,
		Example: "  pathwise kube test\n  pathwise kube test --nodes n1,n2 --network shop/fast --switches 1000",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.Valid(); err != nil {
				return usageError{fmt.Errorf("kube test: %w", err)}
			}
			c, err := k.open(cmd)
			if err != nil {
				return err
			}
			c.Say = e.remark
			ground, networks, err := c.Ground(cmd.Context(), o, nodes)
			if err != nil {
				return fmt.Errorf("kube test: %w", err)
			}
			p.Networks = networks
			if err = selftest.Run(cmd.Context(), ground, p, e.stdout); errors.Is(err, selftest.ErrFailed) {
				return silentError{err}
			} else if err != nil {
				return fmt.Errorf("kube test: %w", err)
			}
			return nil
		},
	}
	k.agentsFlags(cmd)
	fl := cmd.Flags()
	fl.StringSliceVar(&nodes, "nodes", nil, "two nodes, the client's first (default: the first two with agents)")
	fl.StringSliceVar(&o.Networks, "network", nil, "networks to try, as NAMESPACE/NAME (default: all that flows may go to)")
	fl.IntVar(&p.Switches, "switches", p.Switches, "how many switches are made under traffic")
	fl.IntVar(&p.Holes, "holes", p.Holes, "how many black holes are made")
	fl.DurationVar(&p.Gap, "gap", p.Gap, "the longest time without an answer that a black hole may make")
	return cmd
}
