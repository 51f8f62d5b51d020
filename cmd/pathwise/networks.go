package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/machine"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/catalogue"
)

// networkRow is one network as "networks -o json" prints it.
type networkRow struct {
	network.Info
	Works bool `json:"works"`
	// Kernel on which it works: "host"; "" where it does not.
	Kernel string            `json:"kernel"`
	Needs  []network.Missing `json:"needs"`
}

func networksCommand(e env) *cobra.Command {
	var format string
	var qualities bool
	cmd := &cobra.Command{
		Use:   "networks",
		Short: "List the networks, and what works on this machine",
		Long: `List the catalogue of networks: which work on this machine and, for the others,
exactly what is missing and what to do about it.

A CNI configuration list of your own is a network too: name it cni:FILE.`,
		Example: `  pathwise networks
  pathwise networks --qualities      the qualitative table of Suo et al. (2018)
  pathwise networks -o json | jq -r '.[] | select(.works) | .name'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			rows := networkRows(e)
			switch {
			case format == "json":
				return writeJSON(e.stdout, rows)
			case qualities:
				return printQualities(e.stdout, rows)
			default:
				return printNetworks(e.stdout, rows)
			}
		},
	}
	formatFlag(cmd, &format, "text", "json")
	cmd.Flags().BoolVar(&qualities, "qualities", false, "show the qualitative table: namespace, reach, key-value store, encryption, isolation")
	return cmd
}

func networkRows(e env) []networkRow {
	m := network.NewMachine(lab.DefaultCNIPath(e.self))
	rows := []networkRow{}
	for _, n := range catalogue.All() {
		row := networkRow{Info: n.Info(), Needs: []network.Missing{}}
		row.Needs = append(row.Needs, m.Missing(row.Info.Needs)...)
		if row.Works = len(row.Needs) == 0; row.Works {
			row.Kernel = "host"
		}
		rows = append(rows, row)
	}
	return rows
}

func printNetworks(w io.Writer, rows []networkRow) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NETWORK\tWORKS\tHOSTS\tMTU\t")
	for _, r := range rows {
		works := "yes"
		if !r.Works {
			works = "no"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t\n", r.Name, works, reach(r.Info), mtu(r.Overhead))
		for _, miss := range r.Needs {
			fmt.Fprintf(tw, "  missing: %s\t\t\t\t\n", miss)
		}
	}
	return flush(tw)
}

// reach says between which hosts the network carries traffic.
func reach(i network.Info) string {
	q := i.Row
	switch {
	case q.ReachIntra && q.ReachInter:
		return "one, two"
	case q.ReachIntra:
		return "one"
	case q.ReachInter:
		return "two"
	default:
		return "-"
	}
}

func mtu(overhead int) string {
	if overhead == 0 {
		return "full"
	}
	return fmt.Sprintf("-%d", overhead)
}

func printQualities(w io.Writer, rows []networkRow) error {
	for i, r := range rows {
		if i > 0 {
			fmt.Fprintln(w)
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		q := r.Row
		fmt.Fprintf(tw, "%s\t%s\n", r.Name, r.Summary)
		for _, row := range [][2]string{{"namespace", q.Namespace}, {"within a host", q.IntraHost}, {"between hosts", q.InterHost},
			{"access outside", q.Outside}, {"key-value store", q.KeyValue}, {"encryption", q.Encryption}, {"isolation", q.Isolation}} {
			fmt.Fprintf(tw, "  %s\t%s\n", row[0], row[1])
		}
		if err := flush(tw); err != nil {
			return err
		}
	}
	return nil
}

func flush(tw *tabwriter.Writer) error {
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func versionCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(e.stdout, "pathwise", strings.TrimSpace(machine.Version()))
			return err
		},
	}
}
