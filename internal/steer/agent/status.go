package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/route"
)

// Paths returns the paths of all pairs that have traffic, or have a pin.
func (a *Agent) Paths() []PathStatus {
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now()
	out := []PathStatus{}
	for p := range a.members.pairs() {
		if now.Sub(p.active) >= 10*quiet && p.pinned == "" {
			continue
		}
		ev := a.judge.evidence(p, now)
		for _, e := range ev.Paths {
			out = append(out, a.judge.status(p, ev, e))
		}
	}
	slices.SortStableFunc(out, func(x, y PathStatus) int { return cmp.Compare(x.Pair, y.Pair) })
	return out
}

// follows says for a pair whose packets are all of flows that the peer has opened how many
// buckets of those are on each path, by index: where its own flows would be tells nothing
// of where its packets go.
func (p *pair) follows(now time.Time) (on [dataplane.MaxPaths]int, only bool) {
	if now.Sub(p.own) < quiet || now.Sub(p.active) >= quiet {
		return on, false
	}
	choices, err := p.local.plane.Followed(p.remote.UID)
	for _, c := range choices {
		on[c.Path%len(on)]++
	}
	return on, err == nil
}

var (
	errNoPair, errRefused = errors.New("no such pair on this host"), errors.New("refused")
	errStayed             = errors.New("some are elsewhere: see \"pathwise events\"")
)

// Order moves or pins a pair by hand. The flows of the local pod move; those that
// the remote one has opened are its own agent's to move.
func (a *Agent) Order(o Order) (Event, error) {
	a.members.Lock()
	defer a.members.Unlock()
	p, entered := a.named(o.Local, o.Remote)
	if p == nil {
		return Event{}, fmt.Errorf("%s>%s: %w: it takes a pod of %s and one of another host, both on several networks",
			o.Local, o.Remote, errNoPair, a.cfg.Host)
	}
	e, err := a.order(p, o)
	if err != nil && entered {
		_, failed := a.part(p)
		err = errors.Join(err, failed) // a refusal changes nothing
	}
	return e, err
}

// order is Order for a pair that is entered. What it refuses leaves the pair as it was.
func (a *Agent) order(p *pair, o Order) (Event, error) {
	if o.Network == "" {
		if o.Pin || o.Force {
			return Event{}, fmt.Errorf("%w: %s: expected a network to move it to", errRefused, p.name)
		}
		was := p.pinned
		if was == "" {
			return a.unchanged(p, p.on().Network, "it is not pinned: the policy decides"), nil
		}
		p.pinned = ""
		return a.note(Event{Kind: EventPinned, Pair: p.name, From: was, By: "user",
			Reason: "unpinned: the policy decides again"}), nil
	}
	to, ev, err := a.admit(p, o)
	if unfit := (unfitError{}); o.Pin && errors.As(err, &unfit) {
		p.pinned = o.Network
		return a.note(Event{Kind: EventPinned, Pair: p.name, From: p.on().Network, To: o.Network, By: "user",
			Reason: fmt.Sprintf("pinned, pending: %s is %s (%s): it moves there once that is up", o.Network, unfit.state,
				unfit.why)}), nil
	}
	if err != nil {
		return Event{}, err
	}
	before := a.journal.last()
	if err := a.obey(p, to, ev); err != nil {
		return Event{}, err
	}
	if o.Pin {
		p.pinned = o.Network
		return a.note(Event{Kind: EventPinned, Pair: p.name, To: o.Network, By: "user",
			Reason: "pinned: only failure moves it"}), nil
	}
	if e := a.journal.last(); e.ID != before.ID {
		return e, nil
	}
	return a.unchanged(p, to.Network, "it is there already"), nil
}

// unchanged is the answer to an order that changes nothing, which is no event.
func (a *Agent) unchanged(p *pair, network, why string) Event {
	return Event{At: a.cfg.Now(), Host: a.cfg.Host, Kind: string(decide.Stay), Pair: p.name, From: network, To: network,
		By: "user", Reason: why}
}

// admit finds the path that an order names, and whether it may be carried out. It
// changes nothing.
func (a *Agent) admit(p *pair, o Order) (route.Route, decide.PairEvidence, error) {
	to, ok := p.byNetwork(o.Network)
	if !ok {
		var have []string
		for _, r := range p.routes {
			have = append(have, r.Network)
		}
		return to, decide.PairEvidence{}, fmt.Errorf("%s has no path on %q: expected one of %v", p.name, o.Network, have)
	}
	if a.cfg.DryRun {
		return to, decide.PairEvidence{}, fmt.Errorf("%w: this agent runs with --dry-run", errRefused)
	}
	ev := a.judge.evidence(p, a.cfg.Now())
	if e := ev.Paths[slices.IndexFunc(ev.Paths,
		func(e decide.PathEvidence) bool { return e.Network == o.Network })]; e.State != decide.Up && !o.Force {
		return to, ev, unfitError{o.Network, e.State, e.Reason}
	}
	return to, ev, nil
}

// unfitError refuses a move to a path that is not up. A pin to it is kept until it is.
type unfitError struct {
	network string
	state   decide.Condition
	why     string
}

func (e unfitError) Error() string {
	return fmt.Sprintf("%v: %s is %s (%s): \"pathwise pin\" moves there once it is up, --force does all the same", errRefused,
		e.network, e.state, e.why)
}

// Unwrap makes it a refusal.
func (e unfitError) Unwrap() error { return errRefused }

// obey moves the pair's flows as the user says, or leaves them where they were.
func (a *Agent) obey(p *pair, to route.Route, ev decide.PairEvidence) error {
	if a.stacks.preparing(p, decide.Assignment{Active: to.Network}) {
		a.members.Unlock()
		a.stacks.fitter.Do(p) // here, as the user waits
		a.members.Lock()
		if !a.members.knows(p) {
			return fmt.Errorf("%s: %w", p.name, errNoPair)
		}
	}
	assigned, trial := p.assigned, p.state.Trial
	p.state.Trial = decide.Trial{} // a canary under way would take the flows back
	a.mover.carryOut(p, decide.Decision{Kind: decide.Switch, From: p.on().Network, To: to.Network, Buckets: decide.Buckets,
		Confidence: 1, Reason: "the user said so", Evidence: ev}, "user", 0)
	choices, err := p.local.plane.Choices(p.remote.UID)
	if err == nil && !slices.ContainsFunc(choices[:], func(c dataplane.Choice) bool { return c.Path != to.Index }) {
		return nil
	}
	p.assigned, p.state.Trial, p.outcome = assigned, trial, nil
	_, _, back := a.mover.place(p)
	if err = errors.Join(err, back); err == nil {
		err = errStayed
	}
	return fmt.Errorf("%w: the flows of %s did not move to %s: %w", errRefused, p.name, to.Network, err)
}

// named finds the pair that an order is about. One that has had no traffic yet is entered
// for it.
func (a *Agent) named(local, remote string) (p *pair, entered bool) {
	for _, l := range a.members.pods {
		if l.Name != local {
			continue
		}
		for _, r := range a.members.elsewhere.pods {
			if _, ok := a.members.elsewhere.byUID[r.UID]; !ok || r.Name != remote {
				continue
			}
			known := l.pairs[r.UID] != nil
			if p, err := a.join(l, r); err == nil {
				return p, !known
			}
		}
	}
	return nil, false
}
