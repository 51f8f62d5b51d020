package claim_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// lot makes trials, one per value, by repetition from 1.
func lot(network, kernel string, load sample.Load, metric string, values ...float64) []sample.Trial {
	var out []sample.Trial
	for i, v := range values {
		out = append(out, sample.Trial{
			Cell: sample.Cell{Network: network, Scenario: topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500,
				Kernel: kernel},
				Workload: "tcp-stream", Load: load},
			Repetition: i + 1, Order: i + 1, Status: sample.OK, Kernel: "host", Metrics: map[string]float64{metric: v},
		})
	}
	return out
}

// speed makes trials of throughput on the host's kernel with one connection.
func speed(network string, values ...float64) []sample.Trial {
	return lot(network, "", conns(1), sample.Throughput, values...)
}

func conns(n int) sample.Load { return sample.Load{Connections: n} }

func join(lots ...[]sample.Trial) (out []sample.Trial) {
	for _, l := range lots {
		out = append(out, l...)
	}
	return out
}

func failed(t []sample.Trial, status sample.Status, reason string) []sample.Trial {
	for i := range t {
		t[i].Status, t[i].Reason, t[i].Metrics = status, reason, nil
	}
	return t
}

func at(v float64) *float64 { return &v }

// over claims that a's throughput is least to most times b's.
func over(a, b string, least, most float64) claim.Claim {
	return claim.Claim{ID: "x", Source: "Claassen 2015", Metric: sample.Throughput,
		Where: claim.Where{Workload: "tcp-stream"},
		Test: claim.Test{Ratio: &claim.Ratio{Of: claim.Side{Network: a}, To: claim.Side{Network: b},
			Range: claim.Range{Least: at(least), Most: at(most)}}}}
}

func ordered(metric string, groups ...[]string) claim.Claim {
	return claim.Claim{ID: "x", Source: "Sun et al. 2019", Metric: metric, Where: claim.Where{Workload: "tcp-stream"},
		Test: claim.Test{Order: groups}}
}

func judge(t *testing.T, c claim.Claim, trials ...[]sample.Trial) []claim.Finding {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	out := claim.Judge([]claim.Claim{c}, join(trials...), claim.Rule{Level: 0.95}, nil)
	if len(out) != 1 || len(out[0].Findings) == 0 {
		t.Fatalf("got %+v", out)
	}
	return out[0].Findings
}

func TestRatioVerdicts(t *testing.T) {
	steady := speed("bridge", 10, 10.1, 9.9)
	for _, tc := range []struct {
		name   string
		values []float64
		want   claim.Verdict
	}{
		{"inside", []float64{25, 25.2, 24.9}, claim.Holds},
		{"below", []float64{11, 11.2, 10.9}, claim.Fails},
		{"above", []float64{45, 45.2, 44.9}, claim.Fails},
		{"across an end", []float64{30, 25, 35}, claim.Open},
		{"wider than the range", []float64{5, 25, 80}, claim.Open},
		{"one repetition", []float64{25}, claim.Open},
		{"zeros", []float64{0, 0, 0}, claim.Open},
		{"a zero", []float64{25, 0, 25}, claim.Open},
		{"a value that is no number", []float64{25, math.NaN(), 25.1}, claim.Holds},
		{"none that is a number", []float64{math.NaN(), math.Inf(1)}, claim.NotTested},
		{"always the same", []float64{25, 25, 25}, claim.Holds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := judge(t, over("macvlan", "bridge", 2, 3), steady, speed("macvlan", tc.values...))
			if len(f) != 1 || f[0].Verdict != tc.want {
				t.Errorf("got %+v, want %s", f, tc.want)
			}
			if tested := len(f[0].Steps) == 1; tested != (tc.want != claim.NotTested) {
				t.Errorf("%d steps", len(f[0].Steps))
			}
		})
	}
}

// TestRatioIsPaired: blocks that were slow for both say nothing of the ratio.
func TestRatioIsPaired(t *testing.T) {
	f := judge(t, over("a", "b", 1.9, 2.1), speed("a", 20, 2, 11), speed("b", 10, 1, 5.5))
	if f[0].Verdict != claim.Holds || math.Abs(f[0].Steps[0].Ratio.Center-2) > 1e-9 {
		t.Errorf("got %+v", f[0])
	}
}

