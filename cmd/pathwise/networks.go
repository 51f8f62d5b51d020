package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/measure/campaign"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/topo"
)

// networkRow is one network as "networks -o json" prints it.
type networkRow struct {
	network.Info
	Works bool `json:"works"`
	// Kernel on which it works: "host", or the kind of guest; "" where it does not.
	Kernel string `json:"kernel"`
	// Needs is what the machine lacks, or where Kernel is a guest's, the host's kernel.
	Needs []network.Missing `json:"needs"`
}

func networksCommand(e env) *cobra.Command {
	var format string
	var qualities bool
	cmd := &cobra.Command{
		Use:   "networks",
		Short: "List the networks, and what works on this machine",
		Long: `List the catalogue of networks: which work on this machine and, for the others,
exactly what is missing and what to do about it. The column KERNEL tells on which
kernel a network works: the host's, or that of a guest (see "pathwise guest"),
which is booted once to find out; IP, of which families its pods get addresses.

A CNI configuration list of your own is a network too: name it cni:FILE.`,
		Example: `  pathwise networks
  pathwise networks --qualities      the qualitative table of Suo et al. (2018)
  pathwise networks -o json | jq -r '.[] | select(.works) | .name'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			rows, err := networkRows(cmd.Context(), e)
			if err != nil {
				return err
			}
			switch {
			case format == "json":
				return writeJSON(e.stdout, rows)
			case qualities:
				return printQualities(e.stdout, rows, e.listOptions(format))
			default:
				return printNetworks(e.stdout, rows, e.listOptions(format))
			}
		},
	}
	formatFlag(cmd, &format, listFormats()...)
	cmd.Flags().BoolVar(&qualities, "qualities", false,
		"show the qualitative table: namespace, reach, key-value store, encryption, isolation")
	return cmd
}

func networkRows(ctx context.Context, e env) ([]networkRow, error) {
	all := e.kernels()
	rows := []networkRow{}
	var unknown error
	for _, n := range catalogue.All() {
		row := networkRow{Info: n.Info(), Needs: []network.Missing{}}
		if row.Families == nil {
			row.Families = []int{topo.IPv4}
		}
		p, err := all.Find(ctx, row.Info)
		if errors.Is(err, campaign.ErrNoRoot) {
			unknown = err
		} else if err != nil {
			return nil, err
		}
		row.Needs, row.Kernel = append(row.Needs, p.Missing...), p.Kernel
		row.Works = p.Kernel != ""
		rows = append(rows, row)
	}
	if unknown != nil {
		fmt.Fprintln(e.stderr, unknown)
	}
	return rows, nil
}

func printNetworks(w io.Writer, rows []networkRow, o report.Options) error {
	l := report.NewList(report.Head{Name: "NETWORK"}, report.Head{Name: "WORKS"}, report.Head{Name: "KERNEL", Drop: 1},
		report.Head{Name: "HOSTS", Drop: 2}, report.Head{Name: "MTU", Drop: 3}, report.Head{Name: "IP", Drop: 4})
	for _, r := range rows {
		works := "yes"
		if !r.Works {
			works = "no"
		}
		l.Add(r.Name, works, orDash(r.Kernel), reach(r.Info), mtu(r.Overhead), families(r.Families))
		if !r.Works {
			lacking(l, r.Needs)
		}
	}
	return l.Write(w, o)
}

// lacking says below a list's last row what is missing, a line each.
func lacking(l *report.List, missing []network.Missing) {
	for _, m := range missing {
		l.Note("missing: " + m.String())
	}
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

// families are IP families in a table.
func families(list []int) string {
	var out []string
	for _, f := range list {
		out = append(out, strconv.Itoa(f))
	}
	return strings.Join(out, ", ")
}

func mtu(overhead int) string {
	if overhead == 0 {
		return "full"
	}
	return fmt.Sprintf("-%d", overhead)
}

func printQualities(w io.Writer, rows []networkRow, o report.Options) error {
	for i, r := range rows {
		if i > 0 {
			fmt.Fprintln(w)
		}
		q := r.Row
		l := report.NewList(report.Named(r.Name, r.Summary)...)
		for _, row := range [][2]string{{"namespace", q.Namespace}, {"within a host", q.IntraHost},
			{"between hosts", q.InterHost},
			{"access outside", q.Outside}, {"key-value store", q.KeyValue}, {"encryption", q.Encryption},
			{"isolation", q.Isolation}} {
			l.Add("  "+row[0], row[1])
		}
		if err := l.Write(w, o); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return report.Lines(w, azureModes, o)
}

// azureModes says where the rest of Suo et al.'s table is.
const azureModes = `The modes of containers in Microsoft Azure that Suo et al. (2018) list alongside
these (NAT, transparent, overlay, L2Bridge, L2Tunnel) are drivers of Docker on
Windows and of a cloud's switch: documentation only, nothing here runs them.
Nearest in kind are docker-nat, docker-macvlan (transparent) and docker-overlay.`

func versionCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactArgs(),
		Example: "  pathwise version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(e.stdout, "pathwise", strings.TrimSpace(machine.Version()))
			return err
		},
	}
}
