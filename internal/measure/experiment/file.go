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
	Name        string   `yaml:"name" is:"name" key:"needed" doc:"name of the experiment and of its results"`
	Description string   `yaml:"description,omitempty" doc:"one line that says what the experiment is for" default:"none"`
	Kernel      string   `yaml:"kernel,omitempty" is:"kernel" doc:"kernel of the networks that name none" default:"this machine's, or the first guest kernel that can build the network"`
	Networks    []custom `yaml:"networks" key:"needed" doc:"networks to compare; the baseline host is added where it is missing"`
	// Places, Warmup and Duration are defaults of the workloads, and written with those.
	Places      places        `yaml:",inline"`
	Warmup      time.Duration `yaml:"warmup,omitempty" is:"0s..1h" doc:"time for which load is offered before the measured time"`
	Duration    time.Duration `yaml:"duration,omitempty" is:"100ms..1h" doc:"time that is measured"`
	Repetitions repetitions   `yaml:"repetitions" doc:"how often each trial is done, each time on a network that is built for it"`
	Budget      time.Duration `yaml:"budget,omitempty" is:"1s..720h" doc:"wall time that the run may take; the least number of repetitions is done all the same" default:"none"`
	Missing     string        `yaml:"missing,omitempty" is:"missing" doc:"where the machine lacks something for a network: record its trials as unsupported (skip), or refuse to begin (fail)" default:"fail"`
	Workloads   []entry       `yaml:"workloads" key:"needed" doc:"load to offer"`
	Quick       *variant      `yaml:"quick,omitempty" doc:"what a run of minutes (--quick) has in place of the file's own keys" default:"none"`
	Paper       *study        `yaml:"paper,omitempty" doc:"document whose study the experiment repeats" default:"none"`
	// Applications of the user's.
	Applications []applied   `yaml:"applications,omitempty" doc:"applications of yours, for pathwise recommend" default:"none"`
	Claims       []statement `yaml:"claims,omitempty" doc:"statements of documents, which are tested on what was measured" default:"none"`
}

type repetitions struct {
	Min   int   `yaml:"min" is:"1..1000" key:"alone" doc:"least number of repetitions; repetitions: 5 means five of each trial"`
	Max   int   `yaml:"max" is:"1..1000" doc:"most repetitions"`
	Width share `yaml:"width" is:"share" doc:"half width of the confidence interval, as a share of the mean, at which a trial needs no more repetitions"`
	// Claims is left out where it changes nothing.
	Claims int `yaml:"claims,omitempty" is:"1..1000" doc:"least number for trials that a claim compares" default:"min"`
	// Until is left out where it is the width.
	Until string `yaml:"until,omitempty" is:"until" doc:"what ends repetitions after the least number: a narrow interval for each trial (width), or a verdict on each claim (verdicts)" default:"width"`
	// Windows is left out where it is one.
	Windows windows `yaml:"windows,omitempty" is:"windows" doc:"measured windows in each build of a network; auto lets the run choose" default:"1"`
	// Builds is left out where each cell has its own.
	Builds string `yaml:"builds,omitempty" is:"builds" doc:"whether each trial has a build of its network of its own, or trials of one network and topology share one" default:"own"`
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
	Name   string `yaml:"name" is:"network" key:"needed,alone" doc:"name in the catalogue (see pathwise networks), or cni:FILE; with the key cni, a name of yours"`
	CNI    string `yaml:"cni,omitempty" doc:"file with a CNI configuration list; its path is relative to the experiment's file" default:"none"`
	Route  string `yaml:"route,omitempty" is:"route" doc:"who makes routes between the hosts for the pods of the list" default:"nobody"`
	Kernel string `yaml:"kernel,omitempty" is:"kernel" doc:"kernel that the network runs on" default:"the experiment's"`
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
	Topologies []topo.Placement `yaml:"topologies,omitempty,flow" is:"topology" doc:"where the two pods of a pair are"`
	Pairs      []int            `yaml:"pairs,omitempty,flow" is:"pairs" doc:"client-server pairs at once"`
	MTU        []int            `yaml:"mtu,omitempty,flow" is:"mtu" doc:"MTU of the underlay" unit:"bytes"`
	Outside    []topo.Outside   `yaml:"outside,omitempty,flow" is:"outside" doc:"what joins the hosts on one physical machine to the wire" default:"bridge if there are virtual machines, else nothing"`
	VM         []string         `yaml:"vm,omitempty,flow" is:"vm" doc:"kernel of the virtual machines" default:"KVM where there is one, else uml"`
	Cores      []topo.Cores     `yaml:"cores,omitempty,flow" is:"cores" doc:"processors of a pair's two ends: any (free), one for both (same), or one each (apart)" default:"free"`
	Rmem       []topo.Rmem      `yaml:"rmem,omitempty,flow" is:"rmem" doc:"size with which the receive buffers of TCP begin; auto leaves it to the kernel" unit:"bytes; k, M" default:"auto"`
	Family     []int            `yaml:"family,omitempty,flow" is:"family" doc:"IP family of the traffic" default:"4"`
}

