package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/kube/admin"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

func kubeCommand(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kube",
		Short: "Put agents on a Kubernetes cluster, and ask them",
		Long: `Put agents on a Kubernetes cluster, one on each node, which keep pods on several
NetworkAttachmentDefinitions (Multus) on the best one, and ask them. Agents are asked
through the API server, by a command in their own pods (exec): who may run one there
may ask. As "kubectl-pathwise" on the PATH, the program is "kubectl pathwise".
docs/howto/kubernetes.md has all steps.`,
		Example: `  pathwise kube install --dry-run --network shop/fast
  pathwise kube status --wait
  pathwise kube why -n shop web db`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(kubeCheckCommand(e), kubeInstallCommand(e), kubeUninstallCommand(e), kubeStatusCommand(e),
		kubeWhyCommand(e), kubePathsCommand(e), kubeEventsCommand(e), kubeTestCommand(e), kubeSysdumpCommand(e),
		kubeChartCommand())
	cmd.AddCommand(kubeOrders(e)...)
	return cmd
}

func kubeInstallCommand(e env) *cobra.Command {
	o := manifest.Defaults("")
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put agents on a cluster, or print what it is to be given",
		Long: `Put agents on a cluster: definitions of PathNetwork, PathPolicy and PathNode, a
DaemonSet, what the agents may do, and the key that they share, unless it is there.
Done again, it changes what is not as it is to be. With --dry-run it prints the objects
for "kubectl apply --server-side -f -", without the key, which is then made as in the
example.
Nothing is steered before a PathNetwork allows it.`,
		Example: `  pathwise kube install --network shop/fast,shop/bulk && pathwise kube status --wait
  pathwise kube install --dry-run --network shop/fast | kubectl apply --server-side -f -
  openssl rand -hex 32 > keys && kubectl -n pathwise create secret generic pathwise-key --from-file=keys
  pathwise kube install --namespace net --image registry.example.org/pathwise:1`,
		Args: exactArgs(),
	}
	changesCluster(e, cmd, &o, func(all []byte) []byte { return all }, func(ctx context.Context, c *admin.Cluster) error {
		return c.Install(ctx, o, e.stdout)
	})
	fl := cmd.Flags()
	fl.StringVar(&o.Image, "image", o.Image, "image that holds pathwise as /pathwise")
	fl.StringSliceVar(&o.Networks, "network", nil, "definitions of networks that the agents probe, as NAMESPACE/NAME")
	fl.StringVar(&o.Cgroup, "cgroup", o.Cgroup, "where the nodes have their cgroup v2 hierarchy")
	fl.BoolVar(&o.Monitoring, "monitoring", false, "also a PodMonitor and a PrometheusRule of the Prometheus operator, and a Grafana dashboard")
	fl.StringVar(&o.Policy, "policy", "", "policy of the agents, as \"pathwise agent\" has it")
	fl.StringVar(&o.Need, "need", "", "need of all pairs, as \"pathwise agent\" has it")
	return cmd
}

func kubeUninstallCommand(e env) *cobra.Command {
	o := manifest.Defaults("")
	var force bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take all of Pathwise from a cluster, or print the objects",
		Long: `Take all of Pathwise from a cluster. The agents end first, whose flows are home within
three seconds. Then a DaemonSet with the agents' own image takes out of the pods of every
node what was put there: programs, maps, routes. Then the objects go, with all
PathNetworks, PathPolicies, PathNodes and the key; the namespace stays if it holds
anything else. It may be done again where it was cut short. With --dry-run it prints
the objects for "kubectl delete --ignore-not-found -f -", from the last to the first,
which is the namespace with all that is in it: programs that are then still attached
to pods do nothing, and go with the pods.`,
		Example: `  pathwise kube uninstall
  pathwise kube uninstall --dry-run | kubectl delete --ignore-not-found -f -`,
		Args: exactArgs(),
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return checkTimeout(cmd, timeout) }
	changesCluster(e, cmd, &o, manifest.Reverse, func(ctx context.Context, c *admin.Cluster) error {
		return c.Uninstall(ctx, o, timeout, force, e.stdout)
	})
	cmd.Flags().BoolVar(&force, "force", false, "remove the objects though some node does not say that nothing is left there")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long each step may take")
	return cmd
}

// changesCluster has the command do what it says, or print the objects.
func changesCluster(e env, cmd *cobra.Command, o *manifest.Options, ordered func([]byte) []byte,
	do func(context.Context, *admin.Cluster) error) {
	var k kubeFlag
	k.serverFlags(cmd)
	fl := cmd.Flags()
	dryRun := fl.Bool("dry-run", false, "print the objects, change nothing")
	fl.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the agents")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := manifest.Write(*o)
		if err != nil {
			return usageError{fmt.Errorf("kube %s: %w", cmd.Name(), err)}
		}
		if *dryRun {
			_, err = e.stdout.Write(ordered(all))
			return err
		}
		c, err := k.open(cmd)
		if err != nil {
			return err
		}
		if err := do(cmd.Context(), c); err != nil {
			return fmt.Errorf("kube %s: %w", cmd.Name(), err)
		}
		return nil
	}
}
