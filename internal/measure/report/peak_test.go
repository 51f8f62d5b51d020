package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// TestCurve: of a load that grows the text tells every figure with its interval,
// and for each network where it is best.
func TestCurve(t *testing.T) {
	var out bytes.Buffer
	if err := Render(&out, Text, Input{Results: manyPlan().results()}, Options{}); err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(out.String(), "against pod pairs\n")
	if !ok {
		t.Fatalf("no curve in\n%s", out.String())
	}
	if !regexp.MustCompile(`^network +1 +4 +16 +64 +128 +best at\nhost( +[0-9.]+ ± [0-9.]+){5} +[0-9]+( or [0-9]+)*\n`).MatchString(table) {
		t.Errorf("got\n%.600s", table)
	}
	if !strings.Contains(table, "Best at is the load with the best mean") {
		t.Error("the table does not say what best at is")
	}
}

// TestOptimum: where a claim speaks of an optimum the end of a run names it for
// each network, with the figure there and its interval.
func TestOptimum(t *testing.T) {
	at := 4.0
	in := Input{Results: manyPlan().results(),
		Claims: []claim.Claim{{ID: "best", Source: "Author 2015", Text: "four pairs are best", Metric: sample.Throughput,
			Where: claim.Where{Workload: "tcp-stream"}, Networks: []string{"host"},
			Test: claim.Test{Optimum: &claim.Optimum{Over: claim.Pairs, Range: claim.Range{Least: &at, Most: &at}}}}}}
	var out bytes.Buffer
	if err := Brief(&out, in, Options{}); err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(out.String(), "tcp-stream, one-host: optimum of pod pairs\n")
	if !ok || !regexp.MustCompile(`^network +best at +throughput Gbit/s\nhost +[0-9]+( or [0-9]+)* +[0-9.]+ ± [0-9.]+\n`).MatchString(table) {
		t.Errorf("got\n%.600s", out.String())
	}
	if strings.Contains(out.String(), "tcp-latency, one-host: optimum") {
		t.Error("an optimum that no claim speaks of")
	}
}