func TestOpenRanges(t *testing.T) {
	c := over("a", "b", 0, 0)
	c.Test.Ratio.Range = claim.Range{Least: at(1)}
	if f := judge(t, c, speed("a", 20, 21, 20), speed("b", 10, 10, 10)); f[0].Verdict != claim.Holds {
		t.Errorf("got %+v", f)
	}
	c.Test.Ratio.Range = claim.Range{Most: at(1)}
	if f := judge(t, c, speed("a", 20, 21, 20), speed("b", 10, 10, 10)); f[0].Verdict != claim.Fails {
		t.Errorf("got %+v", f)
	}
}

// TestEachQuestionByItself: loads and kernels are findings of their own, and no
// ratio mixes two of them.
func TestEachQuestionByItself(t *testing.T) {
	const uml = "uml-6.1.176"
	host := func(network string, load int, v float64) []sample.Trial {
		return lot(network, "", conns(load), sample.Throughput, v, v*1.01, v*0.99)
	}
	guest := func(network string, v float64) []sample.Trial {
		return lot(network, uml, conns(1), sample.Throughput, v, v*1.01, v*0.99)
	}
	all := join(host("macvlan", 1, 25), host("bridge", 1, 10), host("macvlan", 8, 11), host("bridge", 8, 10),
		guest("macvlan", 2.5), guest("bridge", 1))
	got := map[string]claim.Verdict{}
	for _, f := range judge(t, over("macvlan", "bridge", 2, 3), all) {
		got[f.Question.String()] = f.Verdict
	}
	want := map[string]claim.Verdict{"one-host/tcp-stream/c=1": claim.Holds, "one-host/tcp-stream/c=8": claim.Fails,
		"one-host,kernel=uml-6.1.176/tcp-stream/c=1": claim.Holds}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for kernels, n := range map[string]int{"host": 2, "uml": 1, uml: 1, "um": 1} {
		c := over("macvlan", "bridge", 2, 3)
		c.Where.Kernels = []string{kernels}
		f := judge(t, c, all)
		if kernels == "um" && f[0].Verdict != claim.NotTested || kernels != "um" && len(f) != n {
			t.Errorf("kernel %s: got %+v", kernels, f)
		}
	}
}

// TestKernelsAreNotMixed: ipvlan runs in a guest and macvlan does not.
func TestKernelsAreNotMixed(t *testing.T) {
	guest := func(network string) []sample.Trial {
		return lot(network, "uml-6.1", conns(1), sample.Throughput, 5, 5.1, 5)
	}
	c := over("ipvlan-l3", "macvlan", 0.5, 2)
	f := judge(t, c, speed("host", 9, 9, 9), speed("macvlan", 5, 5.1, 5), guest("host"), guest("ipvlan-l3"))
	if len(f) != 1 || f[0].Verdict != claim.NotTested || len(f[0].Steps) != 0 || len(f[0].Lacks) != 2 {
		t.Fatalf("got %+v", f)
	}
	if a, b := f[0].Lacks[0], f[0].Lacks[1]; a.Network != "ipvlan-l3" || a.Kernel != "" || b.Network != "macvlan" ||
		b.Kernel != "uml-6.1" {
		t.Errorf("got %+v", f[0].Lacks)
	}
	// With macvlan in the guest too it is tested there, and the host's kernel is no matter.
	f = judge(t, c, speed("host", 9, 9, 9), speed("macvlan", 5, 5.1, 5), guest("host"), guest("ipvlan-l3"),
		guest("macvlan"))
	if len(f) != 1 || f[0].Verdict != claim.Holds || f[0].Question.Scenario.Kernel != "uml-6.1" {
		t.Errorf("got %+v", f)
	}
	// A failure is told alongside what another kernel shows; that a kernel cannot is not.
	for status, n := range map[sample.Status]int{sample.Failed: 2, sample.Unsupported: 1} {
		f = judge(t, c, speed("macvlan", 5, 5.1, 5), failed(speed("ipvlan-l3", 1), status, "no such device"),
			guest("ipvlan-l3"), guest("macvlan"))
		if len(f) != n {
			t.Errorf("%s: got %+v", status, f)
		}
	}
	// An older result marks the trial alone.
	old := speed("ipvlan-l3", 5, 5, 5)
	for i := range old {
		old[i].Kernel = "uml"
	}
	if f = judge(t, c, speed("macvlan", 5, 5, 5), old); f[0].Verdict != claim.NotTested {
		t.Errorf("mixed kernels: %+v", f)
	}
}

