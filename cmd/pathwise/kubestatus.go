package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

func kubeStatusCommand(e env) *cobra.Command {
	var k kubeFlag
	var format string
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Show agents, networks, and how many pairs of pods are steered",
		Long: `Show the agents of a cluster with their versions, the networks that flows may be moved
to, the pods on several networks, and how many pairs with traffic are steered or
cannot be, by reason. With --wait it waits until every node's agent is at work, and
fails if that takes too long.`,
		Example: "  pathwise kube status\n  pathwise kube status --wait --timeout 2m",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			if err := checkTimeout(cmd, timeout); err != nil {
				return err
			}
			c, err := k.open(cmd)
			if err != nil {
				return err
			}
			s, err := kubeStatus(cmd.Context(), c, wait, timeout)
			if err != nil {
				return fmt.Errorf("kube status: %w", err)
			}
			if err := kubeTraffic(cmd.Context(), e, c, &s); err != nil {
				fmt.Fprintf(e.stderr, "pathwise: kube status: no agent says what traffic there is: %s\n", oneLine(err))
			}
			if format == report.JSON {
				return writeJSON(e.stdout, s)
			}
			return printStatus(e.stdout, s, e.listOptions(format))
		},
	}
	k.agentsFlags(cmd)
	formatFlag(cmd, &format, listFormats()...)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until every node's agent is at work")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "with --wait: how long at most")
	return cmd
}

// kubeStatus reads the status, with wait once all agents are at work.
func kubeStatus(ctx context.Context, c *admin.Cluster, wait bool, timeout time.Duration) (admin.Status, error) {
	if wait {
		return c.Await(ctx, timeout)
	}
	return c.Status(ctx)
}

// kubeTraffic adds what the agents say of traffic.
func kubeTraffic(ctx context.Context, e env, c *admin.Cluster, s *admin.Status) error {
	all, err := c.Ask(ctx, nil, manifest.Dir)
	if err != nil {
		return err
	}
	ps, err := everywhere(ctx, e, all, func(ctx context.Context, c *agent.Client) ([]agent.PathStatus, error) {
		return c.Paths(ctx)
	})
	s.Traffic(ps)
	return err
}

func printStatus(w io.Writer, s admin.Status, o report.Options) error {
	l := report.NewList(report.Named("agent of", "version", "state")...)
	for _, a := range s.Agents {
		state := "ready"
		if !a.Ready {
			state = a.Why
		}
		l.Add(a.Node, a.Version, state)
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	if len(s.Networks) > 0 {
		l = report.NewList(append(report.Named("network"), append(report.Numbered("agents", "pods", "barred"),
			report.Named("steered to")...)...)...)
		for _, n := range s.Networks {
			allowed := "yes"
			if !n.Allowed {
				allowed = "no: " + n.Why
			}
			l.Add(n.Attachment, fmt.Sprint(n.Agents), fmt.Sprint(n.Pods), fmt.Sprint(n.Barred), allowed)
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := l.Write(w, o); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("\n%d of %d agents; %d pods on several networks, %d refused\n%d pairs with traffic are steered, %d are on the default network by choice",
		len(s.Agents), s.Wanted, s.Pods, s.Refused, s.Pairs.Steered, s.Pairs.Native)
	for _, why := range slices.Sorted(maps.Keys(s.Pairs.Alone)) {
		text += fmt.Sprintf("\n%d cannot be steered: %s", s.Pairs.Alone[why], why)
	}
	for _, r := range s.Refusals {
		text += fmt.Sprintf("\n%s is left alone: %s", r.Pod, strings.TrimPrefix(r.Reason, "pod "+r.Pod+": "))
	}
	return report.Lines(w, text, o)
}

func kubeWhyCommand(e env) *cobra.Command {
	var k kubeFlag
	var format string
	cmd := &cobra.Command{
		Use: "why POD POD", Short: "Say which networks the flows of two pods may go to, or the rule",
		Long: `Say of every network of two pods whether flows that the first has opened to the second
may be moved there, or which rule forbids it, what the agent sees of it where there is
traffic, and which PathPolicy holds for each pod.`,
		Example: "  pathwise kube why -n shop web db\n  pathwise kube why shop/web data/db -o json",
		Args:    exactArgs("POD", "POD"), ValidArgsFunction: k.pods(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			c, err := k.open(cmd)
			if err != nil {
				return err
			}
			from, to, err := podNames(c, args)
			if err != nil {
				return usageError{fmt.Errorf("kube why: %w", err)}
			}
			x, err := c.Why(cmd.Context(), from, to)
			if err != nil {
				return fmt.Errorf("kube why: %w", err)
			}
			if x.Rule == "" {
				if err := seeTraffic(cmd.Context(), c, &x); err != nil {
					fmt.Fprintf(e.stderr, "pathwise: kube why: the agent of %s does not say what it sees: %s\n", x.Nodes[0], oneLine(err))
				}
			}
			if format == report.JSON {
				return writeJSON(e.stdout, x)
			}
			return printWhy(e.stdout, x, e.listOptions(format))
		},
	}
	k.flags(cmd)
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}

// seeTraffic adds what the agent of the first pod sees of the pair.
func seeTraffic(ctx context.Context, c *admin.Cluster, x *admin.Explanation) error {
	all, err := c.Ask(ctx, x.Nodes[:1], manifest.Dir)
	if err != nil {
		return err
	}
	ps, err := all[x.Nodes[0]].Paths(ctx)
	if err != nil {
		return err
	}
	told := map[string]bool{} // of two classes, that which uses the network tells of it
	for _, p := range ps {
		for i := range x.Networks {
			v := &x.Networks[i]
			if p.Pair != x.From+">"+x.To || p.Network != v.Network || told[v.Network] {
				continue
			}
			v.State, v.Why = p.State, p.Why
			if told[v.Network] = p.Active; p.Active {
				v.State += ", in use"
			}
		}
	}
	return nil
}

func printWhy(w io.Writer, x admin.Explanation, o report.Options) error {
	title := fmt.Sprintf("%s (%s) > %s (%s)", x.From, x.Nodes[0], x.To, x.Nodes[1])
	if err := report.Lines(w, title, o); err != nil {
		return err
	}
	l := report.NewList(report.Named("  network", "eligible", "mtu", "now")...)
	why := ""
	for _, v := range x.Networks {
		yes, mtu, now := "yes", "-", v.State
		if v.MTU > 0 {
			mtu = fmt.Sprint(v.MTU)
		}
		if now == "" {
			now = "no traffic"
		}
		if !v.Eligible {
			yes, now = "no", "-"
			why += fmt.Sprintf("\n  %s: %s", v.Network, v.Rule)
		} else if v.Why != "" {
			why += fmt.Sprintf("\n  %s: %s", v.Network, v.Why)
		}
		l.Add("  "+v.Network, yes, mtu, now)
	}
	if x.Rule != "" && len(x.Networks) == 1 {
		why += "\n  " + x.Rule
	}
	for _, p := range x.Policies {
		why += "\n  " + p.String()
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	return report.Lines(w, strings.TrimPrefix(why+"\n  What goes to a Service's address stays on the default network.", "\n"), o)
}
