// Package sample is one measurement as a value, and the result format: a
// directory whose samples.jsonl holds one checked JSON line per trial.
//
// It is pure: it encodes and decodes through io.Reader and io.Writer and knows
// neither how a trial is run (bench) nor what it means (stat, rank, report).
package sample

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/topo"
)

// Load says how much is offered. A zero field means that the workload has no
// such knob, or leaves it at the generator's default.
type Load struct {
	// Connections is the number of parallel streams or connections per pod pair.
	Connections int `json:"connections,omitempty"`
	// Size is the message size in bytes.
	Size int `json:"size,omitempty"`
	// Rate is the offered rate per pod pair in bits per second (streams) or
	// messages per second (latency).
	Rate float64 `json:"rate,omitempty"`
	// Congestion is TCP's congestion control of both ends; "" is cubic.
	Congestion string `json:"congestion,omitempty"`
}

// String is the load in one word, "c=8,s=64,r=2e+08,cc=bbr"; "default" for the zero load.
func (l Load) String() string {
	var parts []string
	if l.Connections != 0 {
		parts = append(parts, fmt.Sprintf("c=%d", l.Connections))
	}
	if l.Size != 0 {
		parts = append(parts, fmt.Sprintf("s=%d", l.Size))
	}
	if l.Rate != 0 {
		parts = append(parts, fmt.Sprintf("r=%g", l.Rate))
	}
	if l.Congestion != "" {
		parts = append(parts, "cc="+l.Congestion)
	}
	if len(parts) == 0 {
		return "default"
	}
	return strings.Join(parts, ",")
}

// Compare orders loads by connections, then rate, size, and congestion control.
func (l Load) Compare(o Load) int {
	return cmp.Or(cmp.Compare(l.Connections, o.Connections), cmp.Compare(l.Rate, o.Rate), cmp.Compare(l.Size, o.Size),
		cmp.Compare(l.Congestion, o.Congestion))
}

// Cell names what is measured: a trial is one repetition of a cell.
type Cell struct {
	Network  string        `json:"network"`
	Scenario topo.Scenario `json:"scenario"`
	Workload string        `json:"workload"`
	Load     Load          `json:"load"`
}

// String is the cell's key: network/scenario/workload/load.
func (c Cell) String() string {
	return strings.Join([]string{c.Network, c.Scenario.String(), c.Workload, c.Load.String()}, "/")
}

// Question is the cell without its network: what networks are compared on.
type Question struct {
	Scenario topo.Scenario `json:"scenario"`
	Workload string        `json:"workload"`
	Load     Load          `json:"load"`
}

// Question returns what the cell's network is asked.
func (c Cell) Question() Question {
	return Question{Scenario: c.Scenario, Workload: c.Workload, Load: c.Load}
}

// String is the question's key: scenario/workload/load.
func (q Question) String() string {
	return strings.Join([]string{q.Scenario.String(), q.Workload, q.Load.String()}, "/")
}

// Compare orders questions by workload, kernel, placement and the rest of the scenario, and load.
func (q Question) Compare(o Question) int {
	place := func(p topo.Placement) int { return slices.Index(topo.Placements(), p) }
	return cmp.Or(
		cmp.Compare(q.Workload, o.Workload),
		cmp.Compare(q.Scenario.Kernel, o.Scenario.Kernel),
		cmp.Compare(place(q.Scenario.Placement), place(o.Scenario.Placement)),
		cmp.Compare(q.Scenario.VM, o.Scenario.VM),
		cmp.Compare(q.Scenario.Outside, o.Scenario.Outside),
		cmp.Compare(q.Scenario.Cores, o.Scenario.Cores),
		cmp.Compare(q.Scenario.Rmem, o.Scenario.Rmem),
		cmp.Compare(q.Scenario.Family, o.Scenario.Family),
		cmp.Compare(q.Scenario.MTU, o.Scenario.MTU),
		cmp.Compare(q.Scenario.Pairs, o.Scenario.Pairs),
		q.Load.Compare(o.Load),
	)
}

// Status is how a trial ended.
type Status string

// The ends of a trial. Only OK trials enter statistics.
const (
	OK Status = "ok"
	// Failed: something broke; Reason says what.
	Failed Status = "failed"
	// Invalid: a figure was taken but a validity gate refuses it.
	Invalid Status = "invalid"
	// Refused: the network carried no traffic, as it must (the isolation
	// check of the network none).
	Refused Status = "refused"
	// Unsupported: the network cannot stand in this scenario, or not on this
	// machine; Reason says why.
	Unsupported Status = "unsupported"
)

