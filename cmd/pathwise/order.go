package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/agent"
)

func switchCommand(e env) *cobra.Command {
	cmd := orderCommand(e, "switch POD POD NETWORK", "Move a pair's flows to another network, once", false)
	cmd.Long = `Move the flows of a pair, which the first pod has opened to the second, to another
network, once. The policy goes on deciding afterwards; "pathwise pin" keeps it from that.
To a path that is not up it moves nothing, unless --force says so.`
	cmd.Example = "  pathwise switch a b vxlan\n  pathwise switch a b vxlan --force   although the agent holds it for unfit"
	return cmd
}

func pinCommand(e env) *cobra.Command {
	cmd := orderCommand(e, "pin POD POD NETWORK", "Move a pair's flows to another network, and keep them there", true)
	cmd.Long = `Move the flows of a pair, which the first pod has opened to the second, to another
network, and keep them there: the policy decides again after "pathwise unpin". Only
failure moves them, and they return. To a path that is not up, the order is pending, as
"pathwise paths" says: they move there once it is, with --force at once.`
	cmd.Example = "  pathwise pin a b vxlan\n  pathwise unpin a b"
	return cmd
}

func orderCommand(e env, use, short string, pin bool) *cobra.Command {
	var labName, dir string
	var force bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: exactArgs("POD", "POD", "NETWORK"), ValidArgsFunction: completePairs(e, &labName),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[2] == "" { // to an agent, no network is the order to unpin
				return usageError{fmt.Errorf("%s: NETWORK is empty: expected one of the pair's", cmd.Name())}
			}
			return order(cmd.Context(), e, labName, dir, agent.Order{Local: args[0], Remote: args[1], Network: args[2], Pin: pin,
				Force: force})
		},
	}
	whereFlags(e, cmd, &labName, &dir)
	cmd.Flags().BoolVar(&force, "force", false, "also to a path that the agent holds for unfit")
	return cmd
}

func unpinCommand(e env) *cobra.Command {
	var labName, dir string
	cmd := &cobra.Command{
		Use: "unpin POD POD", Short: "Let the policy decide about a pair again",
		Example: "  pathwise unpin a b", Args: exactArgs("POD", "POD"), ValidArgsFunction: completePairs(e, &labName),
		RunE: func(cmd *cobra.Command, args []string) error {
			return order(cmd.Context(), e, labName, dir, agent.Order{Local: args[0], Remote: args[1]})
		},
	}
	whereFlags(e, cmd, &labName, &dir)
	return cmd
}

// order gives the order to the agent that has the pair.
func order(ctx context.Context, e env, labName, dir string, o agent.Order) error {
	all, err := agents(e, labName, dir)
	if err != nil {
		return err
	}
	return orderOne(ctx, e, all, o)
}

// orderOne gives the order to that of the agents that has the pair.
func orderOne(ctx context.Context, e env, all map[string]*agent.Client, o agent.Order) error {
	var refused error
	for host, c := range all {
		ev, err := c.Order(ctx, o)
		if err == nil {
			return printEvents(e.stdout, "text", []agent.Event{ev})
		}
		// One that does not answer does not keep another from having the pair; but
		// it may have it itself, so that this is told rather than that others have not.
		if refused == nil || !strings.Contains(err.Error(), "no such pair") {
			refused = fmt.Errorf("agent of %s: %w", host, err)
		}
	}
	return refused
}

func completePairs(e env, labName *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		st, err := chooseLab(e, *labName)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		if len(args) >= 2 {
			return st.Spec.Networks, cobra.ShellCompDirectiveNoFileComp
		}
		for _, p := range st.Pods {
			if !p.Agent {
				out = append(out, p.Name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
