// Package walk follows a packet through a pipeline as Open vSwitch would, without one:
// which flows take it, what leaves, what the connection tracker is asked. It reads flows
// as values. What the tracker answers, how large a packet is and which bucket of a group
// it gets is not known to a pipeline: an oracle says it. What is not understood ends the
// walk and is named; nothing is guessed.
package walk

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Oracle says what a pipeline does not.
type Oracle interface {
	// Track fills in the packet's ct_* fields as the tracker does, and rewrites its
	// addresses where it translates them.
	Track(ask Ask, p *Packet)
	// Larger reports whether the packet has more than n bytes.
	Larger(n uint64) bool
	// Choose picks one of several: a bucket of a group, a member of a bundle.
	Choose(what string, of int, p *Packet) int
}

// Ask is a question to the tracker.
type Ask struct {
	Zone          uint16
	Commit, Force bool
	// NAT is how nat is written, and empty where there is none.
	NAT string
	// Pass is the pass, from 1, that the answer begins.
	Pass int
}

// Kind of an event.
type Kind string

// Kinds of what is observed of a packet.
const (
	Output     Kind = "output"
	Controller Kind = "controller"
	Commit     Kind = "commit"
	// Lookup is a question to the tracker that commits nothing.
	Lookup Kind = "lookup"
	Learn  Kind = "learn"
	Meter  Kind = "meter"
	Sample Kind = "sample"
	// Group and Bundle are a choice that the switch makes.
	Choice Kind = "choice"
	// TTL is a packet whose TTL ran out.
	TTL Kind = "ttl"
)

// Event is something that the world sees of the packet.
type Event struct {
	Kind Kind
	// Text is what it is: "output:2", "ct(commit,zone=1)".
	Text string
	// Packet is the packet as it was then.
	Packet *Packet
	// Learned is what a switch learns by it, Flow the flow that it learns.
	Learned *pipeline.Learned
	Flow    *pipeline.Flow
}

// Step is one line of a walk: a lookup, or else an event, or else words.
type Step struct {
	Depth int
	// Table was looked up; Flow took the packet, and is nil if none did.
	Lookup bool
	Table  pipeline.Table
	Flow   *pipeline.Flow
	Event  *Event
	Say    string
}

// Pass is one pass of the datapath: from its beginning to where nothing is left to do.
type Pass struct {
	// From is the pass that sent the packet on, from 1, and 0 for the first, By the flow
	// that did. Zone is the tracker's that was asked in between, Table where it goes on.
	From  int
	By    *pipeline.Flow
	Zone  uint16
	Table pipeline.Table
	// Start and End are the packet.
	Start, End *Packet
	Steps      []Step
	// Failed says which limit of a switch was met: then nothing of the pass is done.
	Failed string
	// Lookups are those of this packet. Resubmits are counted as a switch does, with those of
	// packets of another length where flows ask for it, and Deepest is how far they nest.
	Lookups, Resubmits, Deepest int
	// Hashed is how often the datapath begins again to choose by a hash.
	Hashed int
}

// Walk is how a packet fared.
type Walk struct {
	Passes []*Pass
	// Unknown is what was met and not understood: the walk ends there.
	Unknown []pipeline.Note
	// Undefined are flows of one priority that both want the packet.
	Undefined [][2]*pipeline.Flow
	// Rivals says that several conjunctions were complete, of which one was followed.
	Rivals bool
	// Opaque are actions whose outcome depends on what a switch has learned.
	Opaque []string
	// Work is how much there was to do, in about a table's masks and actions.
	Work int
}

// Limits of Open vSwitch (ofproto/ofproto-dpif-xlate.c), and how many passes are
// followed: the kernel defers 10 recirculations of a packet. A switch has none on what it
// does in between, such as in groups of groups: mostWork is that of a walk.
const (
	MaxDepth     = 64
	MaxResubmits = 4096
	MaxStack     = 65536
	MaxDeferred  = 10
	maxPasses    = 64
	mostWork     = 1 << 21

	workOfStep, workOfCopy, workOfPass = 16, 128, 1024
)

// Events is all that is observed, pass after pass.
func (w *Walk) Events() (out []Event) {
	for _, p := range w.Passes {
		if p.Failed != "" {
			continue
		}
		for _, s := range p.Steps {
			if s.Event != nil {
				out = append(out, *s.Event)
			}
		}
	}
	return out
}

// Understood reports whether the walk went to its end.
func (w *Walk) Understood() bool { return len(w.Unknown) == 0 }

