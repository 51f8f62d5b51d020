package agent

import (
	"errors"
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// outcome is a move whose effect is still to be told.
type outcome struct {
	at     time.Time
	event  int
	kind   decide.Kind
	before []decide.Interval
	from   int // p.nBytes at the move
}

// carryOut applies a decision: what is on its path already stays, so doing it
// twice changes nothing.
func (a *Agent) carryOut(p *pair, d decide.Decision, by string, detected time.Duration) {
	begin := a.cfg.Now()
	if _, ok := p.byNetwork(d.To); !ok {
		a.warn("%s: decided about unknown path %s", p.name, d.To)
		return
	}
	e := Event{Kind: string(d.Kind), Pair: p.name, From: d.From, To: d.To, Reason: d.Reason, By: by, Detected: detected,
		PredictedGain: d.PredictedGain, ExpectedLoss: d.ExpectedLoss, DryRun: a.cfg.DryRun}
	if d.Moves() {
		e.Evidence = &d.Evidence
	}
	if a.cfg.DryRun {
		a.note(e)
		return
	}
	if d.Kind == decide.Home || d.Kind == decide.Fallback {
		p.detours = nil
	}
	if p.assigned.Canary == "" {
		p.before = p.window(p.nBytes-10, p.nBytes)
	}
	to := p.assigned.Apply(d)
	if d.Kind != decide.Failover && by != "user" && a.preparing(p, to) {
		p.coming = &coming{d, by, detected}
		return
	}
	moved, took, err := a.assign(p, to)
	e.Took = took
	if err != nil {
		a.warn("%s: move to %s: %v", p.name, d.To, err)
	}
	if moved == 0 {
		// A canary of all flows becomes a move by staying where it is.
		if d.Moves() && d.From != d.To && err == nil {
			// What moving cost was lost when the canary began: kind says that nothing
			// is to be learnt of it now.
			p.outcome = &outcome{at: begin, event: a.note(e).ID, kind: decide.Canary, before: p.before, from: p.nBytes}
		}
		return
	}
	a.stats.switches++
	a.follow(p, moved, begin)
	id := a.note(e).ID
	if d.Moves() {
		p.outcome = &outcome{at: begin, event: id, kind: d.Kind, before: p.before, from: p.nBytes}
	}
}

// follow has the other agent follow flows that have moved, and wakes them.
func (a *Agent) follow(p *pair, moved dataplane.Set, now time.Time) {
	// First: what is woken is to be answered on the new path.
	p.unsettled, p.noticed = true, time.Time{}
	a.announce(p)
	a.wakeSoon(p, moved, now)
}

// assign has the pair's own flows be where to says. Where the data plane refuses, what is
// assigned stays as it was: the policy is to decide about where the flows are.
func (a *Agent) assign(p *pair, to decide.Assignment) (dataplane.Set, time.Duration, error) {
	was := p.assigned
	p.assigned, p.coming = to, nil
	moved, took, err := a.place(p)
	if err != nil && moved == 0 && !p.placed() {
		p.assigned = was
	}
	return moved, took, err
}

// wanted are the paths where the pair's own flows are to be as they are assigned, by bucket:
// those that do not get through there are not.
func (p *pair) wanted(as decide.Assignment) (paths [dataplane.Buckets]int) {
	share, to := dataplane.Set(0), p.at(as)
	other, canary := p.byNetwork(as.Canary)
	if canary {
		share = dataplane.Share(as.Share(other.Network))
	}
	free := !p.opened.IsZero() && !p.withdrawn
	for b := range paths {
		paths[b] = to.Index
		if share.Has(uint8(b)) {
			paths[b] = other.Index
		}
		if d := p.detours[uint8(b)]; free && d != nil && d.out && d.from == paths[b] && p.usable(d.to) {
			paths[b] = d.to
		}
	}
	return paths
}

// placed reports whether the data plane has the pair's own flows where they are assigned.
func (p *pair) placed() bool {
	choices, err := p.local.plane.Choices(p.remote.UID)
	if err != nil {
		return false
	}
	want := p.wanted(p.assigned)
	for b, c := range choices {
		if c.Path != want[b] {
			return false
		}
	}
	return true
}

// place writes the maps as assigned. took is the time of that.
func (a *Agent) place(p *pair) (moved dataplane.Set, took time.Duration, err error) {
	want := p.wanted(p.assigned)
	var sets [dataplane.MaxPaths]dataplane.Set
	for b, path := range want {
		sets[path%dataplane.MaxPaths] |= 1 << b
	}
	var errs []error
	at := a.clock.kernel()
	begin := a.cfg.Now()
	for path, set := range sets {
		if set != 0 {
			some, err := p.local.plane.Switch(p.remote.UID, set, path)
			errs = append(errs, err)
			moved |= some
		}
	}
	took = a.cfg.Now().Sub(begin)
	for i, r := range p.routes {
		if sets[r.Index] != 0 {
			p.use(i, begin) // look there from now on
		}
	}
	a.attend(p, begin)
	if moved != 0 {
		a.untracked.add(p)
	}
	for b, path := range want {
		if moved.Has(uint8(b)) {
			a.ledger.Moved(p.telemetryPair(), uint8(b), uint8(path), at)
		}
	}
	a.refit(p)
	return moved, took, errors.Join(errs...)
}

// answersMoved does what is due when flows that the peer has opened are answered on another
// path: the host is to forget them where they were, and the pod's stack to be fit for it.
func (a *Agent) answersMoved(p *pair) {
	a.untracked.add(p)
	a.refit(p)
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
func (a *Agent) judgeOutcome(p *pair) {
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
	a.note(Event{Kind: EventOutcome, Pair: p.name, Of: o.event, Gain: &gain, To: p.on().Network,
		Reason: fmt.Sprintf("goodput %+.0f %% in the second after against the second before", gain*100)})
}

// renew is how often the other agent is to confirm a pair with traffic.
const renew = 5 * time.Second

// open asks the other agent to take the pair's packets on every path. What it has
// confirmed before it is asked on one path first, as that will do nearly always.
func (a *Agent) open(p *pair, now time.Time) {
	if now.Sub(p.opened) < renew || now.Sub(p.asked) < p.patience() {
		return
	}
	unanswered := p.asked.After(p.opened)
	if !p.opened.IsZero() && now.Sub(p.opened) > 4*renew && unanswered {
		p.opened = time.Time{} // asked without an answer for long
	}
	hp, first := p.host.paths[p.on().Network], !p.opened.IsZero() && !unanswered
	if !a.turns.take(first, p.asks) {
		return
	}
	p.asked = now
	p.asks++
	n := notice{kind: noticeOpen, from: idOf(p.local.Pod), to: idOf(p.remote), names: a.dialect()}
	if first && hp != nil && !hp.Down() {
		a.wires.tellOver(hp, n)
		return
	}
	a.wires.tell(p.host, n, "")
}

// turnsMost is how many pairs of each kind ask in one period. A host whose pods begin to
// speak with thousands at once has its loop for what cannot wait all the same: to ask takes
// some tens of microseconds for each path.
const turnsMost = 24

// turns are those that pairs have had in this period to ask the other agent: to be
// confirmed again, for the first times, and after others without an answer. None of these keeps the
// others from theirs.
type turns [3]int

func (t *turns) take(again bool, asks int) bool {
	kind := 2
	switch {
	case again:
		kind = 0
	case asks < 3:
		kind = 1
	}
	t[kind]++
	return t[kind] <= turnsMost
}

// patience is how long a pair waits for an answer before it asks again: an agent that
// does not know it yet may be about to, but one of hundreds of peers may have none.
func (p *pair) patience() time.Duration {
	switch {
	case p.asks < 10:
		return 200 * time.Millisecond
	case p.asks < 40:
		return time.Second
	}
	return renew
}

// openPair enters the paths, as the other end takes packets on them now. Until the data
// plane here has them too, the pair is not open.
func (a *Agent) openPair(p *pair) {
	if !a.cfg.DryRun {
		// Again with each confirmation: the next hops may have changed.
		if err := a.setPeer(p, true); err != nil {
			a.warn("%s: %v", p.name, err)
		}
		if !p.taken {
			return // it asks again
		}
	}
	was := p.opened
	p.opened, p.asks = a.cfg.Now(), 0
	if a.cfg.DryRun || !was.IsZero() {
		return
	}
	a.refit(p)
	a.note(Event{Kind: EventPeer, Pair: p.name, Reason: fmt.Sprintf("%s can use %d paths: the agent of %s has confirmed",
		p.name, len(p.routes), p.host.name)})
}
