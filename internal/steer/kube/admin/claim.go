package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// claim is a namespace that one run has for itself. A run removes there what an earlier one has
// left that was killed, so that of two at once the second would remove the first's pods. The run
// that has it renews a Lease in it.
type claim struct {
	c     *Cluster
	ns    object
	times claimTimes
	lost  context.CancelCauseFunc
	stop  func()
	// gone: it is another's, or was removed.
	gone atomic.Bool
	// lease is as it was written last.
	lease coordinationv1.Lease
}

// claimTimes: a Lease is renewed every so often; one that was not for so long is nobody's, which
// who waits counts by its own clock.
type claimTimes struct{ renew, expire, poll time.Duration }

// usualTimes allow for an API server that is slow for some seconds.
func usualTimes() claimTimes {
	return claimTimes{renew: 4 * time.Second, expire: 15 * time.Second, poll: 500 * time.Millisecond}
}

// claim makes the namespace and takes it for this run alone, without pods. It waits where one of
// its name is being removed, or has been left. The context that it returns ends when the
// namespace is not this run's any more.
func (c *Cluster) claim(ctx context.Context, ns object, times claimTimes) (context.Context, *claim, error) {
	host, err := os.Hostname()
	if err != nil {
		return ctx, nil, fmt.Errorf("name this run: %w", err)
	}
	h := &claim{c: c, ns: ns, times: times}
	h.lease.APIVersion, h.lease.Kind = "coordination.k8s.io/v1", "Lease"
	h.lease.Namespace, h.lease.Name = ns.Name, ns.Name
	holder, since := fmt.Sprintf("process %d on %s", os.Getpid(), host), microNow()
	seconds := int32(max(times.expire.Seconds(), 1))
	h.lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &since}
	for end := time.Now().Add(removing); ; {
		if err = c.apply(ctx, ns); err == nil {
			err = h.take(ctx)
		}
		going := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err)
		if !going || time.Now().After(end) {
			break
		}
		if err = pause(ctx, times.poll); err != nil {
			break
		}
	}
	if err == nil {
		err = c.deletePods(ctx, ns.Name, func(string) bool { return true })
	}
	if err != nil {
		return ctx, nil, fmt.Errorf("take namespace %s: %w", ns.Name, err)
	}
	life, lost := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.lost = lost
	var done sync.WaitGroup
	done.Go(func() { h.keep(renewing) })
	h.stop = func() {
		stop()
		done.Wait()
		lost(nil)
	}
	return life, h, nil
}

// take makes the Lease, or takes one that nobody renews.
func (h *claim) take(ctx context.Context) error {
	err := h.write(ctx, (*rest.RESTClient).Post)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	was, err := h.read(ctx)
	if err != nil {
		return err
	}
	if h.c.Say != nil {
		h.c.Say(fmt.Sprintf("namespace %s is of %s: waiting for up to %v to see whether that still runs", h.ns.Name,
			holderOf(was), h.times.expire))
	}
	for begin := time.Now(); time.Since(begin) < h.times.expire; {
		if err := pause(ctx, h.times.poll); err != nil {
			return err
		}
		now, err := h.read(ctx)
		if err != nil {
			return err
		}
		if now.ResourceVersion != was.ResourceVersion {
			return taken(now)
		}
	}
	h.lease.ResourceVersion = was.ResourceVersion
	if err = h.write(ctx, (*rest.RESTClient).Put); apierrors.IsConflict(err) {
		return taken(was)
	}
	return err
}

// microNow is the time as a Lease has it.
func microNow() metav1.MicroTime { return metav1.NewMicroTime(time.Now().Truncate(time.Microsecond)) }

func taken(by coordinationv1.Lease) error {
	return fmt.Errorf("%s has it, and renews its Lease: one runs at a time on a cluster", holderOf(by))
}

func holderOf(l coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return "somebody"
	}
	return *l.Spec.HolderIdentity
}

// keep renews the Lease until ctx ends. An API server that does not answer is asked again.
func (h *claim) keep(ctx context.Context) {
	for pause(ctx, h.times.renew) == nil {
		if err := h.removed(ctx); err != nil {
			h.lost(err)
			return
		}
		err := h.write(ctx, (*rest.RESTClient).Put)
		if apierrors.IsConflict(err) { // it may have been written, and the answer lost
			var now coordinationv1.Lease
			if now, err = h.read(ctx); err == nil && h.wrote(now) {
				h.lease.ResourceVersion = now.ResourceVersion
				continue
			} else if err == nil {
				err = taken(now)
			}
		} else if !apierrors.IsNotFound(err) {
			continue
		}
		h.gone.Store(true)
		h.lost(fmt.Errorf("namespace %s is not this run's any more: %w", h.ns.Name, err))
		return
	}
}

// removed is why the namespace is not this run's any more: somebody removes it, or has. It is nil where it is
// there, or nobody can say.
func (h *claim) removed(ctx context.Context) error {
	var ns corev1.Namespace
	err := h.c.core.Get().Resource("namespaces").Name(h.ns.Name).Do(ctx).Into(&ns)
	what := "is being removed"
	switch {
	case apierrors.IsNotFound(err):
		what = "was removed"
	case err != nil || ns.DeletionTimestamp == nil:
		return nil
	}
	h.gone.Store(true)
	return fmt.Errorf("namespace %s is not this run's any more: it %s, as by \"pathwise kube uninstall\"", h.ns.Name, what)
}

// wrote reports whether it is this run's Lease.
func (h *claim) wrote(l coordinationv1.Lease) bool {
	mine := h.lease.Spec
	return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == *mine.HolderIdentity && l.Spec.AcquireTime != nil &&
		l.Spec.AcquireTime.Equal(mine.AcquireTime)
}

// path is where the Lease is, or without its name where it is made.
func (h *claim) path(named bool) string {
	path := "/apis/" + h.lease.APIVersion + "/namespaces/" + h.ns.Name + "/leases"
	if named {
		path += "/" + h.lease.Name
	}
	return path
}

func (h *claim) write(ctx context.Context, verb func(*rest.RESTClient) *rest.Request) error {
	now := microNow()
	h.lease.Spec.RenewTime = &now
	text, err := json.Marshal(h.lease)
	if err != nil {
		return fmt.Errorf("write Lease: %w", err)
	}
	raw, err := h.c.raw()
	if err != nil {
		return err
	}
	path := h.path(h.lease.ResourceVersion != "")
	res := verb(raw).AbsPath(path).SetHeader("Content-Type", "application/json").Body(text).Do(ctx)
	if err := res.Error(); err != nil { // Raw does not say why
		return fmt.Errorf("write Lease: %w", err)
	}
	got, err := res.Raw()
	if err != nil {
		return fmt.Errorf("write Lease: %w", err)
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(got, &lease); err != nil {
		return fmt.Errorf("read Lease: %w", err)
	}
	h.lease.ResourceVersion = lease.ResourceVersion
	return nil
}

func (h *claim) read(ctx context.Context) (lease coordinationv1.Lease, err error) {
	o := object{}
	o.APIVersion, o.Kind, o.Namespace, o.Name = h.lease.APIVersion, h.lease.Kind, h.ns.Name, h.lease.Name
	err = h.c.get(ctx, o, &lease)
	return lease, err
}

// release removes the namespace with all that is in it, unless it is another's now.
func (h *claim) release(ctx context.Context) error {
	h.stop()
	if h.gone.Load() {
		return nil
	}
	return h.c.deleteAll(ctx, []object{h.ns}, removing, io.Discard)
}

// pause waits for so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
