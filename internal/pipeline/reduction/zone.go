package reduction

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// zone is one of the tracker's: of a number, or of the number that a field holds.
type zone struct {
	number uint16
	from   pipeline.Subfield
}

func zoneOf(t *pipeline.Track) zone {
	if t.From.Field != nil {
		return zone{from: t.From}
	}
	return zone{number: t.Zone}
}

// changedBy reports whether an action may have the field hold another zone's number.
func (z zone) changedBy(a pipeline.Action) bool {
	return z.from.Field != nil && a.Kind != pipeline.Push && a.Dst.Field != nil && a.Dst.Field.Base == z.from.Field.Base &&
		!a.Dst.Mask().And(z.from.Mask()).IsZero()
}

// changes reports whether some flow may have the field hold another zone's number.
func (n *net) changes(z zone) bool { return z.from.Field != nil && n.written[z.from.Field.Base] }

// among reports whether the zone is one of those that are listed: what a field holds is not
// known.
func (z zone) among(list []uint16) bool {
	return z.from.Field == nil && slices.Contains(list, z.number)
}