// entry is a workload: its name alone, or more.
type entry struct {
	Name     string        `yaml:"name" is:"workload" key:"needed,alone" doc:"name of the workload (see pathwise workloads), or uperf:FILE"`
	Places   places        `yaml:",inline" default:"the experiment's"`
	Warmup   time.Duration `yaml:"warmup" is:"0s..1h" doc:"time for which load is offered before the measured time" default:"the experiment's"`
	Duration time.Duration `yaml:"duration" is:"100ms..1h" doc:"time that is measured" default:"the experiment's"`
	Networks []string      `yaml:"networks,omitempty,flow" is:"measured" doc:"networks that the workload is put to" default:"all"`
	Kernels  []string      `yaml:"kernels,omitempty,flow" is:"kernel" doc:"kernels that the workload runs on" default:"all"`
	Server   string        `yaml:"server,omitempty" doc:"command line of a server of yours; ${PORT} and ${DIR} are filled in" default:"Pathwise's own"`
	Profile  string        `yaml:"profile,omitempty" doc:"XML file that the workload uperf plays; its path is relative to the experiment's file" default:"none"`
	Load     []load        `yaml:"load,omitempty" doc:"how much is offered: each combination of the values below" default:"the workload's own"`
}

// load is every combination of its knobs.
type load struct {
	Connections some[int]     `yaml:"connections,omitempty" is:"1..1073741824" doc:"connections of each pair at once" default:"the workload's own"`
	Size        some[int]     `yaml:"size,omitempty" is:"size" doc:"size of a message" default:"the workload's own"`
	Rate        some[float64] `yaml:"rate,omitempty" is:"rate" doc:"rate that is offered" unit:"bit/s or messages/s; k, M, G" default:"the workload's own"`
	Congestion  some[string]  `yaml:"congestion,omitempty" is:"congestion" doc:"congestion control of TCP" default:"the workload's own"`
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
	Topologies  []topo.Placement `yaml:"topologies" is:"topology" doc:"where the two pods of a pair are" default:"the file's own"`
	Warmup      time.Duration    `yaml:"warmup" is:"0s..1h" doc:"time for which load is offered before the measured time" default:"the file's own"`
	Duration    time.Duration    `yaml:"duration" is:"100ms..1h" doc:"time that is measured" default:"the file's own"`
	Repetitions repetitions      `yaml:"repetitions" doc:"how often each trial is done" default:"the file's own"`
	Budget      time.Duration    `yaml:"budget" is:"1s..720h" key:"needed" doc:"wall time that the quick run may take"`
	Workloads   []entry          `yaml:"workloads" key:"needed" doc:"load to offer"`
}

