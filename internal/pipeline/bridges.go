package pipeline

import (
	"fmt"
	"maps"
	"slices"
)

// Bridge is one of several bridges that patch ports join.
type Bridge struct {
	Name string
	*Pipeline
}

// End is a port of a bridge.
type End struct {
	Bridge string
	Port   Port
}

// Numbers of several bridges in one pipeline: the tables and ports of each but the first have its number
// in bits that no switch uses.
const (
	bridgeOfTable = 14
	bridgeOfPort  = 20
	bridgeOfGroup = 27
	mostBridges   = 16
	// allPort are the bits of a port with its bridge.
	allPort = 1<<32 - 1
	// Last is a number above that of all tables.
	Last Table = mostBridges << bridgeOfTable
	// BridgePort is the name of in_port with its bridge.
	BridgePort = "bridge_port"
)

func (t Table) bridge() int { return int(t) >> bridgeOfTable }
func (t Table) own() Table  { return t & (1<<bridgeOfTable - 1) }

// Bridge is the number of the port's bridge, from 0.
func (p Port) Bridge() int { return int(p) >> bridgeOfPort }
func (p Port) own() Port   { return p & (1<<bridgeOfPort - 1) }

// Of is the port with that number of the bridge.
func (p Port) Of(bridge int) Port {
	switch own := p.own(); own {
	case PortIn, PortTable, PortController, PortNone, PortUnset:
		return own
	default:
		return own | Port(bridge)<<bridgeOfPort
	}
}

// bridge is the name of the bridge with a number.
func (n *Names) bridge(i int) string {
	if i < len(n.bridges) {
		return n.bridges[i]
	}
	return fmt.Sprint(i)
}

// At is what happens at a port, with the port's bridge before it if it is not the first.
func (n *Names) At(p Port, text string) string {
	if b := p.Bridge(); b > 0 {
		return n.bridge(b) + ":" + text
	}
	return text
}

// Several reports whether the pipeline is of several bridges.
func (p *Pipeline) Several() bool { return len(p.entries) > 1 }

// Patched is what becomes of a packet that leaves by a port, if that is a patch port.
func (p *Pipeline) Patched(port Port) (Action, bool) {
	a, ok := p.patches[port]
	return a, ok
}

// Entries are the tables that packets of each bridge enter, that of the first bridge first.
func (p *Pipeline) Entries() []Table {
	if p.Several() {
		return slices.Clone(p.entries)
	}
	return []Table{p.Entry()}
}

// From is the same bridges, where packets come to another of them first, by ports that are no patch ports
// unless it is not known what another bridge sends through those.
func (p *Pipeline) From(i int) *Pipeline {
	out := *p
	entry := p.entries[i]
	gate := Table(entry.bridge())<<bridgeOfTable + 1<<(bridgeOfTable-1)
	p.Names.tableName[gate.own()] = "entry"
	out.entries = append([]Table{gate}, slices.Delete(slices.Clone(p.entries), i, i+1)...)
	out.Flows = append(slices.Clone(p.Flows), &Flow{Table: gate, Priority: 1,
		Actions: []Action{{Kind: Resubmit, Port: PortIn, Table: entry}}})
	for _, port := range slices.Sorted(maps.Keys(p.patches)) {
		if !p.opaque && port.Bridge() == entry.bridge() {
			out.Flows = append(out.Flows, &Flow{Table: gate, Priority: 2,
				Match: Match{{Base: InPort, Value: num(uint64(port)), Mask: num(allPort)}}})
		}
	}
	return &out
}

