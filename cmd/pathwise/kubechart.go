package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

func kubeChartCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "chart DIR",
		Short: "Write a Helm chart of what \"install\" gives a cluster",
		Long: `Write a Helm chart of the objects that "install --dry-run" prints into a directory that
is not there yet, or is empty. values.yaml says what can be set. The agents' key is made by
hand, as the chart's notes say.`,
		Example: `  pathwise kube chart pathwise-chart
  helm install pathwise pathwise-chart --namespace default --set 'networks={shop/fast,shop/bulk}'`,
		Args: exactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := manifest.Chart(version)
			if err == nil {
				err = writeNew(args[0], files)
			}
			if err != nil {
				return fmt.Errorf("kube chart: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "version", "0.0.0", "the chart's version")
	return cmd
}

// writeNew writes files into a directory that has none.
func writeNew(dir string, files map[string][]byte) error {
	if old, err := os.ReadDir(dir); err == nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