// applied is an application.
type applied struct {
	Name      string  `yaml:"name" is:"app" key:"needed" doc:"name for --app, which no shipped application has"`
	Workloads []piece `yaml:"workloads" key:"needed" doc:"workloads that represent the application"`
	Bounds    []held  `yaml:"bounds,omitempty,flow" doc:"bounds that a network must keep to be recommended" default:"none"`
}

// piece is a workload of an application: its name alone, or more.
type piece struct {
	Workload string  `yaml:"workload" is:"asked" key:"needed,alone" doc:"workload of the experiment"`
	Weight   float64 `yaml:"weight" is:"weight" doc:"what the workload counts next to the others" default:"1"`
	Load     *load   `yaml:"load,omitempty,flow" doc:"load at which the workload is looked at" default:"the optimum, or the highest"`
	// Metrics are in order, as the first one decides the optimum.
	Metrics weights `yaml:"metrics,omitempty" is:"weights" doc:"figures that count, alike or by weight" default:"the workload's usual ones"`
}

// weights are figures with their weights.
type weights []application.Metric

type held struct {
	Workload string `yaml:"workload" key:"needed" doc:"workload of the application"`
	Metric   string `yaml:"metric" is:"figure" key:"needed" doc:"figure that is bounded"`
	Least    string `yaml:"least,omitempty" is:"amount" doc:"figure that it must reach" unit:"the metric's" default:"none"`
	Most     string `yaml:"most,omitempty" is:"amount" doc:"figure that it must not exceed" unit:"the metric's" default:"none"`
}

// statement is a claim.
type statement struct {
	ID        string         `yaml:"id" is:"name" key:"needed" doc:"name of the claim in tables"`
	Source    string         `yaml:"source" doc:"authors and year of the document; required if the file has no paper" default:"the paper's authors"`
	Claim     string         `yaml:"claim" is:"prose" key:"needed" doc:"the statement, in the document's words"`
	Published string         `yaml:"published,omitempty" is:"prose" doc:"figure that the document gives" default:"none"`
	Exhibits  []string       `yaml:"exhibit,omitempty,flow" doc:"figures and tables of the paper that show it" default:"none"`
	Metric    string         `yaml:"metric,omitempty" is:"metric" doc:"figure that is compared" default:"the workload's main one"`
	Where     place          `yaml:",inline"`
	Networks  []string       `yaml:"networks,omitempty,flow" is:"measured" doc:"networks that the test is about, where it names none" default:"all"`
	Overall   bool           `yaml:"overall,omitempty" doc:"the mean over all loads is one figure" default:"false"`
	Except    string         `yaml:"except,omitempty" doc:"leave out trials with a note that has this text" default:"none"`
	Relative  *place         `yaml:"relative,omitempty,flow" without:"kernels" doc:"divide each figure by the same network's in this place" default:"none"`
	Ratio     *ratio         `yaml:"ratio,omitempty,flow" doc:"test: the figure of one side over that of the other is in the range" default:"none"`
	Order     []some[string] `yaml:"order,omitempty,flow" is:"measured" doc:"test: each network is better than the next; networks of a list in the list have no order" default:"none"`
	Value     *claim.Range   `yaml:"value,omitempty,flow" doc:"test: the figure of each network is in the range" default:"none"`
	Optimum   *optimum       `yaml:"optimum,omitempty,flow" doc:"test: no other load is as good" default:"none"`
	Trend     *trend         `yaml:"trend,omitempty,flow" doc:"test: the figure rises or falls with each step" default:"none"`
	Choice    *claim.Choice  `yaml:"choice,omitempty,flow" doc:"test: the sum of z-scores names this network alone" default:"none"`
	Untested  string         `yaml:"untested,omitempty" is:"prose" doc:"why nothing can test the claim here" default:"none"`
	Because   string         `yaml:"because,omitempty" is:"prose" doc:"reason that is shown if the claim does not hold" default:"none"`
}

