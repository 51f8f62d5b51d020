package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
)

// chosen are the pods that a command of kube is about: one, those of a namespace, or all.
type chosen struct {
	kubeFlag
	all bool
}

func (s *chosen) flags(cmd *cobra.Command) {
	s.kubeFlag.flags(cmd)
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "pods of all namespaces")
	cmd.ValidArgsFunction = s.pods(-1)
}

// clients are those of the agents to ask, and meant says which pairs.
func (s *chosen) clients(cmd *cobra.Command, args []string) (all map[string]*agent.Client, meant func(string) bool,
	err error) {
	c, err := s.open(cmd)
	if err != nil {
		return nil, nil, err
	}
	who, is, err := s.is(c, args)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("kube %s: %w", cmd.Name(), err)}
	}
	all, err = s.ask(cmd, c, who, is)
	if err != nil {
		return nil, nil, fmt.Errorf("kube %s: %w", cmd.Name(), err)
	}
	return all, func(pair string) bool {
		a, b, paired := strings.Cut(pair, ">")
		return is(a) || is(b) || !paired && s.all
	}, nil
}

// is says which pods are meant, to people and by namespace and name.
func (s *chosen) is(c *admin.Cluster, args []string) (who string, is func(pod string) bool, err error) {
	switch {
	case len(args) > 0:
		name, err := c.PodName(args[0])
		return "pod " + name, func(pod string) bool { return pod == name }, err
	case s.all:
		return "a pod", func(string) bool { return true }, nil
	}
	in := c.Namespace + "/"
	return "a pod of namespace " + c.Namespace, func(pod string) bool { return strings.HasPrefix(pod, in) }, nil
}

func kubePathsCommand(e env) *cobra.Command {
	var s chosen
	var format string
	cmd := &cobra.Command{
		Use: "paths [POD]", Short: "Show the paths of pairs of pods with traffic, from all agents",
		Long: `Show the paths of pairs with traffic, as "pathwise paths" does, from the agents of the
nodes where the pods are: those of a namespace, or one pod's. POD is a name in the
namespace, or NAMESPACE/NAME.`,
		Example: "  pathwise kube paths -n shop\n  pathwise kube paths -A -o json",
		Args:    optionalArg("POD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			all, meant, err := s.clients(cmd, args)
			if err != nil {
				return err
			}
			return showPaths(cmd.Context(), e, all, format, meant)
		},
	}
	s.flags(cmd)
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}

func kubeEventsCommand(e env) *cobra.Command {
	var s chosen
	var format string
	var follow bool
	cmd := &cobra.Command{
		Use: "events [POD]", Short: "Show what agents decided about pairs of pods, and what it gained",
		Long: `Tell the decisions of the agents, as "pathwise events" does, about the pods of a
namespace, or one pod. With -A it also tells what is about no pair.`,
		Example: "  pathwise kube events -n shop --follow\n  pathwise kube events web -o json",
		Args:    optionalArg("POD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			all, meant, err := s.clients(cmd, args)
			if err != nil {
				return err
			}
			return showEvents(cmd.Context(), e, all, format, follow, meant)
		},
	}
	s.flags(cmd)
	formatFlag(cmd, &format, "text", "json")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	return cmd
}

// kubeOrderCommand gives the order that verb makes of two pods and perhaps a network.
func kubeOrderCommand(e env, use, short, long, example string, made func(o *agent.Order)) *cobra.Command {
	var k kubeFlag
	var force bool
	words := strings.Fields(use)
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: exactArgs(words[1:]...), ValidArgsFunction: k.pods(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := k.open(cmd)
			if err != nil {
				return err
			}
			o, err := orderOf(c, args)
			if err != nil {
				return usageError{fmt.Errorf("kube %s: %w", cmd.Name(), err)}
			}
			o.Force = force
			made(&o)
			all, err := k.ask(cmd, c, "pod "+o.Local, func(pod string) bool { return pod == o.Local })
			if err != nil {
				return fmt.Errorf("kube %s: %w", cmd.Name(), err)
			}
			return orderOne(cmd.Context(), e, all, o)
		},
	}
	k.flags(cmd)
	if len(words) > 3 {
		cmd.Flags().BoolVar(&force, "force", false, "also to a path that the agent holds for unfit")
	}
	return cmd
}

// orderOf is the order that names two pods and perhaps a network.
func orderOf(c *admin.Cluster, args []string) (agent.Order, error) {
	local, remote, err := podNames(c, args)
	if err != nil || len(args) == 2 {
		return agent.Order{Local: local, Remote: remote}, err
	}
	network, err := c.NetworkName(args[2])
	return agent.Order{Local: local, Remote: remote, Network: network}, err
}

// podNames are those of the first two arguments.
func podNames(c *admin.Cluster, args []string) (from, to string, err error) {
	if from, err = c.PodName(args[0]); err != nil {
		return "", "", err
	}
	to, err = c.PodName(args[1])
	return from, to, err
}

// kubeOrders are the commands that move pairs by hand.
func kubeOrders(e env) []*cobra.Command {
	return []*cobra.Command{
		kubeOrderCommand(e, "switch POD POD NETWORK", "Move a pair's flows to another network, once",
			`Move the flows of a pair, which the first pod has opened to the second, to another
network, once. NETWORK is "default", or a NetworkAttachmentDefinition.`,
			"  pathwise kube switch -n shop web db fast\n  pathwise kube switch shop/web data/db default",
			func(*agent.Order) {}),
		kubeOrderCommand(e, "pin POD POD NETWORK", "Move a pair's flows to another network, and keep them there",
			`Move the flows of a pair, which the first pod has opened to the second, to another
network, and keep them there, as "pathwise pin" does. A pin ends with the agent.`,
			"  pathwise kube pin -n shop web db fast", func(o *agent.Order) { o.Pin = true }),
		kubeOrderCommand(e, "unpin POD POD", "Let the policy decide about a pair again", "",
			"  pathwise kube unpin -n shop web db", func(*agent.Order) {}),
	}
}
