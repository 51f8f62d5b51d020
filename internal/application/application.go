// Package application says what users run: which workloads stand for an
// application, which of their figures matter and by how much.
//
// It is pure. It knows no network and no ranking, so that an experiment can hold
// applications of its own while measuring cannot know how they are judged.
package application

import "pathwise.dev/pathwise/internal/sample"

// Application is what a user runs, by the workloads that stand for it.
type Application struct {
	Name string `json:"name"`
	// Parts are its workloads. Each has its weight, however many figures it has.
	Parts []Part `json:"parts"`
}

// Part is a workload of an application.
type Part struct {
	Workload string `json:"workload"`
	// Weight is its share beside the other parts' weights.
	Weight float64 `json:"weight"`
	// Metrics share the part's weight. The first one decides which load is the optimum.
	Metrics []Metric `json:"metrics"`
}

// Metric is a figure with its share beside the part's other metrics.
type Metric struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// Names lists the part's metrics by name.
func (p Part) Names() (out []string) {
	for _, m := range p.Metrics {
		out = append(out, m.Name)
	}
	return out
}

// Has tells whether a workload stands for the application.
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

// Shipped is the mapping that needs no experiment file, in the order in which
// tables show it. To add an application, add a line.
func Shipped() []Application {
	// Rate and the median repeat each other while the loop is closed, but
	// under an offered rate only the latencies differ, so both are listed.
	roundTrip := []string{sample.Rate, sample.LatencyP50, sample.LatencyP99}
	return []Application{
		{"bulk", []Part{Alike("tcp-stream", sample.Throughput)}},
		{"request-response", []Part{Alike("tcp-rr", roundTrip...), Alike("tcp-latency", roundTrip...), Alike("udp-latency", roundTrip...)}},
		{"connections", []Part{Alike("connect", sample.Rate)}},
		{"datagram", []Part{Alike("udp-stream", sample.Throughput), Alike("udp-max", sample.Throughput)}},
		{"startup", []Part{Alike("startup", sample.Startup)}},
		// The rows of Table 6 of Atici and Boluk (2020), by throughput alone as there.
		{"web", rates("http")},
		{"mongodb-insert", rates("mongo-insert-empty", "mongo-insert-int-vector", "mongo-insert-large-doc-vector")},
		{"mongodb-update", rates("mongo-update-field-at-offset")},
		{"mongodb-query", rates("mongo-query-empty", "mongo-query-find-projection", "mongo-query-int-id-range", "mongo-query-no-match")},
	}
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
