package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/topo"
)

func labCommand(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Build a lab of hosts, networks and pods, and try programs in it",
		Long: `Build, enter and remove labs: hosts and pods as network namespaces on an
underlay, attached to one network of the catalogue, or to several at once.

A lab file names the network and its pods:

  name: demo          # optional
  network: vxlan      # see "pathwise networks", or cni:FILE
  hosts: 2            # optional, 2
  mtu: 1500           # optional, of the underlay
  family: 6           # optional: hosts and pods have IPv6 addresses too
  pods:
    - {name: a, host: 1}
    - {name: b, host: 2}

With networks: [routed-bgp, vxlan] instead, the first is the pods' default
network, which gives the stable address (eth0); the others are net1, net2 ...
A pod may be on some of them only: {name: c, host: 1, networks: [routed-bgp]}.
Each host then has a pod agent-HOST too, for probes; agents: false leaves it out.`,
		Example: `  pathwise lab up --network vxlan
  pathwise lab up --network routed-bgp,vxlan,macvlan
  pathwise lab exec p1 -- ping -c3 10.77.2.1
  pathwise lab down`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(labUpCommand(e), labStatusCommand(e), labExecCommand(e), labImpairCommand(e), labDownCommand(e))
	return cmd
}

// printLab shows a lab: a line about the whole, then its hosts and pods.
func printLab(w io.Writer, st lab.State, o report.Options) error {
	if st.Guest != "" {
		_, err := fmt.Fprintf(w, "guest %s  kernel %s  booted by process %d\n", st.Spec.Name, st.Guest, st.Owner)
		return err
	}
	state := "up"
	switch {
	case st.Owner != 0:
		state = fmt.Sprintf("made by process %d", st.Owner)
	case !st.Up:
		state = "incomplete: remove it with lab down"
	}
	networks := "network " + st.Network
	if len(st.Spec.Networks) > 1 {
		networks = "networks " + strings.Join(st.Spec.Networks, ", ")
	}
	if err := report.Lines(w, fmt.Sprintf("lab %s, %s: %s", st.Spec.Name, state, networks), o); err != nil {
		return err
	}
	o.Wider = "\"pathwise lab status -o wide\""
	return labTable(st).Write(w, o)
}

// labTable lists a lab's hosts, their pods, and where there are several networks the pods'
// interfaces.
func labTable(st lab.State) *report.List {
	l := report.NewList(report.Head{Name: "HOST, POD"}, report.Head{Name: "ADDRESS"},
		report.Head{Name: "NETWORK", Drop: 1}, report.Head{Name: "MTU", Right: true, Drop: 2}, report.Head{Name: "NAMESPACE"},
		report.Head{Name: "SERVICE", Drop: 3})
	for _, h := range st.Hosts {
		where := h.Netns
		if h.VM != "" {
			where = fmt.Sprintf("virtual machine %s on machine m%d", h.VM, h.Machine)
		}
		l.Add("host "+h.Name, bothAddresses(h.Addr.Addr(), h.Addr6.Addr()), "", "", where, "")
		for _, p := range st.Pods {
			if p.Host != h.Index {
				continue
			}
			addr, service := "-", "-"
			if p.Addr().IsValid() {
				addr, service = bothAddresses(p.Addr(), p.Address(topo.IPv6)), p.Service.String()
			}
			l.Add("  pod "+p.Name, addr, "", "", p.Netns, service)
			for _, a := range p.Attachments {
				if len(st.Spec.Networks) > 1 {
					l.Add("    "+a.Dev, bothAddresses(a.Addr, a.Addr6), a.Network, strconv.Itoa(a.MTU), "", "")
				}
			}
		}
	}
	return l
}

// bothAddresses is an address and, where there is another, that of IPv6.
func bothAddresses(a, six netip.Addr) string {
	if six.IsValid() && six != a {
		return a.String() + ", " + six.String()
	}
	return a.String()
}

func labStatusCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "status [LAB]", Short: "Show the labs with their hosts and pods",
		Example: "  pathwise lab status\n  pathwise lab status demo -o json",
		Args:    optionalArg("LAB"), ValidArgsFunction: completeLabs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			name, err := labArg(cmd, args)
			if err != nil {
				return err
			}
			labs, err := e.store().List()
			if err != nil {
				return err
			}
			if name != "" {
				st, err := e.store().Load(name)
				if err != nil {
					return err
				}
				labs = []lab.State{st}
			}
			if format == report.JSON {
				return writeJSON(e.stdout, append([]lab.State{}, labs...))
			}
			if len(labs) == 0 {
				_, err := fmt.Fprintln(e.stdout, "no lab: build one with \"pathwise lab up\"")
				return err
			}
			for _, st := range labs {
				if err := printLab(e.stdout, st, e.listOptions(format)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	formatFlag(cmd, &format, listFormats()...)
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
		Use: "exec POD -- CMD [ARG...]", Short: "Run a program in a pod or on a host, on this terminal",
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
			if h, ns := st.InVM(args[0]); h.VM != "" {
				return e.execInVM(cmd.Context(), h, ns, args[1:])
			}
			if err := needRoot("lab exec needs", "to enter namespaces"); err != nil {
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
	labFlag(e, cmd, &name)
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
	labs = slices.DeleteFunc(labs, func(st lab.State) bool { return st.Guest != "" })
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
		Args:    optionalArg("LAB"), ValidArgsFunction: completeLabs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := labsToRemove(e, cmd, args, all)
			if err != nil {
				return err
			}
			if len(names) > 0 && !dry {
				if err := needRoot("lab down needs", "to remove namespaces"); err != nil {
					return err
				}
			}
			var errs []error
			for _, name := range names {
				done, err := "removed", error(nil)
				if dry {
					done, err = "would remove", e.store().MayDown(name, force)
				} else {
					err = e.store().Down(context.WithoutCancel(cmd.Context()), name, force)
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(e.stdout, "%s lab %s\n", done, name)
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

func labsToRemove(e env, cmd *cobra.Command, args []string, all bool) ([]string, error) {
	if all && len(args) > 0 {
		return nil, usageError{errors.New("lab down: expected a name or --all, not both")}
	}
	name, err := labArg(cmd, args)
	if err != nil || name != "" {
		return []string{name}, err
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
