package experiment

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Catalogue answers what there is to measure.
type Catalogue struct {
	// Network returns an error for a name that is no network.
	Network func(name string) error
	// Kernel returns an error for a name that is no kind of kernel.
	Kernel func(name string) error
	// Workload describes the workload called name, or returns an error.
	Workload func(name string) (workload.Info, error)
}

// Bounds of what an experiment may ask for.
const (
	maxWindows  = 100
	maxDuration = time.Hour
	maxBudget   = 30 * 24 * time.Hour
	minDuration = 100 * time.Millisecond
)

// defaults of an experiment file.
func defaults() (Repeat, workload.Window) {
	return Repeat{Min: 3, Max: 10, Width: 0.05}, workload.Window{Warmup: time.Second, Duration: 5 * time.Second}
}

// draft collects a file's keys until all are read: a workload's own keys
// override the experiment's, whichever comes first in the file.
type draft struct {
	exp       Experiment
	file      string
	catalogue Catalogue
	places    places
	window    workload.Window
	kernel    string
	entries   []config.Value
	claimed   []config.Value
	applied   []config.Value
	paper     *config.Value
	quick     *config.Value
	seen      map[sample.Cell]bool
}

// Parse reads an experiment; file stands in errors, and paths in the file are
// relative to its directory.
func Parse(file string, r io.Reader, c Catalogue) (Experiment, error) {
	root, err := config.Parse(file, r)
	if err != nil {
		return Experiment{}, err
	}
	d := &draft{file: file, catalogue: c, places: everywhere(), seen: map[sample.Cell]bool{}}
	d.exp.Repeat, d.window = defaults()
	err = root.Fields(d.places.fields(map[string]config.Field{
		"name":         d.name,
		"description":  text(&d.exp.Description),
		"networks":     d.networks,
		"kernel":       func(v config.Value) (err error) { d.kernel, err = d.kernelKind(v); return err },
		"workloads":    d.workloads,
		"claims":       d.claims,
		"applications": d.applications,
		"missing":      d.missing,
		"paper":        func(v config.Value) error { d.paper = &v; return nil },
		"quick":        func(v config.Value) error { d.quick = &v; return nil },
		"warmup":       duration(&d.window.Warmup, 0, maxDuration),
		"duration":     duration(&d.window.Duration, minDuration, maxDuration),
		"repetitions":  d.repetitions,
		"budget":       duration(&d.exp.Budget, time.Second, maxBudget),
	}, d.catalogue), "name", "networks", "workloads")
	if err != nil {
		return Experiment{}, err
	}
	for i := range d.exp.Networks {
		n := &d.exp.Networks[i]
		if n.Kernel == "" {
			n.Kernel = d.kernel
		}
		if slices.Contains(d.exp.Networks[:i], *n) {
			return Experiment{}, root.Errorf("network %q stands twice on the kernel %s", n.Name, n.Kernel)
		}
	}
	for _, v := range d.entries {
		if err := d.entry(v); err != nil {
			return Experiment{}, err
		}
	}
	return d.exp, d.document()
}

func (d *draft) name(v config.Value) (err error) {
	if d.exp.Name, err = v.Text(); err != nil {
		return err
	}
	if !isName(d.exp.Name) {
		return v.Errorf("%q: expected a name of letters, digits, dots, hyphens and underscores", d.exp.Name)
	}
	return nil
}

func isName(s string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(s)
}

func (d *draft) networks(v config.Value) error {
	items, err := v.Items()
	if err != nil {
		return err
	}
	for _, item := range items {
		n, err := d.network(item)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(d.exp.Networks, func(o Network) bool { return o.Name == n.Name && o.Kernel == n.Kernel }) {
			return item.Errorf("network %q stands twice", n.Name)
		}
		if err := d.catalogue.Network(n.Find); err != nil {
			return item.Wrap(err)
		}
		d.exp.Networks = append(d.exp.Networks, n)
	}
	return nil
}

// network reads a name, or {name: NAME, cni: FILE, route: ROUTE, kernel: KIND}.
func (d *draft) network(v config.Value) (Network, error) {
	if !v.IsMapping() {
		name, err := v.Text()
		return named(name), err
	}
	var n Network
	var l network.List
	err := v.Fields(map[string]config.Field{
		"name":   text(&n.Name),
		"cni":    text(&l.Path),
		"route":  route(&l.Route),
		"kernel": func(v config.Value) (err error) { n.Kernel, err = d.kernelKind(v); return err },
	}, "name")
	if err != nil {
		return n, err
	}
	if l.Path == "" && l.Route != network.RouteNone {
		return n, v.Errorf("route: expected cni: FILE with it, as networks of the catalogue have their own routes")
	}
	if l.Path == "" {
		kernel := n.Kernel
		n = named(n.Name)
		n.Kernel = kernel
		return n, nil
	}
	// Results keep the list under that name.
	if !isName(n.Name) {
		return n, v.Errorf("%q: expected a name of letters, digits, dots, hyphens and underscores", n.Name)
	}
	if !filepath.IsAbs(l.Path) {
		l.Path = filepath.Join(filepath.Dir(d.file), l.Path)
	}
	n.Find = l.String()
	return n, nil
}

