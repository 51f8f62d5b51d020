package experiment

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/sample"
)

// abridged returns the document with what quick entries leave out of the
// counterparts of its figures and tables said alongside each.
func (e Experiment) abridged(quick []Entry) *paper.Paper {
	if e.Paper == nil {
		return nil
	}
	p := *e.Paper
	p.Exhibits = slices.Clone(p.Exhibits)
	for i, x := range p.Exhibits {
		var all []string
		for _, v := range x.Shows {
			if left := e.left(v, quick); left != "" {
				all = appendNew(all, left)
			}
		}
		if len(all) > 0 {
			p.Exhibits[i].Left = fmt.Sprintf("not in the quick variant: %s; run without --quick", strings.Join(all, "; "))
		}
	}
	return &p
}

// left says in words which figures of a view quick entries lack: networks and
// values of knobs that they have nowhere, and networks that they have in part.
func (e Experiment) left(v paper.View, quick []Entry) string {
	whole, some := e.shown(v, e.Entries), e.shown(v, quick)
	if len(some) == 0 {
		var places []string
		for _, c := range whole {
			places = appendNew(places, string(c.Scenario.Placement))
		}
		return v.Where.Workload + " in " + strings.Join(places, ", ")
	}
	var gone []string
	var part []string
	for _, c := range whole {
		if slices.Contains(some, c) {
			continue
		}
		if what := absent(c, some); len(what) > 0 {
			for _, w := range what {
				gone = appendNew(gone, w)
			}
		} else {
			part = appendNew(part, c.Network)
		}
	}
	if len(part) > 0 {
		gone = append(gone, "some figures of "+strings.Join(part, ", "))
	}
	if len(gone) == 0 {
		return ""
	}
	return v.Where.Workload + " with " + strings.Join(gone, ", ")
}

// absent lists what of a cell none of the others has.
func absent(c sample.Cell, others []sample.Cell) (out []string) {
	missing := func(same func(sample.Cell) bool) bool { return !slices.ContainsFunc(others, same) }
	if missing(func(o sample.Cell) bool { return o.Network == c.Network }) {
		out = append(out, c.Network)
	}
	if missing(func(o sample.Cell) bool { return o.Scenario.Placement == c.Scenario.Placement }) {
		out = append(out, string(c.Scenario.Placement))
	} else if outside := c.Scenario.Outside; outside != "" &&
		missing(func(o sample.Cell) bool { return o.Scenario.Outside == outside }) {
		out = append(out, string(outside)+" outside")
	}
	if missing(func(o sample.Cell) bool { return o.Scenario.Family == c.Scenario.Family }) {
		out = append(out, fmt.Sprintf("IPv%d", c.Scenario.IP()))
	}
	for _, k := range claim.Knobs() {
		// A rate that grows with the connections says nothing more than they do.
		if k != claim.Rate && missing(func(o sample.Cell) bool { return k.Of(o.Question()) == k.Of(c.Question()) }) {
			out = append(out, k.Say(k.Of(c.Question())))
		}
	}
	return out
}

// shown lists the cells of entries that a view shows, whatever their kernels.
func (e Experiment) shown(v paper.View, entries []Entry) (out []sample.Cell) {
	v.Where.Kernels = nil
	for _, entry := range entries {
		for _, n := range e.Networks {
			if len(entry.Networks) > 0 && !slices.Contains(entry.Networks, n.Name) || len(v.Networks) > 0 &&
				!slices.Contains(v.Networks, n.Name) {
				continue
			}
			for _, s := range entry.Scenarios {
				for _, l := range entry.Loads {
					if c := (sample.Cell{Network: n.Name, Scenario: s, Workload: entry.Workload, Load: l}); v.Picks(c.Question()) {
						out = appendNew(out, c)
					}
				}
			}
		}
	}
	return out
}
