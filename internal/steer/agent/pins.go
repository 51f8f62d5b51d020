package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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

// sweep removes the data planes of pods that went while no agent ran.
func (a *Agent) sweep() error {
	all, err := pinned(a.cfg.PinDir)
	if err != nil {
		return err
	}
	var errs []error
	for uid, dirs := range all {
		if a.members.pods[uid] != nil || a.members.description.uids[uid] {
			continue
		}
		for _, dir := range dirs {
			errs = append(errs, dataplane.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// renewLeases renews the data planes' leases.
func (a *Agent) renewLeases() {
	for _, p := range a.members.pods {
		if p.plane != nil && !a.cfg.DryRun {
			p.plane.RenewLease()
		}
	}
}

// sustain renews the leases of the data planes that a predecessor has left and that are
// not adopted yet: with many, that takes longer than a lease.
func (a *Agent) sustain() {
	now := a.cfg.Now()
	if now.Sub(a.sustained) < refresh {
		return
	}
	a.sustained = now
	a.renewLeases()
	left, _ := filepath.Glob(filepath.Join(layoutPins(a.cfg.PinDir), podPins+"*")) // the pattern is right
	for _, dir := range left {
		if uid := strings.TrimPrefix(filepath.Base(dir), podPins); a.members.pods[uid] == nil && !a.cfg.DryRun {
			if _, err := dataplane.RenewPinned(dir, dataplane.DefaultLease); err != nil {
				a.warn("%s: %v", dir, err)
			}
		}
	}
}

// retire takes away the data planes of other layouts that have nothing to do any more.
func (a *Agent) retire() {
	a.members.Lock()
	var pods []*pod
	for _, l := range a.members.pods {
		if l.former > 0 {
			pods = append(pods, l)
		}
	}
	a.members.Unlock()
	for _, l := range pods {
		left, err := l.plane.Former()
		if err != nil {
			a.warn("%v", err)
		}
		if left == 0 {
			a.note(Event{Kind: EventStarted, Reason: fmt.Sprintf("pod %s: the data plane of another version has ended", l.Name)})
		}
		a.members.Lock()
		l.former = left
		a.members.Unlock()
	}
}
