package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
)

// machine simulates runs of one experiment.
type machine struct {
	r *rand.Rand
	// own is the scatter of a trial, block what all trials of a block share.
	own, block float64
	// drift is what the whole run is multiplied by, ramp what it gains from
	// its first block to its last.
	drift, ramp float64
	// uneven is by how much the drift hits the networks unequally: the
	// exponent of the last one's is 1 + uneven, that of host is 1.
	uneven float64
	// outliers is the share of trials that are a third slower for no reason.
	outliers float64
	// effect is what a network's throughput is multiplied by.
	effect map[string]float64
}

// run measures host and six networks at four loads, with two metrics.
func (m machine) run(repetitions int) (out []sample.Trial) {
	noise := func(sd float64) float64 { return math.Exp(sd * m.r.NormFloat64()) }
	for rep := 1; rep <= repetitions; rep++ {
		speed := m.drift * noise(m.block) * math.Pow(1+m.ramp, float64(rep-1)/float64(repetitions))
		for i, n := range []string{"host", "a", "b", "c", "d", "e", "f"} {
			for _, c := range []int{1, 8, 64, 128} {
				effect := 1.0
				if e, ok := m.effect[n]; ok {
					effect = e
				}
				v := speed * effect * 1e9 * float64(20-i) * math.Pow(m.drift, m.uneven*float64(i)/6)
				if m.r.Float64() < m.outliers {
					v *= 0.67
				}
				out = append(out, trial(n, "tcp-stream", c, rep, map[string]float64{
					sample.Throughput: v * noise(m.own), sample.CPUPerGB: 1e9 / v * noise(m.own), sample.Retransmits: 0,
				}))
			}
		}
	}
	return out
}

// tally is what many comparisons of simulated runs called significant.
type tally struct {
	rows, significant, below5, plain5 int
	// effects counts rows of network "c", right those with the right verdict.
	effects, right int
	runs, drifts   int
}

func (t *tally) add(c Comparison) {
	t.runs++
	if warned(c.Warnings, "drift", "baseline host itself moved") {
		t.drifts++
	}
	for _, row := range c.Changes {
		if row.Network == "host" {
			continue
		}
		if row.Network == "c" && row.Metric.Name != sample.Retransmits {
			t.effects++
			if row.Verdict == Worse {
				t.right++
			}
			continue
		}
		t.rows++
		if row.Significant {
			t.significant++
		}
		if row.P < 0.05 {
			t.below5++
		}
		// What a test that ignores the baseline would say.
		if row.Ratio.Bounded() && !row.Ratio.Contains(1) {
			t.plain5++
		}
	}
}

