package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// studyTrials are figures of every workload of Table 6 of Atici and Boluk (2020)
// that are made up, without two that are alike.
func studyTrials() (out []sample.Trial) {
	networks := []string{"host", "docker-overlay", "flannel-vxlan", "ovn-geneve", "routed-bgp", "weave-fastdp-like"}
	n := 0.0
	add := func(workload string, load sample.Load, metrics func(net, rep int) map[string]float64) {
		for net, name := range networks {
			for rep := 1; rep <= 3; rep++ {
				n++
				out = append(out, sample.Trial{Cell: sample.Cell{Network: name, Workload: workload, Load: load,
					Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500}},
					Repetition: rep, Order: len(out) + 1, Status: sample.OK, Kernel: "host", Metrics: metrics(net, rep)})
			}
		}
	}
	for w, name := range tableSix()["all"] {
		for _, threads := range []int{1, 50, 200} {
			add(name, sample.Load{Connections: threads}, func(net, rep int) map[string]float64 {
				shape := map[int]float64{1: 1, 50: 20, 200: 18}[threads]
				if name == "mongo-insert-large-doc-vector" {
					shape = float64(threads)
				}
				return map[string]float64{sample.Rate: 1000 * shape * (1 + 0.1*math.Sin(float64(7*net+3*w+threads)) +
					0.01*math.Cos(n+float64(rep)))}
			})
		}
	}
	for _, threads := range []int{5, 100} {
		add("tcp-stream", sample.Load{Connections: threads, Size: 131072}, func(net, rep int) map[string]float64 {
			return map[string]float64{sample.Throughput: 1e9, sample.Retransmits: 3 + math.Sin(float64(5*net+threads)) +
				0.1*math.Cos(n)}
		})
		add("udp-stream", sample.Load{Connections: threads, Size: 1400, Rate: 1e6}, func(net, rep int) map[string]float64 {
			return map[string]float64{sample.Throughput: 1e6, sample.Jitter: 1e-5 * (2 + math.Sin(float64(11*net+threads))),
				sample.Loss: 0.01 * (1 + math.Cos(float64(3*net+threads+rep)))}
		})
	}
	return out
}

// tableSix says which workloads represent the rows of the table.
func tableSix() map[string][]string {
	out := map[string][]string{
		"web":            {"http"},
		"mongodb-insert": {"mongo-insert-empty", "mongo-insert-int-vector", "mongo-insert-large-doc-vector"},
		"mongodb-update": {"mongo-update-field-at-offset"},
		"mongodb-query": {"mongo-query-empty", "mongo-query-find-projection", "mongo-query-int-id-range",
			"mongo-query-no-match"},
	}
	out["all"] = slices.Concat(out["web"], out["mongodb-insert"], out["mongodb-update"], out["mongodb-query"])
	return out
}

// byHand holds the exported CSV and does the table's arithmetic on it as one
// would in a spreadsheet, with nothing of package rank.
type byHand struct {
	rows     [][]string
	column   map[string]int
	networks []string
}

func export(t *testing.T, trials []sample.Trial) byHand {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, CSV,
		Input{Results: sample.Results{Header: sample.Header{Experiment: "atici-boluk"}, Trials: trials}},
		Options{}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	h := byHand{rows: rows[1:], column: map[string]int{}}
	for i, name := range rows[0] {
		h.column[name] = i
	}
	for _, r := range h.rows {
		if n := r[h.column["network"]]; n != "host" && !slices.Contains(h.networks, n) {
			h.networks = append(h.networks, n)
		}
	}
	slices.Sort(h.networks)
	return h
}

// mean averages the value column over the rows of one cell and metric.
func (h byHand) mean(t *testing.T, network, workload, threads, metric string) float64 {
	t.Helper()
	sum, n := 0.0, 0.0
	for _, r := range h.rows {
		if r[h.column["network"]] == network && r[h.column["workload"]] == workload &&
			r[h.column["connections"]] == threads && r[h.column["metric"]] == metric {
			v, err := strconv.ParseFloat(r[h.column["value"]], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
			n++
		}
	}
	if n != 3 {
		t.Fatalf("%s %s %s %s: %g rows, want 3", network, workload, threads, metric, n)
	}
	return sum / n
}

// z is (value - mean) / deviation of equation (1), turned where lower is better.
func (h byHand) z(t *testing.T, workload, threads, metric string, lower bool) map[string]float64 {
	t.Helper()
	mu, square := 0.0, 0.0
	for _, n := range h.networks {
		v := h.mean(t, n, workload, threads, metric)
		mu += v
		square += v * v
	}
	count := float64(len(h.networks))
	mu /= count
	sigma := math.Sqrt(square/count - mu*mu)
	out := map[string]float64{}
	for _, n := range h.networks {
		out[n] = (h.mean(t, n, workload, threads, metric) - mu) / sigma
		if lower {
			out[n] = -out[n]
		}
	}
	return out
}

// optimum is the number of threads with the best mean over networks.
func (h byHand) optimum(t *testing.T, workload string) string {
	t.Helper()
	best, at := 0.0, ""
	for _, threads := range []string{"1", "50", "200"} {
		sum := 0.0
		for _, n := range h.networks {
			sum += h.mean(t, n, workload, threads, "rate")
		}
		if sum > best {
			best, at = sum, threads
		}
	}
	return at
}

// TestTableSixByHand recomputes every score of the recommendation table from the
// exported CSV: throughput alone, and with jitter, retransmissions and losses at
// the number of threads that is nearest to the application's.
func TestTableSixByHand(t *testing.T) {
	trials := studyTrials()
	h := export(t, trials)
	for app, workloads := range tableSix() {
		if app == "all" {
			continue
		}
		for _, load := range []rank.LoadPoint{rank.Optimum, rank.High} {
			for _, robust := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/robust=%t", app, load, robust), func(t *testing.T) {
					want := h.scores(t, workloads, load, robust)
					got, err := rank.Recommend(trials, rank.Need{App: app, Load: load, Robust: robust,
						Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500}}, rank.Options{Draws: 100})
					if err != nil {
						t.Fatal(err)
					}
					best := slices.MaxFunc(h.networks, func(a, b string) int { return int(math.Copysign(1, want[a]-want[b])) })
					if got.Scored[0] != best {
						t.Errorf("the highest sum is that of %s, by hand %s", got.Scored[0], best)
					}
					for _, row := range got.Ranking.Rows {
						if row.Network != "host" && math.Abs(row.Score-want[row.Network]) > 1e-6 {
							t.Errorf("%s: score %v, by hand %v", row.Network, row.Score, want[row.Network])
						}
					}
				})
			}
		}
	}
}

// scores sums the z-scores of an application's cell of the table.
func (h byHand) scores(t *testing.T, workloads []string, load rank.LoadPoint, robust bool) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	add := func(z map[string]float64) {
		for n, v := range z {
			out[n] += v
		}
	}
	first := ""
	for _, w := range workloads {
		threads := "200"
		if load == rank.Optimum {
			threads = h.optimum(t, w)
		}
		if first == "" {
			first = threads
		}
		add(h.z(t, w, threads, "rate", false))
	}
	if robust {
		near := map[string]string{"1": "5", "50": "100", "200": "100"}[first] // of 5 and 100, on a logarithmic scale
		add(h.z(t, "tcp-stream", near, "retransmits", true))
		add(h.z(t, "udp-stream", near, "jitter", true))
		add(h.z(t, "udp-stream", near, "loss", true))
	}
	return out
}
