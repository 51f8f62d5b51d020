package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/path/decide"
)

// Paths returns the paths of all pairs that have traffic, or have a pin.
func (a *Agent) Paths() []PathStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	out := []PathStatus{}
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if now.Sub(p.active) >= 10*quiet && p.pinned == "" {
				continue
			}
			ev := a.evidence(p, now)
			for _, e := range ev.Paths {
				out = append(out, a.status(p, ev, e))
			}
		}
	}
	slices.SortStableFunc(out, func(x, y PathStatus) int { return cmp.Compare(x.Pair, y.Pair) })
	return out
}

func (a *Agent) status(p *pair, ev decide.PairEvidence, e decide.PathEvidence) PathStatus {
	s := PathStatus{Host: a.cfg.Host, Pair: p.name, Network: e.Network, State: string(e.State), RTT: e.Probe.RTT, Jitter: e.Probe.Jitter,
		Loss: e.Probe.Loss, Goodput: e.Data.Goodput, Retrans: e.Data.Retrans, SRTT: e.Data.SRTT, CPU: e.CPU, Buckets: e.Buckets,
		Active: e.Network == ev.Active, Pinned: p.pinned == e.Network, Why: e.Reason}
	r, _ := p.byNetwork(e.Network)
	s.Encapsulated = r.Encap
	s.Score = decide.Scores(p.state, ev)[e.Network]
	if s.Why == "" && s.Active {
		s.Why = p.decision.Reason
		if s.Pinned {
			s.Why = "pinned by the user"
		} else if a.cfg.Now().Sub(p.own) >= quiet {
			s.Why = "no flows of its own: follows the other end"
		}
	}
	return s
}

var errNoPair, errRefused = errors.New("no such pair on this host"), errors.New("refused")

// Order moves or pins a pair by hand. The flows of the local pod move; those that
// the remote one has opened are its own agent's to move.
func (a *Agent) Order(o Order) (Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.named(o.Local, o.Remote)
	if p == nil {
		return Event{}, fmt.Errorf("%s>%s: %w: it takes a pod of %s and one of another host, both on several networks", o.Local, o.Remote, errNoPair, a.cfg.Host)
	}
	if o.Network == "" {
		was := p.pinned
		p.pinned = ""
		return a.noted(Event{Kind: EventPinned, Pair: p.name, From: was, By: "user", Reason: "unpinned: the policy decides again"}), nil
	}
	to, ok := p.byNetwork(o.Network)
	if !ok {
		var have []string
		for _, r := range p.routes {
			have = append(have, r.Network)
		}
		return Event{}, fmt.Errorf("%s has no path on %q: expected one of %v", p.name, o.Network, have)
	}
	ev := a.evidence(p, a.cfg.Now())
	if e := ev.Paths[slices.IndexFunc(ev.Paths, func(e decide.PathEvidence) bool { return e.Network == o.Network })]; e.State != decide.Up && !o.Force {
		return Event{}, fmt.Errorf("%w: %s is %s (%s): use --force to go there all the same", errRefused, o.Network, e.State, e.Reason)
	}
	if o.Pin {
		p.pinned = o.Network
	}
	if a.cfg.DryRun {
		return Event{}, fmt.Errorf("%w: this agent runs with --dry-run", errRefused)
	}
	before := a.journal.last()
	p.state.Trial = decide.Trial{} // a canary under way would take the flows back
	a.carryOut(p, decide.Decision{Kind: decide.Switch, From: p.on().Network, To: to.Network, Buckets: decide.Buckets, Confidence: 1,
		Reason: "the user said so", Evidence: ev}, "user", 0)
	if o.Pin {
		return a.noted(Event{Kind: EventPinned, Pair: p.name, To: o.Network, By: "user", Reason: "pinned: only failure moves it"}), nil
	}
	if e := a.journal.last(); e.ID != before.ID {
		return e, nil
	}
	return Event{At: a.cfg.Now(), Host: a.cfg.Host, Kind: string(decide.Stay), Pair: p.name, From: to.Network, To: to.Network, By: "user", Reason: "it is there already"}, nil
}

func (a *Agent) noted(e Event) Event {
	a.note(e)
	return a.journal.last()
}

// named finds the pair that an order is about; it may have had no traffic yet.
func (a *Agent) named(local, remote string) *pair {
	for _, l := range a.pods {
		if l.Name != local {
			continue
		}
		for _, r := range a.elsewhere.byUID {
			if r.Name != remote {
				continue
			}
			if p, err := a.join(l, r); err == nil {
				return p
			}
		}
	}
	return nil
}
