package experiment

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// file is an experiment as it is read and written. What has no omitempty is always written.
type file struct {
	Name        string   `yaml:"name" is:"name" key:"needed" doc:"of the experiment, and of its results"`
	Description string   `yaml:"description,omitempty" doc:"what it is for"`
	Kernel      string   `yaml:"kernel,omitempty" is:"kernel" doc:"of networks that name none"`
	Networks    []custom `yaml:"networks" key:"needed" doc:"what is compared; a network once for each kernel"`
	// Places, Warmup and Duration are defaults of the workloads, and written with those.
	Places      places        `yaml:",inline"`
	Warmup      time.Duration `yaml:"warmup,omitempty" is:"0s..1h" doc:"offered and not measured; default 1s"`
	Duration    time.Duration `yaml:"duration,omitempty" is:"100ms..1h" doc:"measured; default 5s"`
	Repetitions repetitions   `yaml:"repetitions" doc:"of each trial; default {min: 3, max: 10, width: 5%}"`
	Budget      time.Duration `yaml:"budget,omitempty" is:"1s..720h" doc:"wall time; the least repetitions run all the same"`
	Missing     string        `yaml:"missing,omitempty" is:"missing" doc:"networks that the machine lacks something for are recorded as unsupported (skip), or end the run (fail, the default)"`
	Workloads   []entry       `yaml:"workloads" key:"needed" doc:"what load is offered"`
	Quick       *variant      `yaml:"quick,omitempty" doc:"what a run of minutes has in place of the file's own keys"`
	Paper       *study        `yaml:"paper,omitempty" doc:"the document whose study is repeated"`
	// Applications of the user's.
	Applications []applied   `yaml:"applications,omitempty" doc:"of yours, for pathwise recommend"`
	Claims       []statement `yaml:"claims,omitempty" doc:"statements of documents, compared with what was measured"`
}

type repetitions struct {
	Min   int   `yaml:"min" is:"1..1000" key:"alone" doc:"the least; alone, the number of repetitions"`
	Max   int   `yaml:"max" is:"1..1000" doc:"the most"`
	Width share `yaml:"width" is:"share" doc:"half width of the interval, as a share of the mean, that is narrow enough"`
	// Claims is left out where it changes nothing.
	Claims int `yaml:"claims,omitempty" is:"1..1000" doc:"the least for cells that a claim compares"`
	// Until is left out where it is the width.
	Until string `yaml:"until,omitempty" is:"until" doc:"what ends repetitions behind the least number; default width"`
	// Windows is left out where it is one.
	Windows windows `yaml:"windows,omitempty" is:"windows" doc:"measured in each build; default 1"`
	// Builds is left out where each cell has its own.
	Builds string `yaml:"builds,omitempty" is:"builds" doc:"whether cells of one network and topology share a build; default own"`
}

// share is written in percent.
type share float64

func (s share) MarshalYAML() (any, error) { return fmt.Sprintf("%g%%", float64(s)*100), nil }

// windows is a number, or what the run chooses.
type windows int

func (w windows) MarshalYAML() (any, error) {
	if w == ChooseWindows {
		return chosen, nil
	}
	return int(w), nil
}

// custom is a network: its name alone, or more.
type custom struct {
	Name   string `yaml:"name" key:"needed,alone" doc:"of the catalogue, cni:FILE, or a name for the list"`
	CNI    string `yaml:"cni,omitempty" doc:"file with a CNI configuration list"`
	Route  string `yaml:"route,omitempty" is:"route" doc:"who makes routes between the hosts' pods of a list"`
	Kernel string `yaml:"kernel,omitempty" is:"kernel" doc:"on which it runs"`
}

func (c custom) MarshalYAML() (any, error) {
	if c == (custom{Name: c.Name}) {
		return c.Name, nil
	}
	type whole custom
	return whole(c), nil
}

// places are the keys that say where pods are; scenarios are their combinations. Outside and
// VM are empty where the file leaves them to the topologies and to the run.
type places struct {
	Topologies []topo.Placement `yaml:"topologies,omitempty,flow" is:"topology" doc:"where the pods of a pair are; default two-hosts"`
	Pairs      []int            `yaml:"pairs,omitempty,flow" is:"pairs" doc:"client-server pairs at once; default 1"`
	MTU        []int            `yaml:"mtu,omitempty,flow" is:"mtu" doc:"of the underlay; default 1500"`
	Outside    []topo.Outside   `yaml:"outside,omitempty,flow" is:"outside" doc:"what joins hosts on a physical machine to the wire"`
	VM         []string         `yaml:"vm,omitempty,flow" is:"vm" doc:"kernel of virtual machines"`
	Cores      []topo.Cores     `yaml:"cores,omitempty,flow" is:"cores" doc:"processors of a pair's generators; default free"`
	Rmem       []topo.Rmem      `yaml:"rmem,omitempty,flow" is:"rmem" doc:"what TCP's receive buffers begin with; default auto"`
	Family     []int            `yaml:"family,omitempty,flow" is:"family" doc:"IP family of the traffic; default 4"`
}

