package rank

import (
	"fmt"
	"math"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Drift is how far the runs of a comparison differ on this machine though nothing was
// changed, as the baseline shows: factors by which standard errors are multiplied.
//
// A run's repetitions tell how much they scatter, not what the machine did to all of them
// alike (frequency, temperature, neighbours, where memory came to lie). The baseline is the
// same thing in both runs, so its figures tell: by stat.Birge.
type Drift struct {
	// Whole is by how much the baseline's figures moved, against their own errors: it
	// scales what is not judged relative to the baseline.
	Whole float64 `json:"whole"`
	// Uneven is how differently its figures moved: what a ratio to the baseline does not
	// take out. 1 where fewer than three questions tell.
	Uneven float64 `json:"uneven"`
	// Questions is how many the baseline was asked that both runs answer.
	Questions int `json:"questions"`
}

// leastTold is the number of questions below which nothing is said of unevenness.
const leastTold = 3

// estimateDrift looks at the baseline's rows, whatever is selected.
func (c *comparer) estimateDrift() {
	d := Drift{Whole: 1, Uneven: 1}
	var rows []Change
	questions := map[sample.Question]bool{}
	for _, r := range c.out.Changes {
		if r.Verdict == Reference && r.shifted && r.shift.Log && r.Metric.Better != 0 {
			rows = append(rows, r)
			questions[r.Question()] = true
		}
	}
	d.Questions = len(questions)
	if len(rows) > 0 {
		squares := 0.0
		for _, r := range rows {
			squares += r.shift.Z() * r.shift.Z()
		}
		// What the machine does to all alike is told once, however many figures tell it.
		d.Whole = stat.Birge(squares/float64(len(rows)), 1, 0.5)
	}
	if len(questions) >= leastTold {
		d.Uneven = unevenness(rows, len(questions))
	}
	c.out.Drift = d
}

// unevenness is the factor of the rows about their weighted mean. Signs are turned so that a
// slower machine has one sign in rates and times. Figures of one question are of the same
// trials, so that the questions count as degrees of freedom.
func unevenness(rows []Change, questions int) float64 {
	sum, weights := 0.0, 0.0
	for _, r := range rows {
		w := 1 / (r.shift.Stderr * r.shift.Stderr)
		sum += w * float64(r.Metric.Better) * r.shift.Delta
		weights += w
	}
	center, squares := sum/weights, 0.0
	for _, r := range rows {
		z := r.shift.About(float64(r.Metric.Better) * center)
		squares += z * z
	}
	// Less than the middle: a factor that is too small claims what is not, one that is too
	// large costs repetitions. It is then taken as known: a t quantile of the few degrees of
	// freedom besides would hide a change of 15 % at three questions.
	return stat.Birge(squares*float64(questions)/float64(len(rows)), float64(questions-1), 0.35)
}

// include widens the rows by the drift, in intervals and tests. A ratio to the baseline has
// the unevenness twice: the baseline's own, and the network's, which is taken to be as large
// and independent of it.
func (c *comparer) include() {
	d := c.out.Drift
	for i := range c.out.Changes {
		r := &c.out.Changes[i]
		r.A, r.B = r.A.Wider(d.Whole, 1), r.B.Wider(d.Whole, 1)
		if !r.shifted || r.Relative == nil || d.Uneven <= 1 {
			continue
		}
		r.shift = r.shift.Drifting(math.Sqrt2*math.Sqrt(d.Uneven*d.Uneven-1)*r.baselineErr, math.Inf(1))
		wide := r.shift.Widen(*r.Relative)
		r.Relative = &wide
		if r.Tested {
			r.P = r.shift.P()
		}
	}
}

// warn tells what must be known about the whole: drift, or that it cannot be seen.
func (c *comparer) warn() {
	c.adjustReference()
	moved, total, worst := 0, 0, Change{}
	for _, row := range c.out.Changes {
		if row.Verdict != Reference || !row.Tested {
			continue
		}
		total++
		if row.Adjusted < 1-c.o.Level {
			moved++
			if worst.Verdict == "" || row.P < worst.P {
				worst = row
			}
		}
	}
	if moved > 0 {
		c.tell("drift", "the baseline %s itself moved between the runs, in %d of %d figures (clearest: %s %s, x%.3f): the machine or its kernel changed; rows are judged relative to it",
			c.o.Baseline, moved, total, worst.Cell, worst.Metric.Name, worst.Ratio.Center)
	}
	if d := c.out.Drift; d.Uneven >= 1.5 {
		c.tell("drift", "the figures of %s moved unequally between the runs, by %.1f times what their repetitions tell: intervals and tests of the networks are wider by that",
			c.o.Baseline, d.Uneven)
	}
	for _, run := range []struct {
		name string
		b    *book
	}{{"first", c.a}, {"second", c.b}} {
		for _, w := range run.b.drift() {
			c.tell(w.Gate, "in the %s run %s", run.name, w.Text)
		}
	}
	if len(c.out.Changes) > 0 && !c.related {
		c.tell("baseline", "no row could be judged relative to %s: a drift of the machine cannot be told from a change of a network", c.o.Baseline)
	}
}

func (c *comparer) tell(gate, format string, args ...any) {
	c.out.Warnings = append(c.out.Warnings, sample.Warning{Gate: gate, Text: fmt.Sprintf(format, args...)})
}

// WarnDrift tells, for a run by itself, whether the baseline drifted from its first block to
// its last: the gate "drift".
func WarnDrift(trials []sample.Trial, o Options) []sample.Warning { return newBook(trials, o).drift() }

// fewBlocks is the number of blocks below which a drift within a run is not looked for.
const fewBlocks = 4

// drift fits, to all figures of the baseline together, a slope over the blocks: of each
// block the mean of the figures' logarithms, less the figure's own mean and turned so that
// higher is better.
func (b *book) drift() []sample.Warning {
	sums, counts := map[int]float64{}, map[int]int{}
	for _, q := range b.asked {
		for _, f := range b.cells[q][b.o.Baseline].Figures {
			logs, ok := f.logs()
			if !ok || f.Metric.Better == 0 {
				continue
			}
			for i, l := range logs {
				sums[f.Repetitions[i]] += float64(f.Metric.Better) * l
				counts[f.Repetitions[i]]++
			}
		}
	}
	blocks := stat.Blocks{}
	for k, n := range counts {
		blocks[k] = sums[k] / float64(n)
	}
	if len(blocks) < fewBlocks {
		return nil
	}
	slope := stat.TrendOf(blocks, b.o.Level)
	if slope.Contains(0) || math.Abs(slope.Center) < 0.02 {
		return nil
	}
	became := "slower"
	if slope.Center > 0 {
		became = "faster"
	}
	return []sample.Warning{{Gate: "drift", Text: fmt.Sprintf(
		"the baseline %s became %s by %.1f %% from its first repetition to its last (95 %% interval %.1f to %.1f %%): the machine drifted while it was measured; ratios to %s within a repetition are not touched by it",
		b.o.Baseline, became, 100*math.Abs(math.Expm1(slope.Center)),
		100*math.Abs(math.Expm1(near(slope))), 100*math.Abs(math.Expm1(far(slope))), b.o.Baseline)}}
}

// near and far are the bounds of an interval that does not hold 0.
func near(i stat.Interval) float64 {
	return math.Copysign(min(math.Abs(i.Low), math.Abs(i.High)), i.Center)
}
func far(i stat.Interval) float64 {
	return math.Copysign(max(math.Abs(i.Low), math.Abs(i.High)), i.Center)
}

// logs are the values' logarithms less their mean; ok is false where one has none.
func (f Figure) logs() (out []float64, ok bool) {
	mean := 0.0
	for _, v := range f.Values {
		if v <= 0 {
			return nil, false
		}
		out = append(out, math.Log(v))
		mean += math.Log(v) / float64(len(f.Values))
	}
	for i := range out {
		out[i] -= mean
	}
	return out, len(out) > 0
}
