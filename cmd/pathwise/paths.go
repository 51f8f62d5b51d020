package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// agents finds the control sockets of running agents: those of a lab, or of dir.
func agents(e env, labName, dir string) (map[string]*agent.Client, error) {
	if dir == "" {
		st, err := chooseLab(e, labName)
		if err != nil {
			return nil, err
		}
		dir = e.store().Dir(st.Spec.Name)
	}
	socks, err := agent.Sockets(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]*agent.Client{}
	for host, s := range socks {
		out[host] = agent.Dial(s)
	}
	if len(out) == 0 {
		return nil, errors.New("no agent is running: start them with \"pathwise agent\"")
	}
	return out, nil
}

// asking is how many agents are asked at a time: on a cluster each answers from afar.
const asking = 16

// everywhere asks all agents and joins the answers. Agents that do not answer
// are told on standard error, unless none does.
func everywhere[T any](ctx context.Context, e env, all map[string]*agent.Client,
	ask func(context.Context, *agent.Client) ([]T, error)) ([]T, error) {
	hosts := slices.Sorted(maps.Keys(all))
	answers, errs := make([][]T, len(hosts)), make([]error, len(hosts))
	var group errgroup.Group
	group.SetLimit(asking)
	for i, host := range hosts {
		group.Go(func() error {
			var err error
			if answers[i], err = ask(ctx, all[host]); err != nil {
				errs[i] = fmt.Errorf("agent of %s: %w", host, err)
			}
			return errs[i]
		})
	}
	if group.Wait() != nil && !slices.Contains(errs, nil) {
		return nil, errors.Join(errs...)
	}
	for _, err := range errs {
		if err != nil {
			fmt.Fprintf(e.stderr, "pathwise: %s\n", oneLine(err))
		}
	}
	return append([]T{}, slices.Concat(answers...)...), nil
}

func whereFlags(e env, cmd *cobra.Command, labName, dir *string) {
	labFlag(e, cmd, labName)
	cmd.Flags().StringVar(dir, "dir", "", "directory of agents that were started with --cluster")
}

func pathsCommand(e env) *cobra.Command {
	var labName, dir, format string
	cmd := &cobra.Command{
		Use: "paths", Short: "Show the paths of pairs with traffic, and why each is used",
		Long: `Show the paths of every pair of pods that has traffic, as the running agents see
them: the state, round trip and loss by probes, what the pair's own traffic
achieves, the score, and how many of the pair's 64 buckets of flows are on it.
A pair A>B means the flows that A has opened. A pair whose bulk has a path of its
own is shown twice, for its bulk and for its interactive flows, of 32 buckets each.`,
		Example: "  pathwise paths\n  pathwise paths -o json",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			all, err := agents(e, labName, dir)
			if err != nil {
				return err
			}
			return showPaths(cmd.Context(), e, all, format, func(string) bool { return true })
		},
	}
	whereFlags(e, cmd, &labName, &dir)
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}

// showPaths shows the paths of those pairs that are meant, by all agents.
func showPaths(ctx context.Context, e env, all map[string]*agent.Client, format string,
	meant func(pair string) bool) error {
	ps, err := everywhere(ctx, e, all, func(ctx context.Context, c *agent.Client) ([]agent.PathStatus, error) {
		return c.Paths(ctx)
	})
	if err != nil {
		return err
	}
	sayWaiting(ctx, e, all)
	ps = slices.DeleteFunc(ps, func(p agent.PathStatus) bool { return !meant(p.Pair) })
	slices.SortStableFunc(ps, func(a, b agent.PathStatus) int { return cmp.Compare(a.Pair, b.Pair) })
	if format == report.JSON {
		return writeJSON(e.stdout, ps)
	}
	return printPaths(e.stdout, ps, e.listOptions(format))
}

// sayWaiting tells on standard error for what agents wait, and so steer nothing yet.
func sayWaiting(ctx context.Context, e env, all map[string]*agent.Client) {
	for _, host := range slices.Sorted(maps.Keys(all)) {
		if h, err := all[host].Health(ctx); err == nil && h.Waiting != "" {
			fmt.Fprintf(e.stderr, "pathwise: agent of %s: it waits for %s\n", host, h.Waiting)
		}
	}
}

// printPaths shows the paths pair by pair, and below each pair why its paths are used or not.
func printPaths(w io.Writer, ps []agent.PathStatus, o report.Options) error {
	if len(ps) == 0 {
		_, err := fmt.Fprintln(w, "no pair of pods has traffic now")
		return err
	}
	known := slices.ContainsFunc(ps, func(p agent.PathStatus) bool { return p.CPU > 0 })
	for len(ps) > 0 {
		n := slices.IndexFunc(ps, func(p agent.PathStatus) bool { return p.Pair != ps[0].Pair || p.Class != ps[0].Class })
		if n < 0 {
			n = len(ps)
		}
		pair := o
		pair.Unhinted = n < len(ps) // said once, below all
		if err := printPair(w, ps[:n], known, pair); err != nil {
			return err
		}
		ps = ps[n:]
	}
	return nil
}

