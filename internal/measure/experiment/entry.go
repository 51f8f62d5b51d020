package experiment

import (
	"path/filepath"
	"regexp"
	"slices"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// entry reads one workload: its name alone, or its keys.
func (d *draft) entry(v config.Value) error {
	e := Entry{Window: d.window}
	at := d.places
	var load config.Value
	hasLoad := false
	var err error
	if v.IsMapping() {
		err = v.Fields(at.fields(map[string]config.Field{
			"name":     text(&e.Workload),
			"warmup":   duration(&e.Window.Warmup, 0, maxDuration),
			"duration": duration(&e.Window.Duration, minDuration, maxDuration),
			"networks": d.networkNames(&e.Networks),
			"kernels":  list(&e.Kernels, d.kernelKind),
			"load":     func(v config.Value) error { load, hasLoad = v, true; return nil },
			"server":   text(&e.Server),
			"profile":  text(&e.Profile),
		}, d.catalogue), "name")
	} else {
		e.Workload, err = v.Text()
	}
	if err != nil {
		return err
	}
	info, err := d.find(v, &e)
	if err != nil {
		return err
	}
	if e.Server != "" && info.Server == "" {
		return v.Errorf("server: workload %s has no choice of one", e.Workload)
	}
	if e.Window.Duration < info.MinDuration {
		return v.Errorf("duration %v: workload %s needs %v at least", e.Window.Duration, e.Workload, info.MinDuration)
	}
	if !info.Pairs && !slices.Equal(at.pairs, []int{1}) {
		return v.Errorf("pairs: workload %s runs on one pair of pods", e.Workload)
	}
	e.Beside, e.OnlyIPv4 = info.Beside, info.OnlyIPv4
	e.Loads = []sample.Load{info.Fill(sample.Load{})}
	if hasLoad {
		if e.Loads, err = loads(load, info); err != nil {
			return err
		}
	}
	if e.Scenarios, err = at.scenarios(); err != nil {
		return v.Wrap(err)
	}
	return d.add(v, e)
}

// find looks the entry's workload up. Its profile is a file, and gives it a name.
func (d *draft) find(v config.Value, e *Entry) (workload.Info, error) {
	switch {
	case e.Profile == "" && e.Workload == Profiled:
		return workload.Info{}, v.Errorf("workload %s: expected a profile, the XML file that it is to run", Profiled)
	case e.Profile != "" && e.Workload != Profiled:
		return workload.Info{}, v.Errorf("profile: workload %s takes none; %s does", e.Workload, Profiled)
	case e.Profile != "" && !filepath.IsAbs(e.Profile):
		e.Profile = filepath.Join(filepath.Dir(d.file), e.Profile)
	}
	info, err := d.catalogue.Workload(e.Find())
	if err != nil {
		return info, v.Wrap(err)
	}
	if e.Profile != "" {
		e.Workload = info.Name
	}
	return info, nil
}

// workload returns what is known of the workload that an entry has the name of, or of
// one that only the catalogue knows.
func (d *draft) workload(name string) (workload.Info, error) {
	for _, e := range d.exp.Entries {
		if e.Workload == name {
			return d.catalogue.Workload(e.Find())
		}
	}
	return d.catalogue.Workload(name)
}

// add appends an entry; the same question must not stand twice.
func (d *draft) add(v config.Value, e Entry) error {
	for _, s := range e.Scenarios {
		for _, l := range e.Loads {
			for _, n := range d.askedOf(e) {
				key := sample.Cell{Network: n, Scenario: s, Workload: e.Workload, Load: l}
				if d.seen[key] {
					return v.Errorf("%s stands twice", key.Question())
				}
				d.seen[key] = true
			}
		}
	}
	d.exp.Entries = append(d.exp.Entries, e)
	return nil
}

// askedOf lists the networks that a workload is put to, with the kernels where it
// names some.
func (d *draft) askedOf(e Entry) (out []string) {
	for _, n := range d.exp.Networks {
		if len(e.Networks) == 0 || slices.Contains(e.Networks, n.Name) {
			for _, k := range orZero(e.Kernels) {
				out = append(out, n.Name+" "+n.Kernel+" "+k)
			}
		}
	}
	return out
}

// loads reads {connections: [1, 8], size: 64}, which is every combination of the
// knobs, or a list of such.
func loads(v config.Value, info workload.Info) ([]sample.Load, error) {
	items, err := v.Items()
	if err != nil {
		return nil, err
	}
	var out []sample.Load
	for _, item := range items {
		combos, err := combinations(item)
		if err != nil {
			return nil, err
		}
		for _, l := range combos {
			if err := info.Check(l); err != nil {
				return nil, item.Wrap(err)
			}
			if l = info.Fill(l); slices.Contains(out, l) {
				return nil, item.Errorf("load %v stands twice", l)
			}
			out = append(out, l)
		}
	}
	return out, nil
}

func combinations(v config.Value) ([]sample.Load, error) {
	var conns, sizes []int
	var rates []float64
	var congestions []string
	const unbounded = 1 << 30
	err := v.Fields(map[string]config.Field{
		"connections": ints(&conns, 1, unbounded),
		"size":        list(&sizes, func(v config.Value) (int, error) { return v.Size(1, unbounded) }),
		"rate":        list(&rates, func(v config.Value) (float64, error) { return v.Rate(1e12) }),
		"congestion":  list(&congestions, congestion),
	})
	if err != nil {
		return nil, err
	}
	var out []sample.Load
	for _, c := range orZero(conns) {
		for _, s := range orZero(sizes) {
			for _, r := range orZero(rates) {
				for _, k := range orZero(congestions) {
					out = append(out, sample.Load{Connections: c, Size: s, Rate: r, Congestion: k})
				}
			}
		}
	}
	return out, nil
}

// congestion reads the name of a congestion control, as the kernel would take it
// (TCP_CA_NAME_MAX). Which ones there are, it alone knows.
func congestion(v config.Value) (string, error) {
	name, err := v.Text()
	if err == nil && !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,14}$`).MatchString(name) {
		err = v.Errorf("%q: expected the name of a congestion control, such as cubic or bbr", name)
	}
	return name, err
}

// orZero gives a knob that is not set its zero value once.
func orZero[T any](values []T) []T {
	if len(values) == 0 {
		return make([]T, 1)
	}
	return values
}
