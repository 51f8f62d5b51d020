// Package pipeline reads the flows of an Open vSwitch bridge, as ovs-ofctl dumps them or
// as they are given to it, and writes them as a switch would. It knows the words and
// what they are called, not a switch: it opens nothing and asks nobody.
package pipeline

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Pipeline is the flows and groups of a bridge.
type Pipeline struct {
	Flows  []*Flow
	Groups []*Group
	// Lost are lines that are neither flows nor groups, nor blank.
	Lost  []Note
	Names *Names
	Words *Vocabulary
	// Second is the line with which flows of a second dump begin, such as another bridge's, 0 if there is none.
	Second int
	dumps  dumps
	// byID holds the first group of each number.
	byID map[uint32]*Group
	// entries are the tables that packets of each bridge enter, where there are several.
	entries []Table
	// patches are their patch ports; opaque says that it is not known what goes through some.
	patches map[Port]Action
	opaque  bool
}

// Note is a piece of the input that was not understood, and why.
type Note struct {
	Line   int    `json:"line"`
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

// Flow is one entry of a table.
type Flow struct {
	// Line of the input that it is from.
	Line     int
	Table    Table
	Priority int
	Cookie   uint64
	// IdleTimeout, HardTimeout and Importance are 0 where there is none.
	IdleTimeout, HardTimeout, Importance int
	// Flags, as they are written: send_flow_rem, check_overlap ...
	Flags   []string
	Match   Match
	Actions []Action
	// Counted says that the line has counters: else Packets and Bytes say nothing.
	Counted        bool
	Packets, Bytes uint64
	// Carried are parts of the match that were not understood. They are printed as they
	// came, and nothing is concluded about packets that may meet the flow.
	Carried []string
	Notes   []Note
}

// Understood reports whether all of the flow was.
func (f *Flow) Understood() bool { return len(f.Notes) == 0 }

// Table is the number of a table. A name whose number the input does not tell has a
// number from Unnumbered on.
type Table int

// Port is the number of a port, by the same rule.
type Port uint32

// Numbers.
const (
	// Unnumbered tables and ports are known by name only.
	Unnumbered Table = 1 << 10
	unnumbered Port  = 1 << 17
	// NoTable is where an action names none.
	NoTable Table = 255

	// Ports of OpenFlow 1.0 that are not places of a switch.
	PortMax        Port = 0xff00
	PortUnset      Port = 0xfff7
	PortIn         Port = 0xfff8
	PortTable      Port = 0xfff9
	PortNormal     Port = 0xfffa
	PortFlood      Port = 0xfffb
	PortAll        Port = 0xfffc
	PortController Port = 0xfffd
	PortLocal      Port = 0xfffe
	PortNone       Port = 0xffff
)

// DefaultPriority is that of a flow that names none.
const DefaultPriority = 32768

// Term is what a match wants of a base: that its bits under the mask are Value's.
type Term struct {
	Base        Base
	Value, Mask Value
}

// Match is what a packet must be, by base in ascending order, one term for each.
type Match []Term

// Get is the term about the base; its mask is zero where there is none.
func (m Match) Get(b Base) Term {
	for i := range m {
		if m[i].Base >= b {
			if m[i].Base == b {
				return m[i]
			}
			break
		}
	}
	return Term{Base: b}
}

// Key is what of says of each term, as bytes that are the same for the same: a key of maps.
func (m Match) Key(of func(Term) Value) []byte {
	return m.AppendKey(make([]byte, 0, 17*len(m)), of)
}

// AppendKey is Key in memory that there is.
func (m Match) AppendKey(b []byte, of func(Term) Value) []byte {
	for _, t := range m {
		v := of(t)
		b = append(b, byte(t.Base))
		b = binary.LittleEndian.AppendUint64(b, v.Hi)
		b = binary.LittleEndian.AppendUint64(b, v.Lo)
	}
	return b
}

// set adds what is wanted of a base; of bits wanted twice the later counts.
func (m *Match) set(b Base, value, mask Value) {
	if mask.IsZero() {
		return
	}
	value = value.And(mask)
	for i, t := range *m {
		if t.Base == b {
			(*m)[i].Value = t.Value.Without(mask).Or(value)
			(*m)[i].Mask = t.Mask.Or(mask)
			return
		}
		if t.Base > b {
			*m = append(*m, Term{})
			copy((*m)[i+1:], (*m)[i:])
			(*m)[i] = Term{b, value, mask}
			return
		}
	}
	*m = append(*m, Term{b, value, mask})
}

// drop takes out what is wanted of a base.
func (m *Match) drop(b Base) bool {
	for i, t := range *m {
		if t.Base == b {
			*m = append((*m)[:i], (*m)[i+1:]...)
			return true
		}
	}
	return false
}

// Subfield is some bits of a field.
type Subfield struct {
	Field *Field
	// Start is the first bit, counted from the lowest of the field.
	Start, Bits int
}

// Shift is the first bit, counted from the lowest of the base.
func (s Subfield) Shift() int { return s.Field.Shift + s.Start }

// Mask is the bits in the base.
func (s Subfield) Mask() Value { return ones(s.Bits).Left(s.Shift()) }

func (s Subfield) whole() bool { return s.Start == 0 && s.Bits == s.Field.Bits }

// Kind of an action, by the name that Open vSwitch has for it.
type Kind string

// Kinds. Those that are not named here are of ParseAction's tables.
const (
	Output       Kind = "output" // to a port, or to the port in a field
	OutputTrunc  Kind = "output_trunc"
	Controller   Kind = "controller"
	GroupAction  Kind = "group"
	Enqueue      Kind = "enqueue"
	Resubmit     Kind = "resubmit"
	Goto         Kind = "goto_table"
	CT           Kind = "ct"
	NAT          Kind = "nat"
	CTClear      Kind = "ct_clear"
	Load         Kind = "load"
	SetField     Kind = "set_field"
	Move         Kind = "move"
	Push         Kind = "push"
	Pop          Kind = "pop"
	Clone        Kind = "clone"
	WriteActions Kind = "write_actions"
	ClearActions Kind = "clear_actions"
	WriteMeta    Kind = "write_metadata"
	Learn        Kind = "learn"
	Conjunction  Kind = "conjunction"
	Bundle       Kind = "bundle"
	BundleLoad   Kind = "bundle_load"
	Multipath    Kind = "multipath"
	Sample       Kind = "sample"
	Meter        Kind = "meter"
	DecTTL       Kind = "dec_ttl"
	DecMPLSTTL   Kind = "dec_mpls_ttl"
	PushVLAN     Kind = "push_vlan"
	PopVLAN      Kind = "pop_vlan"
	StripVLAN    Kind = "strip_vlan"
	ModVLANVID   Kind = "mod_vlan_vid"
	ModVLANPCP   Kind = "mod_vlan_pcp"
	SetVLANVID   Kind = "set_vlan_vid"
	SetVLANPCP   Kind = "set_vlan_pcp"
	PushMPLS     Kind = "push_mpls"
	PopMPLS      Kind = "pop_mpls"
	SetTunnel    Kind = "set_tunnel"
	SetQueue     Kind = "set_queue"
	PopQueue     Kind = "pop_queue"
	Exit         Kind = "exit"
	CheckLarger  Kind = "check_pkt_larger"
	NoteAction   Kind = "note"
	FinTimeout   Kind = "fin_timeout"
	Encap        Kind = "encap"
	Decap        Kind = "decap"
	DeleteField  Kind = "delete_field"
	// Unknown is an action that was not understood: Text is as it came.
	Unknown Kind = "unknown"
)

// Action is one action or instruction. Which of the parts it has depends on its kind.
type Action struct {
	Kind     Kind
	Port     Port
	Table    Table
	N        uint64
	Src, Dst Subfield
	// Value and Mask of what is loaded or set, from the field's lowest bit.
	Value, Mask Value
	// Text is the canonical text of kinds that are written as they are read.
	Text string
	// Nested actions: of clone, write_actions, and the exec of ct.
	Nested []Action
	// Track is of ct, Learned of learn.
	Track   *Track
	Learned *Learned
	// Clause and Clauses are of conjunction, Ports of bundle.
	Clause, Clauses int
	// Original says that a resubmit looks up the connection's original direction.
	Original bool
	// Patch says that a clone is an output to a patch port, the peer of which is Peer: Nested is what
	// becomes of a copy there.
	Patch bool
	Peer  Port
	// Bridge is the bridge of an action that is observed, where it is not the first of several.
	Bridge string
	Ports  []Port
}

// Track is what ct() has inside.
type Track struct {
	Commit, Force bool
	// Table is where the packet goes on, NoTable for nowhere.
	Table Table
	Zone  uint16
	// From holds the zone, where it has a field.
	From Subfield
	// NAT is how nat is written, and empty where there is none.
	NAT string
	ALG string
}

// Learned is the flows that learn() adds: what bits they match, and in order what they do.
type Learned struct {
	Priority int
	Match    []Subfield
	// Wants is what all of them match, whatever packet they are made of.
	Wants Match
	// Does are bits that are loaded, or those of the port that the packet leaves by.
	Does []LearnedAction
	// From are bits of the packet that the flow is made of.
	From []Subfield
	// Model is the flow but for its table and what comes of a packet, Limit how many there may be with its cookie,
	// 0 for any number.
	Model Flow
	Limit int
	// FinIdle and FinHard are time-outs that it has once a connection ends.
	FinIdle, FinHard int
	Specs            []LearnSpec
}

// LearnSpec is one thing that flows match or do: bits that are those of the packet, or always of a value.
type LearnSpec struct {
	// Kind is Load or Output, and empty for a match.
	Kind     Kind
	Src, Dst Subfield
	Value    Value
}

// LearnedAction is one of them.
type LearnedAction struct {
	Kind Kind
	Bits Subfield
}

// ZoneText is the zone as a number, or as the field that holds it.
func (t *Track) ZoneText() string {
	if t.From.Field != nil {
		return t.From.text()
	}
	return fmt.Sprint(t.Zone)
}

// Group is a group of the bridge.
type Group struct {
	Line    int
	ID      uint32
	Type    string
	Buckets []Bucket
	Text    string
	// Head is what is written before the buckets.
	Head string
}

// Bucket is one way that a group sends packets.
type Bucket struct {
	Weight  int
	Actions []Action
	// Head is what is written before the actions.
	Head string
}

// Lines lists line numbers, the first few.
func Lines(list []int) string {
	const shown = 6
	var out []string
	for i, n := range list {
		if i == shown {
			out = append(out, fmt.Sprintf("%d more", len(list)-shown))
			break
		}
		out = append(out, strconv.Itoa(n))
	}
	if len(list) == 1 {
		return "line " + out[0]
	}
	return "lines " + strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}
