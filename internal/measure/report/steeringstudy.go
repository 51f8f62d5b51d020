package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
)

// steeringStudy is all that is derived from a SteeringInput, once, for every format.
type steeringStudy struct {
	SteeringInput
	// names are the runs and networks of all scripts; their order gives colours.
	names   []chartNetwork
	scripts []scriptStudy
}

// scriptStudy is one script with what its runs achieved.
type scriptStudy struct {
	SteeringScript
	// from and end, in seconds, are what the chart shows.
	from, end float64
	runs      []runStudy
	phases    []phaseStudy
	// parts are the pieces between the phases' edges; all is the whole.
	parts  []part
	all    part
	events []eventStudy
	// moves counts the events that moved traffic.
	moves int
}

// runStudy is a run with its points in order.
type runStudy struct {
	SteeringRun
	steps []step
}

// step is a value that holds for some time.
type step struct{ from, to, value float64 }

// phaseStudy is a phase with its letter; lane counts the phases under way when
// it begins, so that those that overlap can be drawn one above the other.
type phaseStudy struct {
	SteeringPhase
	letter   string
	from, to float64
	lane     int
}

// eventStudy is an event with its outcome.
type eventStudy struct {
	SteeringEvent
	// mark is the number of an event that moved traffic; 0 for others.
	mark    int
	outcome string
}

func studySteering(in SteeringInput) (*steeringStudy, error) {
	s := &steeringStudy{SteeringInput: in}
	for _, script := range in.Scripts {
		for _, r := range script.Runs {
			if len(r.Points) > 0 && r.Step <= 0 {
				return nil, fmt.Errorf("report steering: run %q of script %q: points in steps of %v", r.Name, script.Name, r.Step)
			}
		}
		s.scripts = append(s.scripts, studyScript(script))
	}
	s.names = steeringNames(in.Scripts)
	return s, nil
}

// steered is the colour of the first steered run: the ink's, apart from the
// networks' palette.
const steered = palette + 1

// steeringNames gives every run and network a colour. Steered runs come first.
func steeringNames(scripts []SteeringScript) []chartNetwork {
	out, next := []chartNetwork{}, 0
	add := func(name string, ink bool) {
		if name == "" || slices.ContainsFunc(out, func(n chartNetwork) bool { return n.Name == name }) {
			return
		}
		n := chartNetwork{Name: name, Color: steered}
		if !ink {
			n.Color, n.Cycle = 1+next%palette, next/palette
			next++
		}
		out = append(out, n)
	}
	for _, s := range scripts {
		for _, r := range s.Runs {
			if r.Steered {
				add(r.Name, !slices.ContainsFunc(out, func(n chartNetwork) bool { return n.Color == steered }))
			}
		}
	}
	for _, s := range scripts {
		for _, r := range s.Runs {
			add(r.Name, false)
		}
	}
	for _, s := range scripts {
		var more []string
		for _, sh := range s.Shares {
			for name := range sh.Parts {
				more = append(more, name)
			}
		}
		slices.Sort(more)
		for _, name := range more {
			add(name, false)
		}
		for _, e := range s.Events {
			if e.moves() {
				add(e.From, false)
				add(e.To, false)
			}
		}
	}
	return out
}

// index of a name; -1 for one without a colour.
func (s *steeringStudy) index(name string) int {
	return slices.IndexFunc(s.names, func(n chartNetwork) bool { return n.Name == name })
}

// swatch is the template function that shows a name's colour mark.
func (s *steeringStudy) swatch(name string) template.HTML {
	class := "sw"
	if i := s.index(name); i >= 0 {
		class = fmt.Sprintf("sw c%d k%d", s.names[i].Color, s.names[i].Cycle%4)
	}
	// The class is made of numbers alone.
	return template.HTML(`<i class="` + class + `" aria-hidden="true"></i>`)
}

func studyScript(script SteeringScript) scriptStudy {
	s := scriptStudy{SteeringScript: script}
	for _, r := range s.Runs {
		v := runStudy{r, r.steps()}
		s.runs = append(s.runs, v)
		if n := len(v.steps); n > 0 {
			s.from, s.end = min(s.from, v.steps[0].from), max(s.end, v.steps[n-1].to)
		}
	}
	for _, p := range s.Phases {
		s.from, s.end = min(s.from, p.From.Seconds()), max(s.end, p.From.Seconds(), p.To.Seconds())
	}
	if s.end <= s.from {
		for _, e := range s.Events {
			s.end = max(s.end, e.At.Seconds())
		}
		s.end = max(s.end, s.from+1)
	}
	s.studyPhases()
	s.events, s.moves = studyEvents(s.Events)
	s.cut()
	return s
}

