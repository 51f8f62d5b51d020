package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// mover has pairs' flows be where decisions say.
type mover struct {
	*journal
	stacks    *stacks
	waker     *waker
	teller    *teller
	untracked *untracked
	ledger    *telemetry.Ledger
	clock     clock
	stats     *counters
	// moved are the pairs whose flows may be on other paths than when the loop last looked.
	moved []*pair
}

// outcome is a move whose effect is still to be told.
type outcome struct {
	at     time.Time
	event  int
	kind   decide.Kind
	before []decide.Interval
	from   int // p.nBytes at the move
}

// carryOut applies a decision: what is on its path already stays, so doing it
// twice changes nothing. It returns the event, without a number where nothing moves now.
func (m *mover) carryOut(p *pair, d decide.Decision, by string, detected time.Duration) Event {
	begin := m.cfg.Now()
	if _, ok := p.routes.byNetwork(d.To); !ok {
		m.warn("%s: decided about unknown path %s", p.name, d.To)
		return Event{}
	}
	class := d.Evidence.Class
	e := Event{Kind: string(d.Kind), Pair: p.name, Class: string(class), From: d.From, To: d.To, Reason: d.Reason,
		By: by, Detected: detected, PredictedGain: d.PredictedGain, ExpectedLoss: d.ExpectedLoss, DryRun: m.dry(p)}
	if d.Moves() {
		e.Evidence = &d.Evidence
	}
	if m.dry(p) {
		m.tellOnly(p, e)
		return Event{}
	}
	if d.Kind == decide.Home || d.Kind == decide.Fallback {
		p.detours = nil
	}
	if as := p.assignments(); len(as[0].Networks()) == 1 && len(as[1].Networks()) == 1 {
		p.before = p.window(p.nBytes-10, p.nBytes)
	}
	was, to := p.assignments(), p.apply(d)
	now := d.Kind == decide.Failover || by == byUser || p.leavesFailed(was, to, begin)
	if !now && m.waits(p, to, begin) {
		p.coming = &coming{d, by, detected}
		return Event{}
	}
	moved, took, err := m.assign(p, to)
	e.Took = took
	if err != nil {
		m.warn("%s: move to %s: %v", p.name, d.To, err)
	}
	kind := d.Kind
	switch {
	case moved != 0:
		m.stats.switches++
		m.follow(p, moved, begin)
	case err == nil && stays(d, was, to):
	case !d.Moves() || d.From == d.To || err != nil:
		return Event{}
	default:
		// A canary of all flows becomes a move by staying where it is. What moving cost was
		// lost when the canary began: kind says that nothing is to be learnt of it now.
		kind = decide.Canary
	}
	e = m.note(e)
	if d.Moves() && class != decide.Interactive { // of whose delay bytes tell nothing
		p.outcome = &outcome{at: begin, event: e.ID, kind: kind, before: p.before, from: p.nBytes}
	}
	return e
}

// leavesFailed reports whether flows leave a path that has failed, as a portion of those that share several
// does without a failover of the others.
func (p *pair) leavesFailed(was, to [flow.Rows]decide.Assignment, now time.Time) bool {
	for row := range was {
		for _, one := range was[row].With {
			i := p.routes.on(one.Network)
			if i >= 0 && to[row].With.On(one.Network) == 0 && (!p.usable(p.routes[i].Index) || p.lines[i].bar.Left(now) > 0) {
				return true
			}
		}
	}
	return false
}

// stays is whether a canary stays where it is from now on, as the portion of a network that flows
// share: none moves, but what was tried is so.
func stays(d decide.Decision, was, to [flow.Rows]decide.Assignment) bool {
	return d.Kind == decide.Share && was != to
}

// dry reports whether the pair's own flows are not to be moved.
func (m *mover) dry(p *pair) bool { return m.cfg.DryRun || p.local.DryRun }

// tellOnly tells a move that is not done, once as long as the same is decided: what would be done
// is decided again in every epoch.
func (m *mover) tellOnly(p *pair, e Event) {
	if would := e.Kind + " " + e.Class + ">" + e.To; would != p.would {
		p.would = would
		m.note(e)
	}
}

// keepHome has the flows of a pod that are not to be moved be home, where they were moved before.
func (m *mover) keepHome(p *pair) {
	home := p.routes.home()
	if !p.local.DryRun || m.cfg.DryRun {
		return
	}
	from, away := p.on(), p.assignments() != home || p.detours.away()
	p.detours, p.trial = nil, nil
	if !away {
		return // what is remembered is of the past
	}
	took := m.goHome(p)
	if p.assignments() != home {
		return // the data plane has refused; it is tried again
	}
	m.stats.homes++
	m.follow(p, dataplane.All, m.cfg.Now())
	m.note(Event{Kind: string(decide.Home), Pair: p.name, From: from.Network, To: home[0].Active, By: byCluster,
		Took: took, Reason: p.local.Policy + " says dry run: its flows are on the default network"})
}

// apply is where flows are to be by a decision: those of its class, or all.
func (p *pair) apply(d decide.Decision) [flow.Rows]decide.Assignment {
	as := p.assignments()
	class := d.Evidence.Class
	for row := range as {
		if class == "" && as[0] != as[1] {
			d.From = as[row].Active // wherever they are
		}
		if class == "" || class.Row() == row {
			as[row] = as[row].Apply(d)
		}
	}
	return as
}

// takeMoved takes the pairs whose flows may have moved since it was last called.
func (m *mover) takeMoved() []*pair {
	moved := m.moved
	m.moved = nil
	return moved
}