// entry is a workload: its name alone, or more.
type entry struct {
	Name     string        `yaml:"name" key:"needed,alone" doc:"of the workload"`
	Places   places        `yaml:",inline"`
	Warmup   time.Duration `yaml:"warmup" is:"0s..1h" doc:"offered and not measured"`
	Duration time.Duration `yaml:"duration" is:"100ms..1h" doc:"measured"`
	Networks []string      `yaml:"networks,omitempty,flow" is:"measured" doc:"those that it is put to; default all"`
	Kernels  []string      `yaml:"kernels,omitempty,flow" is:"kernel" doc:"those that it runs on; default all"`
	Server   string        `yaml:"server,omitempty" doc:"command line of a server of yours"`
	Profile  string        `yaml:"profile,omitempty" doc:"XML file that uperf runs"`
	Load     []load        `yaml:"load,omitempty" doc:"how much is offered"`
}

// load is every combination of its knobs.
type load struct {
	Connections some[int]     `yaml:"connections,omitempty" is:"1..1073741824" doc:"at once, of each pair"`
	Size        some[int]     `yaml:"size,omitempty" is:"size" doc:"of a message"`
	Rate        some[float64] `yaml:"rate,omitempty" is:"rate" doc:"offered, in bit/s or messages/s"`
	Congestion  some[string]  `yaml:"congestion,omitempty" is:"congestion" doc:"TCP's congestion control"`
}

// some is written as a list if it is not one value.
type some[T any] []T

func (s some[T]) MarshalYAML() (any, error) {
	if len(s) == 1 {
		return s[0], nil
	}
	return []T(s), nil
}

// loadOf is a single load as it is written.
func loadOf(l sample.Load) (out load) {
	set(&out.Connections, l.Connections)
	set(&out.Size, l.Size)
	set(&out.Rate, l.Rate)
	set(&out.Congestion, l.Congestion)
	return out
}

func set[T comparable](dst *some[T], x T) {
	if x != *new(T) {
		*dst = some[T]{x}
	}
}

// variant is the quick one: the file's own keys of the same names, replaced.
type variant struct {
	Topologies  []topo.Placement `yaml:"topologies" is:"topology" doc:"where the pods of a pair are"`
	Warmup      time.Duration    `yaml:"warmup" is:"0s..1h" doc:"offered and not measured"`
	Duration    time.Duration    `yaml:"duration" is:"100ms..1h" doc:"measured"`
	Repetitions repetitions      `yaml:"repetitions" doc:"of each trial"`
	Budget      time.Duration    `yaml:"budget" is:"1s..720h" key:"needed" doc:"wall time"`
	Workloads   []entry          `yaml:"workloads" key:"needed" doc:"what load is offered"`
}

// applied is an application.
type applied struct {
	Name      string  `yaml:"name" is:"app" key:"needed" doc:"for --app"`
	Workloads []piece `yaml:"workloads" key:"needed" doc:"those that stand for it"`
	Bounds    []held  `yaml:"bounds,omitempty,flow" doc:"that a network must keep"`
}

// piece is a workload of an application: its name alone, or more.
type piece struct {
	Workload string  `yaml:"workload" is:"asked" key:"needed,alone" doc:"of the experiment"`
	Weight   float64 `yaml:"weight" is:"weight" doc:"next to the others; default 1"`
	Load     *load   `yaml:"load,omitempty,flow" doc:"at which it is looked at; default the optimum or the highest"`
	// Metrics are in order, as the first one decides the optimum.
	Metrics weights `yaml:"metrics,omitempty" is:"weights" doc:"figures that matter; default its usual ones"`
}

// weights are figures with their weights.
type weights []application.Metric

type held struct {
	Workload string `yaml:"workload" key:"needed" doc:"of the application"`
	Metric   string `yaml:"metric" key:"needed" doc:"the figure that is bounded"`
	Least    string `yaml:"least,omitempty" is:"amount" doc:"the figure may not be below"`
	Most     string `yaml:"most,omitempty" is:"amount" doc:"the figure may not be above"`
}

