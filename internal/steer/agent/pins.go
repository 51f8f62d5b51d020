package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
)

// podPins begins the name of each directory with a pod's data plane.
const podPins = "pod-"

// layoutPins is the directory of the data planes of this version's layout: of others
// it does not touch those that a version before or after it looks after.
func layoutPins(pins string) string {
	return filepath.Join(pins, fmt.Sprintf("layout-%d", dataplane.Layout))
}

// pinsOf is where a pod's data plane is pinned.
func pinsOf(pins, uid string) string { return filepath.Join(layoutPins(pins), podPins+uid) }

// formerPins lists where versions of other layouts have pinned it: the first one
// directly, others in directories with their number.
func formerPins(pins, uid string) []string {
	out := []string{filepath.Join(pins, podPins+uid)}
	others, _ := filepath.Glob(filepath.Join(pins, "layout-*", podPins+uid)) // the pattern is right
	for _, dir := range others {
		if dir != pinsOf(pins, uid) {
			out = append(out, dir)
		}
	}
	return out
}

// pinned lists the directories with data planes of whatever layout, by the pod's UID.
func pinned(pins string) (map[string][]string, error) {
	out := map[string][]string{}
	layouts, _ := filepath.Glob(filepath.Join(pins, "layout-*")) // the pattern is right
	for _, dir := range append(layouts, pins) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("list pins: %w", err)
		}
		for _, e := range entries {
			if uid, ok := strings.CutPrefix(e.Name(), podPins); ok {
				out[uid] = append(out[uid], filepath.Join(dir, e.Name()))
			}
		}
	}
	return out, nil
}

// planes looks after the data planes of pods as long as they are pinned.
type planes struct {
	*journal
	members *members
	// sustained is when the leases of what is not adopted yet were last renewed.
	sustained time.Time
}