// follow has the other agent follow flows that have moved, and wakes them.
func (m *mover) follow(p *pair, moved dataplane.Set, now time.Time) {
	// First: what is woken is to be answered on the new path.
	p.unsettled, p.noticed, p.away, p.comeback = true, time.Time{}, now, comeback{}
	m.teller.announce(p)
	m.waker.wakeSoon(p, moved, now)
}

// assign has the pair's own flows be where to says. Where the data plane refuses, what is
// assigned stays as it was: the policy is to decide about where the flows are.
func (m *mover) assign(p *pair, to [flow.Rows]decide.Assignment) (dataplane.Set, time.Duration, error) {
	was := p.assignments()
	p.rerank(to)
	p.setAssignments(to)
	p.coming = nil
	moved, took, err := m.place(p)
	if err != nil && moved == 0 && !p.placed() {
		p.setAssignments(was)
	}
	return moved, took, err
}

// goHome has the pair's own flows be on the default network, and what was tried be over.
func (m *mover) goHome(p *pair) time.Duration {
	p.outcome = nil
	p.endTrials()
	_, took, err := m.assign(p, p.routes.home())
	if err != nil {
		m.warn("%s: move to %s: %v", p.name, p.routes[0].Network, err)
	}
	return took
}

// endTrials ends canaries and shares, which would take the flows back.
func (p *pair) endTrials() {
	for row := range p.rows.Of {
		p.rows.Of[row].Trial, p.rows.Of[row].Shared = decide.Trial{}, decide.Shared{}
	}
}

// window returns intervals i (from) to j (before) of the pair's traffic, as far
// as they are kept.
func (p *pair) window(i, j int) []decide.Interval {
	var out []decide.Interval
	for n := max(i, p.nBytes-ringLength, 0); n < min(j, p.nBytes); n++ {
		out = append(out, p.bytes[n%ringLength])
	}
	return out
}

// judgeOutcome tells, a second later, what a move brought, and learns from it
// what moves cost.
func (m *mover) judgeOutcome(p *pair) {
	o := p.outcome
	if o == nil || p.nBytes < o.from+15 {
		return
	}
	p.outcome = nil
	after := p.window(o.from+5, o.from+15)
	if loss, ok := decide.LossOf(o.before, p.window(o.from, o.from+5), after); ok {
		p.loss = p.loss.Add(o.kind, loss)
	}
	rate := func(in []decide.Interval) (sum float64) {
		var span time.Duration
		for _, i := range in {
			sum, span = sum+i.Bytes, span+i.For
		}
		return sum / max(span, epoch).Seconds()
	}
	was, is := rate(o.before), rate(after)
	if was <= 0 {
		return
	}
	gain := is/was - 1
	m.note(Event{Kind: EventOutcome, Pair: p.name, Of: o.event, Gain: &gain, To: p.on().Network,
		Reason: fmt.Sprintf("goodput %+.0f %% in the second after against the second before", gain*100)})
}

// restAfter is how long the other agent's confirmation holds for a pair without
// traffic, which is not renewed: less than for one that asks and is not answered, so
// that a pair that speaks again just before it is asked about has time to be confirmed.
const restAfter = 3 * renew

// rest takes a pair home whose silence has outlived the confirmation: nobody knows
// whether what it would send over another path is taken there still. It is no failure,
// as nothing was lost and nothing moves; and it comes before the pair speaks again, as
// packets would be on their way over the path by the time that this is seen.
func (m *mover) rest(p *pair, now time.Time) {
	if p.opened.IsZero() || now.Sub(p.opened) < restAfter {
		return
	}
	p.opened = time.Time{}
	from, home := p.on(), p.routes.home()
	if bulk := p.at(p.assignments()[1]); from.Index == 0 {
		from = bulk
	}
	p.rows.Apart = false // of no class is there anything
	switch {
	case m.cfg.DryRun:
		return
	case p.assignments() == home && len(p.detours) > 0:
		m.replace(p, now) // where these are nobody confirms either
		return
	case p.assignments() == home:
		return
	}
	took := m.goHome(p)
	if p.assignments() != home {
		return // the data plane has refused; the policy leaves what is not confirmed
	}
	m.stats.homes++
	p.unsettled = true
	m.teller.announce(p)
	m.note(Event{Kind: string(decide.Home), Pair: p.name, From: from.Network, To: home[0].Active, By: byPolicy, Took: took,
		Reason: fmt.Sprintf(
			"no traffic for %v: its next flows begin on the default network, until the other agent has confirmed the pair again", now.Sub(p.active).Round(time.Second))})
}

// withdraw takes all flows of a pair home, and reports whether it has just done so.
func (m *mover) withdraw(p *pair) bool {
	if p.withdrawn || p.home() || m.cfg.DryRun {
		return false
	}
	p.withdrawn, p.local.withdrawing = true, true
	from := p.on().Network
	took := m.goHome(p)
	m.note(Event{Kind: string(decide.Home), Pair: p.name, From: from, To: p.routes[0].Network, By: byCluster, Took: took,
		Reason: "what is told of its pods or networks is another: its flows are home until it is entered again"})
	m.stacks.unfit(p)
	_, err := p.local.plane.Unfollow(p.remote.UID)
	m.fault(p.name, err)
	p.unsettled = true
	m.untracked.add(p)
	m.teller.announce(p)
	m.waker.wakeSoon(p, dataplane.All, m.cfg.Now())
	return true
}
