package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
)

// detour is a bucket of the pair's own flows that leaves the path where it is assigned.
type detour struct {
	// from and to are the paths' indexes.
	from, to int
	out      bool
	// opens: connections begin where it is, as they do not where it is assigned.
	opens bool
	bar   detect.Bar
}

// back has the bucket be where it is assigned.
func (d *detour) back() { d.out, d.opens = false, false }

// detours are those of a pair, by bucket.
type detours map[uint8]*detour

// of is that of a bucket, made where there is none.
func (ds *detours) of(bucket uint8) *detour {
	if *ds == nil {
		*ds = detours{}
	}
	if (*ds)[bucket] == nil {
		(*ds)[bucket] = &detour{}
	}
	return (*ds)[bucket]
}

// refused counts the buckets that keep off the path.
func (ds detours) refused(from int, now time.Time) (n int) {
	for _, d := range ds {
		if d.from == from && d.bar.Left(now) > 0 {
			n++
		}
	}
	return n
}

// open reports whether connections of some bucket begin where it is.
func (ds detours) open() bool {
	for _, d := range ds {
		if d.out && d.opens {
			return true
		}
	}
	return false
}

// end has buckets return whose time is over: only trying tells whether their connections get
// through again. It reports whether some do, but for those that are being asked about.
func (ds detours) end(params *detect.Params, inquired func(bucket uint8) bool, now time.Time) (some bool) {
	for b, d := range ds {
		switch {
		case d.bar.Left(now) > 0:
		case d.out && !inquired(b):
			d.back()
			some = true
		case !d.out && d.bar.Over(now) > params.BarForgotten:
			delete(ds, b)
		}
	}
	return some
}

// recall has the buckets be on the path again that are elsewhere only as a connection is being asked about,
// which ends with that: nothing is proven yet. By force the pair tries the path again at once, with the
// buckets that keep off it too. What it returns has all of that be as it was.
func (p *pair) recall(path int, force bool, now time.Time) (restore func()) {
	was := detours{}
	for b, d := range p.detours {
		before := *d
		was[b] = &before
		if d.from != path || d.bar.Left(now) > 0 && !force {
			continue
		}
		d.back()
		if force {
			d.bar.Lift(now)
		}
	}
	trial := p.trial
	if path == 0 {
		p.trial = nil
	}
	bar := &p.lines[p.routes.at(path)].bar
	barred := *bar
	if force && bar.Left(now) > 0 {
		bar.Lift(now)
	}
	return func() { p.detours, p.trial, *bar = was, trial, barred }
}

// inquired reports whether what is in the bucket is being asked about.
func (p *pair) inquired(bucket uint8) bool {
	if p.trial != nil && p.trial.buckets.Has(bucket) {
		return true
	}
	for _, q := range p.inquiries {
		if q.bucket == bucket && q.begun && !q.Over() {
			return true
		}
	}
	return false
}

// excuses reports whether no path is to blame yet for a connection that gets through on another
// one: none has got one through for so long, and this one has not returned since.
func (p *pair) excuses(conn ports, trust time.Duration, now time.Time) bool {
	if now.Sub(p.nowhere) >= trust || p.excused[conn] {
		return false
	}
	if p.excused == nil {
		p.excused = map[ports]bool{}
	}
	p.excused[conn] = true
	return true
}

// handleUnpassed has buckets make a detour of which the other agent says that a connection
// in them, of a flow that this end has opened, gets through there alone.
func (re *respondent) handleUnpassed(p *pair, n notice) status {
	from, ok := p.routes.byNetwork(re.members.network(n.network))
	if !ok {
		return statusUnknown
	}
	if re.mover.dry(p) {
		return statusDone
	}
	now := re.cfg.Now()
	planned, wanted := p.planned(p.assignments()), p.wanted(p.assignments())
	for b, c := range n.choices {
		to, ok := p.routes.byNetwork(re.members.network(c))
		if !ok || to.Index == from.Index || wanted[b] != from.Index {
			continue // it is elsewhere by now
		}
		d := p.detours.of(uint8(b))
		d.from, d.to, d.out = planned[b], to.Index, to.Index != planned[b]
		d.bar.Raise(re.params, now)
	}
	re.mover.replace(p, now)
	return statusDone
}
