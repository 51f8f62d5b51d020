package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pathwise.dev/pathwise/internal/measure/figure"
)

type steeringWrite = func(io.Writer, SteeringInput, Options) error

func steeringFormats() map[string]steeringWrite {
	return map[string]steeringWrite{"html": Steering, "text": SteeringText, "markdown": SteeringMarkdown,
		"csv": SteeringCSV}
}

func renderSteering(t *testing.T, write steeringWrite, in SteeringInput, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, in, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSteeringEveryFormatOfEveryFixture(t *testing.T) {
	for name, in := range steeringFixtures() {
		for format, write := range steeringFormats() {
			out := renderSteering(t, write, in, Options{})
			if out == "" || !utf8.ValidString(out) {
				t.Errorf("%s as %s: %d bytes", name, format, len(out))
			}
			if again := renderSteering(t, write, in, Options{}); again != out {
				t.Errorf("%s as %s differs from one time to the next", name, format)
			}
			if err := write(broken{}, in, Options{}); !errors.Is(err, errBroken) {
				t.Errorf("%s as %s to a full disk: %v", name, format, err)
			}
		}
	}
}

func TestSteeringRefusesStepsWithoutLength(t *testing.T) {
	in := SteeringInput{
		Scripts: []SteeringScript{{Name: "s", Runs: []SteeringRun{{Name: "r", Points: make([]SteeringPoint, 1)}}}}}
	for format, write := range steeringFormats() {
		if err := write(io.Discard, in, Options{}); err == nil || !strings.Contains(err.Error(), `run "r" of script "s"`) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestSteeringTextFitsTheTerminal(t *testing.T) {
	for name, in := range steeringFixtures() {
		for _, width := range []int{0, 80, 132} {
			for l := range strings.Lines(renderSteering(t, SteeringText, in, Options{Width: width})) {
				l = strings.TrimSuffix(l, "\n")
				if n, most := utf8.RuneCountInString(l), max(width, 80); n > most {
					t.Errorf("%s: %d columns in %d: %s", name, n, most, l)
				}
			}
		}
	}
}

// TestSteeringGolden: as TestGolden, which tells how to update.
func TestSteeringGolden(t *testing.T) {
	all := steeringFixtures()
	for name, write := range map[string]func(io.Writer) error{
		"steering.txt":     func(w io.Writer) error { return SteeringText(w, all["demo"], Options{}) },
		"steering-132.txt": func(w io.Writer) error { return SteeringText(w, all["demo"], Options{Width: 132}) },
		"steering.md":      func(w io.Writer) error { return SteeringMarkdown(w, all["demo"], Options{}) },
		"steering-odd.txt": func(w io.Writer) error { return SteeringText(w, all["odd"], Options{}) },
		"steering-one.csv": func(w io.Writer) error { return SteeringCSV(w, all["one"], Options{}) },
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

// TestSteeringAchieved checks means by phase, hindsight and their sums on
// values that can be added up by hand.
func TestSteeringAchieved(t *testing.T) {
	sec := time.Second
	script := SteeringScript{
		Phases: []SteeringPhase{{"a", PhaseLoad, 0, 2 * sec}, {"b", PhaseLimit, 2 * sec, 6 * sec},
			{"c", PhaseFault, 5 * sec, 6 * sec}},
		Runs: []SteeringRun{
			{Name: "steered", Steered: true, Step: sec, Points: madePoints(0, sec, 10, 10, 6, 6, 6, 6, 99)},
			{Name: "x", Step: sec, Points: madePoints(0, sec, 10, 10, 2, 2, 2, 8, 99)},
			{Name: "y", Step: sec, Points: madePoints(0, sec, 4, 4, 8, 8, 8, 0, 99)},
			{Name: "short", Step: sec, Points: madePoints(0, sec, 50)},
		},
	}
	for _, lower := range []bool{false, true} {
		script.Lower = lower
		s := studyScript(script)
		if len(s.parts) != 3 || s.parts[2].letters != "BC" {
			t.Fatalf("parts: %+v", s.parts)
		}
		best, hindsight, all, static := []float64{10, 8, 8}, []int{1, 2, 1}, (2*10+3*8+8)/6., 1
		if lower {
			best, hindsight, all, static = []float64{4, 2, 0}, []int{2, 1, 2}, (2*4+3*2+0)/6., 2
		}
		for i, p := range s.parts {
			if p.best != best[i] || p.hindsight != hindsight[i] {
				t.Errorf("lower %v, part %d: best %v by run %d", lower, i, p.best, p.hindsight)
			}
		}
		if math.Abs(s.all.best-all) > 1e-9 || math.Abs(s.all.values[0]-44./6) > 1e-9 || s.all.hindsight != static ||
			!math.IsNaN(s.all.values[3]) {
			t.Errorf("lower %v, whole: %+v, want best %v", lower, s.all, all)
		}
	}
}

func madePoints(from, step time.Duration, values ...float64) (out []SteeringPoint) {
	for i, v := range values {
		out = append(out, SteeringPoint{from + time.Duration(i)*step, v})
	}
	return out
}

func TestSteeringMeanCountsPartsOfSteps(t *testing.T) {
	run := SteeringRun{Step: time.Second, Points: madePoints(time.Second, time.Second, 1, 3, math.NaN(), 5)}
	slices.Reverse(run.Points) // any order will do
	r := runStudy{run, run.steps()}
	for _, x := range []struct{ from, to, want float64 }{
		{1, 3, 2}, {1.5, 2.5, 2}, {1.25, 2.5, (0.75 + 1.5) / 1.25}, {1, 5, math.NaN()}, {0, 1, math.NaN()}, {4, 5, 5},
		{4, 5.1, 5}, {4, 6, math.NaN()}, {2, 2, math.NaN()},
	} {
		if got := r.mean(x.from, x.to); math.Abs(got-x.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(x.want) {
			t.Errorf("mean from %v to %v: %v, want %v", x.from, x.to, got, x.want)
		}
	}
}

// TestSteeringJoinsSteps: no peak and no stall may vanish from a chart.
func TestSteeringJoinsSteps(t *testing.T) {
	r := SteeringRun{Step: time.Millisecond,
		Points: madePoints(0, time.Millisecond, slices.Repeat([]float64{5}, 10*maxPoints+1)...)}
	r.Points[777].Value, r.Points[8888].Value, r.Points[42].Value = 0, 1e6, math.NaN()
	l := runStudy{r, r.steps()}.line(0, scale{by: 1})
	if len(l.Mean) > maxPoints || len(l.Mean) != len(l.Low) || float64(l.Step) != 0.011 {
		t.Errorf("%d points, %d lows, step %v", len(l.Mean), len(l.Low), l.Step)
	}
	if slices.Min(l.Low) != 0 || slices.Max(l.High) != 1e6 || l.Mean[3] != 5 {
		t.Errorf("least %v, most %v, with a gap %v", slices.Min(l.Low), slices.Max(l.High), l.Mean[3])
	}
	s := studyScript(SteeringScript{Runs: []SteeringRun{r, {Name: "x", Step: 1, Points: make([]SteeringPoint, 1)}}})
	if got := s.density(); !strings.Contains(got, "mean of up to 11 steps of 1.00 ms ()") ||
		!strings.Contains(got, "band") {
		t.Errorf("the page says %q", got)
	}
}

// TestSteeringPartsLines: a line does not cross time that was not measured, and
// a short last step before the next part of a script is no such time.
func TestSteeringPartsLines(t *testing.T) {
	ms := time.Millisecond
	run := SteeringRun{Step: 100 * ms, Points: []SteeringPoint{{0, 1}, {100 * ms, 2}, {130 * ms, 3}, {230 * ms, 4},
		{700 * ms, 5}, {700 * ms, 6}}}
	r := runStudy{run, run.steps()}
	l := r.line(0, scale{by: 1})
	if len(l.Mean) != 6 || !math.IsNaN(float64(l.Mean[4])) || l.Mean[5] != 6 || math.Abs(float64(l.X[4])-0.515) > 1e-9 {
		t.Errorf("means %v at %v", l.Mean, l.X)
	}
	if got := r.mean(0, 0.33); math.Abs(got-(0.1+0.06+0.3+0.4)/0.33) > 1e-9 {
		t.Errorf("mean %v", got)
	}
}

func TestSteeringEventsJoinTheirOutcomes(t *testing.T) {
	s := studyScript(madeDemo(time.Second))
	if s.moves != 5 || len(s.events) != 7 {
		t.Fatalf("%d moves in %d events", s.moves, len(s.events))
	}
	first := s.events[1]
	if first.mark != 1 || first.Gain == nil || *first.Gain != 0.293 || !strings.Contains(first.outcome, "+29 %") {
		t.Errorf("first move: %+v", first)
	}
	if peer := s.events[5]; peer.Host != "node2" || peer.outcome != "" {
		t.Errorf("node2's event took the outcome of node1's with the same number: %+v", peer)
	}
}

func TestSteeringFigures(t *testing.T) {
	most := func(v float64) *figure.Bar { return &figure.Bar{Limit: v} }
	for _, x := range []struct {
		f                   figure.Figure
		value, bar, verdict string
	}{
		{figure.Figure{Unit: "s", Value: 0.0471, N: 3, Bar: most(0.06)}, "47.1 ms", "≤ 60.0 ms", "met"},
		{figure.Figure{Unit: "s", Value: 0.06, N: 3, Bar: most(0.06)}, "60.0 ms", "≤ 60.0 ms", "met"},
		{figure.Figure{Unit: "s", Value: 0.060004, N: 3, Bar: most(0.06)}, "60.004 ms", "≤ 60.0 ms", "not met"},
		{figure.Figure{Unit: "ratio", Value: 0.9503, N: 3, Bar: &figure.Bar{AtLeast: true, Limit: 0.95}}, "0.9503",
			"≥ 0.950", "met"},
		{figure.Figure{Unit: "share", Value: 0.9699, N: 3, Bar: &figure.Bar{AtLeast: true, Limit: 0.97}}, "96.99 %",
			"≥ 97.0 %", "not met"},
		{figure.Figure{Unit: "count", Value: 0, N: 1, Bar: most(0)}, "0", "≤ 0", "met"},
		{figure.Figure{Unit: "count", Bar: most(0)}, "-", "≤ 0", "not measured"},
		{figure.Figure{Unit: "s", Value: math.NaN(), N: 1, Bar: most(1)}, "-", "≤ 1.00 s", "not met"},
		{figure.Figure{Unit: "change", Value: 0.0031, N: 1}, "+0.31 %", "", ""},
		{figure.Figure{Unit: "B", Value: 41 << 20, N: 1}, "41.0 MiB", "", ""},
		{figure.Figure{Unit: "pigeons", Value: 1234.5, N: 1}, "1234 pigeons", "", ""},
	} {
		f := SteeringFigure{Figure: x.f}
		if f.value() != x.value || f.bar() != x.bar || f.verdict() != x.verdict {
			t.Errorf("%+v: %q %q %q, want %q %q %q", f, f.value(), f.bar(), f.verdict(), x.value, x.bar, x.verdict)
		}
	}
}

func TestSteeringCSVIsWhole(t *testing.T) {
	in := steeringFixtures()["demo"]
	rows, err := csv.NewReader(strings.NewReader(renderSteering(t, SteeringCSV, in, Options{}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range rows[1:] {
		n[r[0]]++
	}
	for record, want := range map[string]int{"figure": len(in.Figures), "step": 4 * 1800, "phase": 4, "event": 7,
		"event-gain": 4, "share": 3 * 7, "achieved": 5 * 5, "achieved-whole": 5} {
		if n[record] != want {
			t.Errorf("%d rows of %s, want %d", n[record], record, want)
		}
	}
}

// TestSteeringPageIsClosed: data cannot become markup, and nothing is loaded.
func TestSteeringPageIsClosed(t *testing.T) {
	out := renderSteering(t, Steering, steeringFixtures()["odd"], Options{}) + renderSteering(t, Steering, madeSteering(),
		Options{})
	if strings.Contains(out, "<b>not markup") || strings.Contains(out, "</script>connection") ||
		strings.Contains(out, `<b>"script"`) {
		t.Error("data became markup")
	}
	if n := strings.Count(out, "default-src 'none'"); n != 2 {
		t.Errorf("%d policies in 2 pages", n)
	}
}

func FuzzSteering(f *testing.F) {
	raw, err := os.ReadFile("steering.go")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, int64(1), int64(0), int64(0))
	f.Add(raw[:64], int64(time.Millisecond), int64(-5), int64(math.MaxInt64))
	f.Add(raw[:9], int64(math.MaxInt64), int64(math.MinInt64), int64(0))
	f.Add(slices.Repeat([]byte{200}, 40), int64(1), int64(math.MaxInt64), int64(3))
	f.Fuzz(func(t *testing.T, raw []byte, step, a, b int64) {
		raw = raw[:min(len(raw), 64)]
		s := SteeringScript{Name: string(raw), Unit: "s", Lower: len(raw)%2 == 0}
		values := make([]float64, len(raw))
		for i, c := range raw {
			values[i] = []float64{float64(c), math.NaN(), math.Inf(1), -float64(c), math.MaxFloat64, 0}[int(c)%6]
			at := time.Duration(a + int64(c)*b)
			s.Phases = append(s.Phases, SteeringPhase{string(raw[:i]), string(raw[i:]), at, time.Duration(b - int64(c)*a)})
			s.Events = append(s.Events, SteeringEvent{ID: int(c) % 7, Of: int(c) % 3, At: at, Kind: string(raw[i:]), From: "x",
				To: string(raw[:i]), Gain: &values[i], PredictedGain: values[i], Took: at})
			s.Shares = append(s.Shares, SteeringShare{at, map[string]float64{"x": values[i], string(raw[:i]): float64(a)}})
		}
		s.Runs = []SteeringRun{{Name: "r", Steered: true, Step: time.Duration(step),
			Points: madePoints(time.Duration(a), time.Duration(step), values...)},
			{Name: string(raw), Step: time.Duration(step), Points: madePoints(time.Duration(b), time.Duration(a), values...)}}
		in := SteeringInput{Name: string(raw), Took: time.Duration(a), Scripts: []SteeringScript{s}}
		for _, v := range values {
			in.Figures = append(in.Figures,
				SteeringFigure{Figure: figure.Figure{Name: string(raw), Unit: "s", Value: v, Low: -v, High: v, N: 2,
					Most: v, Bar: &figure.Bar{Limit: values[0]}}})
		}
		for format, write := range steeringFormats() {
			if err := write(io.Discard, in, Options{}); err != nil && (step > 0 || len(raw) == 0) {
				t.Errorf("%s: %v", format, err)
			}
		}
	})
}
