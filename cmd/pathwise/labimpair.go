package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
)

// faults are the flags of "lab impair".
type faults struct {
	rate, drop, loss, only, reorder, direction string
	delay, jitter                              time.Duration
	clear                                      bool
}

func labImpairCommand(e env) *cobra.Command {
	var f faults
	var name, format string
	cmd := &cobra.Command{
		Use: "impair [POD|HOST [NETWORK]]", Short: "Impair the network of a pod: rate, loss, delay, black holes",
		Long: `Impair a pod's attachment to one network, or those of all pods of a host (the
agent's too), as a failing path would: a lower rate, loss, delay, jitter,
reordering, or a silent black hole. Directions are the pod's. What is asked for
acts together and replaces what was there; it stays until --clear or "lab down".
Without any flag, show what is in force, and by which means.

It acts on the wire between pod and host, so pods of one host that meet in the
macvlan driver do not notice. Packets are held by the queueing discipline netem
where the kernel has it, otherwise by a delay line, which is a process of
Pathwise's; packets go past it when it dies.`,
		Example: `  pathwise lab impair p1 vxlan --rate 500mbit
  pathwise lab impair h1 vxlan --drop both       all of the host's pods
  pathwise lab impair p1 macvlan --loss 1%
  pathwise lab impair p1 vxlan --drop in --only tcp:443
  pathwise lab impair p1 vxlan --delay 10ms --jitter 2ms --reorder 1% --direction both
  pathwise lab impair                            what is in force
  pathwise lab impair h1 vxlan --clear`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return exactArgs("POD|HOST", "NETWORK")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: completePorts(e, &name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			bad, err := f.impairment(cmd.Flags().Changed)
			if err == nil && f.given() && len(args) < 2 {
				err = errors.New("expected POD|HOST NETWORK: see \"pathwise lab impair --help\"")
			}
			if err != nil {
				return usageError{fmt.Errorf("lab impair: %w", err)}
			}
			return labImpair(e, name, args, bad, f.given(), format)
		},
	}
	f.flags(cmd)
	labFlag(e, cmd, &name)
	formatFlag(cmd, &format, "text", "json")
	return cmd
}

// labImpair has attachments of a lab suffer from that, if it is given, and shows what is in force on them.
func labImpair(e env, name string, args []string, bad impair.Impairment, given bool, format string) error {
	st, err := chooseLab(e, name)
	if err != nil {
		return err
	}
	ports, err := portsOf(st, args)
	if err != nil {
		return err
	}
	if err := needMachineRoot("lab impair needs", "to attach eBPF programs"); err != nil {
		return err
	}
	if given {
		if err := impairAll(e, st, ports, bad); err != nil {
			return err
		}
	}
	return printForces(e, st, ports, format)
}

// flags are what an attachment is to suffer from.
func (f *faults) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.rate, "rate", "", "bound what goes out: 500mbit, 64kbit, 1.5gbit")
	cmd.Flags().StringVar(&f.drop, "drop", "", "lose everything: in, out or both")
	cmd.Flags().StringVar(&f.loss, "loss", "", "lose a share of what goes in and of what goes out: 1%")
	cmd.Flags().StringVar(&f.only, "only", "",
		"drop or lose these alone: tcp, udp, icmp, tcp:443, above:1000")
	cmd.Flags().DurationVar(&f.delay, "delay", 0, "hold up what goes out")
	cmd.Flags().DurationVar(&f.jitter, "jitter", 0, "vary --delay by up to this much, independently for each packet")
	cmd.Flags().StringVar(&f.reorder, "reorder", "", "share of packets that --delay does not hold up: 1%")
	cmd.Flags().StringVar(&f.direction, "direction", "",
		"what --rate, --loss, --delay, --jitter and --reorder act on: in, out or both")
	cmd.Flags().BoolVar(&f.clear, "clear", false, "end every impairment")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions([]string{"tcp", "udp", "icmp", "above:"},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	for _, flag := range []string{"drop", "direction"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions([]string{"in", "out", "both"},
			cobra.ShellCompDirectiveNoFileComp))
	}
}

func (f faults) given() bool { return f != (faults{}) }

