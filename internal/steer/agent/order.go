package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/route"
)

// Order is a manual override.
type Order struct {
	// Local and Remote are names of pods; Network that of a path.
	Local  string `json:"local"`
	Remote string `json:"remote"`
	// Network to switch or pin to; "" unpins.
	Network string `json:"network"`
	// Pin keeps the policy from moving the pair away; failures excepted. To a path that
	// is not up the pair moves once it is.
	Pin bool `json:"pin"`
	// Force also moves to a path that the agent holds for unfit.
	Force bool `json:"force"`
}

// mostOrder bounds an order, in bytes.
const mostOrder = 1 << 16

// readOrder wants one order and nothing but its keys: one that is misspelt would be
// left out, and an order without a network unpins.
func readOrder(r io.Reader) (Order, error) {
	var o Order
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return Order{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Order{}, errors.New("something follows the order")
	}
	return o, nil
}

var (
	errNoPair, errRefused = errors.New("no such pair on this host"), errors.New("refused")
	errStayed             = errors.New("some are elsewhere: see \"pathwise events\"")
)

// overrides do what users say of pairs.
type overrides struct {
	*journal
	members *members
	judge   *judge
	mover   *mover
	entries *entries
	stacks  *stacks
	// untracked is asked before flows return.
	untracked *untracked
}

// Order moves or pins a pair by hand. The flows of the local pod move; those that
// the remote one has opened are its own agent's to move.
func (od *overrides) Order(o Order) (Event, error) {
	od.members.Lock()
	defer od.members.Unlock()
	all := od.entries.named(o.Local, o.Remote)
	if len(all) == 0 {
		return Event{}, fmt.Errorf("%s>%s: %w: it takes a pod of %s and one of another host, both on several networks",
			o.Local, o.Remote, errNoPair, od.cfg.Host)
	}
	var first Event
	for i, p := range all {
		if !od.members.knows(p.pair) {
			continue // it has gone while the first one was moved
		}
		e, err := od.order(p.pair, o)
		if err != nil && p.entered {
			_, failed := od.entries.part(p.pair)
			err = errors.Join(err, failed) // a refusal changes nothing
		}
		switch {
		case err != nil && i == 0:
			// What is left of it has been asked for by nobody.
			for _, p := range all[1:] {
				if p.entered {
					_, failed := od.entries.part(p.pair)
					err = errors.Join(err, failed)
				}
			}
			return Event{}, err
		case err != nil:
			return first, fmt.Errorf("%s is done, but not for %s: %w", all[0].name, p.name, err)
		case i == 0:
			first = e
		}
	}
	return first, nil
}

// order is Order for a pair that is entered. What it refuses leaves the pair as it was.
func (od *overrides) order(p *pair, o Order) (Event, error) {
	if o.Network == "" {
		if o.Pin || o.Force {
			return Event{}, fmt.Errorf("%w: %s: expected a network to move it to", errRefused, p.name)
		}
		was := p.pinned
		if by := p.pinner(); by != "" {
			why := fmt.Sprintf("nobody has pinned it by hand; %s keeps it on %s", by, p.pin())
			return od.unchanged(p, p.on().Network, why), nil
		}
		if was == "" {
			return od.unchanged(p, p.on().Network, "it is not pinned: the policy decides"), nil
		}
		p.pinned = ""
		return od.note(Event{Kind: EventPinned, Pair: p.name, From: was, By: byUser,
			Reason: "unpinned: " + cmp.Or(p.pinner(), "the policy") + " decides again"}), nil
	}
	to, ev, err := od.admit(p, o)
	if unfit := (unfitError{}); o.Pin && errors.As(err, &unfit) {
		p.pinned = o.Network
		return od.note(Event{Kind: EventPinned, Pair: p.name, From: p.on().Network, To: o.Network, By: byUser,
			Reason: fmt.Sprintf("pinned, pending: %s is %s (%s): it moves there once that is up", o.Network, unfit.state,
				unfit.why)}), nil
	}
	if err != nil {
		return Event{}, err
	}
	e, err := od.obey(p, to, ev, o.Force)
	if err != nil {
		return Event{}, err
	}
	if o.Pin {
		p.pinned = o.Network
		return od.note(Event{Kind: EventPinned, Pair: p.name, To: o.Network, By: byUser,
			Reason: "pinned: only failure moves it"}), nil
	}
	if e.ID != 0 {
		return e, nil
	}
	// It was, or the policy has been faster.
	return od.unchanged(p, to.Network, "it is there already"), nil
}

