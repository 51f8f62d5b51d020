package campaign

import (
	"time"

	"pathwise.dev/pathwise/internal/measure/bench"
)

// Extent is how much of a campaign there is: how many cells run, how many trials at the
// least, and how long that takes at the least and at most, in whole seconds.
type Extent struct {
	Cells, Trials int
	Least, Most   time.Duration
}

// Extent is that of the planned campaign.
func (c *Campaign) Extent() (x Extent) {
	for _, cell := range c.Cells() {
		if cell.Unsupported == "" {
			x.Cells++
			x.Trials += cell.Least
			x.Least += time.Duration(cell.Least) * bench.Estimate(cell)
			x.Most += time.Duration(c.exp.Repeat.Max) * bench.Estimate(cell)
		}
	}
	x.Least, x.Most = x.Least.Round(time.Second), x.Most.Round(time.Second)
	if c.exp.Budget > 0 {
		x.Most = max(x.Least, min(x.Most, c.exp.Budget))
	}
	return x
}
