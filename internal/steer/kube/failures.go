package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// failures are the paths that this node's pods have left because they failed, and those that
// are well again, until the pods' users are told.
type failures struct {
	// down is why a path failed, by pod, then by pair and network.
	down map[string]map[failedPath]string
	// pending are pods of which an event is to be made, and announced those of whose failures one was.
	pending, announced map[string]bool
}

type failedPath struct{ pair, network string }

func newFailures() *failures {
	return &failures{down: map[string]map[failedPath]string{}, pending: map[string]bool{}, announced: map[string]bool{}}
}

// event takes in what the agent tells: moves away from a path that has failed. One that merely
// must not be used is no failure.
func (f *failures) event(e agent.Event) {
	failed := e.Kind == string(decide.Failover) || e.Kind == string(decide.Fallback)
	pod, _, paired := strings.Cut(e.Pair, ">")
	if !failed || !paired || e.From == "" {
		return
	}
	if e.Evidence != nil && slices.ContainsFunc(e.Evidence.Paths, func(p decide.PathEvidence) bool {
		return p.Network == e.From && p.State == decide.Ineligible
	}) {
		return
	}
	if f.down[pod] == nil {
		f.down[pod] = map[failedPath]string{}
	}
	at := failedPath{e.Pair, e.From}
	if _, known := f.down[pod][at]; !known {
		f.pending[pod] = true
	}
	f.down[pod][at] = e.Reason
}

// paths takes in which paths are up. A pair that has no traffic any more has none, and its
// failures are forgotten.
func (f *failures) paths(all []agent.PathStatus) {
	up, there := map[failedPath]bool{}, map[string]bool{}
	for _, p := range all {
		there[p.Pair] = true
		up[failedPath{p.Pair, p.Network}] = p.State == string(decide.Up)
	}
	for pod, down := range f.down {
		forgotten := false
		maps.DeleteFunc(down, func(at failedPath, _ string) bool {
			forgotten = forgotten || !there[at.pair]
			return up[at] || !there[at.pair]
		})
		if len(down) > 0 {
			continue
		}
		delete(f.down, pod)
		// Whose failure was not announced, its end is not either; nor is it known of a path that nobody looks at.
		if f.pending[pod] = f.announced[pod] && !forgotten; forgotten {
			delete(f.announced, pod)
		}
	}
}

// waits reports whether something may be told later.
func (f *failures) waits() bool { return len(f.down) > 0 || len(f.pending) > 0 }

// The reasons of the events.
const failedReason, recoveredReason = "PathFailed", "PathRecovered"

// tell hands over what is to be told of each pod that may be told of.
func (f *failures) tell(may func(pod string) bool, notice func(pod string, n notice)) {
	for _, pod := range slices.Sorted(maps.Keys(f.pending)) {
		if !f.pending[pod] {
			delete(f.pending, pod)
			continue
		}
		if !may(pod) {
			continue
		}
		delete(f.pending, pod)
		if down := f.down[pod]; len(down) > 0 {
			f.announced[pod] = true
			notice(pod, failedNotice(down))
			continue
		}
		delete(f.announced, pod)
		notice(pod, noticeOf(recoveredReason, corev1.EventTypeNormal, "all paths that had failed are up again"))
	}
}

// failedNotice tells of the first path by name, and how many more there are.
func failedNotice(down map[failedPath]string) notice {
	all := slices.SortedFunc(maps.Keys(down), func(a, b failedPath) int {
		return strings.Compare(a.pair+" "+a.network, b.pair+" "+b.network)
	})
	_, to, _ := strings.Cut(all[0].pair, ">")
	text := fmt.Sprintf("the path to %s on network %s: %s", to, all[0].network, down[all[0]])
	if len(all) > 1 {
		text += fmt.Sprintf("; and %d more", len(all)-1)
	}
	return noticeOf(failedReason, corev1.EventTypeWarning, text)
}

// Follow tells the users of this node's pods of paths that fail and are well again, as the
// node's agent says, until ctx ends.
func (s *Source) Follow(ctx context.Context, c *agent.Client) {
	f, last := newFailures(), 0
	for ctx.Err() == nil {
		all, err := c.Events(ctx, last, !f.waits())
		if err != nil {
			pause(ctx, steady) // it is not there yet
			continue
		}
		for _, e := range all {
			last = max(last, e.ID)
			f.event(e)
		}
		if !f.waits() {
			continue
		}
		if paths, err := c.Paths(ctx); err == nil {
			f.paths(paths)
		}
		s.tellFailures(ctx, f)
		pause(ctx, hasty)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// tellFailures makes the events that are due.
func (s *Source) tellFailures(ctx context.Context, f *failures) {
	pods := map[string]*corev1.Pod{}
	for _, p := range objects[*corev1.Pod](s.pods) {
		pods[p.Namespace+"/"+p.Name] = p
	}
	f.tell(func(pod string) bool { return pods[pod] == nil || s.announcer.may(pods[pod]) },
		func(pod string, n notice) {
			if p := pods[pod]; p != nil {
				if err := s.announcer.say(ctx, p, n); err != nil && ctx.Err() == nil {
					s.cfg.Log.Warn("tell of a path", "pod", pod, "error", err)
				}
			}
		})
}
