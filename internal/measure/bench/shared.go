package bench

import (
	"context"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/topo"
)

// build is what a lab is built for: cells of which it is the same can share one.
type build struct {
	network  string
	scenario topo.Scenario
}

func buildOf(c experiment.Planned) build {
	s := c.Scenario
	s.Cores = topo.CoresFree // generators are placed window by window
	return build{c.Network, s}
}

// grouped has cells of one build follow one another. Which build comes when is as random
// as the order of the cells, and so is the order in a build: a build comes when that of its
// cells comes which is the first of the plan, so that one with many cells comes no earlier
// than another.
func (r *runner) grouped(cells []experiment.Planned) []experiment.Planned {
	place, group := map[build]int{}, map[build][]experiment.Planned{}
	for _, c := range r.cells {
		if i := slices.IndexFunc(cells, func(o experiment.Planned) bool { return o.Cell == c.Cell }); i >= 0 {
			if _, ok := place[buildOf(c)]; !ok {
				place[buildOf(c)] = i
			}
		}
	}
	var order []build
	for _, c := range cells {
		b := buildOf(c)
		if group[b] == nil {
			order = append(order, b)
		}
		group[b] = append(group[b], c)
	}
	slices.SortFunc(order, func(a, b build) int { return place[a] - place[b] })
	out := make([]experiment.Planned, 0, len(cells))
	for _, b := range order {
		out = append(out, group[b]...)
	}
	return out
}

// held is a lab that stays up for the next trial.
type held struct {
	lab Lab
	// built is the order of the trial for which it was built.
	built int
	build build
}

// shareable tells whether the lab of one cell may serve another.
func (r *runner) shareable(c experiment.Planned) bool {
	return r.Experiment.Repeat.Shared && c.Unsupported == "" && !r.Networks[c.Network].Info().Closed
}

// take is the lab that is held for the cell; any other is taken down.
func (r *runner) take(ctx context.Context, cell experiment.Planned) (*held, error) {
	if r.held != nil && (!r.shareable(cell) || r.held.build != buildOf(cell)) {
		if err := r.release(ctx); err != nil {
			return nil, err
		}
	}
	h := r.held
	r.held = nil
	return h, nil
}

// release takes down the lab that is held, if there is one.
func (r *runner) release(ctx context.Context) error {
	if r.held == nil {
		return nil
	}
	l := r.held.lab
	r.held = nil
	if err := l.Down(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("take down a lab that trials shared: %w", err)
	}
	return nil
}
