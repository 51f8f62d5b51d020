package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
)

// opensElsewhere is in the number of noticeOpen and of its answer, next to takesDSCP: this end lets
// flows of the pair begin on another network while the default one is known to fail. Earlier
// versions take none.
const opensElsewhere = 4

// opening is what is said of that.
func (c Cluster) opening() uint64 {
	if c.OpenElsewhere {
		return opensElsewhere
	}
	return 0
}

// opener has flows begin on another network while the default one is known to fail. Each end
// does so by what it knows itself, and where the other end says that it may.
type opener struct {
	*journal
	members *members
	waker   *waker
}

// opening is where a pair's new flows begin.
type opening struct {
	where dataplane.Beginnings
	// since is since when they begin elsewhere, and until when they last did. peer is when the other end
	// last said that they do so there.
	since, until, peer time.Time
	// inherited: a predecessor had them begin elsewhere.
	inherited bool
	// said is since when users are told that all do; zero if they are not.
	said time.Time
}

// beginsElsewhere is in the same number as opensElsewhere: flows of the pair begin elsewhere at this end now.
const beginsElsewhere = 16

// says is what the other end is told of that.
func (o opening) says() uint64 {
	if o.elsewhere() {
		return beginsElsewhere
	}
	return 0
}

// within reports whether one of the two ends has begun flows elsewhere within so long.
func (o opening) within(d time.Duration, now time.Time) bool {
	return now.Sub(o.until) < d || now.Sub(o.peer) < d
}

// inherits reports whether what a predecessor knew still holds: nothing goes by the default network that could tell
// that it fails. The other end may know; a minute later it is tried.
func (o opening) inherits(now time.Time) bool {
	return o.inherited && o.elsewhere() && o.within(takenFor, now) && now.Sub(o.since) < time.Minute
}

func (o opening) elsewhere() bool { return o.where == dataplane.Elsewhere }

// takenFor is for how long what the other end begins elsewhere is taken after the default network is back for this
// one, and after that one has last said that it does, each second (renewSoon): it may find a little later that the
// default network is back, or, where that loses much, some time later; and what a connection has found at one end
// alone, as that TCP is dropped, the other one knows by this only.
const takenFor = 3 * time.Second

// adoptOpening has flows of the pair begin where a predecessor had them begin, if they may.
func (en *entries) adoptOpening(p *pair) error {
	was, err := p.local.plane.Beginnings(p.remote.UID)
	if err != nil {
		return err
	}
	if now := en.cfg.Now(); en.members.letsBegin(p, &en.cfg) {
		p.opening = opening{where: was, since: now, until: now, inherited: true}
	}
	return p.local.plane.Begin(p.remote.UID, p.opening.where)
}

// judge tells the data plane where flows of the pair may begin.
func (o *opener) judge(p *pair, now time.Time) {
	was, where := p.opening, o.where(p, now)
	if where == was.where {
		o.say(p, now)
		return
	}
	if err := p.local.plane.Begin(p.remote.UID, where); err != nil {
		o.fault(p.name, err)
		return
	}
	p.opening.where = where
	switch {
	case p.opening.elsewhere():
		p.opening.since = now
		o.waker.resendSoon(p, now)
	case was.elsewhere():
		p.opening.until = now
	}
	o.say(p, now)
}

// say tells users where all flows of the pair begin, once that is another place; not of connections that are tried
// elsewhere one by one.
func (o *opener) say(p *pair, now time.Time) {
	all := p.opening.elsewhere() && (p.homeFails(now) || p.opening.inherits(now))
	if all != p.opening.said.IsZero() {
		return
	}
	e := Event{Kind: EventElsewhere, Pair: p.name, By: byPolicy, To: p.routes[0].Network}
	if others := p.otherPaths(0); all && len(others) > 0 {
		p.opening.said = now
		e.From, e.To = e.To, p.routes[p.routes.at(others[0])].Network
		e.Reason = fmt.Sprintf("%s fails: new flows begin on %s", e.From, e.To)
		o.note(e)
	} else if !all {
		e.Reason = fmt.Sprintf("new flows begin on %s again, after %v", e.To, now.Sub(p.opening.said).Round(time.Millisecond))
		p.opening.said = time.Time{}
		o.note(e)
	}
}

// where is where they may begin. Where nothing answers on any network, none is known to be better.
func (o *opener) where(p *pair, now time.Time) dataplane.Beginnings {
	was := p.opening
	switch {
	case !o.members.letsBegin(p, &o.cfg):
		return dataplane.AtHome
	case p.takesOpening && (p.taken || !p.opened.IsZero()) && (p.homeFails(now) || p.detours.open()) &&
		len(p.otherPaths(0)) > 0:
		return dataplane.Elsewhere
	case was.inherits(now) && !p.passes(0):
		return dataplane.Elsewhere
	case was.elsewhere(), was.within(takenFor, now):
		return dataplane.TakenElsewhere
	}
	return dataplane.AtHome
}

// letsBegin reports whether this end lets flows of the pair begin elsewhere.
func (m *members) letsBegin(p *pair, cfg *Config) bool {
	return m.Cluster.OpenElsewhere && !cfg.DryRun && !p.local.DryRun
}

// passes reports whether a probe between the hosts was answered on path i since the pair was entered.
func (p *pair) passes(i int) bool {
	hp := p.host.paths[p.routes[i].Network]
	return hp != nil && hp.Passed(p.joined)
}