// The bar: two results of the same experiment on the same machine show no
// significant difference in more than 5 % of the rows, whether the machine
// drifted or not, and a real effect is still found.
func TestCompareSimulated(t *testing.T) {
	const runs = 60
	for _, tt := range []struct {
		name        string
		repetitions int
		b           machine
		// least share of rows with the real effect that must be found, most
		// share of other rows whose plain p-value is below 5 %.
		found, below5 float64
		// drifts: whether the baseline's move must be told, or must not.
		drifts bool
		naive  float64
	}{
		{"nothing", 5, machine{drift: 1}, 0, 0.06, false, 0},
		{"nothing, three repetitions", 3, machine{drift: 1}, 0, 0.06, false, 0},
		{"drift", 5, machine{drift: 0.8}, 0, 0.06, true, 0.5},
		{"drift and ramp", 8, machine{drift: 0.85, ramp: 0.1}, 0, 0.06, true, 0.3},
		{"uneven drift", 5, machine{drift: 0.85, uneven: 0.3}, 0, 0.2, true, 0.5},
		{"outliers", 5, machine{drift: 1, outliers: 0.05}, 0, 0.06, false, 0},
		{"real effect", 6, machine{drift: 1, effect: map[string]float64{"c": 0.75}}, 0.9, 0.06, false, 0},
		{"real effect in a drift", 6, machine{drift: 1.25, effect: map[string]float64{"c": 0.75}}, 0.9, 0.06, true, 0.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(41, 42))
			a := machine{r: r, own: 0.03, block: 0.04, drift: 1}
			b := tt.b
			b.r, b.own, b.block = r, 0.03, 0.04
			a.outliers = b.outliers
			var got tally
			for range runs {
				got.add(Compare(a.run(tt.repetitions), b.run(tt.repetitions), CompareOptions{}))
			}
			share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
			t.Logf("significant %.4f, p below 5 %% %.4f, without baseline %.4f, effects found %.3f, drift told %.2f",
				share(got.significant, got.rows), share(got.below5, got.rows), share(got.plain5, got.rows),
				share(got.right, got.effects), share(got.drifts, got.runs))
			if share(got.significant, got.rows) > 0.05 || share(got.below5, got.rows) > tt.below5 {
				t.Errorf("false claims")
			}
			if tt.found > 0 && share(got.right, got.effects) < tt.found {
				t.Errorf("real effects missed")
			}
			if tt.drifts && share(got.drifts, got.runs) < 0.9 || !tt.drifts && share(got.drifts, got.runs) > 0.1 {
				t.Errorf("drift told in %d of %d", got.drifts, got.runs)
			}
			if share(got.plain5, got.rows) < tt.naive {
				t.Errorf("the simulated drift is no drift")
			}
		})
	}
}

// Every row may be true in one pair of runs and fail in another because the
// host's noise is in all of them: count families with any false claim.
func TestCompareFamily(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    CompareOptions
	}{
		{"a question by Holm", CompareOptions{}},
		{"all by Holm", CompareOptions{Family: PerComparison}},
		{"all by false discovery", CompareOptions{Correction: ByDiscovery}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine{r: rand.New(rand.NewPCG(43, 44)), own: 0.05, block: 0.05, drift: 1}
			claims, families := 0, 0
			for range 40 {
				c := Compare(m.run(5), m.run(5), tt.o)
				called := map[sample.Question]bool{}
				for _, r := range c.Changes {
					q := r.Question()
					if c.Family == PerComparison || c.Correction == ByDiscovery {
						q = sample.Question{}
					}
					called[q] = called[q] || r.Significant
				}
				for _, falsely := range called {
					families++
					claims += one(falsely)
				}
			}
			t.Logf("%d of %d families", claims, families)
			if claims > families*8/100 {
				t.Errorf("%d of %d families of equal runs hold a false claim", claims, families)
			}
		})
	}
}

// A selection leaves the baseline and what it tells; fewer tests need a smaller change.
func TestCompareSelects(t *testing.T) {
	m := machine{r: rand.New(rand.NewPCG(45, 46)), own: 0.03, block: 0.03, drift: 1}
	a, b := m.run(5), m.run(5)
	if err := (Selection{Networks: []string{"z"}}).Check(Choices(a)); err == nil ||
		err.Error() != `--networks "z": neither result has it: there is a, b, c, d, e, f, host` {
		t.Errorf("%v", err)
	}
	ask := Selection{Networks: []string{"c"}, Workloads: []string{"tcp-stream"}, Metrics: []string{sample.Throughput}}
	if err := ask.Check(Choices(a)); err != nil {
		t.Error(err)
	}
	whole, got := Compare(a, b, CompareOptions{}), Compare(a, b, CompareOptions{Selection: ask})
	if len(got.Changes) != 8 || got.Drift != whole.Drift {
		t.Errorf("%d rows, drift %+v of %+v", len(got.Changes), got.Drift, whole.Drift)
	}
	for _, r := range got.Changes {
		if r.Verdict == Reference {
			continue
		}
		all := changeAt(whole, r.Cell, r.Metric.Name)
		if r.P != all.P || !(*r.Finds < *all.Finds) || !(r.Needs <= all.Needs || all.Needs == 0) || r.Needs < 2 &&
			*r.Finds < 0.1 {
			t.Errorf("%s: finds %v, needs %d; among all %v, %d", r.Cell, *r.Finds, r.Needs, *all.Finds, all.Needs)
		}
	}
	if n := len(got.Families); n != 4 || got.Families[0].Tests != 1 || got.Families[0].Question == nil {
		t.Errorf("%+v", got.Families)
	}
	if only := Compare(a, m.run(5)[:1], CompareOptions{Selection: ask}); len(only.OnlyA) != 4 {
		t.Errorf("only in a: %v", only.OnlyA)
	}
}

