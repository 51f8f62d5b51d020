package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// madeClaims are invented statements about invented networks.
func madeClaims() []claim.Claim {
	p := func(v float64) *float64 { return &v }
	tcp := claim.Where{Workload: "tcp-stream"}
	ratio := func(of, to string, least, most float64) claim.Test {
		return claim.Test{Ratio: &claim.Ratio{Of: claim.Side{Network: of}, To: claim.Side{Network: to},
			Range: claim.Range{Least: p(least), Most: p(most)}}}
	}
	connections := func(n int) claim.Side { return claim.Side{Where: claim.Where{Loads: []sample.Load{{Connections: n}}}} }
	return []claim.Claim{
		{ID: "macvlan-over-bridge", Source: "Author 2015", Text: "macvlan performs about 2.5 times as good as a bridge",
			Published: "about 2.5 times; iperf3, 10 Gbit/s", Metric: sample.Throughput, Where: tcp,
			Test: ratio("macvlan", "bridge", 2, 3), Because: "an invented bridge has <b>no</b> speed limit"},
		{ID: "bridge-cost", Source: "Author 2015", Text: "a bridge costs 5 to 20 % of the throughput", Published: "5-20 %",
			Metric: sample.Throughput, Where: tcp, Test: ratio("bridge", "host", 0.8, 0.95)},
		{ID: "vxlan-cost", Source: "Writer et al. 2018", Text: "an overlay network is slower than the host's",
			Metric: sample.Throughput, Where: tcp, Test: ratio("vxlan", "host", 0.1, 0.9)},
		{ID: "order", Source: "Writer et al. 2018", Text: "macvlan is the best, ipvlan a close second, a bridge behind",
			Metric: sample.LatencyP50, Where: claim.Where{Workload: "tcp-latency"},
			Test: claim.Test{Order: claim.Order{{"macvlan"}, {"ipvlan-l2"}, {"bridge", "vxlan"}}}},
		{ID: "growth", Source: "Writer et al. 2018", Text: "eight connections double the throughput",
			Metric: sample.Throughput, Where: tcp, Networks: []string{"host", "bridge", "vxlan"},
			Test: claim.Test{Ratio: &claim.Ratio{Of: connections(8), To: connections(1), Range: claim.Range{Least: p(2)}}}},
		{ID: "optimum", Source: "Writer et al. 2018", Text: "throughput is the highest with eight connections",
			Metric: sample.Throughput, Where: tcp, Networks: []string{"macvlan"},
			Test: claim.Test{Optimum: &claim.Optimum{Over: claim.Connections, Range: claim.Range{Least: p(8), Most: p(8)}}}},
		{ID: "robust", Source: "Writer et al. 2018", Text: "macvlan sends next to nothing again", Metric: sample.Retransmits,
			Where: tcp, Overall: true, Networks: []string{"macvlan"}, Test: claim.Test{Value: &claim.Range{Most: p(2)}}},
		{ID: "falls", Source: "Writer et al. 2018", Text: "throughput falls with the number of connections",
			Metric: sample.Throughput, Where: tcp, Networks: []string{"host"},
			Test: claim.Test{Trend: &claim.Trend{Over: claim.Connections, Falling: true}}},
	}
}

func TestClaimsGolden(t *testing.T) {
	in := fixtures()["claims"]
	for name, write := range map[string]func(io.Writer) error{
		"claims.txt":       func(w io.Writer) error { return Claims(w, Text, in, Options{Width: 100}) },
		"claims.md":        func(w io.Writer) error { return Claims(w, Markdown, in, Options{}) },
		"claims.csv":       func(w io.Writer) error { return Claims(w, CSV, in, Options{}) },
		"claims-brief.txt": func(w io.Writer) error { return Brief(w, in, Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, name, got.Bytes())
		})
	}
}

func TestClaimsAreInEveryReport(t *testing.T) {
	in := fixtures()["claims"]
	for _, format := range []string{Text, Markdown, JSON, HTML} {
		out := render(t, format, in, quick())
		for _, want := range []string{"macvlan performs about 2.5 times as good as a bridge", "does not hold",
			"iperf3, 10 Gbit/s", "speed limit"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q", format, want)
			}
		}
	}
	if out := render(t, HTML, fixtures()["small"], quick()); strings.Contains(out, `id="claims"`) {
		t.Error("a report without claims has a section about them")
	}
}

func TestClaimsCSVIsWhole(t *testing.T) {
	in := fixtures()["claims"]
	var b bytes.Buffer
	if err := Claims(&b, CSV, in, Options{}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll() // refuses rows of unequal length
	if err != nil {
		t.Fatal(err)
	}
	want := 1
	for _, j := range Judge(in, Options{}) {
		for _, f := range j.Findings {
			want += max(len(f.Steps), 1)
		}
	}
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
}

func TestClaimsJSONReadsBack(t *testing.T) {
	in := fixtures()["claims"]
	var b bytes.Buffer
	if err := Claims(&b, JSON, in, Options{}); err != nil {
		t.Fatal(err)
	}
	var d ClaimsDocument
	if err := json.Unmarshal(b.Bytes(), &d); err != nil || len(d.Claims) != len(in.Claims) || d.Level != 0.95 {
		t.Errorf("got %d claims at %g, %v", len(d.Claims), d.Level, err)
	}
	if err := Claims(&b, HTML, in, Options{}); err == nil {
		t.Error("an unknown format was accepted")
	}
}

func TestClaimsOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := Claims(&b, Text, Input{Results: fixtures()["zero"].Results, Claims: madeClaims()}, Options{}); err != nil ||
		!strings.Contains(b.String(), "not tested") {
		t.Errorf("got %s, %v", b.String(), err)
	}
	b.Reset()
	if err := Claims(&b, Text, fixtures()["small"], Options{}); err != nil ||
		!strings.Contains(b.String(), "makes no claims") {
		t.Errorf("got %s, %v", b.String(), err)
	}
}