// impairment is what the flags ask for.
func (f faults) impairment(changed func(string) bool) (impair.Impairment, error) {
	out := impair.Impairment{Delay: f.delay, Jitter: f.jitter, Direction: impair.Direction(f.direction)}
	var err error
	if f.rate != "" {
		if out.Rate, err = impair.ParseRate(f.rate); err != nil {
			return out, fmt.Errorf("--rate: %w", err)
		}
	}
	if changed("loss") {
		loss, err := percent("--loss", f.loss)
		if err != nil {
			return out, err
		}
		out.LossIngress, out.LossEgress = loss, loss
		switch out.Direction {
		case impair.In:
			out.LossEgress = 0
		case impair.Out:
			out.LossIngress = 0
		}
	}
	if changed("reorder") {
		if out.Reorder, err = percent("--reorder", f.reorder); err != nil {
			return out, err
		}
	}
	if out.Only, err = impair.ParseOnly(f.only); err != nil {
		return out, fmt.Errorf("--%w", err)
	}
	switch f.drop {
	case "", "in", "out", "both":
		out.DropIngress, out.DropEgress = f.drop == "in" || f.drop == "both", f.drop == "out" || f.drop == "both"
	default:
		return out, fmt.Errorf("--drop %s: expected in, out or both", f.drop)
	}
	if err := out.Check(); err != nil {
		return out, err
	}
	none := out == (impair.Impairment{Direction: out.Direction})
	if f.given() && none != f.clear {
		return out, errors.New("expected --rate, --drop, --loss or --delay, or --clear alone: see \"pathwise lab impair --help\"")
	}
	return out, nil
}

// percent reads a share as flags give it.
func percent(flag, text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(share > 0 && share <= 100) {
		return 0, fmt.Errorf("%s %s: expected a share above 0%% and at most 100%%, such as 1%%", flag, text)
	}
	return share / 100, nil
}

// impairer works on a lab; pins is the lab's BPF directory.
func (e env) impairer(lab, pins string) impair.Impairer {
	return impair.Impairer{Pins: pins, Line: []string{e.self, impair.LineArgument}, Mark: e.store().Mark(lab)}
}

// port is an attachment that can be impaired.
type port struct {
	pod, network string
	impair.Port
}

// impairAll acts on all ports at once, as a path fails for all who use it.
func impairAll(e env, st lab.State, ports []port, bad impair.Impairment) error {
	pins, err := e.store().MountBPF(st.Spec.Name)
	if err != nil {
		return err
	}
	if bad == (impair.Impairment{Direction: bad.Direction}) {
		bad = impair.Impairment{}
	}
	errs := make([]error, len(ports))
	var wg sync.WaitGroup
	for i, p := range ports {
		wg.Go(func() { errs[i] = e.impairer(st.Spec.Name, pins).Apply(p.Port, bad) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// force is what is in force on a port, as it is shown.
type force struct {
	Pod     string `json:"pod"`
	Network string `json:"network"`
	impair.Force
}

// printForces shows what is in force on the ports.
func printForces(e env, st lab.State, ports []port, format string) error {
	all := []force{}
	for _, p := range ports {
		f, ok, err := e.impairer(st.Spec.Name, e.store().BPFDir(st.Spec.Name)).InForce(p.Port)
		if err != nil {
			return err
		}
		if ok {
			all = append(all, force{p.pod, p.network, f})
		}
	}
	if format == "json" {
		return writeJSON(e.stdout, all)
	}
	if len(all) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "POD\tNETWORK\tIMPAIRMENT\tBY")
	for _, f := range all {
		by := strings.Join(f.By, ", ")
		if f.Ended {
			by += " (which has ended: nothing is held up)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", f.Pod, f.Network, f.Impairment, by)
	}
	return flush(tw)
}

// portsOf returns the attachments of the pod, or of the pods of the host, called
// args[0] to the network args[1]; without, all that there are.
func portsOf(st lab.State, args []string) (out []port, err error) {
	where, network := "", ""
	if len(args) > 0 {
		where = args[0]
	}
	if len(args) > 1 {
		network = args[1]
	}
	if network != "" && !slices.Contains(st.Spec.Networks, network) {
		return nil, fmt.Errorf("lab %q has no network %q: expected one of %s", st.Spec.Name, network,
			strings.Join(st.Spec.Networks, ", "))
	}
	found := false
	for _, p := range st.Pods {
		h := st.Hosts[p.Host-1]
		if where != "" && p.Name != where && h.Name != where {
			continue
		}
		found = true
		for _, a := range p.Attachments {
			if (network == "" || a.Network == network) && p.Netns != h.Netns {
				out = append(out, port{p.Name, a.Network, impair.Port{Netns: p.Netns, Dev: a.Dev, Host: h.Netns}})
			}
		}
	}
	if where != "" && !found {
		return nil, fmt.Errorf("lab %q has no pod %q and no host %q with pods: see \"pathwise lab status\"", st.Spec.Name,
			where, where)
	}
	if network != "" && len(out) == 0 {
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

func flush(tw *tabwriter.Writer) error {
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
