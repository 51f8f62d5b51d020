// Package decide turns evidence about the paths of a pair of pods into a
// decision: stay, try, switch or fail over. A policy is a fold: state and evidence
// in, state and decision out. The same evidence and seed always give the same
// decisions, so what an agent did can be printed, tested and replayed.
//
// It is pure: no clock, no I/O, no goroutines. It neither measures (probe,
// telemetry) nor moves traffic (steer); agents call it and carry out its
// decisions. A Decision is absolute, it names the wanted share of each path,
// so applying one twice changes nothing.
//
// # Records
//
// A record file is JSON lines. The first line is a Header:
//
//	{"format":"pathwise/evidence","version":1,"name":"drill","unit":"bit/s","loss_s":0.002}
//
// Every other line is a Record: the evidence about one pair at one time, for
// how long it stood, and, where known, the rate that each path would have
// given in that time (the truth; from a schedule, or from measuring each
// network alone):
//
//	{"for_ns":100000000,"truth":{"bgp":9.1e9,"vxlan":5.2e9},
//	 "evidence":{"at_ns":0,"pair":"a>b","active":"bgp","paths":[...]}}
//
// Unknown keys, values out of range, times that run backwards and paths named
// twice are errors that name file, line and key.
package decide

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Buckets is the number of hash buckets that hold a pair's flows; shares are
// counted in them.
const Buckets = flow.Buckets

// Kind says what a decision is.
type Kind string

// Kinds of decision.
const (
	// Stay: all flows on the active path; ends a canary.
	Stay Kind = "stay"
	// Switch: move for gain.
	Switch Kind = "switch"
	// Failover: the active path has failed; move at once.
	Failover Kind = "failover"
	// Fallback: nothing better is known than the default network.
	Fallback Kind = "fallback"
	// Home: the pair has no traffic, and what would make other paths fit for more is no
	// longer known; its next flows begin on the default network.
	Home Kind = "home"
	// Canary: a share of the flows on another path, to see whether it carries them.
	Canary Kind = "canary"
	// Share: the flows share several networks, as they carry more together.
	Share Kind = "share"
)

// Decision is the wanted assignment of a pair's buckets: Buckets of them on
// To, the others on From. Where From and To are the same, all are on it. Where flows share
// networks With says which buckets are on further ones, and To is the one of them with most.
type Decision struct {
	Kind    Kind   `json:"kind"`
	From    string `json:"from"`
	To      string `json:"to"`
	Buckets int    `json:"buckets"`
	// With are the portions of further networks.
	With Portions `json:"with,omitzero"`
	// Reason is one sentence for people, with figures.
	Reason string `json:"reason"`
	// PredictedGain is what To is expected to bring over From, 0.1 for 10 % more.
	PredictedGain float64 `json:"predicted_gain"`
	// ExpectedLoss is what moving is expected to cost, in seconds of the pair's
	// traffic (the upper bound).
	ExpectedLoss float64 `json:"expected_loss_s"`
	// Confidence from 0 to 1: the accumulated evidence as a part of what a
	// decision needs, or 1 for what was seen directly.
	Confidence float64      `json:"confidence"`
	Evidence   PairEvidence `json:"evidence"`
}

// Moves tells whether the decision changes the active path.
func (d Decision) Moves() bool {
	return d.Kind == Switch || d.Kind == Failover || d.Kind == Fallback || d.Kind == Home
}

// Assignment is where a pair's buckets are.
type Assignment struct {
	Active string `json:"active"`
	// Canary has Buckets of them; "" for none.
	Canary  string `json:"canary,omitempty"`
	Buckets int    `json:"buckets,omitempty"`
	// With are further networks that the flows share with the active one.
	With Portions `json:"with,omitzero"`
}

// Apply returns the assignment that a decision wants. It is idempotent. A
// decision taken about another active path than the present one is stale and
// changes nothing.
func (a Assignment) Apply(d Decision) Assignment {
	switch {
	case d.From != a.Active:
		return a
	case d.Moves():
		return Assignment{Active: d.To, With: d.With}
	case d.Kind == Share:
		return Assignment{Active: a.Active, With: d.With}
	case d.Kind == Canary:
		return Assignment{Active: a.Active, Canary: d.To, Buckets: d.Buckets}
	}
	return Assignment{Active: a.Active}
}

// Share is the part of the flows that a path has.
func (a Assignment) Share(network string) float64 {
	canary := float64(a.Buckets) / Buckets
	switch network {
	case a.Active:
		return 1 - canary - float64(a.With.total())/Buckets
	case a.Canary:
		return canary
	}
	return float64(a.With.On(network)) / Buckets
}

// Policy decides about a pair. Step is a pure function: the zero State begins,
// each Step takes the State that the one before returned, and evidence comes in
// order of its time. A State must be used with one pair and one policy.
type Policy interface {
	Name() string
	Step(State, PairEvidence) (State, Decision)
}

// stay is the decision to leave all on the active path.
func stay(ev PairEvidence, format string, args ...any) Decision {
	return Decision{
		Kind: Stay, From: ev.Active, To: ev.Active, Buckets: Buckets,
		Reason: fmt.Sprintf(format, args...), ExpectedLoss: 0, Confidence: 1, Evidence: ev,
	}
}

// move is a decision that changes the active path.
func move(kind Kind, ev PairEvidence, to, format string, args ...any) Decision {
	return Decision{
		Kind: kind, From: ev.Active, To: to, Buckets: Buckets,
		Reason: fmt.Sprintf(format, args...), ExpectedLoss: ev.SwitchLoss.upper(), Confidence: 1, Evidence: ev,
	}
}

// after is t + d, without running over.
func after(t, d time.Duration) time.Duration {
	if t > 1<<62-d {
		return 1 << 62
	}
	return t + d
}