// statement is a claim.
type statement struct {
	ID        string         `yaml:"id" is:"name" key:"needed" doc:"its name in tables"`
	Source    string         `yaml:"source" doc:"authors and year; default those of the paper"`
	Claim     string         `yaml:"claim" is:"prose" key:"needed" doc:"the statement, in the document's words"`
	Published string         `yaml:"published,omitempty" is:"prose" doc:"the figure that the document gives"`
	Exhibits  []string       `yaml:"exhibit,omitempty,flow" doc:"figures and tables of the paper that show it"`
	Metric    string         `yaml:"metric,omitempty" is:"metric" doc:"the figure that is compared; default the workload's main one"`
	Where     place          `yaml:",inline"`
	Networks  []string       `yaml:"networks,omitempty,flow" is:"measured" doc:"each of them where the test names none"`
	Overall   bool           `yaml:"overall,omitempty" doc:"the mean over all loads is one figure"`
	Except    string         `yaml:"except,omitempty" doc:"trials with a note that has this text are left out"`
	Relative  *place         `yaml:"relative,omitempty,flow" without:"kernels" doc:"figures are divided by the same network's there"`
	Ratio     *ratio         `yaml:"ratio,omitempty,flow" doc:"test: one side's figure over the other's is in the range"`
	Order     []some[string] `yaml:"order,omitempty,flow" is:"measured" doc:"test: networks, the best first; a list in the list has no order"`
	Value     *claim.Range   `yaml:"value,omitempty,flow" doc:"test: the figure is in the range"`
	Optimum   *optimum       `yaml:"optimum,omitempty,flow" doc:"test: no other load is as good"`
	Trend     *trend         `yaml:"trend,omitempty,flow" doc:"test: the figure changes with each step"`
	Choice    *claim.Choice  `yaml:"choice,omitempty,flow" doc:"test: the sum of z-scores names the network alone"`
	Untested  string         `yaml:"untested,omitempty" is:"prose" doc:"why nothing can test it"`
	Because   string         `yaml:"because,omitempty" is:"prose" doc:"shown where it does not hold"`
}

// place picks questions.
type place struct {
	Workload   string           `yaml:"workload,omitempty" is:"asked" doc:"of the experiment"`
	Topologies []topo.Placement `yaml:"topologies,omitempty,flow" is:"topology" doc:"these alone"`
	Pairs      []int            `yaml:"pairs,omitempty,flow" is:"1..1073741824" doc:"these alone"`
	MTU        []int            `yaml:"mtu,omitempty,flow" is:"1..1073741824" doc:"these alone"`
	Outside    []topo.Outside   `yaml:"outside,omitempty,flow" is:"outside" doc:"these alone"`
	Family     []int            `yaml:"family,omitempty,flow" is:"family" doc:"these alone"`
	Kernels    []string         `yaml:"kernels,omitempty,flow" is:"kernel" doc:"these alone"`
	Load       []load           `yaml:"load,omitempty,flow" doc:"loads that agree with one of these"`
}

type ratio struct {
	Of    *side       `yaml:"of,omitempty" without:"kernels" doc:"default each of the claim's networks"`
	To    *side       `yaml:"to,omitempty" without:"kernels" doc:"default each of the claim's networks"`
	Range claim.Range `yaml:",inline"`
}

// side is a network's name, or where the side differs from the claim. Two kernels' figures are
// never compared.
type side struct {
	Network string `yaml:"network,omitempty" is:"measured" key:"alone" doc:"of the experiment"`
	Where   place  `yaml:",inline"`
}

func (s side) MarshalYAML() (any, error) {
	if s.Where.empty() {
		return s.Network, nil
	}
	type whole side
	return whole(s), nil
}

type optimum struct {
	Over  claim.Knob  `yaml:"over" is:"knob" key:"needed" doc:"what is varied"`
	At    *float64    `yaml:"at,omitempty" doc:"its best value; or least and most"`
	Range claim.Range `yaml:",inline"`
}

type trend struct {
	Over claim.Knob `yaml:"over" is:"knob" key:"needed" doc:"what is varied"`
	Goes string     `yaml:"goes" is:"way" key:"needed" doc:"where the figure goes"`
}

// study is what an experiment says of its document.
type study struct {
	Title     string        `yaml:"title" is:"prose" key:"needed" doc:"of the document"`
	Authors   string        `yaml:"authors" key:"needed" doc:"and year; the source of its claims"`
	Reference string        `yaml:"reference,omitempty" is:"prose" doc:"where it appeared"`
	Setup     string        `yaml:"setup,omitempty" is:"prose" doc:"what its authors measured on"`
	Differs   string        `yaml:"differs,omitempty" is:"prose" doc:"what is other here"`
	Networks  []paper.Alias `yaml:"networks,omitempty" doc:"what its networks are called here"`
	Exhibits  []exhibit     `yaml:"exhibits" key:"needed" doc:"every figure and table"`
}

type exhibit struct {
	ID     string `yaml:"id" is:"name" key:"needed" doc:"its number, such as fig-7b"`
	Title  string `yaml:"title" is:"prose" key:"needed" doc:"of the figure or table"`
	Shows  []view `yaml:"shows,omitempty" doc:"questions whose figures are its counterpart"`
	Choice bool   `yaml:"choice,omitempty" doc:"the recommendation is its counterpart"`
	Why    string `yaml:"why,omitempty" is:"prose" doc:"why nothing shows it, or what the counterpart lacks"`
	Left   string `yaml:"left,omitempty" is:"prose" doc:"what a variant leaves out; written by Pathwise"`
}

type view struct {
	Where    place      `yaml:",inline"`
	Metric   string     `yaml:"metric,omitempty" is:"metric" doc:"default the workload's main one"`
	Over     claim.Knob `yaml:"over,omitempty" is:"knob" doc:"along which it is drawn; default the first that varies"`
	Networks []string   `yaml:"networks,omitempty,flow" is:"measured" doc:"in order; default all"`
}
