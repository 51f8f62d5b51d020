package dataplane

import "fmt"

// Meter reads how many packets went to a peer over one path, for those who look
// many times a second: its place is found once. Find it again after peers were
// entered or removed, as the place may be another's then.
type Meter struct {
	plane *Plane
	off   uint32
}

// Meter returns the peer's on the path.
func (p *Plane) Meter(uid string, path int) (Meter, error) {
	id, ok := p.ids[uid]
	if !ok || path < 0 || path >= MaxPaths {
		return Meter{}, fmt.Errorf("find tallies of %s, path %d: %w", uid, path, errUnknown)
	}
	return Meter{plane: p, off: (id*MaxPaths + uint32(path)) * tallySize}, nil
}

// Sent counts packets as Tally does.
func (m Meter) Sent() uint64 { return get64(m.plane.mem.sent, m.off) }
