package kube

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// announcer tells a pod's users what is of concern to them, as an event of the pod.
type announcer struct {
	clients
	node string
	now  func() time.Time

	mu sync.Mutex // of what follows; not held while an event is written
	// announced is when an event of a pod was last made, by its UID; failed is when one was last not taken.
	announced map[string]time.Time
	failed    time.Time
}

// notice is what is told.
type notice struct{ reason, kind, text string }

func noticeOf(reason, kind, text string) notice { return notice{reason, kind, text} }

// Bounds of telling: a pod is told of once in each, and after one that failed none for that long.
const tellEvery, tellAgain = time.Minute, 30 * time.Second

// The reasons of events of pods of which something cannot be done.
const refusedReason, needReason = "SteeringRefused", "NeedIgnored"

// tell tells of the pods of which something is refused now, each once a minute at most.
func (a *announcer) tell(ctx context.Context, pods []*corev1.Pod, refused []v1alpha1.Refusal, reason string) error {
	why := map[string]string{}
	for _, r := range refused {
		why[r.Pod] = r.Reason
	}
	for _, p := range pods {
		text, is := why[p.Namespace+"/"+p.Name]
		if !is || !a.may(p) {
			continue
		}
		if err := a.say(ctx, p, noticeOf(reason, corev1.EventTypeWarning, text)); err != nil {
			return err
		}
	}
	return nil
}

// may reports whether something may be told of the pod now.
func (a *announcer) may(p *corev1.Pod) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	maps.DeleteFunc(a.announced, func(_ string, at time.Time) bool { return now.Sub(at) >= tellEvery })
	_, known := a.announced[string(p.UID)]
	return !known && now.Sub(a.failed) >= tellAgain
}

// say tells of a pod.
func (a *announcer) say(ctx context.Context, p *corev1.Pod, n notice) error {
	now := a.now()
	a.mu.Lock()
	a.announced[string(p.UID)] = now
	a.mu.Unlock()
	if err := a.event(ctx, p, n, now); err != nil {
		a.mu.Lock()
		a.failed = now
		a.mu.Unlock()
		return fmt.Errorf("tell of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// event makes one.
func (a *announcer) event(ctx context.Context, p *corev1.Pod, n notice, now time.Time) error {
	at := metav1.NewTime(now)
	e := &corev1.Event{Reason: n.reason, Message: cut(n.text, mostReason), Type: n.kind, Count: 1,
		FirstTimestamp: at, LastTimestamp: at, Source: corev1.EventSource{Component: "pathwise-agent", Host: a.node},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name,
			UID: p.UID}}
	e.Namespace, e.Name = p.Namespace, fmt.Sprintf("%s.%x", p.Name, now.UnixNano())
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return a.core.Post().Namespace(p.Namespace).Resource("events").Body(e).Do(ctx).Error()
}
