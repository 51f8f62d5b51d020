package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/lab/vm"
	"pathwise.dev/pathwise/internal/topo"
)

// vmConfig describes virtual machines of a kind of kernel; "" is the best that can
// be booted here: one that the processor itself runs, else a process.
func (e env) vmConfig(kind string) (vm.Config, error) {
	if err := needMachineRoot("virtual machines need", "to share its files"); err != nil && os.Geteuid() == 0 {
		return vm.Config{}, err
	}
	k, err := e.vmKernel(kind)
	if err != nil {
		return vm.Config{}, err
	}
	if !k.Works() {
		return vm.Config{}, fmt.Errorf("virtual machines on %s: missing: %v", k.Name, k.Missing[0])
	}
	return vm.Config{Kernel: k, Self: e.self, Root: e.store().Root, CNIPath: lab.DefaultCNIPath(e.self),
		Env: e.guestConfig(k).Env}, nil
}

func (e env) vmKernel(kind string) (guest.Kernel, error) {
	if kind != "" {
		return guest.Find(e.guestPlace(), kind)
	}
	all := guest.Kernels(e.guestPlace())
	if i := slices.IndexFunc(all, func(k guest.Kernel) bool {
		return k.Works() && k.Name == guest.QEMU &&
			!k.Emulated()
	}); i >= 0 {
		return all[i], nil
	}
	if i := slices.IndexFunc(all, guest.Kernel.Works); i >= 0 {
		return all[i], nil
	}
	return all[0], nil // whose error says what is missing
}

// vmAgentCommand is what runs inside a virtual machine; it is not for users.
func vmAgentCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use: vm.Argument, Hidden: true, Short: "Serve a lab's host in a virtual machine",
		Args: exactArgs("ROOT", "CNIPATH", "ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := lab.Options{CNIPath: filepath.SplitList(args[1]), Self: e.self, Owned: true}
			addr, err := netip.ParsePrefix(args[2])
			if err != nil {
				return usageError{fmt.Errorf("ADDRESS: %w", err)}
			}
			return vm.Serve(cmd.Context(), addr, lab.NewShare(lab.Store{Root: args[0]}, catalogue.Find, opts))
		},
	}
}

// vmFlags are the flags of virtual machines of "lab up".
type vmFlags struct {
	hosts         []string
	kind, outside string
}

func (f *vmFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.hosts, "vms", nil,
		"hosts that are virtual machines, as HOST or HOST:MACHINE: 2 on a machine of its own, 2:1 on that of host 1 (without a file)")
	fl.StringVar(&f.kind, "vm", "", "kernel of the virtual machines: "+strings.Join(guest.Names(),
		", ")+" (default: KVM where there is one, else uml)")
	fl.StringVar(&f.outside, "outside", "",
		"what joins hosts on a physical machine to the wire: bridge, ovs for Open vSwitch, vxlan or ovs-vxlan for an overlay (without a file; default with --vms: bridge)")
	_ = cmd.RegisterFlagCompletionFunc("vm", cobra.FixedCompletions(guest.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("outside", cobra.FixedCompletions(outsides(), cobra.ShellCompDirectiveNoFileComp))
}

// outsides completes a kind of outside.
func outsides() []cobra.Completion {
	var out []cobra.Completion
	for _, o := range topo.Outsides() {
		out = append(out, string(o))
	}
	return out
}

// into sets what the flags ask for.
func (f *vmFlags) into(s *lab.Spec) error {
	for _, text := range f.hosts {
		host, on, found := strings.Cut(text, ":")
		if !found {
			on = host
		}
		h, errH := strconv.Atoi(host)
		m, errM := strconv.Atoi(on)
		if err := errors.Join(errH, errM); err != nil {
			return usageError{fmt.Errorf("--vms: %q: expected HOST or HOST:MACHINE, such as 2 or 2:1", text)}
		}
		s.VMs = append(s.VMs, topo.VM{Host: h, On: m})
	}
	s.Outside = topo.Outside(f.outside)
	*s = s.Fill()
	return nil
}

// execInVM runs a program in a namespace of a virtual machine, on this terminal's
// streams.
func (e env) execInVM(ctx context.Context, h topo.Host, ns string, argv []string) error {
	code, err := vm.Attach(ctx, h, ns, argv, vm.Streams{Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr})
	if err == nil && code != 0 {
		err = codeError(code)
	}
	return err
}
