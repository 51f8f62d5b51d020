package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/catalogue"
)

func labCommand(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Build a test bed of hosts, a network and pods, to try programs on",
		Long: `Build, enter and remove labs: hosts and pods as network namespaces on an
underlay, attached to one network of the catalogue.

A lab file names the network and its pods:

  name: demo          # optional
  network: vxlan      # see "pathwise networks", or cni:FILE
  hosts: 2            # optional, 2
  mtu: 1500           # optional, of the underlay
  pods:
    - {name: a, host: 1}
    - {name: b, host: 2}`,
		Example: `  pathwise lab up --network vxlan
  pathwise lab exec p1 -- ping -c3 p2-address
  pathwise lab down`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(labUpCommand(e), labStatusCommand(e), labExecCommand(e), labDownCommand(e))
	return cmd
}

func labUpCommand(e env) *cobra.Command {
	var netName, name string
	var hosts, pods, mtu int
	var dry bool
	cmd := &cobra.Command{
		Use:   "up [FILE]",
		Short: "Build a lab from a file (- is standard input), or from flags",
		Example: `  pathwise lab up lab.yaml
  pathwise lab up --network macvlan --hosts 3 --pods 6
  pathwise lab up --network cni:my.conflist --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := lab.File{Spec: lab.Spec{Name: name, Hosts: hosts, MTU: mtu}.Fill()}
			var err error
			switch {
			case len(args) == 1 && netName != "":
				return usageError{errors.New("lab up: expected a file or --network, not both")}
			case len(args) == 1:
				f, err = readLab(e, args[0])
			case netName == "":
				return usageError{errors.New("lab up: expected a file or --network NAME: see \"pathwise lab up --help\"")}
			default:
				f.Network, err = catalogue.Find(netName)
				f.Spec.Pods = spread(pods, f.Spec.Hosts)
			}
			if err != nil {
				return err
			}
			if err := f.Spec.Check(); err != nil {
				return usageError{err}
			}
			if dry {
				return printPlan(e.stdout, f)
			}
			return labUp(cmd.Context(), e, f)
		},
	}
	cmd.Flags().StringVar(&netName, "network", "", "network of the catalogue, or cni:FILE, instead of a lab file")
	cmd.Flags().StringVar(&name, "name", "lab", "name of the lab (without a file)")
	cmd.Flags().IntVar(&hosts, "hosts", 2, "number of hosts (without a file)")
	cmd.Flags().IntVar(&pods, "pods", 2, "number of pods, spread over the hosts (without a file)")
	cmd.Flags().IntVar(&mtu, "mtu", 1500, "MTU of the underlay in bytes (without a file)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be made, and make nothing")
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(catalogue.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// spread puts pods p1, p2 ... on the hosts in turn.
func spread(pods, hosts int) []lab.PodSpec {
	var out []lab.PodSpec
	for i := range pods {
		out = append(out, lab.PodSpec{Name: fmt.Sprintf("p%d", i+1), Host: i%max(hosts, 1) + 1})
	}
	return out
}

func readLab(e env, path string) (lab.File, error) {
	if path == "-" {
		return lab.ParseFile("<stdin>", e.stdin, catalogue.Find)
	}
	f, err := os.Open(path)
	if err != nil {
		return lab.File{}, fmt.Errorf("open lab file: %w", err)
	}
	defer f.Close()
	return lab.ParseFile(path, f, catalogue.Find)
}

func printPlan(w io.Writer, f lab.File) error {
	_, err := fmt.Fprintf(w, "lab %s: %d hosts (underlay %v, MTU %d), network %s, %d pods; nothing made (--dry-run)\n",
		f.Spec.Name, f.Spec.Hosts, f.Spec.Underlay, f.Spec.MTU, f.Network.Info().Name, len(f.Spec.Pods))
	return err
}

func labUp(ctx context.Context, e env, f lab.File) error {
	if os.Geteuid() != 0 {
		return errors.New("lab up needs root to make namespaces: run as root, for example with sudo")
	}
	path := lab.DefaultCNIPath(e.self)
	if miss := network.NewMachine(path).Missing(f.Network.Info().Needs); len(miss) > 0 {
		return missingError("network "+f.Network.Info().Name, miss)
	}
	l, err := e.store().Up(ctx, f.Spec, f.Network, lab.Options{CNIPath: path, Self: e.self})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "lab %s is up after %.2fs (%.2fs of it waiting for daemons)\n",
		f.Spec.Name, (l.Built + l.Waited).Seconds(), l.Waited.Seconds())
	st, err := e.store().Load(f.Spec.Name)
	if err != nil {
		return err
	}
	return printLab(e.stdout, st)
}

// missingError says on one line what a network or workload lacks.
func missingError(what string, miss []network.Missing) error {
	var parts []string
	for _, m := range miss {
		parts = append(parts, m.String())
	}
	return fmt.Errorf("%s cannot run here: missing %s", what, strings.Join(parts, "; "))
}

func printLab(w io.Writer, st lab.State) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	state := "up"
	switch {
	case st.Owner != 0:
		state = fmt.Sprintf("made by process %d", st.Owner)
	case !st.Up:
		state = "incomplete: remove it with lab down"
	}
	fmt.Fprintf(tw, "lab %s\tnetwork %s\t%s\t\t\n", st.Spec.Name, st.Network, state)
	for _, h := range st.Hosts {
		fmt.Fprintf(tw, "  host %s\t%v\tnetns %s\t\t\n", h.Name, h.Addr.Addr(), h.Netns)
		for _, p := range st.Pods {
			if p.Host != h.Index {
				continue
			}
			addr, service := "-", "-"
			if p.Addr().IsValid() {
				addr, service = p.Addr().String(), p.Service.String()
			}
			fmt.Fprintf(tw, "    pod %s\t%s\tnetns %s\tservice %s\t\n", p.Name, addr, p.Netns, service)
		}
	}
	return flush(tw)
}

func labStatusCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "status [LAB]", Short: "Show the labs with their hosts and pods",
		Example: "  pathwise lab status\n  pathwise lab status demo -o json",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: completeLabs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			labs, err := e.store().List()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				st, err := e.store().Load(args[0])
				if err != nil {
					return err
				}
				labs = []lab.State{st}
			}
			if format == "json" {
				return writeJSON(e.stdout, append([]lab.State{}, labs...))
			}
			if len(labs) == 0 {
				_, err := fmt.Fprintln(e.stdout, "no lab: build one with \"pathwise lab up\"")
				return err
			}
			for _, st := range labs {
				if err := printLab(e.stdout, st); err != nil {
					return err
				}
			}
			return nil
		},
	}
	formatFlag(cmd, &format, "text", "json")
	return cmd
}

func completeLabs(e env) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		labs, err := e.store().List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, st := range labs {
			out = append(out, st.Spec.Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func labExecCommand(e env) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "exec POD -- CMD [ARG...]", Short: "Run a program in a pod (or host), on this terminal",
		Long: "Run a program in a pod's or host's network namespace. Its exit code becomes pathwise's.",
		Example: `  pathwise lab exec p1 -- ping -c1 10.77.2.2
  pathwise lab exec p2 -- iperf3 -s -1 & pathwise lab exec p1 -- iperf3 -c 10.77.2.2
  pathwise lab exec h1 -- ip route`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageError{errors.New("lab exec: expected POD -- CMD: see \"pathwise lab exec --help\"")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := chooseLab(e, name)
			if err != nil {
				return err
			}
			c, ns, err := e.store().Attached(cmd.Context(), st, args[0], args[1:])
			if err != nil {
				return err
			}
			c.Stdin, c.Stdout, c.Stderr = e.stdin, e.stdout, e.stderr
			// Ctrl-C reaches the program from the terminal itself; it decides.
			c.Cancel = func() error { return nil }
			if err := netns.Start(ns, c); err != nil {
				return fmt.Errorf("start %s: %w", args[1], err)
			}
			return c.Wait()
		},
	}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab, where there are several")
	_ = cmd.RegisterFlagCompletionFunc("lab", completeLabs(e))
	return cmd
}

// chooseLab returns the lab called name, or the only one.
func chooseLab(e env, name string) (lab.State, error) {
	if name != "" {
		return e.store().Load(name)
	}
	labs, err := e.store().List()
	if err != nil {
		return lab.State{}, err
	}
	switch len(labs) {
	case 0:
		return lab.State{}, errors.New("no lab is up: build one with \"pathwise lab up\"")
	case 1:
		return labs[0], nil
	default:
		return lab.State{}, usageError{fmt.Errorf("%d labs are up: name one with --lab", len(labs))}
	}
}

func labDownCommand(e env) *cobra.Command {
	var all, force, dry bool
	cmd := &cobra.Command{
		Use: "down [LAB]", Short: "Remove a lab, or with --all everything that Pathwise has made",
		Long: `Remove a lab's processes, namespaces, cgroups and files. It also cleans up after
a Pathwise that was killed. A lab that a running bench is using is left alone.`,
		Example: "  pathwise lab down\n  pathwise lab down demo\n  pathwise lab down --all",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: completeLabs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := labsToRemove(e, args, all)
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range names {
				if dry {
					fmt.Fprintf(e.stdout, "would remove lab %s\n", name)
					continue
				}
				if err := e.store().Down(context.WithoutCancel(cmd.Context()), name, force); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(e.stdout, "removed lab %s\n", name)
			}
			if all && !dry {
				errs = append(errs, e.store().Tidy())
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every lab, also what a killed bench has left")
	cmd.Flags().BoolVar(&force, "force", false, "also labs that a running process is using")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	return cmd
}

func labsToRemove(e env, args []string, all bool) ([]string, error) {
	if all && len(args) > 0 {
		return nil, usageError{errors.New("lab down: expected a name or --all, not both")}
	}
	if len(args) == 1 {
		return args, nil
	}
	if !all {
		st, err := chooseLab(e, "")
		return []string{st.Spec.Name}, err
	}
	labs, err := e.store().List()
	var names []string
	for _, st := range labs {
		names = append(names, st.Spec.Name)
	}
	return names, err
}
