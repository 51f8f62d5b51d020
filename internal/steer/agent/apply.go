package agent

import (
	"errors"
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/route"
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
	moved, took, err := a.assign(p, p.assigned.Apply(d), d.Kind == decide.Failover)
	e.Took = took
	if err != nil {
		a.warn("%s: move to %s: %v", p.name, d.To, err)
	}
	if moved == 0 {
		// A canary of all flows becomes a move by staying where it is.
		if d.Moves() && d.From != d.To && err == nil {
			// What moving cost was lost when the canary began: kind says that nothing
			// is to be learnt of it now.
			p.outcome = &outcome{at: begin, event: a.note(e), kind: decide.Canary, before: p.before, from: p.nBytes}
		}
		return
	}
	a.stats.switches++
	a.follow(p, moved, begin)
	id := a.note(e)
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
func (a *Agent) assign(p *pair, to decide.Assignment, urgent bool) (dataplane.Set, time.Duration, error) {
	was := p.assigned
	p.assigned = to
	moved, took, err := a.place(p, urgent)
	if err != nil && moved == 0 && !p.placed() {
		p.assigned = was
	}
	return moved, took, err
}

// wanted are the paths where the pair's own flows are to be, by bucket: where they are
// assigned, but for those that do not get through there.
func (p *pair) wanted() (paths [dataplane.Buckets]int) {
	share, to := dataplane.Set(0), p.on()
	other, canary := p.byNetwork(p.assigned.Canary)
	if canary {
		share = dataplane.Share(p.assigned.Share(other.Network))
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
	want := p.wanted()
	for b, c := range choices {
		if c.Path != want[b] {
			return false
		}
	}
	return true
}

// place writes the maps as assigned. A path of smaller packets is prepared for
// before the move, unless it is urgent. took is the time of the map writes.
func (a *Agent) place(p *pair, urgent bool) (moved dataplane.Set, took time.Duration, err error) {
	want := p.wanted()
	var sets [dataplane.MaxPaths]dataplane.Set
	for b, path := range want {
		sets[path%dataplane.MaxPaths] |= 1 << b
	}
	mtu, steered := p.needs(want)
	var errs []error
	if !urgent {
		errs = append(errs, a.prepare(p, mtu, steered))
	}
	at := program.Kernel()
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
		a.untrack(p)
	}
	for b, path := range want {
		if moved.Has(uint8(b)) {
			a.ledger.Moved(p.telemetryPair(), uint8(b), uint8(path), at)
		}
	}
	if urgent {
		errs = append(errs, a.prepare(p, mtu, steered))
	}
	return moved, took, errors.Join(errs...)
}

// needs are what the pod's stack is to be fit for: packets of that size (0: any), and whether
// some take another path than the default network. Those that answer the peer's flows count
// where there are some: of a download, they are most.
func (p *pair) needs(own [dataplane.Buckets]int) (mtu int, steered bool) {
	var used [dataplane.MaxPaths]bool
	for _, path := range own {
		used[path%dataplane.MaxPaths] = true
	}
	if followed, err := p.local.plane.Followed(p.remote.UID); err == nil && p.fitted {
		for _, c := range followed {
			used[c.Path%dataplane.MaxPaths] = true
		}
	}
	for _, r := range p.routes {
		if m := r.MTU(); r.Index != 0 && used[r.Index] {
			steered = true
			if m < p.routes[0].Local.MTU && (mtu == 0 || m < mtu) {
				mtu = m
			}
		}
	}
	return mtu, steered
}

// answersMoved does what is due when flows that the peer has opened are answered on another
// path: the host is to forget them where they were, and the pod's stack to be fit for it.
func (a *Agent) answersMoved(p *pair) {
	a.untrack(p)
	a.refit(p)
}

// refit makes the pod's stack fit for where flows are now that the peer has opened.
func (a *Agent) refit(p *pair) {
	if a.cfg.DryRun {
		return
	}
	mtu, steered := p.needs(p.wanted())
	if err := a.prepare(p, mtu, steered); err != nil {
		a.warn("%s: %v", p.name, err)
	}
}

// prepare makes the pod's stack fit for the path: packet size, and the peer's
// hardware address on the default network.
func (a *Agent) prepare(p *pair, mtu int, steered bool) error {
	var errs []error
	peer := p.routes[0].Remote.Addr
	if mtu != p.clamped || a.cfg.RTOMin > 0 && !p.shaped {
		was := p.clamped
		p.clamped = mtu
		if err := a.shape(p); err != nil {
			p.clamped = was // as the route is: the next move tries it again
			errs = append(errs, err)
		}
	}
	if steered != p.held && !p.gateway {
		onLink, err := route.HoldNeighbour(p.local.Netns, p.routes[0].Local.Dev, peer, p.routes[0].Remote.MAC, steered)
		if err != nil {
			// What is held is as before: restore, or the next move, tries it again.
			return errors.Join(append(errs, err)...)
		}
		p.gateway = !onLink
	}
	p.held = steered
	return errors.Join(errs...)
}

// restore undoes prepare, as the peer goes.
func (a *Agent) restore(p *pair) error {
	if a.cfg.DryRun {
		return nil
	}
	peer := p.routes[0].Remote.Addr
	errs := []error{a.undirect(p), route.Shape(p.local.Netns, peer, route.Form{})}
	if p.held {
		_, err := route.HoldNeighbour(p.local.Netns, p.routes[0].Local.Dev, peer, p.routes[0].Remote.MAC, false)
		errs = append(errs, err)
	}
	p.clamped, p.shaped, p.held = 0, false, false
	return errors.Join(errs...)
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
		a.tellOver(hp, n)
		return
	}
	a.tell(p.host, n, "")
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
	if a.cfg.RTOMin > 0 {
		if err := a.shape(p); err != nil {
			a.warn("%s: %v", p.name, err)
		}
	}
	a.note(Event{Kind: EventPeer, Pair: p.name, Reason: fmt.Sprintf("%s can use %d paths: the agent of %s has confirmed",
		p.name, len(p.routes), p.host.name)})
}
