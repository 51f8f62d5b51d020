// Package drill runs scripted series of events (switches, impairments, kills) on
// a lab with steering under live traffic, and tells what the application felt,
// against the bar that it is held to.
//
// A drill is not a trial: it does not rank networks, and its lab stays up from
// one repetition to the next. It makes nothing worse or better by itself:
// package impair impairs, package dataplane or the agents' programs move flows,
// package stream is the application.
package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
)

// Sample is what one repetition of a drill measured in one of its variants: a
// line of drills.jsonl. Everything that a figure is made of is in its values or
// in the reports that it names.
type Sample struct {
	Drill      string `json:"drill"`
	Repetition int    `json:"repetition"`
	// Variant tells what was done or compared, such as "tcp in" or "steered".
	Variant string        `json:"variant"`
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"`
	// Values by name, in SI units; Text are facts for a reader.
	Values map[string]float64 `json:"values,omitempty"`
	Text   map[string]string  `json:"text,omitempty"`
	// Reports are files alongside drills.jsonl: compressed stream reports.
	Reports []string `json:"reports,omitempty"`
	// Error says why there is no value.
	Error string `json:"error,omitempty"`
}

// Config is what a run of drills needs.
type Config struct {
	File File
	Seed uint64
	// Out is the result directory.
	Out   string
	Store lab.Store
	Lab   lab.Options
	// Prefix of the labs' names; "" means "drill".
	Prefix string
	// Self is the pathwise executable, which generators and agents run.
	Self string
	// Find is the catalogue of networks.
	Find func(name string) (network.Network, error)
	Now  func() time.Time
	// Done are the samples of an earlier run that goes on.
	Done []Sample
	// Write takes the samples of each repetition.
	Write func([]Sample) error
	// Observe is told of progress, Say of what a reader should see at once.
	Observe func(Progress)
	Say     func(string)
}

// Progress is where a run is.
type Progress struct {
	Drill      string
	Repetition int
	// Done and Total count repetitions.
	Done, Total int
	Left        time.Duration
	// Ended is set when the repetition is over; Samples are its own.
	Ended   bool
	Samples []Sample
}

// kind is one sort of drill.
type kind struct {
	name, about string
	// defaults of its options; keys are the options that it has.
	defaults Options
	keys     []string
	// length of one repetition, about.
	length  func(Options, File) time.Duration
	run     func(context.Context, *session) ([]Sample, error)
	figures func(Options, []Sample) []Figure
}

// kinds is every drill in the order of the bars.
func kinds() []kind {
	return []kind{switchKind(), insertsKind(), overheadKind(), blackholeKind(), programsKind(),
		ratelimitKind(), quietKind(), swingsKind(), schedulesKind(), familiesKind(),
		sharesKind(), mixedKind(), killsKind(), peersKind(), forgedKind(), demoKind()}
}

// Names lists the drills.
func Names() []string {
	var out []string
	for _, k := range kinds() {
		out = append(out, k.name)
	}
	return out
}

func findKind(name string) (kind, error) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, fmt.Errorf("no drill %q: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return all[i], nil
}

// IsFile reports whether a file's text is one of drills rather than an
// experiment of trials.
func IsFile(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "drills:") {
			return true
		}
	}
	return false
}

// session is one drill while it runs.
type session struct {
	Config
	kind  kind
	entry Entry
	// repetition under way, and its randomness, which depends on seed, drill and
	// repetition alone.
	repetition int
	rand       *rand.Rand
	grounds    map[string]*ground
	memory     map[string]any // what a drill keeps from one repetition to the next
	congestion string         // of TCP in the pods, where it is not the usual one
}

// options of the drill under way.
func (s *session) options() Options { return s.entry.Options }

// say tells the reader something at once.
func (s *session) say(format string, args ...any) {
	if s.Say != nil {
		s.Say(fmt.Sprintf(format, args...))
	}
}

// order returns the variants in a random order: what disturbs the machine for a
// while then disturbs them alike.
func (s *session) order(n int) []int { return s.rand.Perm(n) }

// sample begins a sample of a variant.
func (s *session) sample(variant string) Sample {
	return Sample{Drill: s.entry.Name, Repetition: s.repetition, Variant: variant, At: s.Now(),
		Values: map[string]float64{}, Text: map[string]string{}}
}
