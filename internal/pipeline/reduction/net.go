package reduction

import (
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// net is a pipeline's tables, and what its flows read and write as a whole.
type net struct {
	*pipeline.Pipeline
	tables map[pipeline.Table][]*pipeline.Flow
	// reads are the tables that read the tracker's answers.
	reads map[pipeline.Table]bool
	// into are the flows that lead into a table.
	into map[pipeline.Table][]*pipeline.Flow
	// written are the bases that some flow writes.
	written map[pipeline.Base]bool
	tracks  []*pipeline.Track
	// learnt are the flows that are learnt into a table: where these send packets is not known.
	learnt pipeline.Learnt
	// unsure: there is something that may do anything; ported: some lookup takes the packet
	// for one of another port; rewrites: some flow may write into the packet's own header,
	// or learns.
	unsure, ported, rewrites bool
}

// answer reports whether a base is of the tracker's answer.
func answer(b pipeline.Base) bool { return b >= pipeline.CTState && b <= pipeline.CTTPDst }

func newNet(p *pipeline.Pipeline) *net {
	n := &net{Pipeline: p, tables: map[pipeline.Table][]*pipeline.Flow{}, reads: map[pipeline.Table]bool{},
		into: map[pipeline.Table][]*pipeline.Flow{}, written: map[pipeline.Base]bool{}, unsure: len(p.Lost) > 0,
		learnt: p.Learnt()}
	for _, f := range p.Flows {
		n.tables[f.Table] = append(n.tables[f.Table], f)
		n.unsure = n.unsure || !f.Understood()
		for _, t := range f.Match {
			n.reads[f.Table] = n.reads[f.Table] || answer(t.Base)
		}
		p.Each(f.Actions, func(a pipeline.Action) { n.note(f, a) })
		ways, _ := p.Jumps(f.Actions, f.Table)
		for _, j := range ways {
			n.into[j.To] = append(n.into[j.To], f)
		}
	}
	return n
}

// instead is the net of a pipeline in which a flow was left out, or one that does less is in
// its place. What the flow wrote counts still.
func (n *net) instead(p *pipeline.Pipeline, f *pipeline.Flow) *net {
	small := p.With(nil)
	for _, g := range p.Flows {
		if g.Table == f.Table {
			small.Flows = append(small.Flows, g)
		}
	}
	one := newNet(small)
	out := *n
	out.Pipeline, out.tables, out.reads = p, maps.Clone(n.tables), maps.Clone(n.reads)
	out.tables[f.Table], out.reads[f.Table] = small.Flows, one.reads[f.Table]
	return &out
}

// note takes in one action.
func (n *net) note(f *pipeline.Flow, a pipeline.Action) {
	if a.Src.Field != nil && answer(a.Src.Field.Base) {
		n.reads[f.Table] = true
	}
	if a.Dst.Field != nil {
		if a.Kind == pipeline.Push && answer(a.Dst.Field.Base) {
			n.reads[f.Table] = true
		}
		n.written[a.Dst.Field.Base] = true
	}
	switch a.Kind {
	case pipeline.Output, pipeline.OutputTrunc, pipeline.Controller, pipeline.Resubmit, pipeline.Goto, pipeline.Exit,
		pipeline.Clone, pipeline.Enqueue, pipeline.GroupAction, pipeline.SetQueue, pipeline.PopQueue, pipeline.Meter,
		pipeline.CT:
	default:
		n.rewrites = n.rewrites || !plain(a)
	}
	switch a.Kind {
	case pipeline.CT:
		n.tracks = append(n.tracks, a.Track)
		if s := a.Track.From.Field; s != nil && answer(s.Base) {
			n.reads[f.Table] = true
		}
	case pipeline.Resubmit:
		n.ported = n.ported || a.Port != pipeline.PortIn
		n.reads[f.Table] = n.reads[f.Table] || a.Original
	case pipeline.GroupAction:
		n.unsure = n.unsure || n.Group(uint32(a.N)) == nil
	case pipeline.Unknown:
		n.unsure = true
	}
}

// plain reports whether an action only moves bits that are not of the packet's own header.
func plain(a pipeline.Action) bool {
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.Move, pipeline.WriteMeta, pipeline.Pop:
		return a.Dst.Field != nil && !walk.Header(a.Dst.Field.Base)
	case pipeline.Push, pipeline.NoteAction, pipeline.Conjunction, pipeline.CTClear, pipeline.SetTunnel, "set_tunnel64":
		return true
	}
	return false
}

