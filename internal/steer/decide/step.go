package decide

import "slices"

// step is one Step of a policy, on a copy of its state.
type step struct {
	*State
	p *Params
}

// newStep copies the state, so that the one that was given stays as it is. Without
// parameters it takes the default ones.
func newStep(s State, p *Params) *step {
	if p == nil {
		usual := DefaultParams()
		p = &usual
	}
	s.Paths = slices.Clone(s.Paths)
	return &step{&s, p}
}
