package stat

import "math"

// Nested are values of a build's windows, by build, on one scale: what varies within a build
// and what varies between builds are two things.
type Nested [][]float64

// Components are the variances of a window within its build, and of a build.
type Components struct {
	Within, Between float64
	// Windows and Builds are the degrees of freedom by which the two are known.
	Windows, Builds int
}

// ComponentsOf pools the variances of several cells, each with its builds, by the moments of
// an unbalanced one-way layout (Searle, Casella and McCulloch 1992, section 3.6). Between is
// 0 where windows vary more than builds.
func ComponentsOf(cells []Nested) (c Components) {
	var within, between, dfWithin, dfBetween, size float64
	for _, builds := range cells {
		var all []float64
		squares := 0.0
		for _, windows := range builds {
			m := momentsOf(windows)
			if m.n > 1 {
				within += m.sd * m.sd * float64(m.n-1)
				dfWithin += float64(m.n - 1)
			}
			squares += float64(m.n * m.n)
			all = append(all, windows...)
		}
		if len(builds) < 2 {
			continue
		}
		grand := momentsOf(all).mean
		for _, windows := range builds {
			m := momentsOf(windows)
			between += float64(m.n) * (m.mean - grand) * (m.mean - grand)
		}
		dfBetween += float64(len(builds) - 1)
		size += float64(len(all)) - squares/float64(len(all))
	}
	c.Windows, c.Builds = int(dfWithin), int(dfBetween)
	if dfWithin > 0 {
		c.Within = within / dfWithin
	}
	if size > 0 {
		c.Between = max(0, (between-dfBetween*c.Within)/size)
	}
	return c
}

// Split is how many windows of a build make the mean over builds the most precise for the
// time spent, where a build costs as much alongside its windows and a window costs window:
// sqrt(build/window * within/between) (Cochran 1977, section 10.6), 1 to most.
func (c Components) Split(build, window float64, most int) int {
	if c.Between == 0 {
		if c.Within == 0 {
			return 1
		}
		return most
	}
	k := math.Sqrt(build / window * c.Within / c.Between)
	return int(min(max(math.Round(k), 1), float64(most)))
}
