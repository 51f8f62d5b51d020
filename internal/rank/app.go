package rank

import "pathwise.dev/pathwise/internal/sample"

// Application maps what a user runs to the workloads that stand for it.
type Application struct {
	Name string `json:"name"`
	// Parts are its workloads; each contributes its metrics with equal weight.
	Parts []Part `json:"parts"`
}

// Part is a workload and the metrics of it that are summed. The first one
// decides which load is the optimum.
type Part struct {
	Workload string   `json:"workload"`
	Metrics  []string `json:"metrics"`
}

// Applications is the mapping, in the order in which tables show it. To add
// an application, add a line.
func Applications() []Application {
	// Rate and the median repeat each other while the loop is closed, but
	// under an offered rate only the latencies differ, so both are listed.
	roundTrip := []string{sample.Rate, sample.LatencyP50, sample.LatencyP99}
	return []Application{
		{"bulk", []Part{{"tcp-stream", []string{sample.Throughput}}}},
		{"request-response", []Part{{"tcp-rr", roundTrip}, {"tcp-latency", roundTrip}, {"udp-latency", roundTrip}}},
		{"connections", []Part{{"connect", []string{sample.Rate}}}},
		{"datagram", []Part{{"udp-stream", []string{sample.Throughput}}, {"udp-max", []string{sample.Throughput}}}},
		{"startup", []Part{{"startup", []string{sample.Startup}}}},
		// The rows of Table 6 of Atici and Boluk (2020), by throughput alone as there.
		{"web", throughput("http")},
		{"mongodb-insert", throughput("mongo-insert-empty", "mongo-insert-int-vector", "mongo-insert-large-doc-vector")},
		{"mongodb-update", throughput("mongo-update-field-at-offset")},
		{"mongodb-query", throughput("mongo-query-empty", "mongo-query-find-projection", "mongo-query-int-id-range", "mongo-query-no-match")},
	}
}

// throughput are workloads that count by their finished operations alone.
func throughput(workloads ...string) (out []Part) {
	for _, w := range workloads {
		out = append(out, Part{w, []string{sample.Rate}})
	}
	return out
}

// robustness lists the sub-features that a robust need adds, those of Atici
// and Boluk (2020), section 4.2.
func robustness() []Part {
	return []Part{
		{"tcp-stream", []string{sample.Retransmits}},
		{"udp-stream", []string{sample.Jitter, sample.Loss}},
	}
}
