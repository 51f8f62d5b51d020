package experiment

import (
	"slices"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// entry reads one workload: its name alone, or its keys.
func (d *draft) entry(v config.Value, in *entry, read func() error) error {
	*in = entry{Places: d.file.Places, Warmup: d.file.Warmup, Duration: d.file.Duration}
	if q := d.quick; q != nil {
		in.Places.Topologies, in.Warmup, in.Duration = q.Topologies, q.Warmup, q.Duration
	}
	if err := read(); err != nil {
		return err
	}
	e := Entry{Workload: in.Name, Server: in.Server, Profile: in.Profile, Networks: in.Networks, Kernels: in.Kernels,
		Window: workload.Window{Warmup: in.Warmup, Duration: in.Duration}}
	info, err := d.find(v, &e)
	switch {
	case err != nil:
		return err
	case e.Server != "" && info.Server == "":
		return v.Errorf("server: workload %s has no choice of one", e.Workload)
	case e.Window.Duration < info.MinDuration:
		return v.Errorf("duration %v: workload %s needs %v at least", e.Window.Duration, e.Workload, info.MinDuration)
	case !info.Pairs && !slices.Equal(in.Places.Pairs, []int{1}):
		return v.Errorf("pairs: workload %s runs on one pair of pods", e.Workload)
	}
	e.Extra, e.OnlyIPv4 = info.Extra, info.OnlyIPv4
	e.Loads = []sample.Load{info.Fill(sample.Load{})}
	if len(in.Load) > 0 {
		if e.Loads, err = loads(v.Key("load"), in.Load, info); err != nil {
			return err
		}
	}
	if e.Scenarios, err = in.Places.scenarios(); err != nil {
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
	case e.Profile != "":
		e.Profile = d.relative(e.Profile)
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

// add appends an entry; the same question must not be given twice.
func (d *draft) add(v config.Value, e Entry) error {
	for _, s := range e.Scenarios {
		for _, l := range e.Loads {
			for _, n := range d.askedOf(e) {
				key := sample.Cell{Network: n, Scenario: s, Workload: e.Workload, Load: l}
				if d.seen[key] {
					return v.Errorf("%s is given twice", key.Question())
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

// loads are the combinations of each of several loads, which the workload must have.
func loads(v config.Value, in []load, info workload.Info) (out []sample.Load, err error) {
	items, err := v.Items()
	for i, item := range items {
		for _, l := range in[i].combinations() {
			if err := info.Check(l); err != nil {
				return nil, item.Wrap(err)
			}
			if l = info.Fill(l); slices.Contains(out, l) {
				return nil, item.Errorf("load %v is given twice", l)
			}
			out = append(out, l)
		}
	}
	return out, err
}

func (in load) combinations() (out []sample.Load) {
	for _, c := range orZero(in.Connections) {
		for _, s := range orZero(in.Size) {
			for _, r := range orZero(in.Rate) {
				for _, k := range orZero(in.Congestion) {
					out = append(out, sample.Load{Connections: c, Size: s, Rate: r, Congestion: k})
				}
			}
		}
	}
	return out
}

// orZero gives a knob that is not set its zero value once.
func orZero[T any](values []T) []T {
	if len(values) == 0 {
		return make([]T, 1)
	}
	return values
}
