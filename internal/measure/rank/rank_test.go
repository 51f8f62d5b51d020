package rank

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
)

// trial is one OK trial on two hosts.
func trial(network, workload string, connections, repetition int, metrics map[string]float64) sample.Trial {
	return sample.Trial{
		Cell: sample.Cell{Network: network, Scenario: twoHosts, Workload: workload,
			Load: sample.Load{Connections: connections}},
		Repetition: repetition, Order: repetition, Status: sample.OK, Kernel: "host", Metrics: metrics,
	}
}

// throughputs makes tcp-stream trials, one repetition per value.
func throughputs(network string, values ...float64) (out []sample.Trial) {
	for i, v := range values {
		out = append(out, trial(network, "tcp-stream", 1, i+1, map[string]float64{sample.Throughput: v}))
	}
	return out
}

// failed is a trial that did not work.
func failed(network, workload string, connections, repetition int) sample.Trial {
	t := trial(network, workload, connections, repetition, nil)
	t.Status, t.Reason = sample.Failed, "no route"
	return t
}

func only(t *testing.T, rankings []Ranking, scope Scope) Ranking {
	t.Helper()
	var found []Ranking
	for _, r := range rankings {
		if r.Scope == scope {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d rankings of scope %s", len(found), scope)
	}
	return found[0]
}

func row(t *testing.T, r Ranking, network string) Row {
	t.Helper()
	for _, row := range r.Rows {
		if row.Network == network {
			return row
		}
	}
	t.Fatalf("%s is not in %s", network, r.Name)
	return Row{}
}

// Of 1, 2, 3 the mean is 2 and the population deviation sqrt(2/3).
func TestZScores(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		better sample.Better
		want   []float64
	}{
		{"higher is better", []float64{1, 2, 3}, sample.Higher, []float64{-math.Sqrt(1.5), 0, math.Sqrt(1.5)}},
		{"lower is better", []float64{1, 2, 3}, sample.Lower, []float64{math.Sqrt(1.5), 0, -math.Sqrt(1.5)}},
		{"two", []float64{10, 30}, sample.Higher, []float64{-1, 1}},
		{"sigma 0", []float64{0.1, 0.1, 0.1}, sample.Higher, []float64{0, 0, 0}},
		{"sigma of rounding", []float64{0.3, 0.1 + 0.2}, sample.Higher, []float64{0, 0}},
		{"one", []float64{5}, sample.Higher, []float64{0}},
		{"zeros", []float64{0, 0}, sample.Lower, []float64{0, 0}},
	} {
		got := make([]float64, len(tt.values))
		ZScores(tt.values, tt.better, got)
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 1e-12 {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

// Each sub-feature weighs the same whatever its unit, and latency counts downwards.
func TestScoreSumsSubFeatures(t *testing.T) {
	var trials []sample.Trial
	for i, n := range []string{"a", "b", "c"} {
		for rep := 1; rep <= 3; rep++ {
			v := float64(i + 1)
			trials = append(trials, trial(n, "tcp-latency", 1, rep, map[string]float64{
				sample.Rate: 1e4 * v, sample.LatencyP50: 1e-6 * v, sample.LatencyP99: 1e-3 / v,
				sample.LatencyMean: 1, sample.CPUPerKop: 100 * v, "unheard_of": 5,
			}))
		}
	}
	r := only(t, Rank(trials, Options{}), OfQuestion)
	z3, z1 := math.Sqrt(1.5), -math.Sqrt(1.5)
	mean := (1 + 1./2 + 1./3) / 3
	sd := math.Sqrt((1+1./4+1./9)/3 - mean*mean)
	want := map[string]float64{"a": z1 - z1 - (1-mean)/sd, "b": -(0.5 - mean) / sd, "c": z3 - z3 - (1./3-mean)/sd}
	for n, w := range want {
		got := row(t, r, n)
		if math.Abs(got.Score-w) > 1e-9 || len(got.Features) != 3 {
			t.Errorf("%s: score %v of %d features, want %v of rate, median and 99th percentile", n, got.Score, len(got.Features), w)
		}
	}
	if r.Rows[0].Network != "c" {
		t.Errorf("order %v", r.ranked())
	}
}

func TestRankSeparatesAndTies(t *testing.T) {
	trials := slices.Concat(
		throughputs("fast", 100, 101, 99, 100.5, 99.5),
		throughputs("twin", 100.2, 99.1, 100.9, 99.4, 100.1),
		throughputs("slow", 50, 50.5, 49.5, 50.2, 49.8),
		throughputs("wild", 20, 140, 90, 60, 120),
		throughputs("host", 200, 202, 198, 201, 199),
	)
	r := only(t, Rank(trials, Options{Seed: 1}), OfQuestion)
	if got := r.ranked(); !slices.Equal(got, []string{"fast", "twin", "wild", "slow"}) {
		t.Fatalf("order %v", got)
	}
	for n, want := range map[string]Row{
		"fast": {Rank: 1, RankLow: 1, RankHigh: 3, Tie: 1},
		"twin": {Rank: 2, RankLow: 1, RankHigh: 3, Tie: 1},
		"wild": {Rank: 3, RankLow: 1, RankHigh: 4, Tie: 1},
		"slow": {Rank: 4, RankLow: 3, RankHigh: 4, Tie: 2},
	} {
		got := row(t, r, n)
		if got.Rank != want.Rank || got.RankLow != want.RankLow || got.RankHigh != want.RankHigh || got.Tie != want.Tie {
			t.Errorf("%s: rank %d in [%d, %d], tie %d; want %+v", n, got.Rank, got.RankLow, got.RankHigh, got.Tie, want)
		}
	}
	host := row(t, r, "host")
	if !host.Baseline || host.Rank != 0 || host.Tie != 0 || host.Score <= r.Rows[0].Score {
		t.Errorf("host: %+v", host)
	}
	ratio := r.Rows[0].Features[0].ToBaseline
	if ratio == nil || math.Abs(ratio.Center-0.5) > 1e-3 || !ratio.Contains(0.5) {
		t.Errorf("ratio to host: %+v", ratio)
	}

	r = only(t, Rank(trials, Options{RankBaseline: true}), OfQuestion)
	if got := r.Rows[0]; got.Network != "host" || got.Rank != 1 || got.RankHigh != 1 {
		t.Errorf("competing host: %+v", got)
	}
}

// The group's leader decides, not the neighbour: the noisy network cannot be
// told from the first although the second can.
func TestTiesNeedNotBeNeighbours(t *testing.T) {
	trials := slices.Concat(
		throughputs("a", 100, 100.1, 99.9, 100),
		throughputs("b", 98, 98.1, 97.9, 98),
		throughputs("c", 60, 130, 90, 100),
	)
	r := only(t, Rank(trials, Options{}), OfQuestion)
	got := []int{row(t, r, "a").Tie, row(t, r, "b").Tie, row(t, r, "c").Tie}
	if !slices.Equal(got, []int{1, 2, 1}) {
		t.Errorf("ties %v", got)
	}
}

func TestFailedNetworksAreNotRanked(t *testing.T) {
	trials := slices.Concat(
		throughputs("a", 10, 11, 12),
		throughputs("b", 20, 21, 22),
		[]sample.Trial{failed("broken", "tcp-stream", 1, 1)},
	)
	for rep := 1; rep <= 3; rep++ {
		trials = append(trials, trial("a", "connect", 8, rep, map[string]float64{sample.Rate: 100 + float64(rep)}))
		trials = append(trials, failed("b", "connect", 8, rep))
		invalid := trial("c", "connect", 8, rep, map[string]float64{sample.Rate: 1e9})
		invalid.Status = sample.Invalid
		trials = append(trials, invalid)
	}
	rankings := Rank(trials, Options{})
	overall := only(t, rankings, Overall)
	if got := overall.ranked(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("ranked overall: %v", got)
	}
	b := row(t, overall, "b")
	if !slices.Equal(b.Missing, []string{"two-hosts/connect/c=8/rate"}) || len(b.Features) != 1 || b.Rank != 0 {
		t.Errorf("b: %+v", b)
	}
	for _, n := range []string{"b", "c", "broken"} {
		if !warned(overall.Warnings, "missing", n+" is not ranked") {
			t.Errorf("%s: left out in silence: %v", n, overall.Warnings)
		}
	}
	// The invalid figure is in no mean: alone, a scores 0.
	for _, r := range rankings {
		if r.Scope == OfQuestion && r.Question.Workload == "connect" && row(t, r, "a").Score != 0 {
			t.Errorf("a trial that is not OK entered: %+v", r.Rows)
		}
	}
}

func TestLongListsAreCut(t *testing.T) {
	if got := few([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
}

func TestOneRepetitionAmongMany(t *testing.T) {
	trials := slices.Concat(throughputs("a", 100, 101, 99), throughputs("b", 50, 51, 49), throughputs("once", 75))
	r := only(t, Rank(trials, Options{}), OfQuestion)
	for n, want := range map[string][3]int{"a": {1, 2, 1}, "once": {1, 3, 1}, "b": {2, 3, 2}} {
		if got := row(t, r, n); got.RankLow != want[0] || got.RankHigh != want[1] || got.Tie != want[2] {
			t.Errorf("%s: [%d, %d], tie %d; want %v", n, got.RankLow, got.RankHigh, got.Tie, want)
		}
	}
	if !warned(r.Warnings, "repetitions", "once") || warned(r.Warnings, "repetitions", "a,") {
		t.Errorf("warnings %v", r.Warnings)
	}
}

func TestDifferentKernelsAreTold(t *testing.T) {
	trials := slices.Concat(throughputs("a", 1, 2, 3), throughputs("b", 1, 2, 3))
	for i := range trials[:3] {
		trials[i].Kernel = "guest"
	}
	r := only(t, Rank(trials, Options{}), OfQuestion)
	if !warned(r.Warnings, "kernel", `a on "guest"; b on "host"`) {
		t.Errorf("warnings %v", r.Warnings)
	}
}

func TestRankingsCoverQuestionsApplicationsAndAll(t *testing.T) {
	var trials []sample.Trial
	for _, n := range []string{"a", "b"} {
		for _, c := range []int{1, 8} {
			for rep := 1; rep <= 2; rep++ {
				trials = append(trials,
					trial(n, "tcp-stream", c, rep, map[string]float64{sample.Throughput: float64(c * rep)}),
					trial(n, "new-workload", c, rep, map[string]float64{sample.Rate: float64(c * rep), sample.Loss: 0}))
			}
		}
	}
	var got []string
	for _, r := range Rank(trials, Options{}) {
		got = append(got, r.Name)
	}
	want := []string{"overall/two-hosts", "bulk/two-hosts", "two-hosts/new-workload/c=1", "two-hosts/new-workload/c=8",
		"two-hosts/tcp-stream/c=1", "two-hosts/tcp-stream/c=8"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if Rank(nil, Options{}) != nil || Summarize(nil, Options{}) == nil || Table(nil, Options{}) != nil {
		t.Error("no trials gave something else than nothing")
	}
}

func TestSameSeedSameAnswer(t *testing.T) {
	trials := slices.Concat(throughputs("a", 10, 11, 12), throughputs("b", 11, 12, 13), throughputs("c", 12, 11, 14))
	first := Rank(trials, Options{Seed: 7})
	shuffled := slices.Clone(trials)
	slices.Reverse(shuffled)
	if again := Rank(shuffled, Options{Seed: 7}); !reflect.DeepEqual(first, again) {
		t.Error("the order of trials matters")
	}
	more := append(slices.Clone(trials), trial("a", "connect", 1, 1, map[string]float64{sample.Rate: 1}),
		trial("b", "connect", 1, 1, map[string]float64{sample.Rate: 2}))
	for _, r := range Rank(more, Options{Seed: 7}) {
		if r.Scope == OfQuestion && r.Question.Workload == "tcp-stream" && !reflect.DeepEqual(r, only(t, first, OfQuestion)) {
			t.Error("another question moved this one")
		}
	}
}

func TestEverythingEncodes(t *testing.T) {
	trials := slices.Concat(table4().trials("calico", "weave"), throughputs("calico", 0, 0, 1),
		throughputs("host", 0, 0, 0),
		[]sample.Trial{failed("weave", "tcp-stream", 1, 1)})
	for name, v := range map[string]any{
		"rankings": Rank(trials, Options{}), "table": Table(trials, Options{}), "summaries": Summarize(trials, Options{}),
		"comparison": Compare(trials, trials[1:], CompareOptions{}),
	} {
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of many experiments with known true means, the interval holds the true rank
// in at least 95 of 100 rows, and true twins are told apart in at most 5.
func TestRankIntervalsCover(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	truth := map[string]float64{"a": 100, "b": 97, "c": 97, "d": 90, "e": 60}
	trueRanks := map[string][2]int{"a": {1, 1}, "b": {2, 3}, "c": {2, 3}, "d": {4, 4}, "e": {5, 5}}
	const experiments = 400
	for _, n := range []int{2, 3, 5} {
		rows, covered, apart := 0, 0, 0
		for range experiments {
			var trials []sample.Trial
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				values := make([]float64, n)
				for i := range values {
					values[i] = truth[name] * (1 + 0.04*r.NormFloat64())
				}
				trials = append(trials, throughputs(name, values...)...)
			}
			ranking := only(t, Rank(trials, Options{Draws: 1000}), OfQuestion)
			for _, row := range ranking.Rows {
				rows++
				if want := trueRanks[row.Network]; row.RankLow <= want[1] && row.RankHigh >= want[0] {
					covered++
				}
			}
			b, c := row(t, ranking, "b"), row(t, ranking, "c")
			if b.RankHigh < c.RankLow || c.RankHigh < b.RankLow {
				apart++
			}
		}
		t.Logf("n %d: %.3f of rank intervals cover, twins apart in %.3f", n, float64(covered)/float64(rows),
			float64(apart)/experiments)
		if float64(covered) < 0.95*float64(rows) || apart > experiments/20 {
			t.Errorf("n %d: %d of %d rank intervals cover, twins apart in %d of %d", n, covered, rows, apart, experiments)
		}
	}
}

// bigResult is 20 networks at 20 questions, 5 repetitions, 3 sub-features each.
func bigResult() (out []sample.Trial) {
	r := rand.New(rand.NewPCG(31, 32))
	for network := range 20 {
		for question := range 20 {
			for rep := 1; rep <= 5; rep++ {
				v := float64(100+network) * math.Exp(0.05*r.NormFloat64())
				out = append(out, trial(fmt.Sprintf("n%02d", network), "tcp-latency", question+1, rep,
					map[string]float64{sample.Rate: v, sample.LatencyP50: 1 / v, sample.LatencyP99: 3 / v}))
			}
		}
	}
	return out
}

func BenchmarkRank(b *testing.B) {
	trials := bigResult()
	for b.Loop() {
		Rank(trials, Options{})
	}
}
