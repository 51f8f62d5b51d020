package experiment

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
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
	maxWindows = 100
	// MostRepetitions is the greatest number that can be asked for.
	MostRepetitions = 1000
	// The bounds of what a trial measures and of what a run may take, as the keys have them.
	LeastDuration, MostDuration = 100 * time.Millisecond, time.Hour
	LeastBudget, MostBudget     = time.Second, 720 * time.Hour
)

// draft is an experiment as far as it is read: keys are read in the order of the struct file,
// and what speaks of networks, workloads or the paper comes behind them.
type draft struct {
	exp       Experiment
	path      string
	catalogue Catalogue
	file      file
	// quick is the variant while its workloads are read.
	quick *variant
	// app is the application that is being read.
	app  *application.Application
	seen map[sample.Cell]bool
}

// Parse reads an experiment; path is where it is from, in errors, and paths in the file are
// relative to its directory.
func Parse(path string, r io.Reader, c Catalogue) (Experiment, error) {
	root, err := config.Parse(path, r)
	if err != nil {
		return Experiment{}, err
	}
	d := &draft{path: path, catalogue: c, seen: map[sample.Cell]bool{}, file: defaults()}
	if err := d.reader().Read(root, &d.file); err != nil {
		return Experiment{}, err
	}
	d.exp.Name, d.exp.Description, d.exp.Budget = d.file.Name, d.file.Description, d.file.Budget
	d.exp.Repeat, d.exp.SkipMissing = d.file.Repetitions.repeat(), d.file.Missing == skip
	if d.exp.Paper != nil {
		err = root.Key("paper").Wrap(d.exp.Paper.Check(d.exp.Claims))
	}
	return d.exp, err
}

// defaults is what holds for keys that the file does not have.
func defaults() file {
	return file{Warmup: time.Second, Duration: 5 * time.Second, Repetitions: repetitions{Min: 3, Max: 10, Width: 0.05},
		Places: places{Topologies: []topo.Placement{topo.TwoHosts}, Pairs: []int{1}, MTU: []int{topo.DefaultMTU}}}
}

// reader reads an experiment into the draft.
func (d *draft) reader() config.Reader {
	r := config.Reader{Kinds: d.kinds()}
	config.Around(&r, d.network)
	config.Around(&r, d.repetitions)
	config.Around(&r, d.entry)
	config.Around(&r, d.variant)
	config.Around(&r, d.study)
	config.Around(&r, d.view)
	config.Around(&r, d.application)
	config.Around(&r, d.part)
	config.Around(&r, d.bound)
	config.Around(&r, d.claim)
	config.Around(&r, d.optimum)
	return r
}

// network reads a name, or {name: NAME, cni: FILE, route: ROUTE, kernel: KIND}.
func (d *draft) network(v config.Value, in *custom, read func() error) error {
	if err := read(); err != nil {
		return err
	}
	n := named(in.Name)
	badName := config.CheckName(in.Name)
	switch {
	case in.CNI == "" && in.Route != "":
		return v.Errorf("route: expected cni: FILE with it, as networks of the catalogue have their own routes")
	case in.CNI != "" && in.Name == "host":
		return v.Errorf("name: a list cannot be called host, as the baseline is: expected another name")
	case in.CNI != "" && badName != nil: // results keep the list under that name
		return v.Wrap(badName)
	case in.CNI != "":
		l := network.List{Path: d.relative(in.CNI), Route: network.Route(in.Route)}
		n = Network{Name: in.Name, Find: l.String()}
	}
	on := ""
	if n.Kernel = in.Kernel; n.Kernel == "" && d.file.Kernel != "" || d.file.Kernel != "" && n.Kernel == d.file.Kernel {
		n.Kernel, on = d.file.Kernel, " on the kernel "+d.file.Kernel
	}
	if slices.ContainsFunc(d.exp.Networks, func(o Network) bool { return o.Name == n.Name && o.Kernel == n.Kernel }) {
		return v.Errorf("network %q is given twice%s", n.Name, on)
	}
	d.exp.Networks = append(d.exp.Networks, n)
	return v.Wrap(d.catalogue.Network(n.Find))
}

// relative is a path that the file has, which is relative to its directory.
func (d *draft) relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(d.path), path)
}

// Exactly has every cell repeated n times.
func (r *Repeat) Exactly(n int) {
	r.Min, r.Max, r.Claims, r.Raced, r.Windows, r.Shared = n, n, 0, false, 0, false
}

func (d *draft) repetitions(v config.Value, r *repetitions, read func() error) error {
	err := read()
	switch {
	case err != nil:
		return err
	case !v.IsMapping():
		*r = repetitions{Min: r.Min, Max: r.Min, Width: r.Width}
	case r.Min > r.Max:
		return v.Errorf("min %d is above max %d", r.Min, r.Max)
	case r.Claims > r.Max:
		return v.Errorf("claims %d is above max %d", r.Claims, r.Max)
	}
	return nil
}

func (r repetitions) repeat() Repeat {
	return Repeat{Min: r.Min, Max: r.Max, Claims: r.Claims, Width: float64(r.Width), Raced: r.Until == untilVerdicts,
		Windows: int(r.Windows), Shared: r.Builds == buildsShared}
}

// variant reads the quick variant: the file's own keys of the same names, where it has them,
// replaced.
func (d *draft) variant(_ config.Value, q *variant, read func() error) error {
	*q = variant{Topologies: d.file.Places.Topologies, Warmup: d.file.Warmup, Duration: d.file.Duration,
		Repetitions: d.file.Repetitions}
	whole, seen := d.exp.Entries, d.seen
	d.exp.Entries, d.seen, d.quick = nil, map[sample.Cell]bool{}, q
	err := read()
	d.exp.Quick = &Variant{Entries: d.exp.Entries, Repeat: q.Repetitions.repeat(), Budget: q.Budget}
	d.exp.Entries, d.seen, d.quick = whole, seen, nil
	return err
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