func changeAt(c Comparison, cell sample.Cell, metric string) Change {
	return c.Changes[slices.IndexFunc(c.Changes, func(r Change) bool { return r.Cell == cell && r.Metric.Name == metric })]
}

func TestWarnDrift(t *testing.T) {
	m := machine{r: rand.New(rand.NewPCG(47, 48)), own: 0.02, drift: 1}
	if got := WarnDrift(m.run(8), Options{}); len(got) != 0 {
		t.Errorf("a still machine: %v", got)
	}
	m.ramp = -0.2
	if got := WarnDrift(m.run(8), Options{}); !warned(got, "drift", "host became slower by") {
		t.Errorf("a machine that slows: %v", got)
	}
	if got := WarnDrift(m.run(3), Options{}); len(got) != 0 {
		t.Errorf("three blocks: %v", got)
	}
}

func TestConditions(t *testing.T) {
	got := Conditions(map[string]string{"kernel": "6.1", "window": "1s", "same": "x"},
		map[string]string{"kernel": "6.2", "same": "x", "new": "y"})
	if want := []Condition{{"kernel", "6.1", "6.2"}, {"new", "", "y"}, {"window", "1s", ""}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func change(t *testing.T, c Comparison, network, metric string) Change {
	t.Helper()
	for _, row := range c.Changes {
		if row.Network == network && row.Metric.Name == metric {
			return row
		}
	}
	t.Fatalf("no row of %s %s", network, metric)
	return Change{}
}

func TestCompareRows(t *testing.T) {
	a := slices.Concat(throughputs("host", 100, 102, 98, 101, 99), throughputs("x", 50, 51, 49, 50.5, 49.5),
		throughputs("once", 7))
	b := slices.Concat(throughputs("host", 50, 51, 49, 50.5, 49.5), throughputs("x", 50, 51, 49, 50.5, 49.5),
		throughputs("once", 70))
	got := Compare(a, b, CompareOptions{})
	// The machine became half as fast and x did not: x is twice as good.
	x := change(t, got, "x", sample.Throughput)
	if x.Verdict != Better || !x.Significant || math.Abs(x.Ratio.Center-1) > 1e-9 ||
		math.Abs(x.Relative.Center-2) > 0.01 || !x.Tested {
		t.Errorf("x: %+v", x)
	}
	host := change(t, got, "host", sample.Throughput)
	if host.Verdict != Reference || host.Significant || host.Relative != nil || !(host.Adjusted < 0.05) ||
		math.Abs(host.Ratio.Center-0.5) > 1e-6 {
		t.Errorf("host: %+v", host)
	}
	once := change(t, got, "once", sample.Throughput)
	if once.Tested || once.Significant || once.P != 1 || once.Verdict != Same ||
		!warned(once.Warnings, "repetitions", "needs >= 3") {
		t.Errorf("once: %+v", once)
	}
	if !warned(got.Warnings, "drift", "host itself moved between the runs, in 1 of 1 figures") {
		t.Errorf("warnings: %v", got.Warnings)
	}
	if same := Compare(a, a, CompareOptions{}); len(same.Warnings) != 0 || change(t, same, "x", sample.Throughput).P != 1 {
		t.Errorf("a run differs from itself: %+v", same.Warnings)
	}
}

func TestCompareWithoutBaseline(t *testing.T) {
	a, b := throughputs("x", 50, 51, 49, 50, 50), throughputs("x", 40, 41, 39, 40, 40)
	got := Compare(a, b, CompareOptions{})
	x := change(t, got, "x", sample.Throughput)
	if x.Relative != nil || x.Verdict != Worse || !warned(x.Warnings, "baseline", "host was not measured") {
		t.Errorf("x: %+v", x)
	}
	if !warned(got.Warnings, "baseline", "cannot be told from a change") {
		t.Errorf("warnings: %v", got.Warnings)
	}
	// Another network can be the baseline.
	named := Compare(slices.Concat(a, throughputs("y", 5, 5.1, 4.9)), slices.Concat(b, throughputs("y", 4, 4.1, 3.9)),
		CompareOptions{Options: Options{Baseline: "y"}})
	if x := change(t, named, "x", sample.Throughput); x.Relative == nil || x.Significant {
		t.Errorf("x by y: %+v", x)
	}
}

// Zeros have no ratio; the rows are judged by their values, and say so.
func TestCompareZeros(t *testing.T) {
	loss := func(network string, values ...float64) (out []sample.Trial) {
		for i, v := range values {
			out = append(out, trial(network, "udp-stream", 1, i+1, map[string]float64{sample.Loss: v, "odd": 1 + v}))
		}
		return out
	}
	a := slices.Concat(loss("host", 0, 0, 0, 0, 0, 0), loss("x", 0, 0, 0, 0, 0, 0), loss("y", 0, 0, 0, 0, 0, 0))
	b := slices.Concat(loss("host", 0, 0, 0, 0, 0, 0), loss("x", 0, 0, 0, 0, 0, 0),
		loss("y", 0.1, 0.11, 0.09, 0.1, 0.1, 0.1))
	got := Compare(a, b, CompareOptions{})
	if x := change(t, got, "x", sample.Loss); x.P != 1 || x.Verdict != Same || !x.Tested {
		t.Errorf("x: %+v", x)
	}
	if y := change(t, got, "y", sample.Loss); y.Verdict != Worse || y.Relative != nil ||
		!warned(y.Warnings, "baseline", "values of 0") {
		t.Errorf("y: %+v", y)
	}
	if odd := change(t, got, "y", "odd"); odd.Verdict != Changed {
		t.Errorf("odd: %+v", odd)
	}
}

func TestCompareCells(t *testing.T) {
	a := slices.Concat(throughputs("gone", 1, 2), throughputs("broke", 1, 2), throughputs("flaky", 1, 2, 3),
		[]sample.Trial{failed("steady", "tcp-stream", 1, 1), failed("steady", "tcp-stream", 1, 2)})
	b := slices.Concat(throughputs("new", 1, 2), throughputs("flaky", 1, 2),
		[]sample.Trial{failed("broke", "tcp-stream", 1, 1), failed("flaky", "tcp-stream", 1, 3),
			failed("steady", "tcp-stream", 1, 1)})
	got := Compare(a, b, CompareOptions{})
	if len(got.OnlyA) != 1 || got.OnlyA[0].Network != "gone" || len(got.OnlyB) != 1 || got.OnlyB[0].Network != "new" {
		t.Errorf("only in a %v, in b %v", got.OnlyA, got.OnlyB)
	}
	var statuses []string
	for _, s := range got.Statuses {
		statuses = append(statuses, fmt.Sprintf("%s %.2f %.2f %v", s.Network, s.OKA, s.OKB, s.B))
	}
	want := []string{"broke 1.00 0.00 [{failed no route 1}]", "flaky 1.00 0.67 [{ok  2} {failed no route 1}]"}
	if !slices.Equal(statuses, want) {
		t.Errorf("statuses %q", statuses)
	}
	if len(got.Changes) != 1 || got.Changes[0].Network != "flaky" {
		t.Errorf("changes %+v", got.Changes)
	}
}