// Join makes one pipeline of bridges, which were read with the same names: an output to a patch port
// has the packet go through the bridge on its other side. peers has the ends of each patch, each by the other.
func Join(bridges []Bridge, peers map[End]End) (*Pipeline, error) {
	names := bridges[0].Names
	if len(bridges) > mostBridges {
		return nil, fmt.Errorf("%d bridges: expected at most %d", len(bridges), mostBridges)
	}
	out := New(names)
	at := map[string]int{}
	for _, b := range bridges {
		if _, twice := at[b.Name]; twice {
			return nil, fmt.Errorf("bridge %s is there twice: expected each once", b.Name)
		}
		i := slices.Index(names.bridges, b.Name)
		if i < 0 {
			i = len(names.bridges)
			names.bridges = append(names.bridges, b.Name)
		}
		at[b.Name] = i
	}
	j := joiner{out: out, entry: map[int]Table{}, peers: map[Port]Port{}, tunnel: tunnelOptions(bridges)}
	for _, b := range bridges {
		j.entry[at[b.Name]] = b.Entry() + Table(at[b.Name])<<bridgeOfTable
		out.entries = append(out.entries, j.entry[at[b.Name]])
	}
	for from, to := range peers {
		a, known := at[from.Bridge]
		b, knows := at[to.Bridge]
		if !known {
			return nil, fmt.Errorf("a patch port of bridge %s: there is no such bridge", from.Bridge)
		}
		if knows { // else it leads out of what is looked at
			j.peers[from.Port.Of(a)] = to.Port.Of(b)
		}
	}
	out.patches = map[Port]Action{}
	for _, p := range j.sorted() {
		j.turnTo(p.Bridge())
		out.patches[p] = j.patch(p)
	}
	for _, b := range bridges {
		if err := j.add(b, at[b.Name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// joiner adds bridges to one pipeline.
type joiner struct {
	out *Pipeline
	// entry is the table that packets of a bridge enter, peers the port on the other side of a patch port.
	entry map[int]Table
	peers map[Port]Port
	// The bridge that is being added: its number, and its name where it is not the first.
	n    int
	name string
	// tunnel are the tunnel's options that flows name.
	tunnel []Base
	// set says that actions are of an action set, or of a group's bucket.
	set bool
}

// tunnelOptions are those that flows name.
func tunnelOptions(bridges []Bridge) (out []Base) {
	note := func(b Base) {
		if b >= TunMetadata0 && !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	for _, b := range bridges {
		for _, f := range b.Flows {
			for _, t := range f.Match {
				note(t.Base)
			}
			b.Each(f.Actions, func(a Action) {
				if a.Dst.Field != nil {
					note(a.Dst.Field.Base)
				}
				if a.Src.Field != nil {
					note(a.Src.Field.Base)
				}
			})
		}
	}
	slices.Sort(out)
	return out
}

// turnTo goes on to the bridge of a number.
func (j *joiner) turnTo(n int) {
	if j.n, j.name = n, ""; n > 0 {
		j.name = j.out.Names.bridge(n)
	}
}

func (j *joiner) add(b Bridge, n int) error {
	j.turnTo(n)
	for _, f := range b.Flows {
		g := *f
		g.Table = j.table(f.Table)
		g.Match = slices.Clone(f.Match)
		for i, t := range g.Match {
			if t.Base == InPort {
				g.Match[i].Value = num(uint64(Port(t.Value.Lo).Of(n)))
				g.Match[i].Mask = t.Mask.Or(num(allPort &^ (1<<bridgeOfPort - 1)))
			}
		}
		g.Actions = j.actions(f.Actions)
		j.out.Flows = append(j.out.Flows, &g)
	}
	for _, group := range b.Groups {
		if group.ID >= 1<<bridgeOfGroup && n > 0 {
			return fmt.Errorf("bridge %s: group %d: expected a number below %d where there are several bridges", b.Name, group.ID,
				1<<bridgeOfGroup)
		}
		g := *group
		g.ID = uint32(j.group(uint64(g.ID)))
		g.Buckets = slices.Clone(g.Buckets)
		for i, bucket := range g.Buckets {
			g.Buckets[i].Actions = j.inSet(bucket.Actions)
		}
		j.out.Groups = append(j.out.Groups, &g)
		if j.out.byID[g.ID] == nil {
			j.out.byID[g.ID] = &g
		}
	}
	j.out.Lost = append(j.out.Lost, b.Lost...)
	return nil
}

func (j *joiner) table(t Table) Table {
	if t == NoTable {
		return t
	}
	return t + Table(j.n)<<bridgeOfTable
}

func (j *joiner) group(id uint64) uint64 { return id | uint64(j.n)<<bridgeOfGroup }

// actions are those of the bridge as the whole has them.
func (j *joiner) actions(list []Action) (out []Action) {
	for _, a := range list {
		out = append(out, j.action(a)...)
	}
	return out
}

func (j *joiner) action(a Action) []Action {
	given := a
	if a.Kind == WriteActions {
		a.Nested = j.inSet(a.Nested)
		return []Action{a}
	}
	a.Nested = j.actions(a.Nested)
	switch a.Kind {
	case Output:
		return j.output(a)
	case Enqueue, OutputTrunc:
		a.Port, a.Bridge = a.Port.Of(j.n), j.name
		if _, patch := j.peers[a.Port]; patch {
			return j.unknown(given)
		}
	case Resubmit:
		a.Port, a.Table = a.Port.Of(j.n), j.table(a.Table)
	case Goto:
		a.Table = j.table(a.Table)
	case CT:
		t := *a.Track
		t.Table = j.table(t.Table)
		a.Track = &t
	case Learn:
		a.Table, a.Bridge = j.table(a.Table), j.name
	case GroupAction:
		a.N, a.Bridge = j.group(a.N), j.name
	case Bundle, BundleLoad:
		if j.n > 0 || a.Kind == Bundle && j.patched() {
			return j.unknown(given)
		}
	case Controller, Meter, Sample, Multipath:
		a.Bridge = j.name
	case SetField, Load, Move:
		if j.n > 0 && (a.Dst.Field.Name == "in_port_oxm" || a.Src.Field != nil && a.Src.Field.Name == "in_port_oxm") {
			return j.unknown(given)
		}
	}
	return []Action{a}
}

// inSet is actions that are carried out in the order of an action set: an output stays one there.
func (j *joiner) inSet(list []Action) []Action {
	j.set = true
	defer func() { j.set = false }()
	return j.actions(list)
}

// unknown is an action of which it is not known what it does where there are several bridges.
func (j *joiner) unknown(a Action) []Action {
	j.out.opaque = true
	w := printer{Pipeline: j.out}
	w.action(a)
	return []Action{{Kind: Unknown, Text: w.String()}}
}

// patched reports whether the bridge has patch ports.
func (j *joiner) patched() bool {
	for p := range j.peers {
		if p.Bridge() == j.n {
			return true
		}
	}
	return false
}

// output is to a port, or through a patch port.
func (j *joiner) output(a Action) []Action {
	given := a
	a.Bridge = j.name
	a.Port = a.Port.Of(j.n)
	own := a.Port.own()
	switch {
	case a.Src.Field != nil:
		j.out.opaque = j.out.opaque || j.patched()
		a.Port = Port(j.n) << bridgeOfPort
	case own == PortTable && j.n > 0:
		return j.unknown(given)
	case (own == PortNormal || own == PortIn) && j.patched(): // which port it is is not known before
		j.out.opaque = true
	case (own == PortFlood || own == PortAll) && j.set && j.patched():
		return j.unknown(given)
	case own == PortFlood || own == PortAll:
		out := []Action{a}
		for _, p := range j.sorted() {
			if p.Bridge() == j.n {
				out = append(out, j.patch(p))
			}
		}
		return out
	default:
		if _, ok := j.peers[a.Port]; ok && j.set {
			j.out.opaque = true
		} else if ok {
			return []Action{j.patch(a.Port)}
		}
	}
	return []Action{a}
}

// sorted are the patch ports of all bridges.
func (j *joiner) sorted() []Port { return slices.Sorted(maps.Keys(j.peers)) }

// PatchClears reports whether bits of a packet are zero once it went through a patch port: registers,
// metadata, and what came with it out of a tunnel. The tracker's answer, stack and action set are gone too.
func PatchClears(b Base) bool { return b >= Reg0 && b <= Metadata || b >= TunMetadata0 }

// patch is what becomes of a copy of the packet that goes through a patch port.
func (j *joiner) patch(p Port) Action {
	peer := j.peers[p]
	nested := []Action{{Kind: ClearActions}, {Kind: CTClear}}
	bases := slices.Clone(j.tunnel)
	for b := range TunMetadata0 {
		bases = append(bases, b)
	}
	for _, b := range bases {
		if !PatchClears(b) {
			continue
		}
		if f := j.out.Words.Field(j.out.Words.Name(b)); f != nil {
			nested = append(nested, Action{Kind: SetField, Dst: Subfield{f, 0, f.Bits}, Mask: ones(f.Bits)})
		}
	}
	port := &Field{Name: BridgePort, Header: BridgePort, Base: InPort, Bits: 32, Form: PortForm}
	to := j.entry[peer.Bridge()]
	nested = append(nested, Action{Kind: SetField, Dst: Subfield{port, 0, 32}, Value: num(uint64(peer)), Mask: ones(32)},
		Action{Kind: Resubmit, Port: PortIn, Table: to})
	return Action{Kind: Clone, Patch: true, Port: p, Peer: peer, Table: to, Nested: nested, Bridge: j.name}
}
