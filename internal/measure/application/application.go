// Package application says what users run: which workloads represent an
// application, which of their figures matter and by how much, and which bounds a
// network must keep.
//
// It is pure. It knows no network and no ranking, so that an experiment can hold
// applications of its own while measuring cannot know how they are judged.
package application

import (
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
)

// Application is what a user runs, by the workloads that represent it.
type Application struct {
	Name string `json:"name"`
	// Parts are its workloads. Each has its weight, however many figures it has.
	Parts []Part `json:"parts"`
	// Bounds that a network must keep to be recommended.
	Bounds []Bound `json:"bounds,omitempty"`
}

// Part is a workload of an application.
type Part struct {
	Workload string `json:"workload"`
	// Weight is its share alongside the other parts' weights.
	Weight float64 `json:"weight"`
	// Metrics share the part's weight. The first one decides which load is the optimum.
	Metrics []Metric `json:"metrics"`
	// Offered are those in their place where the load is offered at a rate, which
	// most networks meet; empty where they are the same.
	Offered []Metric `json:"offered,omitempty"`
	// Also marks another generator's word on what the first parts tell: it counts where
	// it was measured, and is not missed where it was not.
	Also bool `json:"also,omitempty"`
	// Load is where the part is looked at; nil leaves that to the need. A knob of 0 may
	// have any value.
	Load *sample.Load `json:"load,omitempty"`
}

// Metric is a figure with its share alongside the part's other metrics.
type Metric struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// At lists the metrics that matter at a load.
func (p Part) At(load sample.Load) []Metric {
	if load.Rate > 0 && len(p.Offered) > 0 {
		return p.Offered
	}
	return p.Metrics
}

// Takes tells whether the part may be looked at a load.
func (p Part) Takes(load sample.Load) bool {
	l := p.Load
	return l == nil || (l.Connections == 0 || l.Connections == load.Connections) &&
		(l.Size == 0 || l.Size == load.Size) && (l.Rate == 0 || l.Rate == load.Rate)
}

// Has tells whether a workload represents the application.
func (a Application) Has(workload string) bool {
	for _, p := range a.Parts {
		if p.Workload == workload {
			return true
		}
	}
	return false
}

// Alike is a part whose metrics share its weight of 1 equally.
func Alike(workload string, metrics ...string) Part {
	p := Part{Workload: workload, Weight: 1}
	for _, m := range metrics {
		p.Metrics = append(p.Metrics, Metric{m, 1})
	}
	return p
}

// also marks parts as such.
func also(parts ...Part) []Part {
	for i := range parts {
		parts[i].Also = true
	}
	return parts
}

// Named lists the metrics by which the first of apps with a workload judges it at a
// load; nil where it belongs to none.
func Named(apps []Application, workload string, load sample.Load) (out []string) {
	for _, a := range apps {
		for _, p := range a.Parts {
			if p.Workload == workload {
				for _, m := range p.At(load) {
					out = append(out, m.Name)
				}
				return out
			}
		}
	}
	return nil
}

// Own tells why a workload belongs to no shipped application; "" for one that does.
func Own(workload string) string {
	switch {
	case slices.ContainsFunc(Shipped(), func(a Application) bool { return a.Has(workload) }):
		return ""
	case strings.HasPrefix(workload, "uperf:"):
		return "it plays a profile of yours, which only you know the use of"
	}
	if workload == "first-packet" {
		return "it measures pipelines of Open vSwitch, and other networks have none"
	}
	return "no shipped one has it"
}

// Shipped is the mapping that needs no experiment file, in the order in which
// tables show it. To add an application, add a line.
func Shipped() []Application {
	// Rate and the median repeat each other while the loop is closed, but
	// under an offered rate only the latencies differ, so both are listed.
	roundTrip := []string{sample.Rate, sample.LatencyP50, sample.LatencyP99}
	typical := []string{sample.Rate, sample.LatencyMean} // netperf tells no percentiles
	return []Application{
		{Name: "bulk", Parts: append([]Part{Alike("tcp-stream", sample.Throughput)},
			also(Alike("tcp-bulk", sample.Throughput), Alike("netperf-tcp-stream", sample.Throughput),
				Alike("uperf-stream", sample.Throughput))...)},
		{Name: "request-response",
			Parts: append([]Part{Alike("tcp-rr", roundTrip...), Alike("tcp-latency", roundTrip...),
				Alike("udp-latency", roundTrip...)},
				also(Alike("udp-rr", roundTrip...), Alike("uperf-rr", roundTrip...), Alike("netperf-tcp-rr", typical...),
					Alike("netperf-udp-rr", typical...))...)},
		{Name: "connections", Parts: append(rates("connect"), also(Alike("netperf-tcp-crr", typical...))...)},
		{Name: "datagram", Parts: append([]Part{Alike("udp-stream", sample.Throughput), Alike("udp-max", sample.Throughput)},
			also(Alike("udp-bulk", sample.Throughput), Alike("netperf-udp-stream", sample.Throughput))...)},
		{Name: "interactive", Parts: []Part{Alike("loaded-latency", sample.LatencyLoaded)}},
		{Name: "mpi", Parts: []Part{Alike("mpi-alltoall", sample.LatencyP50), Alike("mpi-pingpong", sample.LatencyP50),
			Alike("mpi-bandwidth", sample.Throughput)}},
		{Name: "startup",
			Parts: append([]Part{Alike("startup", sample.Startup)}, also(Alike("startup-containerd", sample.Startup))...)},
		// Without a rate as the rows of Table 6 of Atici and Boluk (2020), by throughput
		// alone; at a rate that is offered by how long answers take.
		{Name: "web", Parts: append([]Part{access("http")}, also(access("http-close"))...)},
		{Name: "mongodb-insert",
			Parts: rates("mongo-insert-empty", "mongo-insert-int-vector", "mongo-insert-large-doc-vector")},
		{Name: "mongodb-update", Parts: rates("mongo-update-field-at-offset")},
		{Name: "mongodb-query", Parts: rates("mongo-query-empty", "mongo-query-find-projection", "mongo-query-int-id-range",
			"mongo-query-no-match")},
	}
}

// access is a workload of web access. At an offered rate the rate still counts,
// against a network that does not carry it.
func access(workload string) Part {
	p := Alike(workload, sample.Rate)
	p.Offered = Alike(workload, sample.LatencyP50, sample.LatencyP99, sample.Rate).Metrics
	return p
}

// rates are workloads that count by their finished operations alone.
func rates(workloads ...string) (out []Part) {
	for _, w := range workloads {
		out = append(out, Alike(w, sample.Rate))
	}
	return out
}

// Robustness lists what a robust need adds, after Atici and Boluk (2020), section 4.2.
func Robustness() []Part {
	return []Part{
		Alike("tcp-stream", sample.Retransmits),
		Alike("udp-stream", sample.Jitter, sample.Loss),
	}
}