// unchanged is the answer to an order that changes nothing, which is no event.
func (od *overrides) unchanged(p *pair, network, why string) Event {
	return Event{At: od.cfg.Now(), Host: od.cfg.Host, Kind: string(decide.Stay), Pair: p.name, From: network, To: network,
		By: byUser, Reason: why}
}

// admit finds the path that an order names, and whether it may be carried out. It
// changes nothing.
func (od *overrides) admit(p *pair, o Order) (route.Route, decide.PairEvidence, error) {
	to, ok := p.routes.byNetwork(o.Network)
	if !ok {
		var have []string
		for _, r := range p.routes {
			have = append(have, r.Network)
		}
		return to, decide.PairEvidence{}, fmt.Errorf("%s has no path on %q: expected one of %v", p.name, o.Network, have)
	}
	if od.cfg.DryRun {
		return to, decide.PairEvidence{}, fmt.Errorf("%w: this agent runs with --dry-run", errRefused)
	}
	if p.local.DryRun {
		return to, decide.PairEvidence{}, fmt.Errorf("%w: %s says dry run of pod %s", errRefused, p.local.Policy,
			p.local.Name)
	}
	if by := p.pinner(); by != "" && !o.Pin {
		return to, decide.PairEvidence{}, fmt.Errorf("%w: %s pins it to %s, and would move it back: a pin by hand comes before that",
			errRefused, by, p.pin())
	}
	ev := od.judge.evidence(p, od.cfg.Now())
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

// askSoon is how often the other agent is asked whether its host is ready while a user waits.
const askSoon = 5 * time.Millisecond

// prepare waits until both hosts are ready for the pair's flows to move, or for a second. It lets go of the lock
// meanwhile.
func (od *overrides) prepare(p *pair, to route.Route) error {
	end := od.cfg.Now().Add(untrackAgain)
	for fitted := false; ; fitted = true {
		now := od.cfg.Now()
		fits := fitted || !od.stacks.preparing(p, together(decide.Assignment{Active: to.Network}))
		here, there := od.untracked.before(p), od.mover.beforeThere(p, now, askSoon)
		if fits && here == nil && there == nil || !now.Before(end) {
			return nil
		}
		od.members.Unlock()
		if !fits {
			od.stacks.fitter.Do(p) // here, as the user waits
		}
		awaitAll(askSoon, here, there)
		od.members.Lock()
		if !od.members.knows(p) {
			return fmt.Errorf("%s: %w", p.name, errNoPair)
		}
	}
}

// obey moves the pair's flows as the user says, or leaves them where they were. By force also
// those that keep off that path. It returns the event, without a number where they were there already.
func (od *overrides) obey(p *pair, to route.Route, ev decide.PairEvidence, force bool) (Event, error) {
	if err := od.prepare(p, to); err != nil {
		return Event{}, err
	}
	assigned, rows, restore := p.assignments(), p.rows, p.recall(to.Index, force, od.cfg.Now())
	d := decide.Decision{Kind: decide.Switch, From: p.on().Network, To: to.Network,
		Buckets: decide.Buckets, Confidence: 1, Reason: "the user said so", Evidence: ev}
	// Before anything moves: what is undone would have been told as done.
	if off := p.keepOff(d, to.Index); off > 0 {
		restore()
		return Event{}, fmt.Errorf("%w: %d of %d groups of flows of %s keep off %s, as connections did not get through there: --force tries it all the same",
			errRefused, off, decide.Buckets, p.name, to.Network)
	}
	p.endTrials()
	e := od.mover.carryOut(p, d, byUser, 0)
	choices, err := p.local.plane.Choices(p.remote.UID)
	if err == nil && !slices.ContainsFunc(choices[:], func(c dataplane.Choice) bool { return c.Path != to.Index }) {
		return e, nil
	}
	p.setAssignments(assigned)
	p.rows, p.outcome = rows, nil
	restore()
	_, _, back := od.mover.place(p)
	if err = errors.Join(err, back); err == nil {
		err = errStayed
	}
	return Event{}, fmt.Errorf("%w: the flows of %s did not move to %s: %w", errRefused, p.name, to.Network, err)
}

// awaitAll waits until all that is not nil is closed, or for that long.
func awaitAll(most time.Duration, closed ...<-chan struct{}) {
	end := time.After(most)
	for _, c := range closed {
		if c == nil {
			continue
		}
		select {
		case <-c:
		case <-end:
			return
		}
	}
}

// keepOff counts the buckets that would be elsewhere than on the path after the decision.
func (p *pair) keepOff(d decide.Decision, path int) (n int) {
	for _, on := range p.wanted(p.apply(d)) {
		if on != path {
			n++
		}
	}
	return n
}
