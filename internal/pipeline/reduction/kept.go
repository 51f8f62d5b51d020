package reduction

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// Kept is questions to the tracker that the shortened pipeline still has, each of which is
// another pass of the packets that it is about.
type Kept struct {
	// Lines are of the flows of a table that ask alike.
	Lines []int  `json:"lines"`
	Table string `json:"table"`
	To    string `json:"to"`
	Zone  string `json:"zone"`
	// Commit says that the connection is remembered, NAT is how nat is written.
	Commit bool   `json:"commit"`
	NAT    string `json:"nat,omitempty"`
	// Packets is how many of those that were followed are asked about here.
	Packets int `json:"packets"`
	// Why they stay, and Readers, the lines of the flows that read what they give.
	Why     string `json:"why"`
	Readers []int  `json:"readers"`
}

// kept says why each recirculation stays.
func (r *reducer) kept() []Kept {
	n := newNet(r.now)
	packets := r.first.recirculated()
	at, out := map[string]int{}, []Kept{}
	for _, f := range r.now.Flows {
		seen := map[string]bool{}
		r.now.Each(f.Actions, func(a pipeline.Action) {
			if a.Kind != pipeline.CT || a.Track.Table == pipeline.NoTable {
				return
			}
			nat, _, _ := strings.Cut(a.Track.NAT, "(")
			k := fmt.Sprint(f.Table, a.Track.Table, a.Track.ZoneText(), a.Track.Commit, nat)
			if seen[k] {
				return
			}
			seen[k] = true
			i, ok := at[k]
			if !ok {
				i = len(out)
				at[k] = i
				one := Kept{Table: r.now.Names.FormatTable(f.Table), To: r.now.Names.FormatTable(a.Track.Table),
					Zone: a.Track.ZoneText(), Commit: a.Track.Commit, NAT: a.Track.NAT}
				one.Why, one.Readers = n.needs(f, a.Track)
				out = append(out, one)
			}
			out[i].Lines = append(out[i].Lines, f.Line)
			out[i].Packets += packets[f]
		})
	}
	slices.SortStableFunc(out, func(a, b Kept) int { return b.Packets - a.Packets })
	return out
}

// recirculated counts the packets that flows send into another pass.
func (s *sample) recirculated() map[*pipeline.Flow]int {
	out := map[*pipeline.Flow]int{}
	for _, one := range s.packets {
		seen := map[*pipeline.Flow]bool{}
		for _, p := range s.in.Follow(walk.NewPacket(one.Packet), one.Oracle()).Passes {
			if p.By != nil && !seen[p.By] {
				seen[p.By] = true
				out[p.By]++
			}
		}
	}
	return out
}

// needs says what of a question's answer is needed, and by which lines.
func (n *net) needs(f *pipeline.Flow, t *pipeline.Track) (why string, lines []int) {
	lines = []int{}
	if !lasting(n.Pipeline, f) {
		return "its flow has a time-out, learns others, or was not understood", lines
	}
	classes := n.classes(f)
	class := classes[len(classes)-1]
	var out []string
	if text, by := n.readers(t.Table, class, answer); len(by) > 0 {
		out, lines = append(out, "its answer is read: "+text), append(lines, by...)
	}
	if t.NAT != "" {
		text, by := n.readers(t.Table, class, translated)
		if len(by) > 0 {
			text = ", which are read: " + text
		} else {
			text = " of packets that leave"
		}
		out, lines = append(out, "it may translate addresses"+text), append(lines, by...)
	}
	slices.Sort(lines)
	switch {
	case len(out) > 0:
	case t.Commit:
		out = append(out, "nobody reads its answer, but it commits the connection")
	default:
		out = append(out, "nobody reads its answer, but connections of packets that are delivered are kept alive by it "+
			"(see --assume drop-lookups)")
	}
	return strings.Join(out, "; "), slices.Compact(lines)
}

// translated reports whether nat may write a base.
func translated(b pipeline.Base) bool { return slices.Contains(pipeline.Translated(), b) }

// readers are the flows that read some bases first, of packets of a class that go on in a
// table, and where that is: up to where the tracker is asked again.
func (n *net) readers(to pipeline.Table, class pipeline.Match, some func(pipeline.Base) bool) (
	text string, lines []int) {
	const shown = 3
	var places []string
	seen := map[pipeline.Table]bool{to: true}
	for work := []pipeline.Table{to}; len(work) > 0; work = work[1:] {
		var here []int
		fields := map[string]bool{}
		for _, g := range n.tables[work[0]] {
			if !g.Match.Meets(class) {
				continue
			}
			read := n.reading(g, some)
			for _, name := range read {
				fields[name] = true
			}
			if len(read) > 0 {
				here = append(here, g.Line)
			}
		}
		if len(here) > 0 {
			lines = append(lines, here...)
			places = append(places, fmt.Sprintf("%s in table %s (%s)", strings.Join(sorted(fields), ", "),
				n.Names.FormatTable(work[0]), pipeline.Lines(here)))
			continue // what comes after is not the first
		}
		for _, g := range n.tables[work[0]] {
			ways, _ := n.Jumps(g.Actions, g.Table)
			for _, j := range ways {
				if j.Kind != pipeline.CT && !seen[j.To] && g.Match.Meets(class) {
					seen[j.To] = true
					work = append(work, j.To)
				}
			}
		}
	}
	if rest := len(places) - shown; rest > 0 {
		places = append(places[:shown], fmt.Sprintf("and in %d more tables", rest))
	}
	return strings.Join(places, ", "), lines
}

// reading names what a flow reads of some bases.
func (n *net) reading(f *pipeline.Flow, some func(pipeline.Base) bool) (out []string) {
	for _, t := range f.Match {
		if some(t.Base) {
			out = append(out, n.Words.Parts(t.Base, t.Mask)...)
		}
	}
	n.Each(f.Actions, func(a pipeline.Action) {
		if a.Src.Field != nil && some(a.Src.Field.Base) {
			out = append(out, a.Src.Field.Name)
		}
		if a.Kind == pipeline.Push && some(a.Dst.Field.Base) {
			out = append(out, a.Dst.Field.Name)
		}
	})
	return out
}

// sorted is the names in the order of the alphabet.
func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
