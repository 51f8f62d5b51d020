// Package survey says what a pipeline consists of: its tables and the ways between them,
// what they read and write, where packets are tracked, and which flows no packet meets.
// It reads flows as values and asks no switch; how a packet fares is not its matter.
package survey

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Survey is what there is to say of a pipeline.
type Survey struct {
	Flows  int     `json:"flows"`
	Groups int     `json:"groups"`
	Tables []Table `json:"tables"`
	// Recirculations are the places where a packet begins another pass.
	Recirculations []Recirculation `json:"recirculations"`
	Dead           []Dead          `json:"dead"`
	// Idle is how many flows have met no packet so far, dead ones not counted. It is -1
	// where the input has no counters.
	Idle int `json:"idle"`
	// Overlaps are pairs of flows of one priority that some packet meets both of.
	Overlaps []Overlap `json:"overlaps"`
	// Unsure are reasons for which tables may be reached that seem not to be.
	Unsure []string `json:"unsure"`
	// Lost are lines, and NotUnderstood parts of flows, that were not understood.
	Lost          []pipeline.Note `json:"lost"`
	NotUnderstood []pipeline.Note `json:"notUnderstood"`
}

// Table is one table.
type Table struct {
	Name    string   `json:"table"`
	Reached bool     `json:"reached"`
	Flows   int      `json:"flows"`
	Packets uint64   `json:"packets"`
	Bytes   uint64   `json:"bytes"`
	Idle    int      `json:"idle"`
	Dead    int      `json:"dead"`
	Jumps   []Jump   `json:"jumps"`
	Reads   []string `json:"reads"`
	Writes  []string `json:"writes"`
	Zones   []string `json:"zones"`
	// Ends is how many flows lead to no other table.
	Ends int `json:"ends"`
}

// Jump is the ways from a table into another.
type Jump struct {
	To    string `json:"to"`
	Kind  string `json:"kind"`
	Flows int    `json:"flows"`
	// Packets of the flows, where they were counted.
	Packets uint64 `json:"packets"`
}

// Recirculation is a flow that sends packets into another pass.
type Recirculation struct {
	Line  int    `json:"line"`
	Table string `json:"table"`
	To    string `json:"to"`
	Zone  string `json:"zone"`
	// Commit says that the connection is remembered there.
	Commit  bool   `json:"commit"`
	Packets uint64 `json:"packets"`
}

// Overlap is two flows of which Open vSwitch may take either.
type Overlap struct {
	Table    string `json:"table"`
	Priority int    `json:"priority"`
	Lines    [2]int `json:"lines"`
}

// Of surveys a pipeline.
func Of(p *pipeline.Pipeline) Survey {
	s := Survey{Flows: len(p.Flows), Groups: len(p.Groups), Lost: p.Lost, Idle: -1}
	s.empty()
	for _, f := range p.Flows {
		s.NotUnderstood = append(s.NotUnderstood, f.Notes...)
	}
	tables := byTable(p)
	v := verdict{Pipeline: p, tables: tables}
	v.decide()
	s.Dead, s.Unsure = v.dead(), append([]string{}, v.unsure...)
	for _, id := range v.order {
		s.Tables = append(s.Tables, v.table(id))
		s.Overlaps = append(s.Overlaps, overlaps(p, id, tables[id])...)
	}
	counted := false
	for _, f := range p.Flows {
		counted = counted || f.Counted
	}
	if counted {
		s.Idle = 0
		for _, t := range s.Tables {
			s.Idle += t.Idle
		}
	}
	s.Recirculations = append(s.Recirculations, recirculations(p)...)
	return s
}

// empty makes lists that JSON shows as lists, whether or not there is anything in them.
func (s *Survey) empty() {
	s.Tables, s.Recirculations, s.Overlaps = []Table{}, []Recirculation{}, []Overlap{}
	s.NotUnderstood, s.Lost = []pipeline.Note{}, append([]pipeline.Note{}, s.Lost...)
}

// byTable sorts the flows of each table by priority, the highest first.
func byTable(p *pipeline.Pipeline) map[pipeline.Table][]*pipeline.Flow {
	out := map[pipeline.Table][]*pipeline.Flow{}
	for _, f := range p.Flows {
		out[f.Table] = append(out[f.Table], f)
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b *pipeline.Flow) int { return b.Priority - a.Priority })
	}
	return out
}