// constant reports whether nothing changes the packet's own header, so that all questions
// in a zone are about the same connection. In private zones nat finds nothing to translate
// but what flows commit.
func (n *net) constant(private []uint16) bool {
	return !n.unsure && !n.rewrites && !slices.ContainsFunc(n.tracks, func(t *pipeline.Track) bool {
		return t.NAT != "" && (t.NAT != "nat" || !zoneOf(t).among(private))
	})
}

// again reports whether the packets that a flow takes have been asked about in the zone
// before, with the header that they have: it wants an answer, and nobody is asked but this
// zone's tracker.
func (n *net) again(f *pipeline.Flow, t *pipeline.Track, private []uint16) bool {
	if f.Match.Get(pipeline.CTState).Value.IsZero() || !n.constant(private) || n.changes(zoneOf(t)) {
		return false
	}
	return !slices.ContainsFunc(n.tracks, func(o *pipeline.Track) bool { return zoneOf(o) != zoneOf(t) })
}

// only reports whether the packets that a flow takes are on no other way at once: none of
// those that lead to it has been delivered before, or is afterwards.
func (n *net) only(f *pipeline.Flow) bool {
	if n.unsure {
		return false
	}
	seen := map[pipeline.Table]bool{f.Table: true}
	for work := []pipeline.Table{f.Table}; len(work) > 0; work = work[1:] {
		for _, g := range n.into[work[0]] {
			if !single(g) {
				return false
			}
			if !seen[g.Table] {
				seen[g.Table] = true
				work = append(work, g.Table)
			}
		}
	}
	return single(f)
}

// single reports whether a flow does nothing but send the packet on, in the end.
func single(f *pipeline.Flow) bool {
	last := len(f.Actions) - 1
	for _, a := range f.Actions[:last] {
		if !plain(a) {
			return false
		}
	}
	switch f.Actions[last].Kind {
	case pipeline.Goto, pipeline.Resubmit:
		return true
	case pipeline.CT:
		return f.Actions[last].Track.Table != pipeline.NoTable
	}
	return false
}

// classes say which packets a flow takes, by what no flow changes: in short by their type,
// and whole.
func (n *net) classes(f *pipeline.Flow) []pipeline.Match {
	var short, whole pipeline.Match
	for _, t := range f.Match {
		steady := !walk.Header(t.Base) || n.constant(nil) || t.Base == pipeline.EthType && !n.rewrites
		if answer(t.Base) || n.written[t.Base] || n.unsure || t.Base == pipeline.InPort && n.ported || !steady {
			continue
		}
		whole = append(whole, t)
		if t.Base == pipeline.EthType {
			short = append(short, t)
		}
	}
	if len(short) == len(whole) {
		return []pipeline.Match{whole}
	}
	return []pipeline.Match{short, whole}
}

// search follows packets of a class that have not been tracked, to where the zone is asked,
// or to where its answer would be read.
type search struct {
	*net
	class pipeline.Match
	zone  zone
	// stop has it end where an answer is read.
	stop bool
	seen map[pipeline.Table]bool
	// sites are flows whose last action leads into a table that reads answers.
	sites []*pipeline.Flow
	// lost: some packets are delivered, or are given another header, and the zone has not
	// been asked. Stuck: a way into a table that reads is no flow's last action, or on the way
	// the field is changed that holds the zone, or are flows that are learnt.
	lost, stuck bool
	// via are flows whose last action leads into a table that does not, mid those tables
	// that others lead into.
	via map[pipeline.Table][]*pipeline.Flow
	mid map[pipeline.Table]bool
}

