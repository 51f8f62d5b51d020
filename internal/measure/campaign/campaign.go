// Package campaign carries an experiment out: it chooses the kernel that each network
// runs on, splits the experiment into a part for each kernel, has each measured, on the
// host's kernel by bench and on a guest's by a pathwise inside the guest, and puts what
// comes of it into one result, also of a run that goes on where another ended.
//
// It must not know command lines, terminals or rankings: they are its caller's.
package campaign

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/lab/vm"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Auto leaves the choice of kernels to the campaign.
const Auto = "auto"

// Config is what a campaign may use of the machine.
type Config struct {
	// Self is the pathwise executable, and Store where its labs are recorded.
	Self  string
	Store lab.Store
	// Now is the clock.
	Now func() time.Time
	// Log takes what a user is told, in whole lines.
	Log io.Writer
	// Kernels knows on which kernel a network works.
	Kernels *Kernels
	// Site is where labs are in place of this machine, and Network finds the networks there; nil:
	// here, and those of the catalogue.
	Site    bench.Site
	Network func(name string) (network.Network, error)
	// Workload finds the workload that an experiment calls so.
	Workload func(name string) (workload.Workload, error)
	// VM describes virtual machines of a kind of kernel; "" is the best there is.
	VM func(kind string) (vm.Config, error)
	// Command is the arguments by which Self, in the guest called label, does the guest's
	// part of the campaign whose result is in dir: it calls Inside.
	Command func(label, dir string) []string
	// Explain: look inside each trial's window.
	Explain bool
	// Getenv looks up a variable of the environment, for profiles of uperf's.
	Getenv func(string) string
}

// Progress is told where a campaign is.
type Progress interface {
	// Observe is told of each step, counted over all parts.
	Observe(bench.Event)
	// Clear takes away what is shown, so that a line can be written.
	Clear()
}

// Campaign is one experiment that is carried out.
type Campaign struct {
	Config
	exp       experiment.Experiment
	networks  map[string]network.Network
	workloads map[string]workload.Workload
	// groups are the parts of the experiment by kernel, and moved the networks for
	// which a guest was chosen.
	groups []group
	moved  []moved
	// lacks says which workloads are left out for want of what they need.
	lacks []sample.Warning
	// order is that of the last trial.
	order int
	// inside: this is the part that a guest does.
	inside bool
}

// New returns a campaign that is yet to be planned.
func New(cfg Config, exp experiment.Experiment) *Campaign {
	return &Campaign{Config: cfg, exp: exp, networks: map[string]network.Network{},
		workloads: map[string]workload.Workload{}}
}

// Plan finds what the experiment names, and chooses the kernels: kernel is where networks
// run that do not say, Auto, guest.Host or a kind of guest.
func (c *Campaign) Plan(ctx context.Context, kernel string) error {
	if err := c.find(); err != nil {
		return err
	}
	if err := c.choose(ctx, kernel); err != nil {
		return err
	}
	c.baselines()
	c.leaveOut()
	c.exp.Claims = c.exp.Answerable()
	return c.Continue(ctx)
}

// Continue plans what a result holds, whose kernels and baselines were chosen when it
// was begun.
func (c *Campaign) Continue(ctx context.Context) error {
	if err := c.find(); err != nil { // the baselines too
		return err
	}
	if err := c.group(ctx); err != nil {
		return err
	}
	return experiment.Check(c.Cells())
}

// Experiment is what is carried out, as it is planned.
func (c *Campaign) Experiment() experiment.Experiment { return c.exp }

// Cells are those of all parts.
func (c *Campaign) Cells() (out []experiment.Planned) {
	for _, g := range c.groups {
		out = append(out, g.cells...)
	}
	return out
}

// find takes the experiment's networks and workloads from the catalogues.
func (c *Campaign) find() error {
	for _, n := range c.exp.Networks {
		find := catalogue.Find
		if c.Network != nil {
			find = c.Network
		}
		net, err := find(n.Find)
		if err != nil {
			return err
		}
		c.networks[n.Name] = network.Named(net, n.Name)
	}
	for _, entry := range c.exp.Entries {
		w, err := c.served(entry)
		if err != nil {
			return err
		}
		c.workloads[entry.Workload] = w
	}
	return nil
}

// served is the workload of an entry, with the server that the entry names.
func (c *Campaign) served(entry experiment.Entry) (workload.Workload, error) {
	differs := func(o experiment.Entry) bool { return o.Workload == entry.Workload && o.Server != entry.Server }
	if i := slices.IndexFunc(c.exp.Entries, differs); i >= 0 {
		return nil, fmt.Errorf("workload %s has the servers %q and %q: results could not tell them apart",
			entry.Workload, entry.Server, c.exp.Entries[i].Server)
	}
	w, err := c.Workload(entry.Find())
	if err != nil || entry.Server == "" {
		return w, err
	}
	s, ok := w.(workload.Served)
	if !ok {
		return nil, fmt.Errorf("workload %s has no choice of a server", entry.Workload)
	}
	if w, err = s.With(entry.Server); err != nil {
		return nil, fmt.Errorf("workload %s: %w", entry.Workload, err)
	}
	return w, nil
}

// Ready checks that everything the campaign needs is there, before anything is made.
func (c *Campaign) Ready(ctx context.Context) error {
	if c.Site != nil {
		return nil // who made it has looked
	}
	for _, g := range c.groups {
		if err := c.readyOn(ctx, g); err != nil {
			return err
		}
	}
	for name := range c.workloads {
		if miss := c.Kernels.host.Missing(c.needs(name)); len(miss) > 0 {
			return network.CannotRun("workload "+name, miss)
		}
	}
	return nil
}
