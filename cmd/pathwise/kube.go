package main

import (
	"fmt"

	"github.com/spf13/cobra"

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
	cmd.AddCommand(kubeInstallCommand(e), kubeUninstallCommand(e), kubeStatusCommand(e), kubeWhyCommand(e),
		kubePathsCommand(e), kubeEventsCommand(e))
	cmd.AddCommand(kubeOrders(e)...)
	return cmd
}

func kubeInstallCommand(e env) *cobra.Command {
	o := manifest.Defaults("")
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Print what a cluster is to be given, for kubectl",
		Long: `Print the objects that put agents on a cluster: definitions of PathNetwork and
PathNode, a DaemonSet, and what the agents may do. Give them to "kubectl apply -f -".
Only --dry-run is there so far.

The agents share a key, which is not printed: make it once, as in the example.
Nothing is steered before a PathNetwork allows it.`,
		Example: `  pathwise kube install --dry-run --network shop/fast,shop/bulk | kubectl apply -f -
  openssl rand -hex 32 > keys && kubectl -n pathwise create secret generic pathwise-key --from-file=keys
  pathwise kube install --dry-run --namespace net --image registry.example.org/pathwise:1`,
		Args: exactArgs(),
	}
	printsObjects(e, cmd, &o, "apply", func(all []byte) []byte { return all })
	fl := cmd.Flags()
	fl.StringVar(&o.Image, "image", o.Image, "image that holds pathwise as /pathwise")
	fl.StringSliceVar(&o.Networks, "network", nil, "definitions of networks that the agents probe, as NAMESPACE/NAME")
	fl.StringVar(&o.Cgroup, "cgroup", o.Cgroup, "where the nodes have their cgroup v2 hierarchy")
	fl.StringVar(&o.Policy, "policy", "", "policy of the agents, as \"pathwise agent\" has it")
	fl.StringVar(&o.Need, "need", "", "need of all pairs, as \"pathwise agent\" has it")
	return cmd
}

func kubeUninstallCommand(e env) *cobra.Command {
	o := manifest.Defaults("")
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Print what is to be taken from a cluster, for kubectl",
		Long: `Print the objects that "pathwise kube install" prints, from the last to the first.
Give them to "kubectl delete --ignore-not-found -f -". All PathNetworks and PathNodes
go with their definitions, and the key with its namespace. Only --dry-run is there so
far.

Flows go home within three seconds after the agents have ended. Programs that were
attached to pods do nothing after that, and go with the pods.`,
		Example: `  pathwise kube uninstall --dry-run | kubectl delete --ignore-not-found -f -`,
		Args:    exactArgs(),
	}
	printsObjects(e, cmd, &o, "delete", manifest.Reverse)
	return cmd
}

// printsObjects has the command print what is to be given to a verb of kubectl.
func printsObjects(e env, cmd *cobra.Command, o *manifest.Options, verb string, ordered func([]byte) []byte) {
	fl := cmd.Flags()
	dryRun := fl.Bool("dry-run", false, "print the objects, change nothing")
	fl.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the agents")
	cmd.RunE = func(*cobra.Command, []string) error {
		if !*dryRun {
			return usageError{fmt.Errorf("kube %s: expected --dry-run: give what it prints to \"kubectl %s -f -\"", cmd.Name(),
				verb)}
		}
		all, err := manifest.Write(*o)
		if err != nil {
			return usageError{fmt.Errorf("kube %s: %w", cmd.Name(), err)}
		}
		_, err = e.stdout.Write(ordered(all))
		return err
	}
}
