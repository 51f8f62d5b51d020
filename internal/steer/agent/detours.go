package agent

import (
	"math/bits"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// detour is a bucket of the pair's own flows that leaves the path where it is assigned.
type detour struct {
	// from and to are the paths' indexes.
	from, to int
	out      bool
	// opens: connections begin where it is, as they do not where it is assigned.
	opens bool
	bar   detect.Bar
	// triedUntil is until when the other end's agent may try it, from triedFrom.
	triedUntil time.Time
	triedFrom  int
}

// back has the bucket be where it is assigned.
func (d *detour) back() { d.out, d.opens, d.triedUntil = false, false, time.Time{} }

// lead has the bucket be on the path to instead of from, as this end decides.
func (d *detour) lead(from, to int) {
	d.from, d.to, d.out, d.triedUntil = from, to, to != from, time.Time{}
}

// tried reports whether the other end's agent tries it.
func (d *detour) tried(now time.Time) bool { return d != nil && now.Before(d.triedUntil) }

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

// refused counts the buckets that keep off the path, those of both rows once: the other end names both.
func (ds detours) refused(from int, now time.Time) int {
	var places dataplane.Set
	for b, d := range ds {
		if d.from == from && d.bar.Left(now) > 0 {
			places |= 1 << (b % flow.Width)
		}
	}
	return bits.OnesCount64(uint64(places))
}

// away reports whether some bucket leaves the path where it is assigned.
func (ds detours) away() bool {
	for _, d := range ds {
		if d.out {
			return true
		}
	}
	return false
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
		case d.bar.Left(now) > 0, d.tried(now):
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

// handleDetour has buckets make a detour of which the other agent says that a connection in them, of a flow that this
// end has opened, gets through there alone, or tries to: both directions are to go there, as it does not know which of
// them is lost.
func (re *respondent) handleDetour(p *pair, n notice) status {
	index := func(number uint8) int {
		if r, ok := p.routes.byNetwork(re.members.network(number)); ok {
			return r.Index
		}
		return -1
	}
	from := index(n.network)
	if from < 0 {
		return statusUnknown
	}
	if re.mover.dry(p) {
		return statusDone
	}
	says := detourNotice{tries: n.kind == noticeTried, number: n.number, from: from, to: map[uint8]int{}}
	for b, c := range n.choices {
		if to := index(c); to >= 0 {
			says.to[uint8(b)] = to
		}
	}
	now := re.cfg.Now()
	if !p.heed(re.params, says, now) {
		return statusStale
	}
	re.mover.replace(p, now)
	if says.all() {
		re.escape.bar(p, p.routes.at(from), re.params, 0, now)
	}
	return statusDone
}

// detourNotice is what the other agent says of connections that do not get through on the path from: by bucket, where
// they do, or where it tries them. number orders what it tries, in nanoseconds.
type detourNotice struct {
	tries  bool
	number uint64
	from   int
	to     map[uint8]int
}

// all reports whether no connection of the pair gets through there.
func (n detourNotice) all() bool { return !n.tries && len(n.to) == dataplane.Buckets }

// heed has the pair's buckets be wanted where the other agent says. It reports whether that is news: what came over
// another network may be late. What that agent tries is over once it says so, or by time.
func (p *pair) heed(params *detect.Params, says detourNotice, now time.Time) bool {
	lasts := params.RepliesIdle + params.TryMost
	if says.tries && p.triedLast-says.number < uint64(lasts) {
		return false
	}
	planned, wanted := p.planned(p.assignments()), p.wanted(p.assignments())
	for b, to := range says.to {
		tried := p.detours[b].tried(now)
		if !tried && wanted[b] != says.from || to == says.from && !(says.tries && tried) {
			continue // it is elsewhere by now
		}
		if says.tries && !tried && p.tries(b%flow.Width) {
			continue // each of the two would take what the other does for its own
		}
		d := p.detours.of(b)
		d.lead(planned[b], to)
		switch {
		case !says.tries:
			d.bar.Raise(params, now)
		case to != says.from:
			d.triedUntil, d.triedFrom = now.Add(lasts), says.from
		}
	}
	if says.tries {
		p.triedLast = says.number
	}
	return true
}

// tries reports whether this end tries paths for a connection in that place that it has opened, or knows of one that
// no path gets through: it has tried both directions. What it only doubts goes where the other end tries it.
func (p *pair) tries(place uint8) bool {
	for _, q := range p.inquiries {
		if q.begun && q.side == dataplane.Ours && q.bucket%flow.Width == place &&
			(q.State() == detect.Trying || q.State() == detect.Nowhere) {
			return true
		}
	}
	return false
}

// triedThere reports whether the other end's agent tries a place.
func (p *pair) triedThere(bucket uint8, now time.Time) bool {
	for row := range flow.Row(flow.Rows) {
		if p.detours[row.Bucket(bucket)].tried(now) {
			return true
		}
	}
	return false
}

// reclaim ends what the other end's agent tries with a place of which this one asks by itself, so that both do not move
// it. It reports whether it did.
func (p *pair) reclaim(bucket uint8, now time.Time) (some bool) {
	for row := range flow.Row(flow.Rows) {
		b := row.Bucket(bucket)
		if d := p.detours[b]; d.tried(now) {
			d.lead(p.planned(p.assignments())[b], d.triedFrom)
			some = true
		}
	}
	return some
}
