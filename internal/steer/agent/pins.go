package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
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
		if pl.members.pods[uid] != nil || pl.members.description.uids[uid] {
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
	return eachEpoch(ctx, func() {
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
