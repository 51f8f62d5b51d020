package reduction

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// change is a pipeline that may do the same as one before.
type change struct {
	// From and next are to be shown to do the same.
	from, next *pipeline.Pipeline
	line       int
	lines      []int
	// What is done, and because of what.
	what, because string
	rests         []string
	// rather is a change to fewer flows that saves about as much, or nil.
	rather *change
}

// Bounds of a round: how many changes are looked at, and of how many flows of one table that
// ask alike.
const (
	mostTrackings = 200
	mostAlike     = 20
)

// quiet reports whether an action does nothing but have the packet go on in a table with the
// tracker's answer.
func quiet(a pipeline.Action) bool {
	return a.Kind == pipeline.CT && !a.Track.Commit && a.Track.NAT == "" && len(a.Nested) == 0 && a.Track.ALG == "" &&
		a.Track.Table != pipeline.NoTable
}

// trackings lists changes to where packets are tracked.
func (r *reducer) trackings() (out []change) {
	n, alike := newNet(r.now), map[string]int{}
	for _, f := range r.now.Flows {
		last := len(f.Actions) - 1
		if last < 0 || !lasting(r.now, f) || len(out) >= mostTrackings {
			continue
		}
		a, from, because := f.Actions[last], r.now, ""
		var rests []string
		if a.Kind == pipeline.CT && a.Track.NAT == "nat" && r.idle(n, a.Track) {
			plain := a
			t := *a.Track
			t.NAT, plain.Track = "", &t
			a, from = plain, replaced(r.now, f, with(f, plain))
			zone := fmt.Sprint(t.Zone)
			because = "; nat finds nothing there, as no flow commits a translation and nobody else uses the zone"
			rests = []string{"nobody else commits connections in zone " + zone + " (zone-private=" + zone + ")"}
		}
		if !quiet(a) {
			continue
		}
		k := fmt.Sprint(f.Table, *a.Track)
		if alike[k]++; alike[k] > mostAlike {
			continue
		}
		for _, c := range r.moves(n, f, a) {
			for x := &c; x != nil; x = x.rather {
				x.from, x.because, x.rests = from, because, append(x.rests, rests...)
			}
			out = append(out, c)
		}
	}
	return out
}

// idle reports whether nat does nothing in a zone: it is private, and no flow commits a
// translation there, nor a helper that would.
func (r *reducer) idle(n *net, t *pipeline.Track) bool {
	if t.Commit || !zoneOf(t).among(r.Private) || n.unsure {
		return false
	}
	for _, o := range n.tracks {
		if (o.Zone == t.Zone || o.From.Field != nil) && (o.Commit && o.NAT != "" || o.ALG != "") {
			return false
		}
	}
	return true
}

const (
	unobserved = "questions to the tracker about packets that are dropped afterwards are not observed"
	dropped    = "questions whose answer nobody reads may be left out (drop-lookups): connections that only they keep " +
		"alive time out"
)

// moves are the ways to do without asking at a flow whose last action does: to ask nowhere,
// or where the answer is first read.
func (r *reducer) moves(n *net, f *pipeline.Flow, ct pipeline.Action) (out []change) {
	base, to, ok := r.without(f, ct)
	if !ok {
		return nil
	}
	zone := ct.Track.ZoneText()
	add := func(next *pipeline.Pipeline, also []int, what string, rests ...string) {
		out = append(out, change{next: next, line: f.Line, lines: append([]int{f.Line}, also...), what: what, rests: rests})
	}
	shorter := n.instead(base, f)
	again, only := n.again(f, ct.Track, r.Private), n.only(f)
	for i, class := range n.classes(f) {
		if i == 0 {
			s := newSearch(shorter, class, zoneOf(ct.Track), false, !only)
			s.from(to)
			switch {
			case again:
				add(base, nil, "do not ask zone "+zone+" again: it has answered about this packet", unobserved)
			case !s.lost:
				add(base, nil, "do not ask zone "+zone+" here: nobody reads the answer before it is asked again", unobserved)
			case r.DropLookups:
				add(base, nil, "do not ask zone "+zone+": nobody reads the answer", unobserved, dropped)
			}
		}
		s := newSearch(shorter, class, zoneOf(ct.Track), true, !only)
		s.from(to)
		if len(s.sites) == 0 || s.stuck || shorter.reads[to] || s.lost && !r.DropLookups || s.near(to, n.alike(ct.Track)) {
			continue
		}
		rests := []string{unobserved}
		if s.lost {
			rests = append(rests, dropped)
		}
		next, lines, tables, ok := inserted(base, s.sites, class, ct)
		if !ok {
			continue
		}
		add(next, lines, "ask zone "+zone+" on the way into "+tables+", where its answer is first read; a commit on "+
			"the way asks too", rests...)
		sites, ok := s.fewer(to)
		if !ok {
			continue
		}
		if next, lines, tables, ok = inserted(base, sites, class, ct); ok {
			out[len(out)-1].rather = &change{next: next, line: f.Line, lines: append(lines, f.Line),
				rests: slices.Clone(rests),
				what: "ask zone " + zone + " on the way into " + tables + ", shortly before its answer is read; a commit on " +
					"the way asks too"}
		}
	}
	return out
}

