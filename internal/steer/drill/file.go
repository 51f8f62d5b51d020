package drill

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// File is a file of drills.
type File struct {
	Name        string   `json:"name" yaml:"name" is:"name" key:"needed" doc:"name of the file's results"`
	Description string   `json:"description" yaml:"description" doc:"one line that says what the drills are for" default:"none"`
	Networks    []string `json:"networks" yaml:"networks" is:"network" doc:"two networks or more, the default one first"`
	// Family is that of the traffic: 0 or 4, or 6.
	Family int `json:"family,omitempty" yaml:"family" is:"ip" doc:"IP family of the traffic" default:"4"`
	// Congestion is the congestion control of TCP in all pods; "" is that of all workloads, where the kernel allows it.
	Congestion string  `json:"congestion,omitempty" yaml:"congestion" is:"congestion" doc:"congestion control of TCP in all pods" default:"cubic, if the kernel allows it to pods"`
	Drills     []Entry `json:"drills" yaml:"drills" key:"needed" doc:"drills, in the order in which they run"`
}

// Entry is one drill of a file.
type Entry struct {
	// Name is the drill's, or the entry's own where a drill is given twice.
	Name string `json:"name" yaml:"name" is:"name" doc:"name of its own, if a drill is listed twice" default:"the drill's name"`
	// Drill is the kind.
	Drill   string `json:"drill" yaml:"drill" is:"drill" key:"needed,alone" doc:"what is done"`
	Options `yaml:",inline" default:"the drill's own"`
}

// Options of all drills; each uses some of them. JSON has them in nanoseconds.
type Options struct {
	Repetitions int `json:"repetitions" yaml:"repetitions" is:"1..10000" doc:"how often it is done"`
	// Switches of one repetition, at this interval.
	Switches int           `json:"switches,omitempty" yaml:"switches" is:"1..1000000" doc:"switches in one repetition"`
	Interval time.Duration `json:"interval_ns,omitempty" yaml:"interval" is:"100us..1m" doc:"time between switches"`
	// Inserts are request-response operations, with Work of CPU time between them.
	Inserts int           `json:"inserts,omitempty" yaml:"inserts" is:"10..10000000" doc:"operations in one repetition"`
	Work    time.Duration `json:"work_ns,omitempty" yaml:"work" is:"0s..1s" doc:"CPU time between operations"`
	// Workload is what an operation is: one of MongoDB's; "" for a bare round trip.
	Workload string `json:"workload,omitempty" yaml:"workload" is:"workload" doc:"what an operation is, in place of a bare round trip"`
	// Server is the command line of a server for it, with ${PORT} and ${DIR}; "" is
	// Pathwise's own.
	Server string `json:"server,omitempty" yaml:"server" is:"server" doc:"command line of a server for the workload; ${PORT} and ${DIR} are filled in"`
	// For is how long traffic of one variant runs; Hold how long a fault lasts.
	For  time.Duration `json:"for_ns,omitempty" yaml:"for" is:"100ms..24h" doc:"time for which the traffic of one variant runs"`
	Hold time.Duration `json:"hold_ns,omitempty" yaml:"hold" is:"100ms..1m" doc:"time for which a fault lasts"`
	// Encapsulate has steered packets go in UDP.
	Encapsulate bool `json:"encapsulate,omitempty" yaml:"encapsulate" doc:"steered packets go in UDP"`
	// Traffic and Faults name variants.
	Traffic []string `json:"traffic,omitempty" yaml:"traffic" is:"traffic" key:"repeats" doc:"variants of traffic"`
	Faults  []string `json:"faults,omitempty" yaml:"faults" is:"fault" key:"repeats" doc:"variants of faults"`
	// Families of random schedules.
	Families []string `json:"families,omitempty" yaml:"families" is:"family" key:"repeats" doc:"families of random schedules"`
	// Limits are courses of networks that flows may share; Programs have so many Connections.
	Limits      []string `json:"limits,omitempty" yaml:"limits" is:"sharing" key:"repeats" doc:"courses of what the networks give"`
	Programs    []string `json:"programs,omitempty" yaml:"programs" is:"program" key:"repeats" doc:"programs that move bulk or wait for answers"`
	Connections int      `json:"connections,omitempty" yaml:"connections" is:"1..1000" doc:"connections of a program"`
	// Capacity of the best network in bit/s, where the drill shapes the uplink.
	Capacity float64 `json:"capacity,omitempty" yaml:"capacity" is:"capacity" doc:"capacity of the best network" unit:"bit/s; k, M, G"`
	// Phases of a schedule.
	Phases int `json:"phases,omitempty" yaml:"phases" is:"1..1000" doc:"phases of a schedule"`
	// Peers are numbers of peers; Hosts is the number of hosts in the large lab.
	Peers []int `json:"peers,omitempty" yaml:"peers" is:"1..1024" key:"repeats" doc:"numbers of peers"`
	Hosts int   `json:"hosts,omitempty" yaml:"hosts" is:"0..64" doc:"hosts of the large lab; 0 for none"`
	// Kills of one repetition.
	Kills int `json:"kills,omitempty" yaml:"kills" is:"1..10000" doc:"agents killed in one repetition"`
	// Probes sent of each sort.
	Probes int `json:"probes,omitempty" yaml:"probes" is:"1..1000000" doc:"forged probes of each sort"`
}