// table surveys one table, once it is decided which flows are dead.
func (v *verdict) table(id pipeline.Table) Table {
	flows := v.tables[id]
	t := Table{Name: v.Names.FormatTable(id), Reached: v.reached[id], Flows: len(flows), Jumps: []Jump{}}
	reads, writes, zones := map[string]bool{}, map[string]bool{}, map[string]bool{}
	jumps := map[Jump]*Jump{}
	for _, f := range flows {
		t.Packets += f.Packets
		t.Bytes += f.Bytes
		if _, dead := v.why[f]; dead {
			t.Dead++
		} else if f.Counted && f.Packets == 0 {
			t.Idle++
		}
		touch(v.Pipeline, f, reads, writes, zones)
		ways, _ := v.Jumps(f.Actions, id)
		if len(ways) == 0 {
			t.Ends++
		}
		for _, w := range ways {
			k := Jump{To: v.Names.FormatTable(w.To), Kind: string(w.Kind)}
			if jumps[k] == nil {
				jumps[k] = &Jump{To: k.To, Kind: k.Kind}
			}
			jumps[k].Flows++
			jumps[k].Packets += f.Packets
		}
	}
	for _, j := range jumps {
		t.Jumps = append(t.Jumps, *j)
	}
	slices.SortFunc(t.Jumps, func(a, b Jump) int { return compareNames(a.To+" "+a.Kind, b.To+" "+b.Kind) })
	t.Reads, t.Writes, t.Zones = sorted(reads), sorted(writes), sorted(zones)
	return t
}

// touch notes what a flow reads and writes, and the zones that it tracks in.
func touch(p *pipeline.Pipeline, f *pipeline.Flow, reads, writes, zones map[string]bool) {
	for _, t := range f.Match {
		for _, n := range p.Words.Parts(t.Base, t.Mask) {
			reads[n] = true
		}
	}
	crossing := map[*pipeline.Field]bool{}
	for _, a := range f.Actions {
		for _, n := range a.Nested {
			if a.Patch && n.Dst.Field != nil { // what a patch port clears is no flow's doing
				crossing[n.Dst.Field] = true
			}
		}
	}
	p.Each(f.Actions, func(a pipeline.Action) {
		if a.Dst.Field != nil && !crossing[a.Dst.Field] {
			m := writes
			if a.Kind == pipeline.Push {
				m = reads
			}
			m[a.Dst.Field.Name] = true
		}
		if a.Src.Field != nil {
			reads[a.Src.Field.Name] = true
		}
		if a.Kind == pipeline.CT {
			zones[a.Track.ZoneText()] = true
		}
	})
}

func recirculations(p *pipeline.Pipeline) (out []Recirculation) {
	for _, f := range p.Flows {
		p.Each(f.Actions, func(a pipeline.Action) {
			if a.Kind == pipeline.CT && a.Track.Table != pipeline.NoTable {
				out = append(out, Recirculation{Line: f.Line, Table: p.Names.FormatTable(f.Table),
					To: p.Names.FormatTable(a.Track.Table), Zone: a.Track.ZoneText(), Commit: a.Track.Commit,
					Packets: f.Packets})
			}
		})
	}
	return out
}

// mostOverlaps is how many pairs are listed.
const mostOverlaps = 100

func overlaps(p *pipeline.Pipeline, id pipeline.Table, flows []*pipeline.Flow) (out []Overlap) {
	const near = 2000 // flows of one priority whose pairs are looked at
	for i := 0; i < len(flows); {
		j := i
		for j < len(flows) && flows[j].Priority == flows[i].Priority {
			j++
		}
		same := flows[i:min(j, i+near)]
		texts := map[*pipeline.Flow]string{}
		text := func(f *pipeline.Flow) string {
			if _, ok := texts[f]; !ok {
				texts[f] = p.PrintActions(f.Actions)
			}
			return texts[f]
		}
		for a := range same {
			for b := a + 1; b < len(same) && len(out) < mostOverlaps; b++ {
				x, y := same[a], same[b]
				if !conjunctive(x) && !conjunctive(y) && x.Match.Meets(y.Match) &&
					text(x) != text(y) {
					out = append(out, Overlap{p.Names.FormatTable(id), x.Priority, [2]int{x.Line, y.Line}})
				}
			}
		}
		i = j
	}
	return out
}

// conjunctive reports whether a flow is a part of a conjunction, which takes no packet.
func conjunctive(f *pipeline.Flow) bool {
	return slices.ContainsFunc(f.Actions, func(a pipeline.Action) bool { return a.Kind == pipeline.Conjunction })
}

func sorted(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, compareNames)
	return out
}

// compareNames has numbers in names count as such: reg2 before reg10.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			if x != y {
				return x - y
			}
		} else if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		} else {
			a, b = a[1:], b[1:]
			continue
		}
		if a[:x] != b[:x] {
			if a[:x] < b[:x] {
				return -1
			}
			return 1
		}
		a, b = a[x:], b[x:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