func TestNotTestedSaysWhy(t *testing.T) {
	c := over("a", "b", 1, 2)
	for name, tc := range map[string]struct {
		b    []sample.Trial
		want string
	}{
		"not there":   {nil, "was not run"},
		"failed":      {failed(speed("b", 1, 2), sample.Failed, "no\nroute"), "failed: no route (2 trials)"},
		"unsupported": {failed(speed("b", 1), sample.Unsupported, "needs a card"), "unsupported: needs a card"},
		"untold":      {lot("b", "", conns(1), sample.Rate, 1, 2), "none of its 2 trials told throughput"},
		"in part": {join(lot("b", "", conns(1), sample.Rate, 1),
			failed(lot("b", "", conns(1), sample.Rate, 1, 2)[1:], sample.Invalid, "device")),
			"none of its 1 trials told throughput; invalid: device"},
	} {
		f := judge(t, c, speed("a", 1, 1), tc.b)
		if len(f) != 1 || f[0].Verdict != claim.NotTested || len(f[0].Lacks) != 1 || f[0].Lacks[0].Why != tc.want ||
			f[0].Lacks[0].Network != "b" {
			t.Errorf("%s: got %+v, want %q", name, f, tc.want)
		}
	}
	if f := judge(t, c); f[0].Verdict != claim.NotTested || f[0].Lacks[0].Why == "" {
		t.Errorf("no trials: got %+v", f)
	}
}

// TestExcept: Open vSwitch in user space is not what the document measured.
func TestExcept(t *testing.T) {
	ovs, flannel := speed("ovs", 2, 2, 2), speed("flannel", 20, 21, 20)
	for i := range ovs {
		ovs[i].Notes = []string{"Open vSwitch 3.1.0, user-space datapath"}
	}
	c := over("ovs", "flannel", 1, 1.1)
	if f := judge(t, c, ovs, flannel); f[0].Verdict != claim.Fails {
		t.Errorf("got %+v", f)
	}
	c.Except = "user-space datapath"
	if f := judge(t, c, ovs, flannel); f[0].Verdict != claim.NotTested ||
		f[0].Lacks[0].Why != "does not count: Open vSwitch 3.1.0, user-space datapath" {
		t.Errorf("got %+v", f)
	}
	guest := func(n string) []sample.Trial { return lot(n, "uml-6.1", conns(1), sample.Throughput, 5, 5.1, 5) }
	if f := judge(t, c, ovs, flannel, guest("ovs"), guest("flannel")); len(f) != 1 ||
		f[0].Question.Scenario.Kernel == "" || f[0].Verdict == claim.NotTested {
		t.Errorf("got %+v", f)
	}
}

func TestRepetitionsMeasuredAgain(t *testing.T) {
	again := speed("a", 1, 20)
	again[0].Repetition, again[0].Order = 2, 1 // the earlier of two trials of repetition 2
	f := judge(t, over("a", "b", 1.9, 2.1), speed("b", 10, 10, 10), again, speed("a", 20, 20, 20))
	if len(f) != 1 || f[0].Steps[0].Of.Mean.Center != 20 {
		t.Errorf("got %+v", f)
	}
}