// steps are the points in order, each until the next or as long as it holds.
func (r SteeringRun) steps() []step {
	sorted := slices.Clone(r.Points)
	slices.SortStableFunc(sorted, func(a, b SteeringPoint) int { return cmp.Compare(a.At, b.At) })
	out := make([]step, 0, len(sorted))
	for i, p := range sorted {
		v := step{p.At.Seconds(), p.At.Seconds() + r.Step.Seconds(), p.Value}
		if math.IsInf(v.value, 0) {
			v.value = math.NaN()
		}
		if i+1 < len(sorted) {
			v.to = min(v.to, sorted[i+1].At.Seconds())
		}
		if v.to > v.from {
			out = append(out, v)
		}
	}
	return out
}

// mean of the values between two times; NaN where the run covers less than nine
// tenths of that, as what is missing could change the mean.
func (r runStudy) mean(from, to float64) float64 {
	if to <= from {
		return math.NaN()
	}
	first, _ := slices.BinarySearchFunc(r.steps, from, func(s step, t float64) int { return cmp.Compare(s.to, t) })
	var mean, covered float64
	for _, s := range r.steps[first:] {
		if s.from >= to {
			break
		}
		w := min(to, s.to) - max(from, s.from)
		if w <= 0 || math.IsNaN(s.value) {
			continue
		}
		covered += w
		mean += (s.value - mean) * w / covered
	}
	if covered < 0.9*(to-from) {
		return math.NaN()
	}
	return mean
}

func (s *scriptStudy) studyPhases() {
	sorted := slices.Clone(s.Phases)
	slices.SortStableFunc(sorted, func(a, b SteeringPhase) int { return cmp.Compare(a.From, b.From) })
	var ends []float64 // of the lanes
	for i, p := range sorted {
		v := phaseStudy{SteeringPhase: p, letter: letter(i), from: p.From.Seconds(), to: p.To.Seconds()}
		if p.To == 0 {
			v.to = s.end
		}
		v.to = max(v.to, v.from)
		v.lane = slices.IndexFunc(ends, func(end float64) bool { return end <= v.from })
		if v.lane < 0 {
			v.lane = len(ends)
			ends = append(ends, 0)
		}
		ends[v.lane] = v.to
		s.phases = append(s.phases, v)
	}
}

// letter names the i-th phase: A to Z, AA, AB ...
func letter(i int) string {
	out := ""
	for i++; i > 0; i = (i - 1) / 26 {
		out = string(rune('A'+(i-1)%26)) + out
	}
	return out
}

// moves tells whether the event moved traffic.
func (e SteeringEvent) moves() bool {
	return e.From != "" && e.To != "" && e.From != e.To && !e.DryRun && e.Of == 0
}

// studyEvents sorts, numbers the moves and joins outcomes with their events.
func studyEvents(events []SteeringEvent) (out []eventStudy, moves int) {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b SteeringEvent) int { return cmp.Compare(a.At, b.At) })
	type key struct {
		host string
		id   int
	}
	at := map[key]int{}
	for _, e := range sorted {
		if e.Of != 0 {
			continue
		}
		v := eventStudy{SteeringEvent: e}
		if e.moves() {
			moves++
			v.mark = moves
		}
		if e.ID != 0 {
			at[key{e.Host, e.ID}] = len(out)
		}
		out = append(out, v)
	}
	for _, e := range sorted {
		if e.Of == 0 {
			continue
		}
		i, ok := at[key{e.Host, e.Of}]
		if !ok { // its event was not handed in: it is shown by itself
			out = append(out, eventStudy{SteeringEvent: e})
			continue
		}
		if e.Gain != nil {
			out[i].Gain = e.Gain
		}
		out[i].outcome = oneLine(e.Reason)
	}
	slices.SortStableFunc(out, func(a, b eventStudy) int { return cmp.Compare(a.At, b.At) })
	return out, moves
}
