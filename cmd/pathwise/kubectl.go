package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// kubectlName is that of the program where kubectl is to find it as a command of its own.
const kubectlName = "kubectl-pathwise"

// kubectlCommand is the program by that name: what "pathwise kube" is.
func kubectlCommand(e env, all *cobra.Command) *cobra.Command {
	root := kubeCommand(e)
	root.Use, root.GroupID = kubectlName, ""
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl pathwise"}
	root.SilenceUsage, root.SilenceErrors = true, true
	root.PersistentPreRunE = all.PersistentPreRunE
	root.SetFlagErrorFunc(all.FlagErrorFunc())
	root.AddCommand(versionCommand(e))
	for _, c := range append(root.Commands(), root) {
		c.Example = strings.ReplaceAll(c.Example, "pathwise kube", "kubectl pathwise")
		c.Long = strings.ReplaceAll(c.Long, "\"pathwise kube", "\"kubectl pathwise")
	}
	return root
}