func TestOrder(t *testing.T) {
	a, b, c := speed("a", 30, 31, 30), speed("b", 20, 21, 20), speed("c", 10, 11, 10)
	noisy := speed("b", 5, 40, 20)
	for name, tc := range map[string]struct {
		groups [][]string
		trials [][]sample.Trial
		want   claim.Verdict
		steps  int
	}{
		"as said":           {[][]string{{"a"}, {"b"}, {"c"}}, [][]sample.Trial{a, b, c}, claim.Holds, 2},
		"the other way":     {[][]string{{"c"}, {"b"}, {"a"}}, [][]sample.Trial{a, b, c}, claim.Fails, 2},
		"one step wrong":    {[][]string{{"b"}, {"a"}, {"c"}}, [][]sample.Trial{a, b, c}, claim.Fails, 2},
		"one step open":     {[][]string{{"a"}, {"b"}, {"c"}}, [][]sample.Trial{a, noisy, c}, claim.Open, 2},
		"best of three":     {[][]string{{"a"}, {"b", "c"}}, [][]sample.Trial{a, b, c}, claim.Holds, 2},
		"worst of three":    {[][]string{{"a", "b"}, {"c"}}, [][]sample.Trial{a, b, c}, claim.Holds, 2},
		"one is not there":  {[][]string{{"a"}, {"x"}, {"c"}}, [][]sample.Trial{a, b, c}, claim.Holds, 1},
		"best is not there": {[][]string{{"x"}, {"b", "c"}}, [][]sample.Trial{a, b, c}, claim.NotTested, 0},
		"all the same": {[][]string{{"a"}, {"b"}}, [][]sample.Trial{speed("a", 5, 5, 5), speed("b", 5, 5, 5)},
			claim.Equal, 1},
		"hardly below": {[][]string{{"a"}, {"b"}}, [][]sample.Trial{speed("a", 5, 5.1, 5.05), speed("b", 5.1, 5.1, 5.1)},
			claim.Equal, 1},
		"below by 6 %": {[][]string{{"a"}, {"b"}},
			[][]sample.Trial{speed("a", 5, 5.1, 5.05), speed("b", 5.35, 5.45, 5.4)}, claim.Fails, 1},
		"first step only": {[][]string{{"a"}, {"b"}, {"c"}}, [][]sample.Trial{a, b, speed("c", 20, 21, 20)},
			claim.InPart, 2},
	} {
		f := judge(t, ordered(sample.Throughput, tc.groups...), tc.trials...)
		if len(f) != 1 || f[0].Verdict != tc.want || len(f[0].Steps) != tc.steps {
			t.Errorf("%s: got %+v, want %s in %d steps", name, f, tc.want, tc.steps)
		}
		if lacks := strings.Contains(name, "not there"); lacks != (len(f[0].Lacks) == 1) {
			t.Errorf("%s: lacks %+v", name, f[0].Lacks)
		}
	}
}

// TestOrderFollowsTheMetric: of a cost the least is the best, and of losses none
// is, though it has no ratio.
func TestOrderFollowsTheMetric(t *testing.T) {
	cost := func(n string, v float64) []sample.Trial {
		return lot(n, "", conns(1), sample.CPUPerGB, v, v*1.01, v*0.99, v)
	}
	if f := judge(t, ordered(sample.CPUPerGB, []string{"cheap"}, []string{"dear"}), cost("cheap", 1),
		cost("dear", 2)); f[0].Verdict != claim.Holds {
		t.Errorf("got %+v", f)
	}
	loss := func(n string, values ...float64) []sample.Trial { return lot(n, "", conns(1), sample.Loss, values...) }
	for want, dear := range map[claim.Verdict][]float64{claim.Holds: {0.1, 0.11, 0.09, 0.1},
		claim.Open: {0, 0, 0.001, 0}} {
		if f := judge(t, ordered(sample.Loss, []string{"none"}, []string{"some"}), loss("none", 0, 0, 0, 0),
			loss("some", dear...)); f[0].Verdict != want {
			t.Errorf("got %+v, want %s", f, want)
		}
	}
	if f := judge(t, ordered(sample.Loss, []string{"some"}, []string{"none"}), loss("none", 0, 0, 0, 0),
		loss("some", 0.1, 0.11, 0.09, 0.1)); f[0].Verdict != claim.Fails {
		t.Errorf("got %+v", f)
	}
}

// TestManyStepsRefuteLess: one step of twenty that looks wrong at 95 % is what
// chance brings, and does not refute the order.
func TestManyStepsRefuteLess(t *testing.T) {
	var names []string
	var trials [][]sample.Trial
	for i := range 21 {
		names = append(names, fmt.Sprintf("n%02d", i))
		trials = append(trials, speed(names[i], 10, 10.4, 9.6))
	}
	trials[1] = speed("n01", 10.5, 11.024, 10.272) // 5, 6 and 7 % better than n00: p is 0.009
	if f := judge(t, ordered(sample.Throughput, []string{"n00"}, []string{"n01"}), trials...); f[0].Verdict !=
		claim.Fails {
		t.Errorf("alone: got %s", f[0].Verdict)
	}
	var long [][]string
	for _, n := range names {
		long = append(long, []string{n})
	}
	if f := judge(t, ordered(sample.Throughput, long...), trials...); f[0].Verdict != claim.Open {
		t.Errorf("got %s of %d steps", f[0].Verdict, len(f[0].Steps))
	}
}

