package rank

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// repeated makes three repetitions of a cell around the given values, 1 % apart.
func repeated(network, workload string, connections int, metrics map[string]float64) (out []sample.Trial) {
	for rep := 1; rep <= 3; rep++ {
		m := map[string]float64{}
		for name, v := range metrics {
			m[name] = v * (1 + 0.01*float64(rep-2))
		}
		out = append(out, trial(network, workload, connections, rep, m))
	}
	return out
}

// streams is a bulk experiment: fast wins throughput, and steady all that is robust.
func streams() (out []sample.Trial) {
	for _, n := range []struct {
		name                          string
		throughput, resent, jit, loss float64
	}{{"host", 20, 1, 1e-6, 0.001}, {"fast", 10, 90, 90e-6, 0.09}, {"steady", 8, 10, 10e-6, 0.01},
		{"poor", 5, 60, 60e-6, 0.06}} {
		for _, c := range []int{1, 8, 64} {
			// Throughput peaks at 8 connections.
			scale := map[int]float64{1: 0.5, 8: 1, 64: 0.8}[c]
			out = append(out,
				repeated(n.name, "tcp-stream", c,
					map[string]float64{sample.Throughput: 1e9 * n.throughput * scale, sample.Retransmits: n.resent})...)
		}
		out = append(out,
			repeated(n.name, "udp-stream", 4,
				map[string]float64{sample.Throughput: 1e8, sample.Jitter: n.jit, sample.Loss: n.loss})...)
	}
	return out
}

