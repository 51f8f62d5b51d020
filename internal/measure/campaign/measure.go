package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/custom"
	"pathwise.dev/pathwise/internal/lab/rootless"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
)

// Target is where a campaign's result goes.
type Target struct {
	// Dir is the result directory: a new one, or where Resume is set that of a run
	// that ended early.
	Dir    string
	Resume bool
	// Seed of a new result's random order.
	Seed uint64
}

// Measure carries the campaign out. The result directory that it returns is "" where it
// could not be opened; else every trial that has ended is in it, also when there is an error.
func (c *Campaign) Measure(ctx context.Context, t Target, p Progress) (dir string, err error) {
	out, err := c.open(ctx, t)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	fmt.Fprintf(c.Log, "experiment %s, seed %d, result in %s\n", c.exp.Name, out.Seed, out.Dir)
	for _, w := range c.warnings() {
		fmt.Fprintln(c.Log, w.Text)
	}
	footer, err := c.measure(ctx, out, p)
	p.Clear()
	if err != nil {
		return out.Dir, err
	}
	return out.Dir, out.Log.Footer(footer)
}

// warnings are what a reader is to know of the whole campaign.
func (c *Campaign) warnings() []sample.Warning {
	return slices.Concat(rootlessWarning(), c.siteWarning(), c.kernelWarnings(), c.lacks)
}

// open makes the result directory, or opens that of an unfinished run.
func (c *Campaign) open(ctx context.Context, t Target) (*result.Run, error) {
	if t.Resume {
		return result.Resume(t.Dir)
	}
	plan := result.Plan{Networks: map[string][]byte{}, Machine: machine.Read(ctx, lab.DefaultCNIPath(c.Self))}
	for _, n := range c.exp.Networks {
		l, ok, err := network.ParseList(n.Find)
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", n.Name, err)
		}
		if !ok {
			continue
		}
		raw, err := custom.Read(l.Path)
		if err != nil {
			return nil, err
		}
		plan.Networks[n.Name+".conflist"] = raw
	}
	exp, profiles, err := takeProfiles(c.exp, c.Getenv)
	if err != nil {
		return nil, err
	}
	plan.Profiles = profiles
	var text bytes.Buffer
	if err := exp.Encode(&text, func(n experiment.Network) string {
		return filepath.Join(result.NetworksDir, n.Name+".conflist")
	}); err != nil {
		return nil, err
	}
	plan.Experiment = text.Bytes()
	plan.Header = sample.Header{Experiment: c.exp.Name, Seed: t.Seed, Raced: c.exp.Repeat.Raced,
		Warnings: slices.Concat(Busy(plan.Machine.Load, plan.Machine.CPU.Online), c.warnings())}
	for _, g := range c.groups {
		plan.Header.Planned += g.least()
	}
	return result.Create(t.Dir, plan)
}

// Busy warns about a machine that does other work when a run starts.
func Busy(load float64, online string) []sample.Warning {
	const much = 1.0
	if load < much {
		return nil
	}
	text := fmt.Sprintf("the machine (CPUs %s) had a load average of %.1f when the run started", online, load)
	return []sample.Warning{{Gate: "busy", Text: text}}
}

// siteWarning tells a reader that what is said of the machine is not of that which was measured.
func (c *Campaign) siteWarning() []sample.Warning {
	if c.Site == nil {
		return nil
	}
	return []sample.Warning{{Gate: "cluster",
		Text: "measured between nodes of a cluster, on its networks as they are: the machine that is described is the one where the command ran"}}
}

// rootlessWarning tells a reader that figures were measured without root.
func rootlessWarning() []sample.Warning {
	if !rootless.Inside() {
		return nil
	}
	return []sample.Warning{{Gate: "rootless", Text: "measured in a user namespace, without the machine's root"}}
}

// measure runs the groups one after the other: nothing is compared across
// kernels, so that their trials need not be mixed.
func (c *Campaign) measure(ctx context.Context, out *result.Run, p Progress) (sample.Footer, error) {
	var total sample.Footer
	for _, t := range out.Done {
		c.order = max(c.order, t.Order)
	}
	for i, g := range c.groups {
		watch := c.shifted(p, total.Trials, c.groups[i+1:], out.Done)
		var footer sample.Footer
		var err error
		if g.label != "" && g.nowhere == "" {
			footer, err = c.onGuest(ctx, out, g, watch, p.Clear)
		} else {
			footer, err = c.onHost(ctx, out, g, watch)
		}
		if err != nil {
			return total, err
		}
		total.Trials += footer.Trials
		total.Wall += footer.Wall
		total.Warnings = append(total.Warnings, footer.Warnings...)
	}
	return total, nil
}

// doneOn returns the trials of earlier sessions on the group's kernel.
func doneOn(trials []sample.Trial, label string) []sample.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t sample.Trial) bool { return t.Scenario.Kernel != label })
}

// onHost runs a group on the host's kernel, or records of one whose kernel
// cannot be booted that it cannot run.
func (c *Campaign) onHost(ctx context.Context, out *result.Run, g group,
	watch func(bench.Event)) (sample.Footer, error) {
	b := c.config(g, out.Seed, doneOn(out.Done, g.label), out.Log, watch)
	b.After = c.order
	if c.Explain {
		b.Explain = out.Profile
	}
	return bench.Run(ctx, b)
}

// config is what bench is to do for a group.
func (c *Campaign) config(g group, seed uint64, done []sample.Trial, log *sample.Writer,
	watch func(bench.Event)) bench.Config {
	return bench.Config{
		VMs:        hypervisors(g.vms),
		Site:       c.Site,
		Experiment: g.exp, Networks: g.networks, Workloads: c.workloads, Seed: seed, Store: c.Store,
		Lab: lab.Options{CNIPath: lab.DefaultCNIPath(c.Self), Owned: true, Self: c.Self},
		Log: log, Done: done, Observe: watch, Now: c.Now, Doubts: doubts(g.exp.Claims),
	}
}

// doubts has a run race for verdicts: measuring knows no claims, and is told which cells
// want more repetitions.
func doubts(claims []claim.Claim) func([]sample.Trial) []bench.Doubt {
	return func(trials []sample.Trial) (out []bench.Doubt) {
		for _, d := range claim.Doubts(claims, trials, bench.Level) {
			out = append(out, bench.Doubt(d))
		}
		return out
	}
}

// shifted shows a group's progress as a part of the whole run's: before is the
// number of trials of earlier groups, rest are the later ones.
func (c *Campaign) shifted(p Progress, before int, rest []group, done []sample.Trial) func(bench.Event) {
	var after int
	var left time.Duration
	for _, g := range rest {
		after += max(g.least(), len(doneOn(done, g.label)))
		left += g.shortest()
	}
	return func(e bench.Event) {
		if e.Ended {
			c.order = max(c.order, e.Trial.Order)
		}
		e.Done += before
		e.Total += before + after
		e.Left += left
		p.Observe(e)
	}
}
