package kube

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// announcer tells a pod's users that it is left alone, as an event of the pod.
type announcer struct {
	clients
	node string
	now  func() time.Time
	// told is when that was last told of a pod, by its UID; failed is when one was last not taken.
	told   map[string]time.Time
	failed time.Time
}

// Bounds of telling: a pod is told of once in each, and after one that failed none for that long.
const tellEvery, tellAgain = time.Minute, 30 * time.Second

// refusedReason is the reason of the events.
const refusedReason = "SteeringRefused"

// tell tells of the pods that are refused now, each once a minute at most.
func (a *announcer) tell(ctx context.Context, pods []*corev1.Pod, refused []v1alpha1.Refusal) error {
	now := a.now()
	maps.DeleteFunc(a.told, func(_ string, at time.Time) bool { return now.Sub(at) >= tellEvery })
	if now.Sub(a.failed) < tellAgain {
		return nil
	}
	why := map[string]string{}
	for _, r := range refused {
		why[r.Pod] = r.Reason
	}
	for _, p := range pods {
		reason, is := why[p.Namespace+"/"+p.Name]
		if _, told := a.told[string(p.UID)]; !is || told {
			continue
		}
		a.told[string(p.UID)] = now
		if err := a.event(ctx, p, reason, now); err != nil {
			a.failed = now
			return fmt.Errorf("tell of pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// event makes one.
func (a *announcer) event(ctx context.Context, p *corev1.Pod, message string, now time.Time) error {
	at := metav1.NewTime(now)
	e := &corev1.Event{Reason: refusedReason, Message: message, Type: corev1.EventTypeWarning, Count: 1,
		FirstTimestamp: at, LastTimestamp: at, Source: corev1.EventSource{Component: "pathwise-agent", Host: a.node},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name,
			UID: p.UID}}
	e.Namespace, e.Name = p.Namespace, fmt.Sprintf("%s.%x", p.Name, now.UnixNano())
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return a.core.Post().Namespace(p.Namespace).Resource("events").Body(e).Do(ctx).Error()
}