// without is a pipeline in which a flow does not ask, and the table where its packets go on.
func (r *reducer) without(f *pipeline.Flow, ct pipeline.Action) (*pipeline.Pipeline, pipeline.Table, bool) {
	to := ct.Track.Table
	if to != f.Table {
		return replaced(r.now, f, with(f, r.onward(f, to))), to, true
	}
	t := f.Match.Get(pipeline.CTState) // a second time, it must not take the packet
	if len(f.Actions) > 1 || t.Mask.Lo&walk.Tracked == 0 || t.Value.Lo&walk.Tracked != 0 {
		return nil, 0, false
	}
	return replaced(r.now, f), to, true
}

// onward is the action to go on in a table without asking.
func (r *reducer) onward(f *pipeline.Flow, to pipeline.Table) pipeline.Action {
	jumps := false
	for _, g := range r.now.Flows {
		jumps = jumps || slices.ContainsFunc(g.Actions, func(a pipeline.Action) bool { return a.Kind == pipeline.Goto })
	}
	if jumps && to > f.Table {
		return pipeline.Action{Kind: pipeline.Goto, Table: to}
	}
	return pipeline.Action{Kind: pipeline.Resubmit, Port: pipeline.PortIn, Table: to}
}

// with is a flow with another last action.
func with(f *pipeline.Flow, last pipeline.Action) *pipeline.Flow {
	out := *f
	out.Actions = append(slices.Clone(f.Actions[:len(f.Actions)-1]), last)
	out.Counted, out.Packets, out.Bytes = false, 0, 0
	return &out
}

// replaced is a pipeline with other flows in the place of one.
func replaced(p *pipeline.Pipeline, f *pipeline.Flow, by ...*pipeline.Flow) *pipeline.Pipeline {
	i := slices.Index(p.Flows, f)
	return p.With(slices.Concat(p.Flows[:i], by, p.Flows[i+1:]))
}

// inserted has packets of a class asked about where the sites jump from. Where a site's flow
// takes others too, one above it takes those of the class.
func inserted(p *pipeline.Pipeline, sites []*pipeline.Flow, class pipeline.Match, ct pipeline.Action) (
	next *pipeline.Pipeline, lines []int, tables string, ok bool) {
	var into []string
	by := map[*pipeline.Flow][]*pipeline.Flow{}
	for _, g := range sites {
		if !lasting(p, g) {
			return nil, nil, "", false
		}
		track := *ct.Track
		track.Table = g.Actions[len(g.Actions)-1].Table
		name := "table " + p.Names.FormatTable(track.Table)
		if !slices.Contains(into, name) {
			into = append(into, name)
		}
		asks := with(g, pipeline.Action{Kind: pipeline.CT, Track: &track})
		lines = append(lines, g.Line)
		if class.Covers(g.Match) {
			by[g] = []*pipeline.Flow{asks}
			continue
		}
		for _, t := range class {
			asks.Match = asks.Match.With(t.Base, t.Value, t.Mask)
		}
		asks.Priority++
		if asks.Priority > 65535 || taken(p, asks) {
			return nil, nil, "", false
		}
		by[g] = []*pipeline.Flow{asks, g}
	}
	var flows []*pipeline.Flow
	for _, g := range p.Flows {
		if others, ok := by[g]; ok {
			flows = append(flows, others...)
		} else {
			flows = append(flows, g)
		}
	}
	return p.With(flows), lines, strings.Join(into, " and "), true
}

// taken reports whether there is a flow of the same priority that some packet of this one
// meets too.
func taken(p *pipeline.Pipeline, f *pipeline.Flow) bool {
	return slices.ContainsFunc(p.Flows, func(g *pipeline.Flow) bool {
		return g.Table == f.Table && g.Priority == f.Priority && g.Match.Meets(f.Match)
	})
}
