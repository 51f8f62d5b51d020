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
		windows := e.windows()
		for j, n := range networks {
			clear(next[j][:windows])
			if i == 0 {
				next[j].take(e.spend(kept{}, n))
				continue
			}
			for b := range windows {
				if k := now[j][b]; k.ok {
					next[j].take(e.spend(k, n))
				}
				if k := e.come(now, networks, j, b); k.ok {
					next[j].take(e.spend(k, n))
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

// windows is how many courses a network has: one where windows do not matter.
func (e *epoch) windows() int {
	if e.pipes == nil {
		return 1
	}
	return len(courses{})
}

// come is the best course with about that window that comes to a network from another one.
func (e *epoch) come(now []courses, networks []string, to, window int) (best kept) {
	for j, from := range networks {
		k := now[j][window]
		if j == to || !k.ok {
			continue
		}
		k.got, k.room = k.got-e.loss*e.part(k, from)*e.truth[from], 0
		if !best.ok || k.got > best.got {
			best = k
		}
	}
	return best
}

// part is how much of what a network gives such connections get.
func (e *epoch) part(k kept, network string) float64 {
	if e.pipes == nil || e.fresh {
		return 1
	}
	return e.pipes[network].part(k.window)
}

// spend is what becomes of connections that are on a network for the epoch.
func (e *epoch) spend(k kept, network string) kept {
	k.got += e.part(k, network) * e.truth[network] * e.seconds
	if e.pipes == nil {
		return k
	}
	p := e.pipes[network]
	if e.fresh {
		k.window, k.room = p.full, 0
	}
	k.window, k.room = p.grow(k.window, k.room)
	return k
}
