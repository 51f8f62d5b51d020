package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func (s section) title() string {
	out := s.Workload + ", " + string(s.Placement)
	if q := s.Questions[0].Scenario; q.MTU != topo.DefaultMTU {
		out += fmt.Sprintf(", MTU %d", q.MTU)
	}
	for _, word := range placeWords(s.Questions[0].Scenario) {
		out += ", " + word
	}
	if s.Kernel != "" {
		out += ", guest kernel " + s.Kernel
	}
	return out
}

// placeWords says where pods are and how they speak, but for the placement.
func placeWords(s topo.Scenario) (out []string) {
	if s.Outside != s.Placement.Outside() {
		out = append(out, "outside "+string(s.Outside))
	}
	if s.Cores != topo.CoresFree {
		out = append(out, "cores "+string(s.Cores))
	}
	if s.Rmem != topo.RmemAuto {
		out = append(out, "rmem "+s.Rmem.Word())
	}
	if s.IP() == topo.IPv6 {
		out = append(out, "IPv6")
	}
	if s.VM != "" {
		out = append(out, "virtual machines "+s.VM)
	}
	return out
}

// knobs are what can grow in a load: a name for people and the value, 0 where
// the load has none.
type knobOf struct {
	name  string
	value func(sample.Question) float64
}

func knobs() []knobOf {
	return []knobOf{
		{"pod pairs", func(q sample.Question) float64 { return float64(q.Scenario.Pairs) }},
		{"connections per pair", func(q sample.Question) float64 { return float64(q.Load.Connections) }},
		{"message size (B)", func(q sample.Question) float64 { return float64(q.Load.Size) }},
		{"offered rate", func(q sample.Question) float64 { return q.Load.Rate }},
	}
}

// axes finds the knobs that take several values while the others stay.
func (s section) axes() (out []loadAxis) {
	for _, k := range knobs() {
		groups := map[string][]int{}
		var order []string
		for i, q := range s.Questions {
			rest := s.rest(q.Question, k.name)
			if groups[rest] == nil {
				order = append(order, rest)
			}
			groups[rest] = append(groups[rest], i)
		}
		for _, rest := range order {
			if axis, ok := s.axis(k, groups[rest]); ok {
				if rest != "" {
					axis.Title += " at " + rest
				}
				out = append(out, axis)
			}
		}
	}
	return out
}

// rest describes the knobs but one that differ within the section.
func (s section) rest(q sample.Question, but string) string {
	var parts []string
	for _, k := range knobs() {
		differs := slices.ContainsFunc(s.Questions, func(o question) bool { return k.value(o.Question) != k.value(q) })
		if k.name != but && differs {
			parts = append(parts, fmt.Sprintf("%s = %g", k.name, k.value(q)))
		}
	}
	return strings.Join(parts, ", ")
}

func (s section) axis(k knobOf, loads []int) (loadAxis, bool) {
	out := loadAxis{Title: k.name}
	slices.SortFunc(loads, func(a, b int) int {
		return cmp.Compare(k.value(s.Questions[a].Question), k.value(s.Questions[b].Question))
	})
	for _, i := range loads {
		// A knob that is not set has no place on a logarithmic axis.
		if x := k.value(s.Questions[i].Question); x > 0 {
			out.X, out.Loads = append(out.X, x), append(out.Loads, i)
		}
	}
	return out, len(out.X) >= 2
}

// minTail is how many slower values a percentile needs to be drawn: with
// fewer, one value more or less moves it.
const minTail = 10

// curves are the merged latency distributions; nil where no trial has one.
func (s section) curves(networks []string) *chartCurve {
	top := 0.0
	for _, q := range s.Questions {
		for _, l := range q.Lines {
			if l.Sum != nil && l.Sum.Latency != nil {
				top = max(top, l.Sum.Latency.Percentile(50))
			}
		}
	}
	if top == 0 {
		return nil
	}
	sc := scaleFor("s", top)
	out := &chartCurve{Unit: sc.unit, Points: make([][][][]num, len(s.Questions))}
	for i, q := range s.Questions {
		out.Points[i] = make([][][]num, len(networks))
		for j, n := range networks {
			if l, ok := q.line(n); ok && l.Sum != nil && l.Sum.Latency != nil {
				out.Points[i][j] = curve(l.Sum.Latency, sc)
			}
		}
	}
	return out
}

// curve samples a distribution evenly on the axis -log10(1-p), on which
// 90, 99 and 99.9 % are equally far apart.
func curve(h *sample.Histogram, sc scale) [][]num {
	const step, most = 0.05, 5.0
	end := math.Min(math.Log10(float64(h.Count())/minTail), most)
	out := [][]num{}
	for i := range int(end/step+1e-9) + 1 {
		x := float64(i) * step
		p := 100 * (1 - math.Pow(10, -x))
		out = append(out, []num{num(x), num(h.Percentile(p) / sc.by)})
	}
	return out
}
