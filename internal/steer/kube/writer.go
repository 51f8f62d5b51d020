package kube

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// writer keeps the node's PathNode as the agent has found the node. It is of one goroutine.
type writer struct {
	clients
	node string
	now  func() time.Time

	had       *v1alpha1.PathNode // as the server has it; nil where that is not known
	wrote     time.Time
	failures  int
	notBefore time.Time
}

// Pace of writing: what others go by is written at once, what is for people now and then; and
// what fails is tried again after a second, then twice as late each time.
const (
	statusEvery = 30 * time.Second
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
	writeWithin = 10 * time.Second // and so long any other question may take
)

// write writes what has changed, if it is time to. It returns when there may be something to
// be written again.
func (w *writer) write(ctx context.Context, spec v1alpha1.PathNodeSpec, status v1alpha1.PathNodeStatus) (time.Duration,
	error) {
	now := w.now()
	if now.Before(w.notBefore) {
		return w.notBefore.Sub(now), nil
	}
	if w.had != nil && reflect.DeepEqual(w.had.Spec, spec) {
		if reflect.DeepEqual(w.had.Status, status) {
			return statusEvery, nil
		}
		if next := w.wrote.Add(statusEvery); now.Before(next) {
			return next.Sub(now), nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	err := w.put(ctx, spec, status)
	if err == nil {
		w.wrote, w.failures = now, 0
		return statusEvery, nil
	}
	w.had = nil // to be read again
	wait := min(firstRetry<<min(w.failures, 10), lastRetry)
	w.failures, w.notBefore = w.failures+1, now.Add(wait)
	return wait, fmt.Errorf("write PathNode %s: %w", w.node, err)
}

const resource = "pathnodes"

// put reads the object where it is not known, and makes or changes it.
func (w *writer) put(ctx context.Context, spec v1alpha1.PathNodeSpec, status v1alpha1.PathNodeStatus) error {
	if w.had == nil {
		var old v1alpha1.PathNode
		err := w.paths.Get().Resource(resource).Name(w.node).Do(ctx).Into(&old)
		switch {
		case apierrors.IsNotFound(err):
			return w.create(ctx, spec, status)
		case err != nil:
			return err
		}
		w.had = &old
	}
	next := w.had.DeepCopy()
	next.Spec, next.Status = spec, status
	out := &v1alpha1.PathNode{}
	if err := w.paths.Put().Resource(resource).Name(w.node).Body(next).Do(ctx).Into(out); err != nil {
		return err
	}
	// The server fills in nothing: what it has is what it was given.
	out.Spec, out.Status = spec, status
	w.had = out
	return nil
}

// create makes the object, owned by its node, so that it goes with it.
func (w *writer) create(ctx context.Context, spec v1alpha1.PathNodeSpec, status v1alpha1.PathNodeStatus) error {
	var of corev1.Node
	if err := w.core.Get().Resource("nodes").Name(w.node).Do(ctx).Into(&of); err != nil {
		return err
	}
	first := &v1alpha1.PathNode{ObjectMeta: metav1.ObjectMeta{Name: w.node, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: of.Name, UID: of.UID}}}, Spec: spec, Status: status}
	out := &v1alpha1.PathNode{}
	if err := w.paths.Post().Resource(resource).Body(first).Do(ctx).Into(out); err != nil {
		return err
	}
	out.Spec, out.Status = spec, status
	w.had = out
	return nil
}