// place picks questions.
type place struct {
	Workload   string           `yaml:"workload,omitempty" is:"asked" doc:"workload of the experiment; claims need one unless they have choice or untested" default:"none"`
	Topologies []topo.Placement `yaml:"topologies,omitempty,flow" is:"topology" doc:"only questions with these topologies" default:"all"`
	Pairs      []int            `yaml:"pairs,omitempty,flow" is:"1..1073741824" doc:"only questions with these numbers of pairs" default:"all"`
	MTU        []int            `yaml:"mtu,omitempty,flow" is:"1..1073741824" doc:"only questions with these MTUs" unit:"bytes" default:"all"`
	Outside    []topo.Outside   `yaml:"outside,omitempty,flow" is:"outside" doc:"only questions with this between the hosts" default:"all"`
	Family     []int            `yaml:"family,omitempty,flow" is:"family" doc:"only questions with these IP families" default:"all"`
	Kernels    []string         `yaml:"kernels,omitempty,flow" is:"kernel" doc:"only networks on these kernels" default:"all"`
	Load       []load           `yaml:"load,omitempty,flow" doc:"only loads that agree with one of these" default:"all"`
}

type ratio struct {
	Of    *side       `yaml:"of,omitempty" without:"kernels" doc:"side above the line" default:"each network of the claim"`
	To    *side       `yaml:"to,omitempty" without:"kernels" doc:"side below the line" default:"each network of the claim"`
	Range claim.Range `yaml:",inline"`
}

// side is a network's name, or where the side differs from the claim. Two kernels' figures are
// never compared.
type side struct {
	Network string `yaml:"network,omitempty" is:"measured" key:"alone" doc:"network of the experiment" default:"each network of the claim"`
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
	At    *float64    `yaml:"at,omitempty" doc:"value that is the best; or least and most" default:"none"`
	Range claim.Range `yaml:",inline"`
}

type trend struct {
	Over claim.Knob `yaml:"over" is:"knob" key:"needed" doc:"what is varied"`
	Goes string     `yaml:"goes" is:"way" key:"needed" doc:"where the figure goes as it grows"`
}

// study is what an experiment says of its document.
type study struct {
	Title     string        `yaml:"title" is:"prose" key:"needed" doc:"title of the document"`
	Authors   string        `yaml:"authors" key:"needed" doc:"authors and year; the source of its claims"`
	Reference string        `yaml:"reference,omitempty" is:"prose" doc:"where it appeared" default:"none"`
	Setup     string        `yaml:"setup,omitempty" is:"prose" doc:"what its authors measured on" default:"none"`
	Differs   string        `yaml:"differs,omitempty" is:"prose" doc:"how the machine, or what runs on it, is another here" default:"none"`
	Networks  []paper.Alias `yaml:"networks,omitempty" doc:"what the document's networks are called here" default:"none"`
	Exhibits  []exhibit     `yaml:"exhibits" key:"needed" doc:"every figure and table of the document"`
}

type exhibit struct {
	ID     string `yaml:"id" is:"name" key:"needed" doc:"its number, such as fig-7b"`
	Title  string `yaml:"title" is:"prose" key:"needed" doc:"title of the figure or table"`
	Shows  []view `yaml:"shows,omitempty" doc:"questions whose figures are its counterpart here" default:"none"`
	Choice bool   `yaml:"choice,omitempty" doc:"the recommendation is its counterpart here" default:"false"`
	Why    string `yaml:"why,omitempty" is:"prose" doc:"why nothing here shows it, or what the counterpart lacks" default:"none"`
	Left   string `yaml:"left,omitempty" is:"prose" doc:"what a variant leaves out; Pathwise writes it into results" default:"none"`
}

type view struct {
	Where    place      `yaml:",inline"`
	Metric   string     `yaml:"metric,omitempty" is:"metric" doc:"figure that is drawn" default:"the workload's main one"`
	Over     claim.Knob `yaml:"over,omitempty" is:"knob" doc:"what it is drawn along" default:"the first that varies"`
	Networks []string   `yaml:"networks,omitempty,flow" is:"measured" doc:"networks, in this order" default:"all"`
}
