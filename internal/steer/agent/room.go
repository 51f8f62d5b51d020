package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// makeRoom makes room for more peers where it is nearly taken, and takes away data planes
// of other versions, until ctx ends.
func (pl *planes) makeRoom(ctx context.Context) error {
	var retired time.Time
	return eachEpoch(ctx, func() {
		if now := pl.cfg.Now(); now.Sub(retired) >= refresh {
			retired = now
			pl.retire()
		}
		for _, l := range pl.narrow() {
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

// narrow lists the pods that have nearly as many peers as there is room for.
func (pl *planes) narrow() (out []*pod) {
	pl.members.Lock()
	defer pl.members.Unlock()
	for _, l := range pl.members.pods {
		if l.plane.NearlyFull() && pl.cfg.Now().Sub(l.narrow) >= againAfter {
			out = append(out, l)
		}
	}
	return out
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
