package walk

import (
	"fmt"

	"pathwise.dev/pathwise/internal/explain/pipeline"
)

// ActionSetTracked is a reason for which a walk ends.
const ActionSetTracked = actionSetTracked

// Clone, PushTag and PopTag are for the tests' replay of a datapath's actions.
func (p *Packet) Clone() *Packet { return p.clone() }

func (p *Packet) PushTag(tpid uint16) { p.pushTag(tpid) }

func (p *Packet) PopTag() { p.popTag() }

// Assign writes whatever the packet is.
func (p *Packet) Assign(a pipeline.Action) { p.write(a.Dst.Field, a.Value, a.Mask) }

// Tags are those that the header's fields do not show.
func (p *Packet) Tags() string {
	if p.tpid == 0 || p.tpid == tpidVLAN && len(p.below) == 0 {
		return ""
	}
	return fmt.Sprintf(" tpid %#x below %v", p.tpid, p.below)
}
