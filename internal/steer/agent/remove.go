package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
)

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
	for _, p := range c.steerable(host.Index) {
		if netns.Exists(p.Netns) {
			errs = append(errs, route.Clear(p.Netns))
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
