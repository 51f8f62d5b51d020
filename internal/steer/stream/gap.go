package stream

import (
	"cmp"
	"slices"
	"time"
)

// Gap is a time in which nothing came on one connection.
type Gap struct {
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	Conn int           `json:"conn"`
	// Open gaps were not over when the connection or the run ended. At a stream's
	// sender one means only that the socket had no room just then.
	Open bool `json:"open,omitempty"`
}

// Length of the gap.
func (g Gap) Length() time.Duration { return g.To - g.From }

// Gaps are all that are longer than Floor.
type Gaps struct {
	// Floor begins as asked for and is raised when the list becomes too long.
	Floor time.Duration `json:"floor_ns"`
	List  []Gap         `json:"list,omitempty"`
}

// maxGaps bounds the report; one gap is some 60 bytes of JSON.
const maxGaps = 20000

func (g *Gaps) add(gap Gap) {
	if gap.Length() <= g.Floor {
		return
	}
	g.List = append(g.List, gap)
	if len(g.List) >= maxGaps {
		g.thin(maxGaps / 2)
	}
}

// thin keeps the longest and raises the floor to the longest of those dropped.
func (g *Gaps) thin(keep int) {
	slices.SortFunc(g.List, func(a, b Gap) int { return cmp.Compare(b.Length(), a.Length()) })
	g.Floor = g.List[keep].Length()
	keep = slices.IndexFunc(g.List, func(x Gap) bool { return x.Length() <= g.Floor })
	g.List = g.List[:keep]
}

// merge adds o's gaps.
func (g *Gaps) merge(o Gaps) {
	g.Floor = max(g.Floor, o.Floor)
	g.List = slices.DeleteFunc(append(g.List, o.List...), func(x Gap) bool { return x.Length() <= g.Floor })
	if len(g.List) >= maxGaps {
		g.thin(maxGaps / 2)
	}
	g.sort()
}

// sort orders by time.
func (g *Gaps) sort() {
	slices.SortStableFunc(g.List, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Conn, b.Conn))
	})
}
