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

// labUpFlags are those of "lab up".
type labUpFlags struct {
	names                    []string
	name                     string
	hosts, pods, mtu, family int
	agents, dry              bool
	vms                      vmFlags
}

func labUpCommand(e env) *cobra.Command {
	var f labUpFlags
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
			file, err := f.file(e, args, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if f.dry {
				return errors.Join(printPlan(e.stdout, file), unavailable(e, file))
			}
			return labUp(cmd.Context(), e, file, f.vms.kind)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.names, "network", nil,
		"networks of the catalogue, or cni:FILE, instead of a lab file; the first is the default one")
	fl.StringVar(&f.name, "name", "lab", "name of the lab (without a file)")
	fl.IntVar(&f.hosts, "hosts", 2, "number of hosts (without a file)")
	fl.IntVar(&f.pods, "pods", 2, "number of pods, spread over the hosts (without a file)")
	fl.IntVar(&f.mtu, "mtu", 1500, "MTU of the underlay in bytes (without a file)")
	fl.IntVar(&f.family, "family", 0,
		"IP family of pods' services, 4 or 6: with 6, hosts and pods have addresses of both (without a file)")
	fl.BoolVar(&f.agents, "agents", true,
		"with several networks, a pod for the steering agent on each host (without a file)")
	fl.BoolVar(&f.dry, "dry-run", false, "say what would be made, and make nothing")
	f.vms.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(catalogue.Names(),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// file is the lab that is asked for, and can be built.
func (f labUpFlags) file(e env, args []string, changed func(string) bool) (out lab.File, err error) {
	out.Spec = lab.Spec{Name: f.name, Hosts: f.hosts, MTU: f.mtu, Family: f.family}.Fill()
	switch {
	case len(args) == 1 && len(f.names) > 0:
		return out, usageError{errors.New("lab up: expected a file or --network, not both")}
	case len(args) == 1:
		out, err = readLab(e, args[0])
	case changed("hosts") && f.hosts < 1:
		return out, usageError{fmt.Errorf("lab up: --hosts %d: expected 1 or more", f.hosts)}
	case changed("mtu") && f.mtu < 1:
		return out, usageError{fmt.Errorf("lab up: --mtu %d: expected %d to %d bytes", f.mtu, topo.MinMTU, topo.MaxMTU)}
	case len(f.names) == 0:
		return out, usageError{errors.New("lab up: expected a file or --network NAME: see \"pathwise lab up --help\"")}
	default:
		out.Networks, err = findAll(f.names)
		out.Spec.Networks, out.Spec.Agents = f.names, f.agents && len(f.names) > 1 && len(f.vms.hosts) == 0
		out.Spec.Pods = spread(f.pods, out.Spec.Hosts)
		err = errors.Join(err, f.vms.into(&out.Spec))
	}
	if err != nil {
		return out, err
	}
	if err := errors.Join(out.Spec.Check(), lab.Combinable(out.Networks, out.Spec.Agents),
		lab.Speak(out.Networks, out.Spec)); err != nil {
		return out, usageError{err}
	}
	return out, nil
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