// Warning is a validity gate that did not refuse the figure, but that a reader must know.
type Warning struct {
	// Gate names the check: "cpu-saturated", "generator-bound", "mtu", "offload", "device", "window", "loss", "errors".
	Gate string `json:"gate"`
	Text string `json:"text"`
}

// CPU is the time that the whole machine spent in the measured window, in
// CPU-seconds by mode, the idle baseline already subtracted (never below 0).
type CPU struct {
	User    float64 `json:"user"`
	System  float64 `json:"system"`
	SoftIRQ float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	// Steal is time that the hypervisor gave to others: a noise indicator, not a cost.
	Steal float64 `json:"steal"`
	// Idle is unused time, idle and iowait.
	Idle float64 `json:"idle"`
	// Cores is the number of CPUs counted.
	Cores int `json:"cores"`
}

// Busy is the CPU time used, in CPU-seconds.
func (c CPU) Busy() float64 { return c.User + c.System + c.SoftIRQ + c.IRQ }

// Phases is where a trial's wall time went, in seconds.
type Phases struct {
	// Build: creating hosts, underlay, network and pods.
	Build float64 `json:"build"`
	// Ready: waiting for the network's daemons.
	Ready float64 `json:"ready"`
	// Warmup: load offered but not measured.
	Warmup float64 `json:"warmup"`
	// Window: measured.
	Window float64 `json:"window"`
	// Loaded: from the first generator's start to the last one's end, warm-ups, windows and
	// what is alongside them.
	Loaded float64 `json:"loaded,omitempty"`
	// Teardown: removing the lab.
	Teardown float64 `json:"teardown"`
	// Total wall time of the trial; what the others leave is overhead.
	Total float64 `json:"total"`
}

// Trial is one network under one workload and one load, measured once. It is built afresh
// for it, unless cells share builds.
type Trial struct {
	Cell
	// Repetition counts from 1 within the cell.
	Repetition int `json:"repetition"`
	// Order counts trials from 1 in the order in which they ran.
	Order int `json:"order"`
	// Built is the Order of the trial for which the network was built, where that is an
	// earlier one, as cells share builds.
	Built   int       `json:"built,omitempty"`
	Started time.Time `json:"started"`
	Status  Status    `json:"status"`
	// Reason says why the status is not OK.
	Reason string `json:"reason,omitempty"`
	// Kernel on which it ran: "host", or the guest's as in Scenario.
	Kernel  string             `json:"kernel"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Latency *Histogram         `json:"latency,omitempty"`
	// Windows are the values of the workload's main metric by window, where several were
	// measured in the one build; Metrics then are their means.
	Windows  []float64 `json:"windows,omitempty"`
	CPU      *CPU      `json:"cpu,omitempty"`
	Phases   Phases    `json:"phases"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Notes are facts that the names of network and workload leave open, such as
	// "Open vSwitch 3.1.0, user-space datapath" or which server answered.
	Notes []string `json:"notes,omitempty"`
	// Series is the throughput by tenth of a second or so, in bit/s, where the generator tells it.
	Series []Point `json:"series,omitempty"`
	// Details is free text for readers: per-pair figures, commands run.
	Details map[string]string `json:"details,omitempty"`
}

// Figure returns the trial's value of a metric; ok is false where it has none.
// CPUCores and SoftIRQShare follow from its CPU time.
func (t Trial) Figure(name string) (v float64, ok bool) {
	if v, ok = t.Metrics[name]; ok || t.CPU == nil {
		return v, ok
	}
	switch busy := t.CPU.Busy(); {
	case name == CPUCores && t.Phases.Window > 0:
		return busy / t.Phases.Window, true
	case name == SoftIRQShare && busy > 0:
		return (t.CPU.SoftIRQ + t.CPU.IRQ) / busy, true
	}
	return 0, false
}

// Point is one value in a time series; At is in seconds from the window's start.
type Point struct {
	At    float64 `json:"at"`
	Value float64 `json:"value"`
}

// Unmeasured returns, in the order in which they ran, the first trial of each network of which
// trials failed or were invalid, and none was OK. A network that is unsupported is not among
// them, nor is one that refused traffic as it must.
func (r Results) Unmeasured() (first []Trial) {
	measured := map[string]bool{}
	for _, t := range r.Trials {
		measured[t.Network] = measured[t.Network] || t.Status == OK || t.Status == Refused
	}
	for _, t := range r.Trials {
		if !measured[t.Network] && (t.Status == Failed || t.Status == Invalid) {
			first = append(first, t)
			measured[t.Network] = true
		}
	}
	return first
}
