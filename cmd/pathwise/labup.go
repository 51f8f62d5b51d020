package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/lab/vm"
	"pathwise.dev/pathwise/internal/topo"
)

func labUpCommand(e env) *cobra.Command {
	var names []string
	var name string
	var hosts, pods, mtu, family int
	var agents, dry bool
	var vms vmFlags
	cmd := &cobra.Command{
		Use:   "up [FILE]",
		Short: "Build a lab from a file (- is standard input) or from flags",
		Example: `  pathwise lab up lab.yaml
  pathwise lab up --network macvlan --hosts 3 --pods 6
  pathwise lab up --network routed-bgp,vxlan,macvlan
  pathwise lab up --network vxlan --family 6
  pathwise lab up --network vxlan --vms 2:1
  pathwise lab up --network flannel-vxlan --vms 1,2 --outside vxlan
  pathwise lab up --network cni:my.conflist --dry-run`,
		Args: optionalArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := lab.File{Spec: lab.Spec{Name: name, Hosts: hosts, MTU: mtu, Family: family}.Fill()}
			var err error
			switch {
			case len(args) == 1 && len(names) > 0:
				return usageError{errors.New("lab up: expected a file or --network, not both")}
			case len(args) == 1:
				f, err = readLab(e, args[0])
			case cmd.Flags().Changed("hosts") && hosts < 1:
				return usageError{fmt.Errorf("lab up: --hosts %d: expected 1 or more", hosts)}
			case cmd.Flags().Changed("mtu") && mtu < 1:
				return usageError{fmt.Errorf("lab up: --mtu %d: expected %d to %d bytes", mtu, topo.MinMTU, topo.MaxMTU)}
			case len(names) == 0:
				return usageError{errors.New("lab up: expected a file or --network NAME: see \"pathwise lab up --help\"")}
			default:
				f.Networks, err = findAll(names)
				f.Spec.Networks, f.Spec.Agents = names, agents && len(names) > 1 && len(vms.hosts) == 0
				f.Spec.Pods = spread(pods, f.Spec.Hosts)
				err = errors.Join(err, vms.into(&f.Spec))
			}
			if err != nil {
				return err
			}
			if err := errors.Join(f.Spec.Check(), lab.Combinable(f.Networks, f.Spec.Agents),
				lab.Speak(f.Networks, f.Spec)); err != nil {
				return usageError{err}
			}
			if dry {
				return errors.Join(printPlan(e.stdout, f), unavailable(e, f))
			}
			return labUp(cmd.Context(), e, f, vms.kind)
		},
	}
	cmd.Flags().StringSliceVar(&names, "network", nil,
		"networks of the catalogue, or cni:FILE, instead of a lab file; the first is the default one")
	cmd.Flags().StringVar(&name, "name", "lab", "name of the lab (without a file)")
	cmd.Flags().IntVar(&hosts, "hosts", 2, "number of hosts (without a file)")
	cmd.Flags().IntVar(&pods, "pods", 2, "number of pods, spread over the hosts (without a file)")
	cmd.Flags().IntVar(&mtu, "mtu", 1500, "MTU of the underlay in bytes (without a file)")
	cmd.Flags().IntVar(&family, "family", 0,
		"IP family of pods' services, 4 or 6: with 6, hosts and pods have addresses of both (without a file)")
	cmd.Flags().BoolVar(&agents, "agents", true,
		"with several networks, a pod for the steering agent on each host (without a file)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be made, and make nothing")
	vms.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(catalogue.Names(),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// findAll returns the networks called so.
func findAll(names []string) ([]network.Network, error) {
	var out []network.Network
	for _, name := range names {
		n, err := catalogue.Find(name)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
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
		if _, found := catalogue.Find(path); found == nil {
			return lab.File{}, usageError{fmt.Errorf("lab up: there is no file %s: the network is --network %[1]s", path)}
		}
		return lab.File{}, fmt.Errorf("lab file: %w", err)
	}
	defer f.Close()
	return lab.ParseFile(path, f, catalogue.Find)
}

func printPlan(w io.Writer, f lab.File) error {
	networks, agents := "network "+f.Spec.Networks[0], ""
	if len(f.Spec.Networks) > 1 {
		networks = "networks " + strings.Join(f.Spec.Networks, ", ")
	}
	if f.Spec.Agents {
		agents = fmt.Sprintf(" and %d for agents", f.Spec.Hosts)
	}
	hosts := fmt.Sprintf("%d hosts", f.Spec.Hosts)
	if n := len(f.Spec.VMs); n > 0 {
		hosts += fmt.Sprintf(", %d of them virtual machines,", n)
	}
	_, err := fmt.Fprintf(w, "lab %s: %s (underlay %v, MTU %d), %s, %d pods%s; nothing made (--dry-run)\n",
		f.Spec.Name, hosts, f.Spec.Underlay, f.Spec.MTU, networks, len(f.Spec.Pods), agents)
	return err
}

// unavailable is what the lab's networks lack of what can be installed.
func unavailable(e env, f lab.File) error {
	machine := network.NewMachine(lab.DefaultCNIPath(e.self))
	var errs []error
	for _, n := range f.Networks {
		errs = append(errs, machine.Uninstalled("network "+n.Info().Name, n.Info().Needs))
	}
	return errors.Join(errs...)
}

func labUp(ctx context.Context, e env, f lab.File, kind string) error {
	if err := needRoot("lab up needs", "to make namespaces"); err != nil {
		return err
	}
	path := lab.DefaultCNIPath(e.self)
	machine := network.NewMachine(path)
	for _, n := range f.Networks {
		miss := machine.Missing(n.Info().Needs)
		if len(f.Spec.VMs) == f.Spec.Hosts { // no host is on this kernel
			miss = slices.DeleteFunc(miss, func(m network.Missing) bool { return m.Kind.Kernel() })
		}
		if len(miss) > 0 {
			return network.CannotRun("network "+n.Info().Name, miss)
		}
	}
	opts := lab.Options{CNIPath: path, Self: e.self}
	if len(f.Spec.VMs) > 0 {
		c, err := e.vmConfig(kind)
		if err != nil {
			return err
		}
		if opts.Hypervisor = (vm.Hypervisor{Config: c}); c.Warning() != "" {
			fmt.Fprintf(e.stderr, "warning: %s\n", c.Warning())
		}
	}
	l, err := e.store().UpAll(ctx, f.Spec, f.Networks, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "lab %s is up after %.2fs (%.2fs of it waiting for daemons)\n",
		f.Spec.Name, (l.Built + l.Waited).Seconds(), l.Waited.Seconds())
	st, err := e.store().Load(f.Spec.Name)
	if err != nil {
		return err
	}
	return printLab(e.stdout, st, e.reportOptions())
}
