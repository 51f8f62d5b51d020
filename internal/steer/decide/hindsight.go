package decide

import "math"

// hindsight is the best that one path per epoch gives, by a dynamic programme
// over paths, with and without the cost of switching. It may begin anywhere.
// Where connections bring their windows along, that is a part of the cost, and of
// windows that are alike within a fifth the programme keeps those that have given most.
func (l *ledger) hindsight(networks []string) (paid, free float64) {
	for _, e := range l.epochs {
		top := 0.0
		for _, n := range networks {
			top = max(top, e.truth[n]*e.seconds)
		}
		free += top
	}
	return l.best(networks), free
}

// static is the best single network.
func (l *ledger) static(networks []string) (best float64, name string) {
	for _, n := range networks {
		if sum := l.best([]string{n}); sum > best || name == "" {
			best, name = sum, n
		}
	}
	return best, name
}

// kept is what connections have got so far that are on one network, with the window that they have there, in bits,
// and for how many periods it has grown.
type kept struct {
	got, window float64
	room        int
	ok          bool
}

// courses are the best of them by their windows: quarters of an octave, from a bit on.
type courses [160]kept

// take keeps a course if it has got more than one of about that window.
func (c *courses) take(k kept) {
	i := min(max(int(4*math.Log2(max(k.window, 1))), 0), len(c)-1)
	if !c[i].ok || k.got > c[i].got {
		k.ok = true
		c[i] = k
	}
}

// best is the most that connections get which may be on any of the networks, on one at a time.
func (l *ledger) best(networks []string) (most float64) {
	now, next := make([]courses, len(networks)), make([]courses, len(networks))
	for i, e := range l.epochs {
		windows := 1 // one course of each network where they do not matter
		if e.pipes != nil {
			windows = len(courses{})
		}
		for j, n := range networks {
			next[j] = courses{}
			if i == 0 {
				next[j].take(e.spend(kept{}, n, true))
				continue
			}
			for b := range windows {
				var come kept
				for k, from := range networks {
					h := now[k][b]
					if k == j && h.ok {
						next[j].take(e.spend(h, n, false))
					} else if h.ok {
						h.got, h.room = h.got-e.loss*e.part(h, from)*e.truth[from], 0
						if !come.ok || h.got > come.got {
							come = h
						}
					}
				}
				if come.ok {
					next[j].take(e.spend(come, n, false))
				}
			}
		}
		now, next = next, now
	}
	for j := range networks {
		for _, k := range now[j] {
			most = max(most, k.got)
		}
	}
	return most
}

// part is how much of what a network gives such connections get.
func (e *epoch) part(k kept, network string) float64 {
	if e.pipes == nil || e.fresh {
		return 1
	}
	return e.pipes[network].part(k.window)
}

// spend is what becomes of connections that are on a network for the epoch, and where they begin there.
func (e *epoch) spend(k kept, network string, begin bool) kept {
	if p := e.pipes[network]; e.pipes != nil {
		if begin || e.fresh {
			k.window, k.room = p.full, 0
		}
		k.got += p.part(k.window) * e.truth[network] * e.seconds
		k.window, k.room = p.grow(k.window, k.room)
		return k
	}
	k.got += e.truth[network] * e.seconds
	return k
}
