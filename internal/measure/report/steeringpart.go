package report

import (
	"cmp"
	"math"
	"slices"
)

// part is a piece of a script.
type part struct {
	letters  string
	name     string
	from, to float64
	// weight is the length that counts in the whole.
	weight float64
	// values by run: the mean over the part; NaN where the run does not cover it.
	values []float64
	// best is the best static run's value, and hindsight that run; -1 without.
	best      float64
	hindsight int
}

// cut splits the script at the phases' edges and finds what was achieved.
func (s *scriptStudy) cut() {
	edges := []float64{s.from, s.end}
	if len(s.phases) > 0 { // what runs before and after the script is not of it
		edges = nil
	}
	for _, p := range s.phases {
		edges = append(edges, p.from, p.to)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	for i := 1; i < len(edges); i++ {
		if p := s.part(edges[i-1], edges[i]); edges[i]-edges[i-1] >= 1e-3 {
			s.parts = append(s.parts, p)
		}
	}
	s.all = s.whole()
}

func (s *scriptStudy) part(from, to float64) part {
	p := part{from: from, to: to, weight: to - from, best: math.NaN(), hindsight: -1}
	var letters, names []string
	only := s.only(from, to)
	if only >= 0 && only < len(s.Weights) {
		p.weight = s.Weights[only].Seconds()
	}
	for _, ph := range s.phases {
		if ph.from < to && ph.to > from {
			letters, names = append(letters, ph.letter), append(names, oneLine(ph.Name))
		}
	}
	p.letters = listed(letters, "", 6)
	rest := "between phases"
	if len(s.phases) == 0 {
		rest = "whole script"
	}
	p.name = cmp.Or(listed(names, " + ", 4), rest)
	for i, r := range s.runs {
		v := r.mean(from, to)
		if only >= 0 && only < len(r.Means) {
			v = r.Means[only]
		}
		p.values = append(p.values, v)
		if !r.Steered && !math.IsNaN(v) && (p.hindsight < 0 || s.better(v, p.best)) {
			p.best, p.hindsight = v, i
		}
	}
	return p
}

// only is the phase that a part consists of, by its place in Phases; -1 where
// there is none or another one overlaps.
func (s *scriptStudy) only(from, to float64) int {
	found := -1
	for i, p := range s.Phases {
		end := p.To.Seconds()
		if p.To == 0 {
			end = s.end
		}
		if p.From.Seconds() >= to || end <= from {
			continue
		}
		if found >= 0 || p.From.Seconds() != from || end != to {
			return -1
		}
		found = i
	}
	return found
}

// better tells whether a is better than b.
func (s *scriptStudy) better(a, b float64) bool { return a != b && (a > b) != s.Lower }

// whole is the mean over all parts by their weight. Its best is what the best
// choice of each part would have achieved if changing cost nothing, and its
// hindsight the best single choice.
func (s *scriptStudy) whole() part {
	out := part{name: "whole script", from: s.from, to: s.end, best: math.NaN(), hindsight: -1}
	if n := len(s.parts); n > 0 {
		out.from, out.to = s.parts[0].from, s.parts[n-1].to
	}
	over := func(value func(part) float64) float64 {
		mean, covered := math.NaN(), 0.0
		for i, p := range s.parts {
			if i == 0 {
				mean = 0
			}
			covered += p.weight
			mean += (value(p) - mean) * p.weight / covered // one NaN makes it NaN
		}
		return mean
	}
	out.best = over(func(p part) float64 { return p.best })
	for i, r := range s.runs {
		v := over(func(p part) float64 { return p.values[i] })
		out.values = append(out.values, v)
		if !r.Steered && !math.IsNaN(v) && (out.hindsight < 0 || s.better(v, out.values[out.hindsight])) {
			out.hindsight = i
		}
	}
	return out
}

// ofBest is a value as a share of the best: 1 is as good, for latency too.
func (s *scriptStudy) ofBest(v, best float64) float64 {
	if s.Lower {
		v, best = best, v
	}
	if best == 0 {
		if v == 0 {
			return 1
		}
		return math.NaN()
	}
	return v / best
}