// Depth is how many passes the packet takes: what a cached packet pays for.
func (w *Walk) Depth() int {
	n := len(w.Passes)
	for _, p := range w.Passes {
		n += p.Hashed
	}
	return n
}

// Pipeline is one that packets can walk through.
type Pipeline struct {
	*pipeline.Pipeline
	tables *Tables
}

// Through prepares a pipeline.
func Through(p *pipeline.Pipeline) *Pipeline { return &Pipeline{p, NewTables(p)} }

// Instead is another pipeline, which differs in the flows of some tables only.
func (p *Pipeline) Instead(next *pipeline.Pipeline, differ map[pipeline.Table]bool) *Pipeline {
	return &Pipeline{next, p.tables.instead(next, differ)}
}

// Follow lets a packet walk from table 0, or from the first table of the input where
// tables have names only.
func (p *Pipeline) Follow(packet *Packet, o Oracle) *Walk {
	return p.FollowPicking(packet, o, nil)
}

// FollowPicking is Follow that picks one of several flows of one priority, by its number, where a
// switch might take any.
func (p *Pipeline) FollowPicking(packet *Packet, o Oracle, pick func(of []*pipeline.Flow) int) *Walk {
	w := walker{Pipeline: p, oracle: o, pick: pick, walk: &Walk{}}
	w.waiting = []*Pass{{Table: p.Entry(), Start: packet.clone()}}
	for len(w.waiting) > 0 && w.walk.Understood() {
		pass := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.renew()
		w.walk.Passes = append(w.walk.Passes, pass)
		w.pass(pass)
	}
	return w.walk
}

// walker follows one packet.
type walker struct {
	*Pipeline
	oracle  Oracle
	pick    func(of []*pipeline.Flow) int
	walk    *Walk
	waiting []*Pass

	at     *Pass
	packet *Packet
	table  pipeline.Table
	flow   *pipeline.Flow
	// nested is how deep lookups are in each other as a switch counts, shown as the
	// reader sees it.
	nested, shown int
	exit          bool
	// tracked says that the packet is as the tracker gave it, so that ct_clear clears it.
	tracked bool
	// bared says that the packet has lost its last label of MPLS.
	bared bool
	// grouped says that a group was written into an action set.
	grouped bool
	// beyond is above 0 while the packet is in a bridge that a patch port led to.
	beyond int
	// learnt are flows that the packet has had the switch learn in this pass, limited actions by which it may
	// have, and doubtful tables into which it may have in those before.
	learnt   []*pipeline.Flow
	limited  []pipeline.Action
	doubtful map[pipeline.Table]bool
	// aside is above 0 while what is followed is not this packet, but one of another length:
	// nothing of that happens but what a switch forgets to undo.
	aside int
}

func (w *walker) pass(p *Pass) {
	w.at, w.packet, w.table, w.flow, w.nested, w.exit = p, p.Start.clone(), p.Table, nil, 0, false
	w.tracked, w.bared, w.grouped = p.From > 0, false, false
	n := len(w.waiting)
	w.look(p.Table, w.packet.inPort(), false)
	w.actionSet()
	p.End = w.packet
	if p.Failed != "" {
		w.waiting = w.waiting[:n]
	}
}

func (p *Packet) inPort() pipeline.Port { return pipeline.Port(p.fields[pipeline.InPort].Lo) }

// fail ends the pass at a switch's limit.
func (w *walker) fail(format string, args ...any) {
	if w.beyond > 0 && w.walk.Understood() {
		w.unknown(fmt.Sprintf(format, args...), "a limit is met beyond a patch port: what is before it goes on")
		return
	}
	if w.at.Failed == "" {
		w.at.Failed = fmt.Sprintf(format, args...)
		why := ""
		if w.aside > 0 {
			why = " for packets of another length"
		}
		w.step(Step{Say: w.at.Failed + why + ": nothing of this pass is done"})
	}
	w.exit = true
}

// unknown ends the walk at what was not understood.
func (w *walker) unknown(text, reason string) {
	n := pipeline.Note{Text: text, Reason: reason}
	if w.flow != nil {
		n.Line = w.flow.Line
	}
	w.walk.Unknown = append(w.walk.Unknown, n)
	w.step(Step{Say: fmt.Sprintf("not understood: %s: %s", text, reason)})
	w.exit = true
}

// spend notes that something is done, and ends the walk where that becomes too much.
func (w *walker) spend(work int) {
	w.walk.Work += work
	if w.walk.Work > mostWork && w.walk.Understood() {
		w.unknown("table "+w.Names.FormatTable(w.table), "a packet has more to do than is followed")
	}
}

