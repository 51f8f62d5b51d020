package drill

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/config"
)

// File is a file of drills.
type File struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Networks    []string `json:"networks"`
	Drills      []Entry  `json:"drills"`
}

// Entry is one drill of a file.
type Entry struct {
	// Name is the drill's, or the entry's own where a drill stands twice.
	Name string `json:"name"`
	// Drill is the kind.
	Drill string `json:"drill"`
	Options
}

// Options of all drills; each uses some of them.
type Options struct {
	Repetitions int `json:"repetitions"`
	// Switches of one repetition, at this interval.
	Switches int           `json:"switches,omitempty"`
	Interval time.Duration `json:"interval_ns,omitempty"`
	// Inserts are request-response operations, with Work of CPU time between them.
	Inserts int           `json:"inserts,omitempty"`
	Work    time.Duration `json:"work_ns,omitempty"`
	// Workload is what an operation is: one of MongoDB's; "" for a bare round trip.
	Workload string `json:"workload,omitempty"`
	// Server is the command line of a server for it, with ${PORT} and ${DIR}; "" is
	// Pathwise's own.
	Server string `json:"server,omitempty"`
	// For is how long traffic of one variant runs; Hold how long a fault stands.
	For  time.Duration `json:"for_ns,omitempty"`
	Hold time.Duration `json:"hold_ns,omitempty"`
	// Encapsulate has steered packets go in UDP.
	Encapsulate bool `json:"encapsulate,omitempty"`
	// Traffic and Faults name variants.
	Traffic []string `json:"traffic,omitempty"`
	Faults  []string `json:"faults,omitempty"`
	// Capacity of the best network in bit/s, where the drill shapes the uplink.
	Capacity float64 `json:"capacity,omitempty"`
	// Phases of a schedule.
	Phases int `json:"phases,omitempty"`
	// Peers are numbers of peers; Hosts is the number of hosts in the large lab.
	Peers []int `json:"peers,omitempty"`
	Hosts int   `json:"hosts,omitempty"`
	// Kills of one repetition.
	Kills int `json:"kills,omitempty"`
	// Probes thrown of each sort.
	Probes int `json:"probes,omitempty"`
}

// Parse reads a file of drills; file stands in errors. network returns an error
// for a name that is no network.
func Parse(file string, r io.Reader, network func(name string) error) (File, error) {
	root, err := config.Parse(file, r)
	if err != nil {
		return File{}, err
	}
	f := File{Networks: []string{"routed-bgp", "vxlan", "macvlan"}}
	err = root.Fields(map[string]config.Field{
		"name": func(v config.Value) error { return name(v, &f.Name) },
		"description": func(v config.Value) (err error) {
			f.Description, err = v.Text()
			return err
		},
		"networks": func(v config.Value) error { return f.networks(v, network) },
		"drills":   f.drills,
	}, "name", "drills")
	return f, err
}

