package bench

import (
	"cmp"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Doubt is a question that the trials so far leave open.
type Doubt struct {
	// Cells are those of which it takes more repetitions.
	Cells []sample.Cell
	// Blocks is how many more of each are expected to settle it.
	Blocks int
}

// raced lists, in random order, the cells that repetition rep runs behind the least number:
// those of the doubts that the rest of the budget can settle, the cheapest first; where
// none is so cheap, of the cells whose interval can be made narrow in it; and where
// there is none either, of the cheapest doubt, whose price may be wrong.
func (r *runner) raced(rep int) []experiment.Planned {
	left := r.Experiment.Budget - r.Now().Sub(r.began)
	if r.Experiment.Budget == 0 {
		left = 1<<63 - 1
	}
	open := r.affordable(r.Doubts(r.trials), left)
	wide := r.affordable(r.wideCells(), left)
	chosen := open.within
	switch {
	case len(chosen) > 0:
	case len(wide.within) > 0:
		chosen = wide.within
	case open.cheapest != nil:
		chosen = open.cheapest
	default:
		chosen = wide.cheapest
	}
	return slices.DeleteFunc(r.shuffled(rep), func(c experiment.Planned) bool { return !slices.Contains(chosen, c.Cell) })
}

// wideCells are the doubts of the stopping rule that has no claims.
func (r *runner) wideCells() (out []Doubt) {
	for _, c := range r.cells {
		if values := r.values[c.Cell]; !r.enough(c.Cell) {
			i := stat.MeanT(values, Level)
			out = append(out,
				Doubt{[]sample.Cell{c.Cell}, max(1, i.Blocks(r.Experiment.Repeat.Width, r.Experiment.Repeat.Max)-i.N)})
		}
	}
	return out
}

// offer is what a budget can have of doubts.
type offer struct {
	// within the budget all of them are expected to be settled.
	within []sample.Cell
	// cheapest are the cells of the cheapest doubt; nil where there is none.
	cheapest []sample.Cell
}

// affordable chooses doubts, the cheapest first, while their price fits the time that is
// left. What a cell has been given for one doubt costs the next one nothing.
func (r *runner) affordable(doubts []Doubt, left time.Duration) (o offer) {
	given := map[sample.Cell]int{}
	price := func(d Doubt) (sum time.Duration) {
		for _, c := range d.Cells {
			if more := d.Blocks - given[c]; more > 0 {
				sum += time.Duration(more) * r.estimate(r.planned(c))
			}
		}
		return sum
	}
	doubts = slices.DeleteFunc(slices.Clone(doubts), func(d Doubt) bool { return !r.mayRun(d.Cells) })
	for len(doubts) > 0 {
		i := 0
		for j := range doubts {
			if cmp.Less(price(doubts[j]), price(doubts[i])) {
				i = j
			}
		}
		d := doubts[i]
		if o.cheapest == nil {
			o.cheapest = d.Cells
		}
		if left -= price(d); left < 0 {
			break
		}
		for _, c := range d.Cells {
			given[c] = max(given[c], d.Blocks)
		}
		o.within = append(o.within, d.Cells...)
		doubts = slices.Delete(doubts, i, i+1)
	}
	return o
}

// mayRun tells whether every cell is one of the plan that can be measured and has not had
// all its repetitions.
func (r *runner) mayRun(cells []sample.Cell) bool {
	return !slices.ContainsFunc(cells, func(c sample.Cell) bool {
		p := r.planned(c)
		return p.Network == "" || p.Unsupported != "" || r.had[c] >= r.Experiment.Repeat.Max
	})
}

// planned is the plan's cell; a zero one where it has none.
func (r *runner) planned(c sample.Cell) experiment.Planned {
	i := slices.IndexFunc(r.cells, func(p experiment.Planned) bool { return p.Cell == c })
	if i < 0 {
		return experiment.Planned{}
	}
	return r.cells[i]
}

// shuffled are the cells in the random order of repetition rep.
func (r *runner) shuffled(rep int) []experiment.Planned {
	out := make([]experiment.Planned, 0, len(r.cells))
	for _, i := range experiment.Order(r.Seed, rep, len(r.cells)) {
		out = append(out, r.cells[i])
	}
	return out
}