// route reads who makes routes between the hosts' pods of a list.
func route(dst *network.Route) config.Field {
	return func(v config.Value) error {
		s, err := v.Text()
		if err == nil {
			*dst, err = network.ParseRoute(s)
		}
		return err
	}
}

// kernelKind reads where a network runs.
func (d *draft) kernelKind(v config.Value) (string, error) {
	kind, err := v.Text()
	if err == nil && d.catalogue.Kernel != nil {
		err = d.catalogue.Kernel(kind)
	}
	if err != nil {
		return "", v.Wrap(err)
	}
	return kind, nil
}

// workloads keeps the entries for later: they need the other keys.
func (d *draft) workloads(v config.Value) (err error) {
	d.entries, err = v.Items()
	return err
}

// MostRepetitions is the greatest number that can be asked for.
const MostRepetitions = 1000

// Exactly has every cell repeated n times.
func (r *Repeat) Exactly(n int) {
	r.Min, r.Max, r.Claims, r.Raced, r.Windows, r.Shared = n, n, 0, false, 0, false
}

func (d *draft) repetitions(v config.Value) error {
	if !v.IsMapping() {
		n, err := v.Int(1, MostRepetitions)
		d.exp.Repeat.Exactly(n)
		return err
	}
	r := &d.exp.Repeat
	err := v.Fields(map[string]config.Field{
		"min":     integer(&r.Min, 1, MostRepetitions),
		"max":     integer(&r.Max, 1, MostRepetitions),
		"claims":  integer(&r.Claims, 1, MostRepetitions),
		"width":   func(v config.Value) (err error) { r.Width, err = v.Percent(); return err },
		"until":   r.until,
		"windows": r.windows,
		"builds":  r.builds,
	})
	switch {
	case err == nil && r.Min > r.Max:
		return v.Errorf("min %d is above max %d", r.Min, r.Max)
	case err == nil && r.Claims > r.Max:
		return v.Errorf("claims %d is above max %d", r.Claims, r.Max)
	}
	return err
}

// What ends repetitions behind the least number.
const (
	untilWidth    = "width"
	untilVerdicts = "verdicts"
)

func (r *Repeat) until(v config.Value) error {
	what, err := v.Text()
	if err == nil && what != untilWidth && what != untilVerdicts {
		err = v.Errorf("%q: expected %s or %s", what, untilWidth, untilVerdicts)
	}
	r.Raced = what == untilVerdicts
	return err
}

// How networks are built.
const (
	buildsOwn    = "own"
	buildsShared = "shared"
)

func (r *Repeat) builds(v config.Value) error {
	what, err := v.Text()
	if err == nil && what != buildsOwn && what != buildsShared {
		err = v.Errorf("%q: expected %s, a build for each cell, or %s", what, buildsOwn, buildsShared)
	}
	r.Shared = what == buildsShared
	return err
}

// chosen is the number of windows that the run chooses.
const chosen = "auto"

func (r *Repeat) windows(v config.Value) (err error) {
	if s, textErr := v.Text(); textErr == nil && s == chosen {
		r.Windows = ChooseWindows
		return nil
	}
	r.Windows, err = v.Int(1, maxWindows)
	return err
}

func text(dst *string) config.Field {
	return func(v config.Value) (err error) { *dst, err = v.Text(); return err }
}

func integer(dst *int, low, high int) config.Field {
	return func(v config.Value) (err error) { *dst, err = v.Int(low, high); return err }
}

func duration(dst *time.Duration, low, high time.Duration) config.Field {
	return func(v config.Value) (err error) { *dst, err = v.Duration(low, high); return err }
}

func ints(dst *[]int, low, high int) config.Field {
	return list(dst, func(v config.Value) (int, error) { return v.Int(low, high) })
}

// list reads a value or a list of values without repeats.
func list[T comparable](dst *[]T, read func(config.Value) (T, error)) config.Field {
	return func(v config.Value) error {
		items, err := v.Items()
		if err != nil {
			return err
		}
		var out []T
		for _, item := range items {
			x, err := read(item)
			if err != nil {
				return item.Wrap(err)
			}
			if slices.Contains(out, x) {
				return item.Errorf("%v stands twice", x)
			}
			out = append(out, x)
		}
		*dst = out
		return nil
	}
}

// ErrNone: an experiment has nothing left to run.
var ErrNone = errors.New("nothing to measure")

// Check returns an error for an experiment in which no cell can run.
func Check(cells []Planned) error {
	for _, c := range cells {
		if c.Unsupported == "" {
			return nil
		}
	}
	if len(cells) == 0 {
		return ErrNone
	}
	return fmt.Errorf("%w: network %s: %s", ErrNone, cells[0].Network, cells[0].Unsupported)
}
