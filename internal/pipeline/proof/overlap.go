package proof

import (
	"hash/fnv"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// mostPicked is in how many ways a packet is followed past flows of one priority that overlap.
const mostPicked = 16

// ways is all that may be seen of a packet, whichever of flows of one priority take it; false if
// that is not known.
func (t trial) ways(p *walk.Pipeline, packet *walk.Packet, oracle *witness.Oracle) (map[string]bool, bool) {
	out := map[string]bool{}
	var picks, of []int
	for range mostPicked {
		at := 0
		w := p.FollowPicking(packet, oracle.Again(), func(list []*pipeline.Flow) int {
			if at == len(picks) {
				picks, of = append(picks, 0), append(of, 0)
			}
			of[at] = len(list)
			at++
			return picks[at-1]
		})
		if !w.Understood() || w.Rivals || failed(w) {
			return nil, false
		}
		out[seen(p, w, t.strict)] = true
		picks, of = picks[:at], of[:at]
		for at--; at >= 0; at-- { // the next way
			if picks[at]++; picks[at] < of[at] {
				break
			}
		}
		if at < 0 {
			return out, true
		}
		picks, of = picks[:at+1], of[:at+1]
	}
	return nil, false
}

// whichever reports whether a packet fares differently whichever of flows of one priority take it.
func (t trial) whichever(inX, inY *walk.Pipeline, packet *walk.Packet, oracle *witness.Oracle) bool {
	x, ok := t.ways(inX, packet, oracle)
	if !ok {
		return false
	}
	y, ok := t.ways(inY, packet, oracle)
	if !ok {
		return false
	}
	for s := range x {
		if y[s] {
			return false
		}
	}
	return true
}

// orders is how many orders of flows are tried.
const orders = 6

// byOrder follows a packet through both, if one of them leaves open which flow takes it, as switches
// would that prefer the same of several flows of one priority. It is a packet that fares differently
// if it does in one such order: then it does not depend on one pipeline alone whether it does.
func (t trial) byOrder(inX, inY *walk.Pipeline, packet *walk.Packet, oracle *witness.Oracle) (x, y *walk.Walk,
	ok bool) {
	for order := range byte(orders) {
		x = inX.FollowPicking(packet, oracle.Again(), preferred(inX, order))
		y = inY.FollowPicking(packet, oracle.Again(), preferred(inY, order))
		if !x.Rivals && !y.Rivals && t.tellsApart(inX, inY, x, y) {
			return x, y, true
		}
	}
	return nil, nil, false
}

// preferred picks, of some flows, the one that comes first in an order of all flows there may be.
func preferred(p *walk.Pipeline, order byte) func([]*pipeline.Flow) int {
	return func(list []*pipeline.Flow) (best int) {
		least := ^uint64(0)
		for i, f := range list {
			h := fnv.New64a()
			_, _ = h.Write([]byte{order})
			_, _ = h.Write([]byte(p.PrintMatch(f) + p.PrintActions(f.Actions)))
			if n := h.Sum64(); n < least {
				best, least = i, n
			}
		}
		return best
	}
}
