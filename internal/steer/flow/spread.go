package flow

import (
	"cmp"
	"math"
	"slices"
)

// Ranks are the order in which the places of a row are given to a path, by place: a part of the row is those whose rank
// is below a number, or not below it.
type Ranks [Width]uint8

// Spread ranks places by how many flows of each row have each of them, so that as large a part of the flows of either
// row is on a path as it has of the places, as nearly as can be: of two flows one is in each half. Places are hashes of
// ports, so that without it two flows are in the same half as often as not. Rows have one order, as a flow keeps its
// place in another row.
func Spread(flows [Rows][Width]int) (ranks Ranks) {
	type place struct {
		at         int
		sum, flows float64
	}
	var total, before [Rows]float64
	for row, places := range flows {
		for _, n := range places {
			total[row] += float64(n)
		}
	}
	var taken []place
	for at := range Width {
		p := place{at: at}
		for row := range flows {
			if n := float64(flows[row][at]); n > 0 {
				p.sum += n * (before[row] + n/2) / total[row]
				p.flows += n
				before[row] += n
			}
		}
		if p.flows > 0 {
			taken = append(taken, p)
		}
	}
	slices.SortStableFunc(taken, func(a, b place) int { return cmp.Compare(a.sum/a.flows, b.sum/b.flows) })
	var used [Width]bool
	next := 0
	for i, p := range taken {
		target := int(math.Ceil(p.sum/p.flows*Width)) - 1 // all flows of one place are in the first half
		rank := max(next, min(target, Width-(len(taken)-i)))
		ranks[p.at], used[rank], next = uint8(rank), true, rank+1
	}
	free := 0
	for at := range Width {
		if slices.ContainsFunc(taken, func(p place) bool { return p.at == at }) {
			continue
		}
		for used[free] {
			free++
		}
		ranks[at] = uint8(free)
		free++
	}
	return ranks
}
