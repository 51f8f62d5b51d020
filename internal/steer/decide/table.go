package decide

import (
	"math"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// Table says which network to use by application, load and robustness.
type Table struct {
	Name string     `json:"name"`
	Rows []TableRow `json:"rows"`
}

// TableRow is one cell of a recommendation table.
type TableRow struct {
	// App is the application; "" represents any.
	App string `json:"app,omitempty"`
	// Level is the load (threads or connections) that it was measured at; 0 for any.
	Level int `json:"level,omitempty"`
	// Robust rows answer robust needs. Where a table has no such row, the others do.
	Robust bool `json:"robust,omitempty"`
	// Choice is the best network, then those as good.
	Choice []string `json:"choice"`
	// Rates of the networks at this load, where the table has them.
	Rates map[string]float64 `json:"rates,omitempty"`
}

// Look finds the row for an application, load and robustness: the one whose
// level is nearest, as a ratio. ok is false where the table says nothing.
func (t Table) Look(app string, load Load, robust bool) (row TableRow, ok bool) {
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r TableRow) bool { return r.App != "" && r.App != app })
	if same := slices.DeleteFunc(slices.Clone(rows), func(r TableRow) bool { return r.Robust != robust }); len(same) > 0 {
		rows = same
	}
	nearest := math.Inf(1)
	for _, r := range rows {
		away := 0.0
		if r.Level > 0 {
			away = math.Abs(math.Log(float64(r.Level) / float64(max(load.level(), 1))))
		}
		if away < nearest {
			row, nearest, ok = r, away, true
		}
	}
	return row, ok
}

// TableOf makes a table of a grid that "pathwise recommend" answers with.
func TableOf(g rank.Grid) Table {
	t := Table{Name: g.Scenario.String()}
	for _, r := range g.Rows {
		for _, c := range []rank.Recommendation{r.HighRobust, r.HighUnrobust, r.OptimumRobust, r.OptimumUnrobust} {
			if len(c.Chosen) == 0 || len(c.Asked) == 0 {
				continue
			}
			t.Rows = append(t.Rows, TableRow{App: r.App, Level: c.Asked[0].Load.Connections, Robust: c.Robust, Choice: c.Chosen})
		}
	}
	return t
}

// tableFor is the shortest time for which a table's choice is expected to
// hold. Where the table has rates, what is gained in it must exceed the loss.
const tableFor = time.Second

// TablePolicy does what the manager of Atici and Boluk (2020) does: it looks
// the load up in a table and goes to the network named there. It watches no
// path, but leaves one that has failed.
type TablePolicy struct{ Table Table }

// Name of the policy.
func (TablePolicy) Name() string { return "table" }

// Step decides.
func (p TablePolicy) Step(state State, ev PairEvidence) (State, Decision) {
	s := newStep(state, nil)
	s.observe(ev)
	if d, ok := s.failover(ev); ok {
		return *s.State, d
	}
	row, ok := p.Table.Look(ev.App, ev.Load, ev.Need == Robust)
	if !ok {
		return *s.State, stay(ev, "the table has no row for %q", ev.App)
	}
	for _, c := range row.Choice {
		to, known := ev.path(c)
		if c == ev.Active {
			return *s.State, stay(ev, "the table names %s at load %d", c, row.Level)
		}
		if !known || to.State != Up {
			continue
		}
		a, b := row.Rates[ev.Active], row.Rates[c]
		g := 0.0
		if a > 0 && b > 0 {
			g = gain(b, a)
			if g*tableFor.Seconds() <= ev.SwitchLoss.upper() {
				return *s.State, stay(ev, "the table names %s at load %d, but %s more is less than a switch costs", c, row.Level, percent(g))
			}
		}
		d := move(Switch, ev, c, "the table names %s at load %d, %s more than %s", c, row.Level, percent(g), ev.Active)
		d.PredictedGain = g
		return *s.State, d
	}
	return *s.State, stay(ev, "no network that the table names (%v) can be used", row.Choice)
}

// TableOfPriors makes a table of the priors in a recording: at each load the
// network that promises most.
func TableOfPriors(rec Recording) Table {
	t := Table{Name: "priors of " + rec.Header.Name}
	done := map[TableKey]bool{}
	for _, r := range rec.Records {
		ev := r.Evidence
		key := TableKey{ev.App, ev.Load.level()}
		row := TableRow{App: key.App, Level: key.Level, Rates: map[string]float64{}}
		top := 0.0
		for _, p := range ev.Paths {
			row.Rates[p.Network] = p.Prior
			if p.Prior > top {
				top, row.Choice = p.Prior, []string{p.Network}
			}
		}
		if top > 0 && !done[key] {
			done[key] = true
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// TableKey is what a table is looked up by, besides robustness.
type TableKey struct {
	App   string
	Level int
}