func TestValue(t *testing.T) {
	c := claim.Claim{ID: "x", Metric: sample.Loss, Where: claim.Where{Workload: "tcp-stream"},
		Networks: []string{"a", "b", "c"}, Test: claim.Test{Value: &claim.Range{Most: at(0)}}}
	f := judge(t, c, lot("a", "", conns(1), sample.Loss, 0, 0, 0), lot("b", "", conns(1), sample.Loss, 0.1, 0.11, 0.1))
	if len(f) != 3 || f[0].Verdict != claim.Holds || f[1].Verdict != claim.Fails || f[2].Verdict != claim.NotTested {
		t.Errorf("got %+v", f)
	}
	if f[1].Network != "b" || f[1].Value.Center < 0.1 || f[2].Value != nil {
		t.Errorf("got %+v", f)
	}
}

// curve makes trials at connections 1, 5, 50, 200.
func curve(network string, values ...float64) []sample.Trial {
	var out []sample.Trial
	for i, n := range []int{1, 5, 50, 200} {
		out = append(out, lot(network, "", conns(n), sample.Throughput, values[i], values[i]*1.01, values[i]*0.99)...)
	}
	return out
}

func TestOptimum(t *testing.T) {
	c := claim.Claim{ID: "x", Metric: sample.Throughput, Where: claim.Where{Workload: "tcp-stream"},
		Networks: []string{"a"},
		Test: claim.Test{Optimum: &claim.Optimum{Over: claim.Connections,
			Range: claim.Range{Least: at(50), Most: at(50)}}}}
	for name, tc := range map[string]struct {
		trials []sample.Trial
		want   claim.Verdict
		at     float64
	}{
		"there":     {curve("a", 1, 5, 20, 10), claim.Holds, 50},
		"elsewhere": {curve("a", 1, 5, 20, 40), claim.Fails, 200},
		"not clear": {join(curve("a", 1, 5, 20, 10)[:9], lot("a", "", conns(200), sample.Throughput, 15, 30, 19)),
			claim.Open, 200},
		"nothing to compare": {curve("a", 1, 5, 20, 10)[6:9], claim.NotTested, 50},
		"not measured there": {curve("a", 1, 5, 20, 10)[:6], claim.NotTested, 5},
	} {
		f := judge(t, c, tc.trials)
		if len(f) != 1 || f[0].Verdict != tc.want || f[0].At == nil || *f[0].At != tc.at {
			t.Errorf("%s: got %+v, want %s at %g", name, f, tc.want, tc.at)
		}
	}
	c.Test.Optimum.Least = at(5)
	if f := judge(t, c, curve("a", 1, 18, 20, 10)); f[0].Verdict != claim.Holds || len(f[0].Steps) != 2 {
		t.Errorf("a range of loads: got %+v", f)
	}
}

func TestTrend(t *testing.T) {
	c := claim.Claim{ID: "x", Metric: sample.Throughput, Where: claim.Where{Workload: "tcp-stream"},
		Networks: []string{"a"}, Test: claim.Test{Trend: &claim.Trend{Over: claim.Connections}}}
	for want, values := range map[claim.Verdict][]float64{claim.Holds: {1, 5, 20, 40}, claim.Fails: {1, 5, 20, 10},
		claim.InPart: {1, 5, 20, 20}} {
		if f := judge(t, c, curve("a", values...)); f[0].Verdict != want || len(f[0].Steps) != 3 {
			t.Errorf("got %+v, want %s", f, want)
		}
	}
	c.Test.Trend.Falling = true
	if f := judge(t, c, curve("a", 40, 20, 5, 1)); f[0].Verdict != claim.Holds {
		t.Errorf("got %+v", f)
	}
	if f := judge(t, c, curve("a", 40, 20, 5, 1)[:3]); f[0].Verdict != claim.NotTested || len(f[0].Lacks) != 1 {
		t.Errorf("got %+v", f)
	}
}