// Parse reads a file of drills; file is used in errors. network returns an error
// for a name that is no network.
func Parse(file string, r io.Reader, network func(name string) error) (File, error) {
	root, err := config.Parse(file, r)
	if err != nil {
		return File{}, err
	}
	f := defaults()
	err = reader(network).Read(root, &f)
	return f, err
}

// defaults is what holds for keys that a file does not have.
func defaults() File { return File{Networks: []string{"routed-bgp", "vxlan", "macvlan"}} }

// reader reads files of drills.
func reader(network func(name string) error) config.Reader {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	r := config.Reader{Kinds: map[string]config.Kind{
		"name":    config.Name(),
		"network": config.Parsed(func(s string) (string, error) { return s, network(s) }, "the name of a network"),
		"drill": config.Parsed(func(s string) (string, error) {
			_, err := findKind(s)
			return s, err
		}, "a drill", names...),
		"workload": config.Word(documentWorkloads()...),
		"server": config.Parsed(func(s string) (string, error) {
			if strings.TrimSpace(s) == "" {
				return s, errors.New("expected a command line, such as mongod")
			}
			return s, nil
		}, "a command line, such as mongod"),
		"traffic":    config.Word("tcp", "rr", "mix", "udp"),
		"fault":      config.Word("both", "in", "out", "pod", "pod-in", "pod-out", faultTCP, faultLarge, faultMPTCP),
		"family":     config.Word(playable()...),
		"sharing":    config.Word(sharingNames()...),
		"program":    config.Word(programNames(isAny)...),
		"ip":         config.Parsed(topo.ParseFamily, "4 or 6", "4", "6"),
		"capacity":   config.Rate(1e12),
		"congestion": config.Parsed(workload.ParseCongestion, "a congestion control, such as cubic or bbr"),
	}}
	config.Around(&r, checkFile)
	config.Around(&r, checkEntry)
	return r
}

func checkFile(v config.Value, f *File, read func() error) error {
	if err := read(); err != nil {
		return err
	}
	if len(f.Networks) < 2 {
		return v.Key("networks").Errorf("expected two networks or more: there is nothing to move between")
	}
	items, err := v.Key("drills").Items()
	for i, e := range f.Drills {
		if f.Family == topo.IPv6 && (e.Drill != "blackhole" || slices.Contains(e.Faults, faultMPTCP)) {
			return items[i].Errorf("over IPv6 there is the drill blackhole alone, with faults but %s", faultMPTCP)
		}
		if three := e.Drill == "families" || slices.ContainsFunc(e.Limits, func(name string) bool {
			return named(name).networks > 2
		}); three && len(f.Networks) < familyNetworks {
			return v.Key("networks").Errorf("expected three networks or more: the drill %s plays on three", e.Drill)
		}
		if slices.ContainsFunc(f.Drills[:i], func(o Entry) bool { return o.Name == e.Name }) {
			return items[i].Errorf("drill %q is given twice: give one of them a name", e.Name)
		}
	}
	return err
}

// checkEntry reads a drill by its kind, which says which options there are, and what they
// are by default.
func checkEntry(v config.Value, e *Entry, read func() error) error {
	name, _ := v.Key("drill").Text() // what is wrong with it read says
	k, _ := findKind(name)
	e.Name, e.Options = name, k.defaults
	if err := read(); err != nil {
		return err
	}
	for _, key := range config.Keys[Options]() {
		if v.Has(key) && key != "repetitions" && !slices.Contains(k.keys, key) {
			return v.Key(key).Errorf("drill %s has no option %q: expected %s", k.name, key,
				strings.Join(append([]string{"repetitions"}, k.keys...), ", "))
		}
	}
	switch {
	case e.Workload != "" && e.Work > 0:
		return v.Errorf("work: is given with workload %s, which has its own: expected one or the other", e.Workload)
	case e.Drill == "programs" && slices.Contains(e.Faults, faultMPTCP):
		return v.Key("faults").Errorf("the drill programs has no %s: expected the others", faultMPTCP)
	case e.Drill == "shares" && slices.ContainsFunc(e.Programs, func(p string) bool { return programNamed(p).asks }):
		return v.Key("programs").Errorf("the drill shares is about bulk: expected some of %s",
			strings.Join(programNames(isBulk), ", "))
	case e.Drill == "mixed" && len(mixes(e.Options)) == 0:
		return v.Key("programs").Errorf("the drill mixed has bulk next to requests: expected one of %s and one of the others",
			strings.Join(programNames(isBulk), ", "))
	case e.Server != "" && e.Workload == "":
		return v.Errorf("server: %q serves documents: expected a workload alongside it, one of %s", e.Server,
			strings.Join(documentWorkloads(), ", "))
	}
	return nil
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