func TestRecommend(t *testing.T) {
	for _, tt := range []struct {
		load     LoadPoint
		robust   bool
		chosen   string
		asked    []string
		features int
	}{
		{Optimum, false, "fast", []string{"two-hosts/tcp-stream/c=8"}, 1},
		{High, false, "fast", []string{"two-hosts/tcp-stream/c=64"}, 1},
		{Optimum, true, "steady", []string{"two-hosts/tcp-stream/c=8", "two-hosts/udp-stream/c=4"}, 4},
		{High, true, "steady", []string{"two-hosts/tcp-stream/c=64", "two-hosts/udp-stream/c=4"}, 4},
	} {
		got, err := Recommend(streams(), Need{App: "bulk", Load: tt.load, Robust: tt.robust, Scenario: twoHosts}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var asked []string
		for _, q := range got.Asked {
			asked = append(asked, q.String())
		}
		if !slices.Equal(got.Chosen, []string{tt.chosen}) || !slices.Equal(asked, tt.asked) {
			t.Errorf("%+v: chose %v from %v, want %s from %v", got.Need, got.Chosen, asked, tt.chosen, tt.asked)
		}
		if n := len(got.Ranking.Rows[0].Features); n != tt.features {
			t.Errorf("%+v: %d sub-features, want %d", got.Need, n, tt.features)
		}
		if near := warned(got.Warnings, "robustness", "from load c=4, the nearest"); near != tt.robust {
			t.Errorf("%+v: nearest load told: %v", got.Need, got.Warnings)
		}
		lead := got.Ranking.Outlook.Lead
		if lead == nil || lead.Low <= 1 || !lead.Contains(lead.Center) {
			t.Errorf("%+v: lead %+v", got.Need, lead)
		}
		if !strings.HasPrefix(got.Why, "Use "+tt.chosen+" for bulk: it is the best of 3 networks with a probability of") {
			t.Errorf("%+v: why: %s", got.Need, got.Why)
		}
	}
}

func TestRecommendListsTies(t *testing.T) {
	trials := slices.Concat(throughputs("a", 10, 11, 12), throughputs("b", 10.5, 11, 12), throughputs("c", 1, 1.1, 1.2))
	got, err := Recommend(trials, Need{App: "bulk", Load: High, Scenario: twoHosts}, Options{})
	if err != nil || !slices.Equal(got.Chosen, []string{"b", "a"}) {
		t.Fatalf("chose %v, %v", got.Chosen, err)
	}
	if lead := got.Ranking.Outlook.Lead; !strings.HasPrefix(got.Why,
		"The data cannot tell whether b or a is best for bulk") || !lead.Contains(1) {
		t.Errorf("why %q, lead %+v", got.Why, lead)
	}
	if !warned(got.Warnings, "load", "only load c=1 was measured") {
		t.Errorf("one load passed for two: %v", got.Warnings)
	}
}

func TestRecommendErrors(t *testing.T) {
	trials := slices.Concat(throughputs("a", 1, 2, 3), throughputs("host", 1, 2, 3),
		[]sample.Trial{failed("a", "connect", 1, 1)})
	for _, host := range throughputs("host", 5, 6) {
		host.Workload = "udp-max"
		trials = append(trials, host)
	}
	oneHost := topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500}
	for name, tt := range map[string]struct {
		need Need
		want error
		text string
	}{
		"unknown application": {Need{App: "database", Load: High, Scenario: twoHosts}, ErrUnknownApplication,
			"expected bulk, request-response"},
		"other scenario":    {Need{App: "bulk", Load: High, Scenario: oneHost}, ErrNotMeasured, "one-host"},
		"only failures":     {Need{App: "connections", Load: High, Scenario: twoHosts}, ErrNotMeasured, "connections"},
		"only the baseline": {Need{App: "datagram", Load: High, Scenario: twoHosts}, ErrNotMeasured, "datagram"},
		"load point":        {Need{App: "bulk", Load: "low", Scenario: twoHosts}, nil, "expected optimum or high"},
	} {
		_, err := Recommend(trials, tt.need, Options{})
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A network that lacks robustness data cannot be recommended as robust.
func TestRecommendOnlyWhatWasMeasured(t *testing.T) {
	trials := slices.Concat(streams(),
		repeated("new", "tcp-stream", 8, map[string]float64{sample.Throughput: 30e9, sample.Retransmits: 0.5}))
	need := Need{App: "bulk", Load: Optimum, Scenario: twoHosts}
	got, err := Recommend(trials, need, Options{})
	if err != nil || got.Chosen[0] != "new" {
		t.Errorf("unrobust: %v, %v", got.Chosen, err)
	}
	need.Robust = true
	got, err = Recommend(trials, need, Options{})
	if err != nil || got.Chosen[0] != "steady" || !warned(got.Ranking.Warnings, "missing", "new is not ranked") {
		t.Errorf("robust: %v, %v, %v", got.Chosen, err, got.Ranking.Warnings)
	}
	only, err := Recommend(repeated("new", "connect", 1, map[string]float64{sample.Rate: 5}),
		Need{App: "connections", Load: High, Robust: true, Scenario: twoHosts}, Options{})
	if err != nil || only.Ranking.Outlook.Lead != nil || !strings.Contains(only.Why, "the only network") {
		t.Errorf("alone: %+v, %v", only, err)
	}
}

// The mean over networks decides the optimum, over those measured at every
// load: the slow network that fails at 64 must not make 64 the optimum.
func TestOptimumComparesTheSameNetworks(t *testing.T) {
	rate := func(network string, c int, v float64) []sample.Trial {
		return repeated(network, "connect", c, map[string]float64{sample.Rate: v})
	}
	trials := slices.Concat(rate("a", 1, 100), rate("a", 8, 200), rate("a", 64, 180), rate("slow", 1, 10),
		rate("slow", 8, 12))
	need := Need{App: "connections", Load: Optimum, Scenario: twoHosts}
	got, err := Recommend(trials, need, Options{})
	if err != nil || got.Asked[0].Load.Connections != 8 || warned(got.Warnings, "load", "") {
		t.Errorf("got %v, %v, %v", got.Asked, got.Warnings, err)
	}
	apart, _ := Recommend(slices.Concat(rate("a", 1, 100), rate("b", 8, 50)), need, Options{})
	if apart.Asked[0].Load.Connections != 1 || !warned(apart.Warnings, "load", "no network was measured at every load") {
		t.Errorf("got %v, %v", apart.Asked, apart.Warnings)
	}
	close, _ := Recommend(slices.Concat(rate("a", 1, 100), rate("a", 8, 100.1)), need, Options{})
	if !warned(close.Warnings, "load", "optimum load c=8 is not certain: it could be c=1") {
		t.Errorf("got %v", close.Warnings)
	}
}

func TestNearestLoad(t *testing.T) {
	questions := func(loads ...sample.Load) (out []sample.Question) {
		for _, l := range loads {
			out = append(out, sample.Question{Load: l})
		}
		return out
	}
	for _, tt := range []struct {
		to   sample.Load
		of   []sample.Question
		want sample.Load
	}{
		{sample.Load{Connections: 8}, questions(sample.Load{Connections: 1}, sample.Load{Connections: 8},
			sample.Load{Connections: 64}), sample.Load{Connections: 8}},
		{sample.Load{Connections: 50}, questions(sample.Load{Connections: 1}, sample.Load{Connections: 30},
			sample.Load{Connections: 100}), sample.Load{Connections: 30}},
		{sample.Load{Connections: 1, Rate: 1e6},
			questions(sample.Load{Connections: 1, Rate: 1e9}, sample.Load{Connections: 1, Rate: 1e7},
				sample.Load{Connections: 2, Rate: 1e6}), sample.Load{Connections: 1, Rate: 1e7}},
		{sample.Load{Size: 64}, questions(sample.Load{Size: 1400}, sample.Load{Size: 128}), sample.Load{Size: 128}},
	} {
		if got := nearest(tt.of, tt.to).Load; got != tt.want {
			t.Errorf("nearest to %v is %v, want %v", tt.to, got, tt.want)
		}
	}
}

func TestTablePerScenario(t *testing.T) {
	trials := streams()
	for _, s := range streams() {
		s.Scenario.Placement = topo.OneHost
		trials = append(trials, s)
	}
	var got []string
	for _, g := range Table(trials, Options{}) {
		for _, r := range g.Rows {
			got = append(got, fmt.Sprint(g.Scenario, " ", r.App, r.HighRobust.Chosen, r.HighUnrobust.Chosen,
				r.OptimumRobust.Chosen, r.OptimumUnrobust.Chosen))
		}
	}
	want := []string{
		"one-host bulk[steady] [fast] [steady] [fast]",
		"one-host datagram[steady] [fast poor steady] [steady] [fast poor steady]",
		"two-hosts bulk[steady] [fast] [steady] [fast]",
		"two-hosts datagram[steady] [fast poor steady] [steady] [fast poor steady]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