func name(v config.Value, dst *string) (err error) {
	if *dst, err = v.Text(); err != nil {
		return err
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(*dst) {
		return v.Errorf("%q: expected a name of letters, digits, dots, hyphens and underscores", *dst)
	}
	return nil
}

func (f *File) networks(v config.Value, known func(string) error) error {
	all, err := texts(v, nil)
	if err != nil {
		return err
	}
	if len(all) < 2 {
		return v.Errorf("expected two networks or more: there is nothing to move between")
	}
	for i, n := range all {
		if slices.Contains(all[:i], n) {
			return v.Errorf("network %q stands twice", n)
		}
		if err := known(n); err != nil {
			return v.Wrap(err)
		}
	}
	f.Networks = all
	return nil
}

func (f *File) drills(v config.Value) error {
	items, err := v.Items()
	if err != nil {
		return err
	}
	for _, item := range items {
		e, err := entry(item)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(f.Drills, func(o Entry) bool { return o.Name == e.Name }) {
			return item.Errorf("drill %q stands twice: give one of them a name", e.Name)
		}
		f.Drills = append(f.Drills, e)
	}
	return nil
}

// entry reads {drill: NAME, ...options}, or a name alone.
func entry(v config.Value) (Entry, error) {
	var e Entry
	var k kind
	find := func(v config.Value) (err error) {
		if e.Drill, err = v.Text(); err != nil {
			return err
		}
		if k, err = findKind(e.Drill); err != nil {
			return v.Wrap(err)
		}
		e.Name = e.Drill
		return nil
	}
	if !v.IsMapping() {
		if err := find(v); err != nil {
			return e, err
		}
		e.Options = k.defaults
		return e, nil
	}
	// Twice: the kind says which options there are and what they are by default.
	ignore := func(config.Value) error { return nil }
	fields := map[string]config.Field{"drill": find, "name": ignore}
	for key := range e.Options.fields() {
		fields[key] = ignore
	}
	if err := v.Fields(fields, "drill"); err != nil {
		return e, err
	}
	e.Options = k.defaults
	fields = map[string]config.Field{"drill": ignore, "name": func(v config.Value) error { return name(v, &e.Name) }}
	for key, field := range e.Options.fields() {
		if key == "repetitions" || slices.Contains(k.keys, key) {
			fields[key] = field
			continue
		}
		fields[key] = func(v config.Value) error {
			return v.Errorf("drill %s has no option %q: expected repetitions%s", k.name, key, list(k.keys))
		}
	}
	if err := v.Fields(fields); err != nil {
		return e, err
	}
	if e.Workload != "" && e.Work > 0 {
		return e, v.Errorf("work: stands beside workload %s, which has its own: expected one or the other", e.Workload)
	}
	if e.Server != "" && e.Workload == "" {
		return e, v.Errorf("server: %q serves documents: expected a workload beside it, one of %s", e.Server,
			strings.Join(documentWorkloads(), ", "))
	}
	return e, nil
}

func list(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return ", " + strings.Join(keys, ", ")
}

// fields reads options by key.
func (o *Options) fields() map[string]config.Field {
	count := func(dst *int, low, high int) config.Field {
		return func(v config.Value) (err error) { *dst, err = v.Int(low, high); return err }
	}
	span := func(dst *time.Duration, low, high time.Duration) config.Field {
		return func(v config.Value) (err error) { *dst, err = v.Duration(low, high); return err }
	}
	words := func(dst *[]string, known ...string) config.Field {
		return func(v config.Value) (err error) { *dst, err = texts(v, known); return err }
	}
	return map[string]config.Field{
		"repetitions": count(&o.Repetitions, 1, 10000),
		"switches":    count(&o.Switches, 1, 1e6),
		"interval":    span(&o.Interval, 100*time.Microsecond, time.Minute),
		"inserts":     count(&o.Inserts, 10, 1e7),
		"work":        span(&o.Work, 0, time.Second),
		"workload": func(v config.Value) (err error) {
			if o.Workload, err = v.Text(); err == nil && !slices.Contains(documentWorkloads(), o.Workload) {
				err = v.Errorf("workload %q: expected one of %s", o.Workload, strings.Join(documentWorkloads(), ", "))
			}
			return err
		},
		"server": func(v config.Value) (err error) {
			if o.Server, err = v.Text(); err == nil && strings.TrimSpace(o.Server) == "" {
				err = v.Errorf("expected a command line, such as mongod")
			}
			return err
		},
		"encapsulate": func(v config.Value) (err error) { o.Encapsulate, err = v.Bool(); return err },
		"for":         span(&o.For, 100*time.Millisecond, 24*time.Hour),
		"hold":        span(&o.Hold, 100*time.Millisecond, time.Minute),
		"traffic":     words(&o.Traffic, "tcp", "rr", "mix", "udp"),
		"faults":      words(&o.Faults, "both", "in", "out", "pod", "pod-in", "pod-out", "mptcp"),
		"capacity":    func(v config.Value) (err error) { o.Capacity, err = v.Rate(1e12); return err },
		"phases":      count(&o.Phases, 1, 1000),
		"peers": func(v config.Value) error {
			items, err := v.Items()
			o.Peers = nil
			for _, item := range items {
				n, itemErr := item.Int(1, 1024)
				if itemErr != nil {
					return itemErr
				}
				o.Peers = append(o.Peers, n)
			}
			return err
		},
		"hosts":  count(&o.Hosts, 0, 64),
		"kills":  count(&o.Kills, 1, 10000),
		"probes": count(&o.Probes, 1, 1e6),
	}
}

// texts reads words, each of them known where known is not nil.
func texts(v config.Value, known []string) ([]string, error) {
	items, err := v.Items()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, item := range items {
		t, err := item.Text()
		if err != nil {
			return nil, err
		}
		if known != nil && !slices.Contains(known, t) {
			return nil, item.Errorf("%q: expected one of %s", t, strings.Join(known, ", "))
		}
		out = append(out, t)
	}
	return out, nil
}

// Only returns the file with the named drills alone; none keeps all.
func (f File) Only(names []string) (File, error) {
	if len(names) == 0 {
		return f, nil
	}
	all := f.Drills
	f.Drills = nil
	for _, n := range names {
		i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == n })
		if i < 0 {
			return f, fmt.Errorf("no drill %q in %s: expected one of %s", n, f.Name, strings.Join(entryNames(all), ", "))
		}
		f.Drills = append(f.Drills, all[i])
	}
	return f, nil
}

func entryNames(all []Entry) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.Name)
	}
	return out
}
