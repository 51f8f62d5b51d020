package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// kubeFlag are those that say which cluster is meant, of one command.
type kubeFlag struct{ admin.Place }

// agentsFlags adds the flags that say where the agents are.
func (k *kubeFlag) agentsFlags(cmd *cobra.Command) {
	k.serverFlags(cmd)
	k.Agents = manifest.Defaults("").Namespace
	cmd.Flags().Var((*namespaceName)(&k.Agents), "agents-namespace", "namespace of the agents")
}

// serverFlags adds the flags that say where the API server is.
func (k *kubeFlag) serverFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&k.Kubeconfig, "kubeconfig", "", "kubeconfig (default: KUBECONFIG, or ~/.kube/config)")
	fl.StringVar(&k.Context, "context", "", "context of the kubeconfig (default: the current one)")
	_ = cmd.RegisterFlagCompletionFunc("context",
		func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			names, err := k.Contexts()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		})
}

// flags adds those and the flag of the pods' namespace.
func (k *kubeFlag) flags(cmd *cobra.Command) {
	k.agentsFlags(cmd)
	cmd.Flags().VarP((*namespaceName)(&k.Namespace), "namespace", "n", "namespace of the pods (default: the context's)")
	_ = cmd.RegisterFlagCompletionFunc("namespace", k.complete(func(pod string) string {
		ns, _, _ := strings.Cut(pod, "/")
		return ns
	}))
}

// namespaceName is a flag's value (pflag.Value) that names a namespace. One that is empty is refused:
// it is a variable that was not set, and is not to mean the context's.
type namespaceName string

func (n *namespaceName) String() string { return string(*n) }
func (n *namespaceName) Type() string   { return "string" }

func (n *namespaceName) Set(text string) error {
	*n = namespaceName(text)
	return admin.CheckNamespace(text)
}

// checkTimeout refuses what is no time to wait.
func checkTimeout(cmd *cobra.Command, d time.Duration) error {
	if d <= 0 {
		return usageError{fmt.Errorf("kube %s: timeout %v: expected more than 0", cmd.Name(), d)}
	}
	return nil
}

// open prepares to speak to the cluster.
func (k *kubeFlag) open(cmd *cobra.Command) (*admin.Cluster, error) {
	c, err := admin.Open(k.Place)
	if err != nil {
		return nil, fmt.Errorf("kube %s: %w", cmd.Name(), err)
	}
	return c, nil
}

// ask returns clients of the agents of the nodes where the pods that are meant are, which who is to people.
func (k *kubeFlag) ask(cmd *cobra.Command, c *admin.Cluster, who string, meant func(pod string) bool) (
	map[string]*agent.Client, error) {
	seen, err := c.Nodes(cmd.Context())
	if err != nil {
		return nil, err
	}
	nodes := []string{}
	for _, n := range seen {
		for _, p := range n.Spec.Pods {
			if !p.Agent && meant(p.Name) && !slices.Contains(nodes, n.Name) {
				nodes = append(nodes, n.Name)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("no agent has found %s on several networks: \"pathwise kube status\" says what there is", who)
	}
	return c.Ask(cmd.Context(), nodes, manifest.Dir)
}

// complete offers what name makes of the pods that agents have found; without a cluster nothing.
func (k *kubeFlag) complete(name func(pod string) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		c, err := admin.Open(k.Place)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, n := range nodes {
			for _, p := range n.Spec.Pods {
				if word := name(p.Name); !p.Agent && word != "" {
					out = append(out, word)
				}
			}
		}
		slices.Sort(out)
		return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
	}
}

// pods offers pods of the namespace by their names, and at index networks the networks.
func (k *kubeFlag) pods(networks int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := admin.Open(k.Place)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if len(args) != networks {
			return k.complete(func(pod string) string {
				ns, name, _ := strings.Cut(pod, "/")
				if ns != c.Namespace {
					return pod
				}
				return name
			})(cmd, args, text)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		all, err := c.Networks(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out := []cobra.Completion{"default"}
		for _, n := range all {
			out = append(out, n.Spec.Attachment)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
