package decide

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/stat"
)

// Course is what policies are run through to compare them: a schedule, or the
// evidence recorded of a pair.
type Course struct {
	Family string
	Name   string

	run func(Policy) Result
}

// Courses are n schedules of a family, from a seed on.
func (f Family) Courses(seed uint64, n int) (out []Course) {
	for i := range uint64(n) {
		s := f.draw(seed + i)
		run := func(p Policy) Result { return Play(s, p, seed+i) }
		out = append(out, Course{Family: f.Name, Name: s.Name, run: run})
	}
	return out
}

// Recorded is the family of courses that are recordings.
const Recorded = "recorded"

// Courses are the recording's pairs of which some record has the truth.
func (rec Recording) Courses() (out []Course) {
	byPair := map[string][]Record{}
	var judged []string
	for _, r := range rec.Records {
		pair := r.Evidence.Pair
		byPair[pair] = append(byPair[pair], r)
		if len(r.Truth) > 0 && !slices.Contains(judged, pair) {
			judged = append(judged, pair)
		}
	}
	for _, pair := range judged {
		one := Recording{Header: rec.Header, Records: byPair[pair]}
		run := func(p Policy) Result { return Replay(p, one) }
		out = append(out, Course{Family: Recorded, Name: rec.Header.Name + " " + pair, run: run})
	}
	return out
}

// Ablate runs the course with all mechanisms, and then without each in turn. It
// returns what each run achieved of the best in hindsight. share is whether flows may share networks.
func (c Course) Ablate(mechanisms []Mechanism, seed uint64, share bool) []float64 {
	all := CostAware{Seed: seed}.WithShare(share)
	out := []float64{c.run(all).OfHindsight()}
	for _, m := range mechanisms {
		without := *all.Params
		m.off(&without)
		out = append(out, c.run(CostAware{Seed: seed, Params: &without}).OfHindsight())
	}
	return out
}

// Earning is what a mechanism earns in a family of courses.
type Earning struct {
	Mechanism string `json:"mechanism"`
	Family    string `json:"family"`
	// Points of the best in hindsight that all mechanisms have over all but this one: the
	// mean over the courses of a paired difference.
	Points stat.Interval `json:"points"`
	// Differ is the number of courses that end otherwise without it.
	Differ int `json:"differ"`
}

// Significant reports whether what it earns, or costs, can be told apart from nothing.
func (e Earning) Significant() bool {
	return e.Differ > 0 && e.Points.Bounded() && !e.Points.Contains(0)
}

// Earnings compares what Ablate returned of a family's courses, by mechanism.
func Earnings(family string, mechanisms []Mechanism, achieved [][]float64) (out []Earning) {
	for i, m := range mechanisms {
		e := Earning{Mechanism: m.Name, Family: family}
		points := make([]float64, len(achieved))
		for j, a := range achieved {
			if points[j] = 100 * (a[0] - a[i+1]); math.Abs(points[j]) > rounding {
				e.Differ++
			}
		}
		e.Points = stat.MeanT(points, stat.Level)
		out = append(out, e)
	}
	return out
}

// Named returns those of a list with the names, or all where no names are given.
func Named[T any](all []T, name func(T) string, names []string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var have []string
	for _, x := range all {
		have = append(have, name(x))
	}
	var out []T
	for _, n := range names {
		i := slices.Index(have, n)
		if i < 0 {
			return nil, fmt.Errorf("unknown name %q: expected one of %s", n, strings.Join(have, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}
