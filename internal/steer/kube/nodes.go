package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// nodeInformer keeps views of PathNodes. In a large cluster they change all the time, and are nearly all that an agent
// reads: the Kubernetes client's own decoder takes ten times as long as to look for what is new (BenchmarkChange).
func nodeInformer(c *rest.RESTClient) cache.SharedInformer {
	var i cache.SharedInformer
	r := nodeReader{c, func(name string) *view {
		if o, ok, err := i.GetStore().GetByKey(name); ok && err == nil {
			if v, ok := o.(*view); ok {
				return v
			}
		}
		return nil
	}}
	i = cache.NewSharedInformer(&cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}, &view{}, 0)
	return i
}

// nodeReader reads PathNodes; before is the view that there is of one.
type nodeReader struct {
	client *rest.RESTClient
	before func(name string) *view
}

// viewList is a list of PathNodes, or a page of one.
type viewList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*view
}

// DeepCopyObject is the same one.
func (l *viewList) DeepCopyObject() runtime.Object { return l }

func (r *nodeReader) get(opts *metav1.ListOptions) *rest.Request {
	return r.client.Get().Resource("pathnodes").VersionedParams(opts, metav1.ParameterCodec)
}

func (r *nodeReader) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	raw, err := r.get(&opts).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	l, c := &viewList{}, cursorOf(raw)
	err = c.members(func(key string) error {
		switch key {
		case "metadata":
			return c.into(&l.ListMeta)
		case "items":
			return c.elements(func() error {
				v, err := viewOf(c, r.before)
				l.Items = append(l.Items, v)
				return err
			})
		}
		return c.SkipValue()
	})
	if err != nil {
		return nil, fmt.Errorf("read list of PathNodes: %w", err)
	}
	return l, nil
}

func (r *nodeReader) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	body, err := r.get(&opts).Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	// As many as come together are read together.
	const atOnce = 64
	w := &nodeWatch{events: make(chan watch.Event, atOnce), cancel: cancel}
	go func() {
		defer close(w.events)
		defer body.Close()
		defer cancel()
		r.follow(ctx, newCursor(body), w.events)
	}()
	return w, nil
}

// nodeWatch is a watch of PathNodes.
type nodeWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *nodeWatch) Stop() { w.cancel() }

func (w *nodeWatch) ResultChan() <-chan watch.Event { return w.events }

// follow tells of events until they end.
func (r *nodeReader) follow(ctx context.Context, from cursor, to chan<- watch.Event) {
	for {
		e, err := r.event(from)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
				utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
				return // the API server ends each watch in time
			}
			s := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding").
				AsObject(fmt.Errorf("read change of a PathNode: %w", err))
			e = watch.Event{Type: watch.Error, Object: s}
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// event reads one.
func (r *nodeReader) event(c cursor) (e watch.Event, err error) {
	var early []byte // the object, where it comes before its type: API servers write that first
	err = c.members(func(key string) (err error) {
		switch {
		case key == "type":
			err = c.into(&e.Type)
		case key == "object" && e.Type == "":
			early, err = c.keep()
		case key == "object":
			e.Object, err = r.object(e.Type, c)
		default:
			err = c.SkipValue()
		}
		return err
	})
	if err == nil && e.Object == nil {
		e.Object, err = r.object(e.Type, cursorOf(early))
	}
	return e, err
}

// object reads what an event is of.
func (r *nodeReader) object(of watch.EventType, c cursor) (runtime.Object, error) {
	switch of {
	case watch.Added, watch.Modified, watch.Deleted:
		return viewOf(c, r.before)
	case watch.Bookmark:
		v := &view{}
		return v, c.into(&struct {
			*metav1.ObjectMeta `json:"metadata"`
		}{&v.ObjectMeta})
	case watch.Error:
		s := &metav1.Status{}
		return s, c.into(s)
	}
	return nil, fmt.Errorf("an event of type %.80q", of)
}
