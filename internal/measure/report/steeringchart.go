package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// steeringData is what the scripts of the steering page draw.
type steeringData struct {
	Networks []chartNetwork `json:"networks"`
	Sections []chartScript  `json:"sections"`
}

// chartScript is a script's time line. Times are in seconds, values scaled.
type chartScript struct {
	ID string `json:"id"`
	// Metrics is empty: there is nothing to choose.
	Metrics []chartMetric `json:"metrics"`
	Unit    string        `json:"unit"`
	From    num           `json:"from"`
	End     num           `json:"end"`
	Lanes   int           `json:"lanes"`
	Lines   []chartLine   `json:"lines"`
	Phases  []chartPhase  `json:"phases"`
	Marks   []chartMark   `json:"marks"`
	Shares  *chartShares  `json:"shares,omitempty"`
}

// chartLine is a run: the means of steps, and where steps were joined, the least
// and the greatest of them. A mean of null parts the line.
type chartLine struct {
	Network int  `json:"network"`
	Steered bool `json:"steered,omitempty"`
	// Step is how long a point holds, X the points' middles.
	Step num   `json:"step"`
	X    []num `json:"x"`
	Mean []num `json:"mean"`
	Low  []num `json:"low,omitempty"`
	High []num `json:"high,omitempty"`
}