// copied is a copy of the packet.
func (w *walker) copied() *Packet {
	w.spend(workOfCopy + len(w.packet.stack) + len(w.packet.actions))
	return w.packet.clone()
}

// step is one more line of the walk.
func (w *walker) step(s Step) {
	s.Depth = w.shown
	w.at.Steps = append(w.at.Steps, s)
}

func (w *walker) say(format string, args ...any) {
	w.walk.Work += workOfStep
	if w.aside == 0 {
		w.step(Step{Say: fmt.Sprintf(format, args...)})
	}
}

func (w *walker) event(k Kind, text string) { w.seen(Event{Kind: k, Text: text}) }

// seen notes an event of the packet.
func (w *walker) seen(e Event) {
	w.spend(workOfStep)
	if w.aside == 0 {
		e.Packet = w.copied()
		w.step(Step{Event: &e})
	}
}

// look finds the flow of a table that takes the packet, as one from the port, or with the
// original direction of its connection, and carries out its actions
// (rule_dpif_lookup_from_table of ofproto/ofproto-dpif.c).
func (w *walker) look(id pipeline.Table, port pipeline.Port, original bool) {
	p := w.packet
	if fragment := p.fields[pipeline.NWFrag].Lo&fragAny != 0; original || fragment || port != p.inPort() {
		p = p.clone()
		p.fields[pipeline.InPort] = pipeline.Value{Lo: uint64(port)}
		if original {
			p.swap()
		}
		switch {
		case p.whole:
			p.fields[pipeline.NWFrag] = pipeline.Value{}
		case fragment: // a switch that has not been told otherwise takes them to have no ports
			p.fields[pipeline.TPSrc], p.fields[pipeline.TPDst] = pipeline.Value{}, pipeline.Value{}
		}
	}
	w.spend(workOfStep + w.tables.kinds(id))
	if !w.walk.Understood() {
		return
	}
	if w.doubtful[id] {
		w.unknown("table "+w.Names.FormatTable(id), mayHaveLearnt)
		return
	}
	f := w.tables.lookup(id, p)
	w.walk.Rivals = w.walk.Rivals || f.rivals
	if len(f.others) > 0 && w.pick != nil && f.doubtful == nil {
		of := append([]*pipeline.Flow{f.flow}, f.others...)
		if i := w.pick(of); i > 0 {
			f.flow, f.undefined = of[i], of[0]
			f.others = slices.Delete(of, i, i+1) // only now: it clears what it moves away
		}
	}
	if w.aside == 0 {
		w.at.Lookups++
		w.step(Step{Lookup: true, Table: id, Flow: f.flow})
	}
	if f.doubtful != nil {
		w.flow = f.doubtful
		w.unknown(w.PrintMatch(f.doubtful), "a part of this match was not understood, and the packet may meet it")
		return
	}
	if f.flow == nil {
		return
	}
	if other := w.rival(f); other != nil {
		w.walk.Undefined = append(w.walk.Undefined, [2]*pipeline.Flow{f.flow, other})
		w.say("undefined: line %d wants the packet too, at the same priority", other.Line)
	}
	table, flow := w.table, w.flow
	w.table, w.flow = id, f.flow
	w.shown++
	w.actions(f.flow.Actions)
	w.shown--
	w.table, w.flow = table, flow
}

// rival is a flow that might take the packet in the place of the one that does, and does something else.
func (w *walker) rival(f found) *pipeline.Flow {
	if f.rivals {
		return f.undefined
	}
	for _, o := range f.others {
		if w.PrintActions(o.Actions) != w.PrintActions(f.flow.Actions) {
			return o
		}
	}
	return nil
}

// resubmit looks up a table on behalf of an action (xlate_table_action of
// ofproto/ofproto-dpif-xlate.c).
func (w *walker) resubmit(id pipeline.Table, port pipeline.Port, original bool) {
	switch {
	case w.nested >= MaxDepth:
		w.fail("over %d resubmits in each other", MaxDepth)
		return
	case w.at.Resubmits >= MaxResubmits:
		w.fail("over %d resubmits", MaxResubmits)
		return
	case len(w.packet.stack)*16 > MaxStack:
		w.fail("over %d bytes pushed", MaxStack)
		return
	}
	deepens := 0
	if id <= w.table {
		deepens = 1
	}
	w.at.Resubmits++
	w.nested += deepens
	w.at.Deepest = max(w.at.Deepest, w.nested)
	w.look(id, port, original)
	w.nested -= deepens
}
