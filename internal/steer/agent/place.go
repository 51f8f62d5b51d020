package agent

import (
	"errors"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// wanted are the paths where the pair's own flows are to be, by bucket: as they are assigned, but for those that do not
// get through there.
func (p *pair) wanted(rows [flow.Rows]decide.Assignment) (paths [dataplane.Buckets]int) {
	paths = p.planned(rows)
	if p.opened.IsZero() || p.withdrawn {
		return paths
	}
	for b, d := range p.detours {
		if d.out && d.from == paths[b] && p.usable(d.to) {
			paths[b] = d.to
		}
	}
	return paths
}

// planned are the paths where they are assigned. What has failed under a canary is not tried on.
func (p *pair) planned(rows [flow.Rows]decide.Assignment) (paths [dataplane.Buckets]int) {
	for b := range paths {
		as, rank := rows[flow.RowOf(uint8(b))], p.rank(b%flow.Width)
		paths[b] = p.at(as).Index
		if r, ok := p.routes.byNetwork(as.On(rank, flow.Width)); ok && !as.With.None() {
			paths[b] = r.Index
		}
		if other, canary := p.routes.byNetwork(as.Canary); canary && !p.failed(other.Index) &&
			dataplane.Share(as.Share(other.Network)).Has(uint8(rank)) {
			paths[b] = other.Index
		}
	}
	return paths
}

// rank is that of a place in its row.
func (p *placement) rank(place int) int {
	if p.ranks == nil {
		return place
	}
	return int(p.ranks[place])
}

// rerank has the parts of the rows be such that connections are spread over them, as flows are about to be apart and
// are not yet. A failover, which is to be quick, counts no connections.
func (p *pair) rerank(to [flow.Rows]decide.Assignment) {
	apart := func(as decide.Assignment) bool { return as.Canary != "" || !as.With.None() }
	was := p.assignments()
	if !slices.ContainsFunc(to[:], apart) || slices.ContainsFunc(was[:], apart) {
		return
	}
	ranks := flow.Spread(p.places)
	p.ranks = &ranks
}

// placed reports whether the data plane has the pair's own flows where they are assigned.
func (p *pair) placed() bool {
	choices, err := p.local.plane.Choices(p.remote.UID)
	for b, path := range p.wanted(p.assignments()) {
		if choices[b].Path != path {
			return false
		}
	}
	return err == nil
}

// place writes the maps as assigned. took is the time of that.
func (m *mover) place(p *pair) (moved dataplane.Set, took time.Duration, err error) {
	want := p.wanted(p.assignments())
	var sets [dataplane.MaxPaths]dataplane.Set
	for b, path := range want {
		sets[path%dataplane.MaxPaths] |= 1 << b
	}
	var errs []error
	at := m.clock.kernel()
	begin := m.cfg.Now()
	for path, set := range sets {
		if set != 0 {
			some, err := p.local.plane.Switch(p.remote.UID, set, path)
			errs = append(errs, err)
			moved |= some
		}
	}
	took = m.cfg.Now().Sub(begin)
	for i, r := range p.routes {
		if sets[r.Index] != 0 {
			p.use(i, begin) // look there from now on
		}
	}
	m.moved = append(m.moved, p)
	if moved != 0 {
		m.untracked.add(p)
	}
	for b, path := range want {
		if moved.Has(uint8(b)) {
			m.ledger.Moved(p.telemetryPair().Key(uint8(b)), uint8(path), at)
		}
	}
	m.stacks.refit(p)
	return moved, took, errors.Join(errs...)
}

// answersMoved does what is due when flows that the peer has opened are answered on another
// path: the host is to forget them where they were, and the pod's stack to be fit for it.
func (m *mover) answersMoved(p *pair) {
	m.untracked.add(p)
	m.stacks.refit(p)
}

// vacate has no flow of the pair's own stay on a path that has failed, as one may that makes a detour there or is
// tried: the decision is about the others.
func (m *mover) vacate(p *pair, from int, now time.Time) {
	if m.dry(p) {
		return
	}
	choices, err := p.local.plane.Choices(p.remote.UID)
	m.fault(p.name, err)
	if slices.ContainsFunc(choices[:], func(c dataplane.Choice) bool { return c.Path == from }) {
		m.replace(p, now)
	}
}

// replace has the pair's own flows be where they are wanted now.
func (m *mover) replace(p *pair, now time.Time) {
	moved, _, err := m.place(p)
	m.fault(p.name, err)
	if moved != 0 {
		m.follow(p, moved, now)
	}
}