type chartPhase struct {
	Letter string `json:"letter"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	From   num    `json:"from"`
	To     num    `json:"to"`
	Lane   int    `json:"lane"`
}

// chartMark is one event that moved traffic, or several that stand too close.
type chartMark struct {
	Label string `json:"label"`
	At    num    `json:"at"`
	Kind  string `json:"kind"`
	// Network is that moved to; -1 where several are.
	Network int      `json:"network"`
	Lines   []string `json:"lines"`
}

// chartShares are the parts of the buckets by network, each valid until the next.
type chartShares struct {
	Networks []int   `json:"networks"`
	X        []num   `json:"x"`
	Parts    [][]num `json:"parts"`
}

// Bounds of what is drawn: a screen has not many more pixels than points, and
// the browser slows down with more marks.
const (
	maxPoints = 1200
	maxMarks  = 300
)

func newSteeringData(s *steeringStudy) steeringData {
	out := steeringData{Networks: s.names, Sections: []chartScript{}}
	for i := range s.scripts {
		sc := &s.scripts[i]
		scale := sc.scale()
		c := chartScript{ID: scriptID(i), Metrics: []chartMetric{}, Unit: scale.unit, From: num(sc.from), End: num(sc.end),
			Lines: []chartLine{}, Phases: []chartPhase{}, Marks: sc.marks(s), Shares: sc.chartShares(s)}
		for _, r := range sc.runs {
			if len(r.steps) > 0 {
				c.Lines = append(c.Lines, r.line(s.index(r.Name), scale))
			}
		}
		for _, p := range sc.phases {
			c.Phases = append(c.Phases, chartPhase{p.letter, oneLine(p.Name), p.Kind, num(p.from), num(p.to), p.lane})
			c.Lanes = max(c.Lanes, p.lane+1)
		}
		out.Sections = append(out.Sections, c)
	}
	return out
}

func scriptID(i int) string { return fmt.Sprintf("t%d", i+1) }

// scale is what all runs share.
func (s *scriptStudy) scale() scale {
	top := 0.0
	for _, r := range s.runs {
		for _, v := range r.steps {
			if !math.IsNaN(v.value) {
				top = max(top, math.Abs(v.value))
			}
		}
	}
	return quantityScale(s.Unit, top)
}

// joined is how many steps of a run share a point of the chart.
func (r runStudy) joined() int { return max((len(r.steps)+maxPoints-1)/maxPoints, 1) }

func (r runStudy) line(network int, s scale) chartLine {
	k := r.joined()
	hold := r.Step.Seconds()
	out := chartLine{Network: network, Steered: r.Steered, Step: num(hold * float64(k)), Mean: []num{}, X: []num{}}
	point := func(x, mean, low, high float64) {
		out.X, out.Mean = append(out.X, num(x)), append(out.Mean, num(mean/s.by))
		if k > 1 {
			out.Low, out.High = append(out.Low, num(low/s.by)), append(out.High, num(high/s.by))
		}
	}
	for from := 0; from < len(r.steps); {
		to := from + 1
		for to < min(from+k, len(r.steps)) && !apart(r.steps[to-1], r.steps[to], hold) {
			to++
		}
		mean, low, high := envelope(r.steps[from:to])
		point((r.steps[from].from+r.steps[to-1].to)/2, mean, low, high)
		if to < len(r.steps) && apart(r.steps[to-1], r.steps[to], hold) {
			point((r.steps[to-1].to+r.steps[to].from)/2, math.NaN(), math.NaN(), math.NaN())
		}
		from = to
	}
	return out
}

// apart tells whether time was not measured between two steps. A fraction of a
// step between two parts of a script is none.
func apart(a, b step, hold float64) bool { return b.from-a.to > hold/2 }

// envelope summarises steps that share a point; NaN where none was measured.
func envelope(steps []step) (mean, low, high float64) {
	mean, low, high = math.NaN(), math.NaN(), math.NaN()
	covered := 0.0
	for _, s := range steps {
		w := s.to - s.from
		switch {
		case math.IsNaN(s.value):
			continue
		case covered == 0:
			mean, low, high = s.value, s.value, s.value
		default:
			mean += (s.value - mean) * w / (covered + w)
			low, high = min(low, s.value), max(high, s.value)
		}
		covered += w
	}
	return mean, low, high
}

// density tells how steps were joined, run by run; empty where none were.
func (s *scriptStudy) density() string {
	var texts []string
	runs := map[string][]string{}
	for _, r := range s.runs {
		k := r.joined()
		if k == 1 {
			continue
		}
		t := fmt.Sprintf("A point is the mean of up to %d steps of %s", k, human(r.Step.Seconds(), "s"))
		if runs[t] == nil {
			texts = append(texts, t)
		}
		runs[t] = append(runs[t], r.Name)
	}
	for i, t := range texts {
		if len(texts) > 1 || len(runs[t]) < len(s.Runs) {
			texts[i] = fmt.Sprintf("%s (%s)", t, strings.Join(runs[t], ", "))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, ". ") + ", and the band around it goes from the least to the greatest of them."
}

// marks are the events that moved traffic; when there are very many, those that
// stand closer than one part in maxMarks share one.
func (s *scriptStudy) marks(all *steeringStudy) []chartMark {
	out, first := []chartMark{}, 0.0
	for _, e := range s.events {
		t := e.At.Seconds()
		if e.mark == 0 || t < s.from || t > s.end {
			continue
		}
		if n := len(out); n > 0 && s.moves > maxMarks && t-first < s.markGap() {
			last := &out[n-1]
			if last.Network != all.index(e.To) {
				last.Network = -1
			}
			from, _, _ := strings.Cut(last.Label, "-")
			last.Label = fmt.Sprintf("%s-%d", from, e.mark)
			last.Kind = "several"
			last.Lines = []string{fmt.Sprintf("moves %s, from %.3f s to %.3f s", last.Label, first, t),
				"the list below tells each"}
			continue
		}
		first = t
		lines := []string{fmt.Sprintf("%.3f s, %s", t, strings.TrimSpace(e.Host+" "+e.Kind)), e.route()}
		if e.Reason != "" {
			lines = append(lines, oneLine(e.Reason))
		}
		out = append(out, chartMark{Label: fmt.Sprint(e.mark), At: num(t), Kind: e.Kind, Network: all.index(e.To),
			Lines: append(lines, strings.Join(e.effects(), ", "))})
	}
	return out
}

func (s *scriptStudy) markGap() float64 { return (s.end - s.from) / maxMarks }

// parting is how the buckets are parted from a time on.
type parting struct {
	at    float64
	names []string
	parts []float64
}

// shares are the given ones in order, as parts of one. One of nothing is
// left out: it says nothing.
func (s *scriptStudy) shares() (out []parting) {
	var names []string
	sorted := slices.Clone(s.Shares)
	slices.SortStableFunc(sorted, func(a, b SteeringShare) int { return cmp.Compare(a.At, b.At) })
	for _, sh := range sorted {
		for name := range sh.Parts {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, sh := range sorted {
		// In order: the sum of floats depends on it.
		v, sum := parting{at: sh.At.Seconds(), names: names}, 0.0
		for _, name := range names {
			n := sh.Parts[name]
			if !(n > 0) || math.IsInf(n, 0) { // NaN neither
				n = 0
			}
			v.parts = append(v.parts, n)
			sum += n
		}
		if sum == 0 || math.IsInf(sum, 0) {
			continue
		}
		for i := range v.parts {
			v.parts[i] /= sum
		}
		out = append(out, v)
	}
	return out
}

// chartShares is nil where nothing is known. Only changes are kept; when there
// are too many of them, the means of equal slots.
func (s *scriptStudy) chartShares(all *steeringStudy) *chartShares {
	shares := s.shares()
	shares = slices.CompactFunc(shares, func(a, b parting) bool { return slices.Equal(a.parts, b.parts) })
	if len(shares) == 0 {
		return nil
	}
	out := &chartShares{}
	// The order of the colours, so that charts and legends agree.
	var order []int
	for i := range all.names {
		if k := slices.Index(shares[0].names, all.names[i].Name); k >= 0 {
			out.Networks, order = append(out.Networks, i), append(order, k)
		}
	}
	if len(shares) > maxPoints {
		shares = s.slots(shares)
	}
	out.Parts = make([][]num, len(order))
	for _, sh := range shares {
		out.X = append(out.X, num(sh.at))
		for i, k := range order {
			out.Parts[i] = append(out.Parts[i], num(sh.parts[k]))
		}
	}
	return out
}

// slots are the means of shares over equal parts of the script's time.
func (s *scriptStudy) slots(shares []parting) (out []parting) {
	width, i := (s.end-s.from)/maxPoints, 0
	for c := range maxPoints {
		from := s.from + float64(c)*width
		v := parting{at: from, names: shares[0].names, parts: make([]float64, len(shares[0].parts))}
		covered := 0.0
		for i > 0 && shares[i].at > from {
			i--
		}
		for ; i < len(shares) && shares[i].at < from+width; i++ {
			until := from + width
			if i+1 < len(shares) {
				until = min(until, shares[i+1].at)
			}
			w := until - max(from, shares[i].at)
			if w <= 0 {
				continue
			}
			covered += w
			for k, p := range shares[i].parts {
				v.parts[k] += p * w
			}
		}
		i = min(max(i-1, 0), len(shares)-1)
		if covered == 0 {
			continue
		}
		for k := range v.parts {
			v.parts[k] /= covered
		}
		out = append(out, v)
	}
	return out
}
