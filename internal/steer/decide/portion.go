package decide

// Portion is a part of a pair's buckets on a network.
type Portion struct {
	Network string `json:"network"`
	Buckets int    `json:"buckets"`
}

// of is how many buckets of a row of so many the portion has: one at least, as a part of a
// flow is none.
func (p Portion) of(width int) int {
	if p.Network == "" || p.Buckets <= 0 {
		return 0
	}
	return min(max(int(float64(p.Buckets)/Buckets*float64(width)+0.5), 1), width)
}

// Portions are those of further networks that a pair's flows share with the active one. The
// first one has the first buckets of each row, the second one the last, and the active network
// those between. So when the portion of one network changes, only flows move that come to it or
// leave it.
type Portions [2]Portion

// None tells whether all is on the active network.
func (p Portions) None() bool { return p == Portions{} }

// On is how many buckets are on a network.
func (p Portions) On(network string) (n int) {
	for _, one := range p {
		if one.Network == network && network != "" {
			n += one.Buckets
		}
	}
	return n
}

// total is how many buckets are on further networks.
func (p Portions) total() int { return p[0].Buckets + p[1].Buckets }

// without leaves a network out: its flows go to the active one, and no others move.
func (p Portions) without(network string) Portions {
	for i := range p {
		if p[i].Network == network {
			p[i] = Portion{}
		}
	}
	return p
}

// largest is the greatest portion.
func (p Portions) largest() Portion {
	if p[1].Buckets > p[0].Buckets {
		return p[1]
	}
	return p[0]
}

// free is the place of a further portion, -1 if there is none.
func (p Portions) free() int {
	for i, one := range p {
		if one.Network == "" {
			return i
		}
	}
	return -1
}

// Networks lists where flows are, the active network first.
func (a Assignment) Networks() []string {
	out := []string{a.Active}
	for _, n := range []string{a.Canary, a.With[0].Network, a.With[1].Network} {
		if n != "" {
			out = append(out, n)
		}
	}
	return out
}

// On is the network of a bucket of a row of so many.
func (a Assignment) On(bucket, width int) string {
	first, last := a.With[0], a.With[1]
	if a.Canary != "" {
		first = Portion{a.Canary, a.Buckets}
	}
	switch {
	case bucket < first.of(width):
		return first.Network
	case bucket >= width-last.of(width):
		return last.Network
	}
	return a.Active
}
