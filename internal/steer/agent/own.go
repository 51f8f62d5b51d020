package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// waitError says what the agent waits for: its own pod, from which it probes, may come
// later than the agent, and be made again.
type waitError struct{ what string }

func (e waitError) Error() string { return "waiting for " + e.what }

// errEnded is returned where the agent is told to end before it has begun.
var errEnded = errors.New("told to end")

// await begins once the agent's own pod is there. It says once what it waits for.
func (a *Agent) await(ctx context.Context) error {
	for {
		err := a.begin()
		a.begun.say()
		var w waitError
		if !errors.As(err, &w) {
			return err
		}
		select {
		case <-ctx.Done():
			return errEnded
		case <-time.After(refresh):
		}
	}
}

// begin takes up all that there is.
func (a *Agent) begin() error {
	err := a.describer.describe()
	if err == nil {
		err = a.syncWires(a.describer.described)
	}
	a.members.Lock()
	defer a.members.Unlock()
	w := waitError{}
	errors.As(err, &w)
	if a.waits(w.what); err != nil {
		return err
	}
	a.news = a.describer.described
	if err := a.sync(a.news); err != nil {
		return err
	}
	return a.planes.sweep()
}

// waits notes what the agent waits for, "" for nothing, and tells it when it begins to.
func (a *Agent) waits(what string) {
	if what != "" && what != a.waiting {
		a.note(Event{Kind: EventWaiting, Reason: fmt.Sprintf("the agent of %s waits for %s: without it nothing is steered",
			a.cfg.Host, what)})
	}
	a.waiting = what
}

// syncWires opens sockets in the agent's own pod, and again where that was made again or
// has another address. It is called by who describes, without the lock, and returns a
// waitError where that pod is not whole.
func (a *Agent) syncWires(d *description) error {
	inode, gone := netns.Inode(d.self.Netns)
	var errs []error
	waiting := ""
	if gone != nil && len(d.self.Attachments) > 0 {
		waiting = "its own pod, whose namespace " + d.self.Netns + " is not there"
	}
	for _, at := range d.self.Attachments {
		a.members.Lock()
		w := a.wires.links[at.Network]
		a.members.Unlock()
		if w != nil && gone == nil && (w.inode != inode || w.addr != at.Addr) {
			errs = append(errs, a.closeWire(w))
			w = nil
		}
		if w != nil {
			continue
		}
		err := a.openWire(d.self, at, inode)
		switch {
		case err == nil, gone != nil: // it is waited for
		case errors.Is(err, unix.EADDRNOTAVAIL):
			waiting = fmt.Sprintf("the address %s of its own pod, on %s", at.Addr, at.Network)
		default:
			errs = append(errs, err)
		}
	}
	if waiting != "" {
		errs = append(errs, waitError{waiting})
	}
	return errors.Join(errs...)
}

// closeWire closes the sockets on a network, which are to be opened elsewhere. What was
// known by them of paths is forgotten.
func (a *Agent) closeWire(w *wire) error {
	a.members.Lock()
	delete(a.wires.links, w.network)
	a.wires.changes++
	a.note(Event{Kind: EventPod, Reason: "the agent's own pod was made again: it probes " + w.network + " from there"})
	a.hosts.forget(w.network)
	for _, h := range a.members.remote {
		delete(h.paths, w.network)
	}
	a.members.Unlock()
	w.closed.Store(true)
	return w.close()
}

// serve answers probes until ctx ends, or the wire is closed to be opened elsewhere.
func (w *wire) serve(ctx context.Context) error {
	if err := w.reflector.Serve(ctx); !w.closed.Load() {
		return err
	}
	return nil
}

// own is the agent's pod, and what looks after its routes.
type own struct {
	inode       uint64
	attachments []topo.Attachment
	keeper      *route.Keeper
}

// keep puts back what the interfaces of the agent's own pod have lost.
func (o *own) keep(self topo.Pod) (mended []route.Mended, err error) {
	inode, gone := netns.Inode(self.Netns)
	if gone != nil || len(self.Attachments) == 0 {
		return nil, nil // on its way
	}
	if inode != o.inode || !slices.Equal(o.attachments, self.Attachments) {
		if err := o.close(); err != nil {
			return nil, err
		}
		if o.keeper, mended, err = route.Keep(self.Netns, self.Attachments); err != nil {
			return nil, err
		}
		o.inode, o.attachments = inode, self.Attachments
	}
	more, err := o.keeper.Look()
	return append(mended, more...), err
}

func (o *own) close() error {
	k := o.keeper
	*o = own{}
	return k.Close()
}