// printPair shows the paths of one pair, and what they cost where that is known.
func printPair(w io.Writer, ps []agent.PathStatus, known bool, o report.Options) error {
	heads := []report.Head{{Name: "  network"}, {Name: "state"}, {Name: "rtt"}, {Name: "jitter", Drop: 4},
		{Name: "loss", Drop: 2}, {Name: "goodput"}, {Name: "retr", Drop: 3}}
	if known {
		heads = append(heads, report.Head{Name: "cpu/GB", Drop: 5})
	}
	l := report.NewList(append(heads, report.Head{Name: "score", Drop: 1}, report.Head{Name: "on"})...)
	why, name, buckets := "", ps[0].Pair, flow.Buckets
	if class := ps[0].Class; class != "" {
		name, buckets = name+" "+class, flow.Width
	}
	if ps[0].Policy != "" {
		name += " (" + ps[0].Policy + ")"
	}
	for _, p := range ps {
		mark := "  "
		if p.Active {
			mark = "* "
		}
		cells := []string{mark + p.Network, p.State, seconds(p.RTT), seconds(p.Jitter), fmt.Sprintf("%.1f%%", p.Loss*100),
			bitrate(p.Goodput), fmt.Sprintf("%.1f%%", p.Retrans*100)}
		if known {
			cells = append(cells, seconds(p.CPU))
		}
		l.Add(append(cells, fmt.Sprintf("%+.1f", p.Score), fmt.Sprintf("%d/%d", p.Buckets, buckets))...)
		name := p.Network
		if p.Encapsulated {
			name += " (in UDP)"
		}
		switch {
		case p.Why != "":
			why += fmt.Sprintf("\n  %s: %s", name, p.Why)
		case p.Encapsulated:
			why += fmt.Sprintf("\n  %s", name)
		}
	}
	if err := report.Lines(w, name, o); err != nil {
		return err
	}
	if err := l.Write(w, o); err != nil || why == "" {
		return err
	}
	return report.Lines(w, why[1:], o)
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	if s < 1e-3 {
		return fmt.Sprintf("%.0fus", s*1e6)
	}
	return fmt.Sprintf("%.1fms", s*1e3)
}

func bitrate(b float64) string {
	switch {
	case b == 0:
		return "-"
	case b >= 1e9:
		return fmt.Sprintf("%.2fGbit/s", b/1e9)
	case b >= 1e6:
		return fmt.Sprintf("%.0fMbit/s", b/1e6)
	}
	return fmt.Sprintf("%.0fkbit/s", b/1e3)
}

func eventsCommand(e env) *cobra.Command {
	var labName, dir, format string
	var follow bool
	cmd := &cobra.Command{
		Use: "events", Short: "Show what agents decided, on what evidence, and what it gained",
		Long: `Tell each decision of the running agents with its reason and predicted gain, and
a second later what it really brought. JSON has the whole evidence.`,
		Example: "  pathwise events\n  pathwise events --follow\n  pathwise events -o json | jq 'select(.kind==\"failover\")'",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			clients, err := agents(e, labName, dir)
			if err != nil {
				return err
			}
			return showEvents(cmd.Context(), e, clients, format, follow, func(string) bool { return true })
		},
	}
	whereFlags(e, cmd, &labName, &dir)
	formatFlag(cmd, &format, "text", "json")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	return cmd
}

// showEvents shows what agents decided about the pairs that are meant, and with follow goes on.
func showEvents(ctx context.Context, e env, all map[string]*agent.Client, format string, follow bool,
	meant func(pair string) bool) error {
	evs, err := everywhere(ctx, e, all, func(ctx context.Context, c *agent.Client) ([]agent.Event, error) {
		return c.Events(ctx, 0, false)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(evs, func(a, b agent.Event) int { return a.At.Compare(b.At) })
	show := func(evs []agent.Event) error {
		return printEvents(e.stdout, format, slices.DeleteFunc(slices.Clone(evs),
			func(ev agent.Event) bool { return !meant(ev.Pair) }))
	}
	if err := show(evs); err != nil || !follow {
		return err
	}
	return followEvents(ctx, all, evs, show)
}

func printEvents(w io.Writer, format string, evs []agent.Event) error {
	for _, ev := range evs {
		if format == "json" {
			if err := writeLine(w, ev); err != nil {
				return err
			}
			continue
		}
		what := ev.Kind
		if ev.Class != "" {
			what += " of " + ev.Class
		}
		if ev.From != "" && ev.To != "" && ev.From != ev.To {
			what += " " + ev.From + " -> " + ev.To
		}
		extra := ""
		if ev.Detected > 0 {
			extra += fmt.Sprintf(", detected in %v", ev.Detected.Round(100*time.Microsecond))
		}
		if ev.Took > 0 {
			extra += fmt.Sprintf(", done in %v", ev.Took.Round(time.Microsecond))
		}
		if ev.PredictedGain != 0 {
			extra += fmt.Sprintf(", predicted %+.0f %%", ev.PredictedGain*100)
		}
		if ev.DryRun {
			extra += ", not done (--dry-run)"
		}
		if _, err := fmt.Fprintf(w, "%s %s %s %s: %s%s\n", ev.At.Local().Format("15:04:05.000"), ev.Host,
			cmp.Or(ev.Pair, "-"), what, ev.Reason, extra); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}

func followEvents(ctx context.Context, clients map[string]*agent.Client, seen []agent.Event,
	show func([]agent.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type news struct {
		evs []agent.Event
		err error
	}
	ch := make(chan news)
	for host, c := range clients {
		since := 0
		for _, ev := range seen {
			if ev.Host == host {
				since = max(since, ev.ID)
			}
		}
		go func() {
			for {
				evs, err := c.Events(ctx, since, true)
				for _, ev := range evs {
					since = max(since, ev.ID)
				}
				select {
				case ch <- news{evs, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	for left := len(clients); left > 0; {
		select {
		case <-ctx.Done():
			return nil
		case n := <-ch:
			if n.err != nil {
				if left--; left == 0 && ctx.Err() == nil {
					return fmt.Errorf("all agents have ended: %w", n.err)
				}
				continue
			}
			if err := show(n.evs); err != nil {
				return err
			}
		}
	}
	return nil
}