// TestSidesOfOneNetwork: growth from one load to another, for each network.
func TestSidesOfOneNetwork(t *testing.T) {
	c := over("", "", 15, 25)
	c.Networks = []string{"a", "b"}
	c.Test.Ratio.Of.Where.Loads, c.Test.Ratio.To.Where.Loads = []sample.Load{conns(50)}, []sample.Load{conns(1)}
	f := judge(t, c, curve("a", 1, 5, 20, 10), curve("b", 1, 5, 7, 10))
	if len(f) != 2 || f[0].Verdict != claim.Holds || f[1].Verdict != claim.Fails || f[0].Network != "a" {
		t.Fatalf("got %+v", f)
	}
	if s := f[0].Steps[0]; s.Of.Name != "a c=50" || s.To.Name != "a c=1" {
		t.Errorf("sides are called %q and %q", s.Of.Name, s.To.Name)
	}
	// A side that could be several loads is not guessed.
	c.Test.Ratio.To.Where.Loads = nil
	if f := judge(t, c, curve("a", 1, 5, 20, 10), curve("b", 1, 5, 7, 10)); f[0].Verdict != claim.NotTested ||
		!strings.Contains(f[0].Lacks[0].Why, "which of 4 questions") {
		t.Errorf("got %+v", f)
	}
}

func TestOverall(t *testing.T) {
	c := over("a", "b", 1.4, 1.6)
	c.Overall = true
	a, b := curve("a", 3, 3, 12, 12), curve("b", 2, 4, 6, 8)
	f := judge(t, c, a, b)
	if len(f) != 1 || f[0].Verdict != claim.Holds || f[0].Steps[0].Of.Mean.N != 3 ||
		math.Abs(f[0].Steps[0].To.Mean.Center-5) > 1e-9 {
		t.Fatalf("got %+v", f)
	}
	// A load without a figure leaves no mean over all of them.
	f = judge(t, c, a, b[:9], failed(lot("b", "", conns(200), "", 1), sample.Failed, "out of ports"))
	if f[0].Verdict != claim.NotTested || f[0].Lacks[0].Why != "at load c=200: failed: out of ports" {
		t.Errorf("got %+v", f)
	}
}

func TestWarningsTravel(t *testing.T) {
	a := speed("a", 20, 21, 20)
	for i := range a[:2] {
		a[i].Warnings = []sample.Warning{{Gate: "cpu-saturated", Text: "x"}, {Gate: "cpu-saturated", Text: "y"}}
	}
	f := judge(t, over("a", "b", 1, 2), a, speed("b", 20, 21))
	if f[0].Notes != nil {
		t.Errorf("notes %v", f[0].Notes)
	}
	a[0].Notes, a[1].Notes = []string{"user-space datapath"}, []string{"user-space datapath"}
	if f := judge(t, over("a", "b", 1, 2), a, speed("b", 20, 21)); !reflect.DeepEqual(f[0].Notes,
		[]string{"a: user-space datapath"}) {
		t.Errorf("notes %v", f[0].Notes)
	}
	want := sample.Warning{Gate: "cpu-saturated", Text: "in 2 of 5 trials"}
	if len(f[0].Warnings) < 2 || f[0].Warnings[0] != want {
		t.Errorf("got %+v", f[0].Warnings)
	}
}

