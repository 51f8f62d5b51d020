package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/impair"
	"pathwise.dev/pathwise/internal/lab"
)

// faults are the flags of "lab impair".
type faults struct {
	rate, drop, loss string
	delay, jitter    time.Duration
	clear            bool
}

func labImpairCommand(e env) *cobra.Command {
	var f faults
	var name string
	cmd := &cobra.Command{
		Use: "impair POD|HOST NETWORK", Short: "Make a pod's, or all of a host's pods', attachment to a network worse",
		Long: `Impair a pod's attachment to one network, or those of all pods of a host (the
agent's too), as a failing path would: a lower rate, loss, delay, or a silent
black hole. Directions are the pod's. What is asked for replaces what was there;
it stays until --clear or "lab down". It acts on the wire between pod and host,
so pods of one host that meet in the macvlan driver do not notice.`,
		Example: `  pathwise lab impair p1 vxlan --rate 500mbit
  pathwise lab impair h1 vxlan --drop both       all of the host's pods
  pathwise lab impair p1 macvlan --loss 1%
  pathwise lab impair h1 vxlan --clear`,
		Args: exactArgs("POD|HOST", "NETWORK"), ValidArgsFunction: completePorts(e, &name),
		RunE: func(cmd *cobra.Command, args []string) error {
			bad, err := f.impairment()
			if err != nil {
				return usageError{fmt.Errorf("lab impair: %w", err)}
			}
			st, err := chooseLab(e, name)
			if err != nil {
				return err
			}
			ports, err := portsOf(st, args[0], args[1])
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return errors.New("lab impair needs root: run as root, for example with sudo")
			}
			pins, err := e.store().MountBPF(st.Spec.Name)
			if err != nil {
				return err
			}
			// At once, as a path fails for all who use it.
			errs := make([]error, len(ports))
			var wg sync.WaitGroup
			for i, p := range ports {
				wg.Go(func() { errs[i] = impair.Impairer{Pins: pins}.Apply(p, bad) })
			}
			wg.Wait()
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&f.rate, "rate", "", "bound what goes out: 500mbit, 64kbit, 1.5gbit")
	cmd.Flags().StringVar(&f.drop, "drop", "", "lose everything: in, out or both")
	cmd.Flags().StringVar(&f.loss, "loss", "", "lose a share of what goes in and of what goes out: 1%")
	cmd.Flags().DurationVar(&f.delay, "delay", 0, "hold up what goes out (where the kernel has netem)")
	cmd.Flags().DurationVar(&f.jitter, "jitter", 0, "vary --delay by this much")
	cmd.Flags().BoolVar(&f.clear, "clear", false, "end every impairment")
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab, where there are several")
	_ = cmd.RegisterFlagCompletionFunc("lab", completeLabs(e))
	_ = cmd.RegisterFlagCompletionFunc("drop", cobra.FixedCompletions([]string{"in", "out", "both"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// impairment is what the flags ask for.
func (f faults) impairment() (impair.Impairment, error) {
	out := impair.Impairment{Delay: f.delay, Jitter: f.jitter}
	var err error
	if f.rate != "" {
		if out.Rate, err = impair.ParseRate(f.rate); err != nil {
			return out, fmt.Errorf("--rate: %w", err)
		}
	}
	if f.loss != "" {
		text, ok := strings.CutSuffix(f.loss, "%")
		percent, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || !(percent > 0 && percent <= 100) {
			return out, fmt.Errorf("--loss %s: expected a share above 0%% and at most 100%%, such as 1%%", f.loss)
		}
		out.LossIngress, out.LossEgress = percent/100, percent/100
	}
	switch f.drop {
	case "", "in", "out", "both":
		out.DropIngress, out.DropEgress = f.drop == "in" || f.drop == "both", f.drop == "out" || f.drop == "both"
	default:
		return out, fmt.Errorf("--drop %s: expected in, out or both", f.drop)
	}
	if none := out == (impair.Impairment{}); none != f.clear {
		return out, errors.New("expected --rate, --drop, --loss or --delay, or --clear alone: see \"pathwise lab impair --help\"")
	}
	return out, out.Check()
}

// portsOf returns the attachments to the network of the pod, or of the pods of
// the host, called where.
func portsOf(st lab.State, where, network string) ([]impair.Port, error) {
	if !slices.Contains(st.Spec.Networks, network) {
		return nil, fmt.Errorf("lab %q has no network %q: expected one of %s", st.Spec.Name, network, strings.Join(st.Spec.Networks, ", "))
	}
	found := false
	var out []impair.Port
	for _, p := range st.Pods {
		h := st.Hosts[p.Host-1]
		if p.Name != where && h.Name != where {
			continue
		}
		found = true
		if a, ok := p.On(network); ok && p.Netns != h.Netns {
			out = append(out, impair.Port{Netns: p.Netns, Dev: a.Dev, Host: h.Netns})
		}
	}
	if !found {
		return nil, fmt.Errorf("lab %q has no pod %q and no host %q with pods: see \"pathwise lab status\"", st.Spec.Name, where, where)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("lab %q: %s has no interface of its own on %s", st.Spec.Name, where, network)
	}
	return out, nil
}

// completePorts completes pods and hosts, then networks.
func completePorts(e env, name *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		st, err := chooseLab(e, *name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []cobra.Completion
		switch len(args) {
		case 0:
			for _, h := range st.Hosts {
				out = append(out, h.Name)
			}
			for _, p := range st.Pods {
				out = append(out, p.Name)
			}
		case 1:
			out = append(out, st.Spec.Networks...)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
