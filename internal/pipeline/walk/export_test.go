package walk

import (
	"fmt"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Reasons for which a walk ends.
const (
	ActionSetTracked = actionSetTracked
	AfterPop         = afterPop
	ManyLabels       = manyLabels
	TwoTags          = twoTags
	NoLabel          = noLabel
	MayHaveLearnt    = mayHaveLearnt
)

// PushLabel and PopLabel are a datapath's actions on labels of MPLS. PopLabel says that what
// was under the label is not known; a label that is put back on that hides it as before.
func (p *Packet) PushLabel(eth, lse uint64, unknown bool) {
	switch {
	case p.labels() == 0 && unknown:
	case p.labels() == 0:
		p.cover()
	default:
		p.under = append([]uint64{p.fields[pipeline.MPLS].Lo}, p.under...)
	}
	p.fields[pipeline.EthType], p.fields[pipeline.MPLS] = pipeline.Value{Lo: eth}, pipeline.Value{Lo: lse}
}

func (p *Packet) PopLabel(eth uint64) (unknown bool) {
	unknown = p.inner == nil
	p.pop(eth)
	*p = *p.bare()
	return unknown
}

// Bare is the packet as it leaves.
func (p *Packet) Bare() *Packet { return p.bare() }

// Clone, PushTag and PopTag are for the tests' replay of a datapath's actions.
func (p *Packet) Clone() *Packet { return p.clone() }

func (p *Packet) PushTag(tpid uint16) { p.pushTag(tpid) }

func (p *Packet) PopTag() { p.popTag() }

// TwoTags reports whether a tag is under the first, and Labelled whether there is a label.
func (p *Packet) TwoTags() bool { return len(p.below) > 0 }

func (p *Packet) Labelled() bool { return p.labels() > 0 }

// Assign writes whatever the packet is.
func (p *Packet) Assign(a pipeline.Action) { p.write(a.Dst.Field, a.Value, a.Mask) }

// Tags are those that the header's fields do not show.
func (p *Packet) Tags() string {
	s := ""
	if p.tpid != 0 && p.tpid != tpidVLAN || len(p.below) > 0 {
		s = fmt.Sprintf(" tpid %#x below %v", p.tpid, p.below)
	}
	return s + p.labelled()
}