func TestCheck(t *testing.T) {
	good := over("a", "b", 1, 2)
	for name, tc := range map[string]struct {
		change func(*claim.Claim)
		want   string
	}{
		"metric":        {func(c *claim.Claim) { c.Metric = "speed" }, `unknown metric "speed"`},
		"no test":       {func(c *claim.Claim) { c.Test = claim.Test{} }, "0 tests"},
		"two tests":     {func(c *claim.Claim) { c.Test.Value = &claim.Range{Most: at(1)} }, "2 tests"},
		"range":         {func(c *claim.Claim) { c.Test.Ratio.Least = at(3) }, "least 3 is above most 2"},
		"open range":    {func(c *claim.Claim) { c.Test.Ratio.Range = claim.Range{} }, "expected least, most or both"},
		"negative":      {func(c *claim.Claim) { c.Test.Ratio.Least = at(-1) }, "expected a ratio"},
		"same sides":    {func(c *claim.Claim) { c.Test.Ratio.To = c.Test.Ratio.Of }, "both sides are the same"},
		"no networks":   {func(c *claim.Claim) { c.Test.Ratio.Of.Network = "" }, "networks: missing"},
		"more networks": {func(c *claim.Claim) { c.Networks = []string{"c"} }, "names its own"},
		"short order":   {func(c *claim.Claim) { c.Test = claim.Test{Order: claim.Order{{"a"}}} }, "two networks or more"},
		"order twice": {func(c *claim.Claim) { c.Test = claim.Test{Order: claim.Order{{"a"}, {"b", "a"}}} },
			"a is given twice"},
		"overall trend": {func(c *claim.Claim) {
			c.Overall, c.Networks, c.Test = true, []string{"a"}, claim.Test{Trend: &claim.Trend{Over: claim.Size}}
		}, "overall"},
	} {
		c := good
		r := *good.Test.Ratio
		c.Test.Ratio = &r
		tc.change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestAmong(t *testing.T) {
	c := over("a", "b", 1, 2)
	if _, ok := c.Among([]string{"a", "x"}); ok {
		t.Error("a ratio without its other side was kept")
	}
	if _, ok := c.Among([]string{"a", "b"}); !ok {
		t.Error("a claim with all its networks was dropped")
	}
	each := over("", "b", 1, 2)
	each.Networks = []string{"a", "c"}
	if got, ok := each.Among([]string{"b", "c"}); !ok || !reflect.DeepEqual(got.Networks, []string{"c"}) ||
		len(each.Networks) != 2 {
		t.Errorf("got %v, %v", got.Networks, ok)
	}
	if _, ok := each.Among([]string{"b"}); ok {
		t.Error("a claim of none of its networks was kept")
	}
}

// FuzzJudge: whatever the trials, every claim has a finding, and a verdict that
// is more than open rests on comparisons or a value.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 0, 1, 0, 1, 2, 1, 2, 3, 200})
	each := over("", "b", 0.5, 2)
	each.Networks = []string{"a", "c"}
	best := claim.Claim{ID: "o", Metric: sample.Throughput, Networks: []string{"a", "b"},
		Test: claim.Test{Optimum: &claim.Optimum{Over: claim.Connections, Range: claim.Range{Most: at(2)}}}}
	trend := claim.Claim{ID: "t", Metric: sample.Loss, Networks: []string{"a"},
		Test: claim.Test{Trend: &claim.Trend{Over: claim.MTU}}}
	value := claim.Claim{ID: "v", Metric: sample.Loss, Networks: []string{"c"}, Overall: true,
		Test: claim.Test{Value: &claim.Range{Least: at(0)}}}
	claims := []claim.Claim{each, best, trend, value, ordered(sample.Throughput, []string{"a"}, []string{"b", "c"}),
		over("a", "b", 1, 1)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var trials []sample.Trial
		for ; len(raw) >= 3; raw = raw[3:] {
			v := []float64{0, 1, 2, math.NaN(), math.Inf(1), -1, float64(raw[2])}[raw[2]%7]
			tr := lot([]string{"a", "b", "c"}[raw[0]%3], []string{"", "uml"}[raw[0]/3%2], conns(1+int(raw[0]/6%3)),
				[]string{sample.Throughput, sample.Loss}[raw[0]/18%2], v)[0]
			tr.Scenario.MTU = 1500 + int(raw[1]%3)
			tr.Repetition, tr.Order = 1+int(raw[1]/3%4), int(raw[1])
			tr.Status = []sample.Status{sample.OK, sample.OK, sample.OK, sample.Failed, sample.Unsupported}[raw[1]/12%5]
			trials = append(trials, tr)
		}
		for _, j := range claim.Judge(claims, trials, claim.Rule{Level: 0.95}, nil) {
			if len(j.Findings) == 0 {
				t.Errorf("%s: no finding", j.ID)
			}
			for _, f := range j.Findings {
				if f.Verdict == "" || (f.Verdict != claim.NotTested && len(f.Steps) == 0 && f.Value == nil) ||
					(f.Verdict == claim.NotTested && len(f.Lacks) == 0) {
					t.Errorf("%s: %+v", j.ID, f)
				}
			}
		}
	})
}