// sweep removes the data planes of pods that went while no agent ran.
func (pl *planes) sweep() error {
	all, err := pinned(pl.cfg.PinDir)
	if err != nil {
		return err
	}
	var errs []error
	for uid, dirs := range all {
		if pl.members.pods[uid] != nil || pl.members.description.has(uid) {
			continue
		}
		for _, dir := range dirs {
			errs = append(errs, dataplane.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// renewLeases renews the data planes' leases.
func (pl *planes) renewLeases() {
	for _, p := range pl.members.pods {
		if p.plane != nil && !pl.cfg.DryRun {
			p.plane.RenewLease()
		}
	}
}

// sustain renews the leases of the data planes that a predecessor has left and that are
// not adopted yet: with many, that takes longer than a lease.
func (pl *planes) sustain() {
	now := pl.cfg.Now()
	if now.Sub(pl.sustained) < refresh {
		return
	}
	pl.sustained = now
	pl.renewLeases()
	left, _ := filepath.Glob(filepath.Join(layoutPins(pl.cfg.PinDir), podPins+"*")) // the pattern is right
	for _, dir := range left {
		if uid := strings.TrimPrefix(filepath.Base(dir), podPins); pl.members.pods[uid] == nil && !pl.cfg.DryRun {
			_, err := dataplane.RenewPinned(dir, dataplane.DefaultLease)
			pl.fault(dir, err)
		}
	}
}

// retire takes away the data planes of other layouts that have nothing to do any more.
func (pl *planes) retire() {
	for _, l := range pl.members.some(func(l *pod) bool { return l.former > 0 }) {
		left, err := l.plane.Former()
		pl.fault("pod "+l.Name, err)
		if left == 0 {
			pl.note(Event{Kind: EventStarted, Reason: "pod " + l.Name + ": the data plane of another version has ended"})
		}
		pl.members.Lock()
		l.former = left
		pl.members.Unlock()
	}
}

// makeRoom makes room for more peers where it is nearly taken, and takes away data planes
// of other versions, until ctx ends.
func (pl *planes) makeRoom(ctx context.Context) error {
	var retired time.Time
	return each(ctx, epoch, func() {
		if now := pl.cfg.Now(); now.Sub(retired) >= refresh {
			retired = now
			pl.retire()
		}
		narrow := func(l *pod) bool { return l.plane.NearlyFull() && pl.cfg.Now().Sub(l.narrow) >= againAfter }
		for _, l := range pl.members.some(narrow) {
			if ctx.Err() != nil {
				return
			}
			if err := pl.widen(l); err != nil {
				pl.members.Lock()
				pl.warn("pod %s: make room for more peers: %v", l.Name, err)
				l.narrow = pl.cfg.Now()
				pl.members.Unlock()
			}
		}
	})
}

// widen makes room for more peers of a pod: the agent waits only for it to be put in
// place.
func (pl *planes) widen(l *pod) error {
	pl.members.Lock()
	if pl.members.pods[l.UID] != l {
		pl.members.Unlock()
		return nil // it has just gone
	}
	w, err := l.plane.Widen()
	pl.members.Unlock()
	if err != nil {
		return err
	}
	if err := w.Load(); err != nil {
		return errors.Join(err, w.Close())
	}
	pl.members.Lock()
	defer pl.members.Unlock()
	if pl.members.pods[l.UID] != l {
		return w.Close()
	}
	if err := l.plane.Exchange(w); err != nil {
		return fmt.Errorf("exchange data plane: %w", err)
	}
	return nil
}

// sweepEvery is how often pods' tables of flows are swept, those without flows less
// often.
const sweepEvery, sweepIdle = time.Second, 10 * time.Second

// sweeper keeps the pods' tables of flows from filling up.
type sweeper struct {
	*journal
	members   *members
	datagrams *datagrams
	replies   *replyWatcher
	// bell rings when a pod has more flows than half of what there is room for.
	bell bell
}

// hurry has the pod's table be swept, and grow, before it is full.
func (sw *sweeper) hurry(l *pod) {
	if c := &l.census; c.Room > 0 && c.Room < dataplane.DefaultFlows && l.plane.Held() > c.Room/2 {
		sw.bell.ring()
	}
}

// sweepFlows takes flows that have ended out of the pods' tables until ctx ends: apart
// from the loop, as there may be very many.
func (sw *sweeper) sweepFlows(ctx context.Context) error {
	due := func(l *pod) bool {
		now := sw.cfg.Now()
		if l.rejoining {
			return false // the sweep would forget the flows of peers that are still to be entered
		}
		return l.census.Flows > 0 || now.Sub(l.swept) >= sweepIdle || l.active(now)
	}
	return eachOr(ctx, sweepEvery, sw.bell, func() {
		for _, l := range sw.members.some(due) {
			if ctx.Err() == nil {
				sw.sweepPod(l)
			}
		}
	})
}

// active reports whether a pair of the pod had packets lately.
func (l *pod) active(now time.Time) bool {
	for _, p := range l.pairs {
		if now.Sub(p.active) < quiet {
			return true
		}
	}
	return false
}

func (sw *sweeper) sweepPod(l *pod) {
	sw.members.Lock()
	if sw.members.pods[l.UID] != l || l.rejoining {
		sw.members.Unlock()
		return // it has just gone, or come
	}
	l.swept = sw.cfg.Now()
	flows, err := l.plane.Flows()
	sw.members.Unlock()
	var c dataplane.Census
	if err == nil {
		c, err = flows.Sweep()
		_ = flows.Close() // a handle of ours
	}
	sw.members.Lock()
	defer sw.members.Unlock()
	if sw.fault("pod "+l.Name, err); err == nil && sw.members.pods[l.UID] == l {
		l.plane.SetFlowCounts(c)
		l.census = c
		sw.sayFull(l)
		sw.datagrams.ask(l)
		if c.Asked > 0 {
			sw.replies.bell.ring()
		}
	}
}

// sayFull tells once a minute of flows that cannot be told apart any more.
func (sw *sweeper) sayFull(l *pod) {
	if n := l.plane.Events().Full; n != l.full {
		l.full = n
		sw.warnOf("flows "+l.UID, "pod %s has more flows than there is room for now (%d; %d at most): further ones stay on the default network, until there is", l.Name,
			l.census.Room, dataplane.DefaultFlows)
	}
}

// Remove takes out of a host's pods what agents have put there, whose traffic is native
// then, and away what they have pinned. It needs Host, PinDir and Source of the
// configuration, and that no agent of the host runs. Doing it twice changes nothing.
//
// First it waits until the lease of the last agent is over for sure, and a second in
// which packets tell the peers: what these still steered would find nobody who puts it
// back. A connection that sends nothing in that second may be reset by its next packet.
func Remove(ctx context.Context, cfg Config) error {
	c, err := cfg.Source()
	if err != nil {
		return fmt.Errorf("read cluster: %w", err)
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("read cluster: %w", err)
	}
	host, ok := c.host(cfg.Host)
	if !ok {
		return fmt.Errorf("host %q is not in the cluster", cfg.Host)
	}
	pins, err := os.ReadDir(cfg.PinDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list pins: %w", err)
	}
	if len(pins) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(dataplane.DefaultLease + time.Second):
		}
	}
	var errs []error
	// Routes before programs: some lead to where only those know what to do.
	others := newElsewhere(c.Pods, host.Index)
	for _, p := range c.steerable(host.Index) {
		if netns.Exists(p.Netns) {
			errs = append(errs, route.Leave(p.Netns, p.Attachments[0].Dev, others.hasAddress))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all, err := pinned(cfg.PinDir)
	errs = append(errs, err)
	for _, dirs := range all {
		for _, dir := range dirs {
			errs = append(errs, dataplane.Remove(dir))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(cfg.PinDir))...)
}