func newSearch(n *net, class pipeline.Match, zone zone, stop, lost bool) *search {
	return &search{net: n, class: class, zone: zone, stop: stop, lost: lost, seen: map[pipeline.Table]bool{},
		via: map[pipeline.Table][]*pipeline.Flow{}, mid: map[pipeline.Table]bool{}}
}

// from follows the packets from a table on.
func (s *search) from(id pipeline.Table) {
	if s.seen[id] {
		return
	}
	s.seen[id] = true
	if len(s.learnt[id]) > 0 {
		s.lost, s.stuck = true, true
	}
	for _, f := range s.tables[id] {
		if f.Match.Meets(s.class) {
			s.flow(f)
		}
	}
}

// flow follows them through a flow's actions.
func (s *search) flow(f *pipeline.Flow) {
	for i, a := range f.Actions {
		switch {
		case plain(a):
			if s.zone.changedBy(a) {
				s.lost, s.stuck = true, true
			}
		case a.Kind == pipeline.Exit:
			return
		case a.Kind == pipeline.CT && zoneOf(a.Track) == s.zone:
			return
		case (a.Kind == pipeline.Goto || a.Kind == pipeline.Resubmit && a.Port == pipeline.PortIn) && !a.Original:
			to := a.Table
			if to == pipeline.NoTable {
				to = f.Table
			}
			last, on := i == len(f.Actions)-1 && to == a.Table, !s.stop || !s.reads[to]
			switch {
			case on && last:
				s.via[to] = append(s.via[to], f)
			case on:
				s.mid[to] = true
			case last:
				s.sites = append(s.sites, f)
			default:
				s.stuck = true
			}
			if on {
				s.from(to)
			}
		default:
			s.lost = true
		}
	}
}

// fewer are sites one table earlier, where few flows lead into one of which many flows are
// sites and the others drop. Some are asked about there that are dropped then.
func (s *search) fewer(start pipeline.Table) (sites []*pipeline.Flow, ok bool) {
	of := map[pipeline.Table][]*pipeline.Flow{}
	for _, f := range s.sites {
		of[f.Table] = append(of[f.Table], f)
	}
	for _, f := range s.sites {
		t := f.Table
		if via := s.via[t]; t == start || s.mid[t] || len(via) == 0 || len(via) >= len(of[t]) || !s.drops(t, of[t]) {
			sites = append(sites, f)
			continue
		}
		if of[t][0] == f {
			sites, ok = append(sites, s.via[t]...), true
		}
	}
	return sites, ok
}

// near reports whether the question is where fewer would have it: few flows ask on the way into
// a table of which many flows are the sites, and the others drop.
func (s *search) near(start pipeline.Table, asking int) bool {
	apart := slices.ContainsFunc(s.sites, func(f *pipeline.Flow) bool { return f.Table != start })
	return !apart && !s.mid[start] && asking < len(s.sites) && s.drops(start, s.sites)
}

// alike is how many flows ask such a question last, with nat or without.
func (n *net) alike(t *pipeline.Track) (asking int) {
	for _, f := range n.Flows {
		last := len(f.Actions) - 1
		if last < 0 || f.Actions[last].Kind != pipeline.CT {
			continue
		}
		other := *f.Actions[last].Track
		if other.NAT == "nat" {
			other.NAT = ""
		}
		if other == *t {
			asking++
		}
	}
	return asking
}

// drops reports whether all flows of a table but some do nothing that is seen.
func (s *search) drops(t pipeline.Table, but []*pipeline.Flow) bool {
	if len(s.learnt[t]) > 0 {
		return false
	}
	known := map[*pipeline.Flow]bool{}
	for _, f := range but {
		known[f] = true
	}
	for _, f := range s.tables[t] {
		if known[f] || !f.Match.Meets(s.class) {
			continue
		}
		if slices.ContainsFunc(f.Actions, func(a pipeline.Action) bool { return !plain(a) }) {
			return false
		}
	}
	return true
}
