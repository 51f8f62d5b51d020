package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

func kubeCheckCommand(e env) *cobra.Command {
	o := manifest.Defaults("")
	var k kubeFlag
	var format string
	cmd := &cobra.Command{
		Use: "check", Short: "Say what a cluster lacks for agents, node by node",
		Long: `Look at a cluster before agents are put there: versions, kernels and runtimes of its
nodes, Multus and its networks, how Services are served, what you may make, and which
pods would not be steered. It changes nothing, and fails where something lacks.`,
		Example: "  pathwise kube check\n  pathwise kube check -o json",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			c, err := k.open(cmd)
			if err != nil {
				return err
			}
			all, err := c.Check(cmd.Context(), o)
			if err != nil {
				return fmt.Errorf("kube check: %w", err)
			}
			if format == report.JSON {
				err = writeJSON(e.stdout, all)
			} else {
				l := report.NewList(report.Named("of", "", "finding")...)
				for _, f := range all {
					l.Add(f.Of, string(f.Grade), f.What)
				}
				err = l.Write(e.stdout, e.listOptions(format))
			}
			if err == nil && slices.ContainsFunc(all, func(f admin.Finding) bool { return f.Grade == admin.Lacks }) {
				return silentError{errors.New("the cluster lacks something")}
			}
			return err
		},
	}
	k.serverFlags(cmd)
	cmd.Flags().StringVar(&o.Namespace, "namespace", o.Namespace, "namespace that the agents are to be in")
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}
