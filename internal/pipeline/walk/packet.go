package walk

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Packet is a packet and what a switch keeps with it while it walks.
type Packet struct {
	fields [pipeline.Bases]pipeline.Value
	// tpid is the Ethernet type of the outermost VLAN tag, below are the tags inside it.
	tpid  uint16
	below []tag
	// under are the labels of MPLS under the outermost, inner is what they are put on.
	under []uint64
	inner *[pipeline.Bases]pipeline.Value
	// whole says that it is a fragment of which, with the others, the tracker has made one packet: lookups
	// see its ports then. It leaves as it came: the datapath makes fragments of it again.
	whole bool
	// queue that the packet is to be put into, with set_queue.
	queue  uint64
	queued bool
	stack  []pushed
	// actions is the action set.
	actions []pipeline.Action
}

type tag struct{ tci, tpid uint16 }

// pushed is what push left: bits, from the lowest.
type pushed struct {
	value pipeline.Value
	bits  int
}

const (
	vlanPresent = 0x1000
	tpidVLAN    = 0x8100

	ethIPv4 = 0x0800
	ethARP  = 0x0806
	ethRARP = 0x8035
	ethIPv6 = 0x86dd

	protoTCP  = 6
	protoUDP  = 17
	protoSCTP = 132

	fragAny, fragLater = 1, 2
)

// NewPacket is the packet that the match wants; what it does not name is zero.
func NewPacket(m pipeline.Match) *Packet {
	p := &Packet{}
	for _, t := range m {
		p.fields[t.Base] = t.Value
	}
	p.fields[pipeline.ActsetOutput] = pipeline.Value{Lo: uint64(pipeline.PortUnset)}
	p.fixTag()
	return p
}

// fixTag gives a tag a type, and takes it from a packet that has none.
func (p *Packet) fixTag() {
	switch tagged := p.fields[pipeline.VLAN].Lo&vlanPresent != 0; {
	case tagged && p.tpid == 0:
		p.tpid = tpidVLAN
	case !tagged:
		p.tpid = 0
	}
}

// Get is what a base holds.
func (p *Packet) Get(b pipeline.Base) pipeline.Value { return p.fields[b] }

// Set writes a base.
func (p *Packet) Set(b pipeline.Base, v pipeline.Value) { p.fields[b] = v }

func (p *Packet) clone() *Packet {
	q := *p
	q.below = slices.Clone(p.below)
	q.under = slices.Clone(p.under)
	q.stack = slices.Clone(p.stack)
	q.actions = slices.Clone(p.actions)
	return &q
}

// Terms is the packet as a match on all that is not zero.
func (p *Packet) Terms(words *pipeline.Vocabulary) (out pipeline.Match) {
	for i, v := range p.fields {
		b := pipeline.Base(i)
		if b == pipeline.ActsetOutput && v.Lo == uint64(pipeline.PortUnset) || v.IsZero() {
			continue
		}
		out = append(out, pipeline.Term{Base: b, Value: v, Mask: words.Full(b)})
	}
	return out
}

// Changes is what of a packet that leaves is not as it was in the other.
func (p *Packet) Changes(from *Packet, words *pipeline.Vocabulary) (out pipeline.Match) {
	for i, v := range p.fields {
		if b := pipeline.Base(i); Leaves(b) && v != from.fields[i] {
			out = append(out, pipeline.Term{Base: b, Value: v, Mask: words.Full(b)})
		}
	}
	return out
}

// Leaves reports whether a base is of what leaves a switch with a packet: its header,
// the tunnel's fields and its mark.
func Leaves(b pipeline.Base) bool {
	switch {
	case b == pipeline.PktMark || b >= pipeline.TunID && b < pipeline.Metadata:
		return true
	case b == pipeline.NWFrag || b == pipeline.PacketType:
		return false // what the header is, not what is written into it
	}
	return b >= pipeline.VLAN
}

// Header reports whether a base is of the packet's own header.
func Header(b pipeline.Base) bool { return b >= pipeline.VLAN && b < pipeline.TunMetadata0 }

// isIP reports whether the packet is of IPv4 or IPv6.
func (p *Packet) isIP() bool {
	eth := p.fields[pipeline.EthType].Lo
	return eth == ethIPv4 || eth == ethIPv6
}

// write puts bits into a field, counted from the field's lowest.
func (p *Packet) write(f *pipeline.Field, v, mask pipeline.Value) {
	mask, v = mask.Left(f.Shift), v.Left(f.Shift)
	switch {
	case f.Base == pipeline.VLAN:
		p.writeTag(f, v, mask)
		return
	case f.Name == "nw_tos":
		mask = mask.And(pipeline.Value{Lo: 0xfc})
	default:
		mask = mask.And(pipeline.Subfield{Field: f, Bits: f.Bits}.Mask())
	}
	switch f.Base {
	case pipeline.NWProto:
		mask = mask.And(pipeline.Value{Lo: 0xff})
	case pipeline.InPort:
		if f.Name != pipeline.BridgePort {
			mask = mask.And(pipeline.Value{Lo: 0xffff})
		}
	}
	p.fields[f.Base] = p.fields[f.Base].Without(mask).Or(v.And(mask))
}

// writeTag writes a field of the outermost VLAN tag, as mf_set_flow_value of
// lib/meta-flow.c: all but vlan_tci and vlan_vid make a tag where there is none.
func (p *Packet) writeTag(f *pipeline.Field, v, mask pipeline.Value) {
	if f.Name == "vlan_vid" {
		mask = mask.And(pipeline.Value{Lo: 0xfff | vlanPresent})
	}
	tci := p.fields[pipeline.VLAN].Without(mask).Or(v.And(mask)).Lo
	switch f.Name {
	case "dl_vlan", "dl_vlan_pcp", "vlan_pcp":
		tci |= vlanPresent
	}
	p.fields[pipeline.VLAN] = pipeline.Value{Lo: tci & 0xffff}
	p.fixTag()
}

// read takes bits out of a field.
func (p *Packet) read(s pipeline.Subfield) pipeline.Value {
	return p.fields[s.Field.Base].And(s.Mask()).Right(s.Shift())
}

// put writes bits of a field.
func (p *Packet) put(s pipeline.Subfield, v pipeline.Value) {
	mask := s.Mask().Right(s.Field.Shift)
	p.write(s.Field, v.Left(s.Start).And(mask), mask)
}

func (p *Packet) pushTag(tpid uint16) {
	if tci := p.fields[pipeline.VLAN].Lo; tci&vlanPresent != 0 {
		p.below = []tag{{uint16(tci), p.tpid}} // a switch keeps two tags
	}
	p.fields[pipeline.VLAN] = pipeline.Value{Lo: vlanPresent}
	p.tpid = tpid
}

func (p *Packet) popTag() {
	p.fields[pipeline.VLAN], p.tpid = pipeline.Value{}, 0
	if n := len(p.below); n > 0 {
		t := p.below[n-1]
		p.below = slices.Clone(p.below[:n-1])
		p.fields[pipeline.VLAN], p.tpid = pipeline.Value{Lo: uint64(t.tci)}, t.tpid
	}
}

// untrack clears what the tracker said.
func (p *Packet) untrack() {
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		p.fields[b] = pipeline.Value{}
	}
}
