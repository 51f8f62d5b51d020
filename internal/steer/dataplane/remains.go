package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
)

// Remove takes the data plane out of the pod, and those of other layouts: traffic is
// native at once.
func (p *Plane) Remove() error {
	errs := []error{p.Close(), Remove(p.cfg.PinDir)}
	for _, f := range p.former {
		errs = append(errs, Remove(f.dir))
	}
	return errors.Join(errs...)
}

// Remove takes away the data plane that is pinned in dir, also when the pod is gone.
func Remove(dir string) error {
	if err := unpin(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove pin directory: %w", err)
	}
	return nil
}

// unpin removes links before maps: a program never sees maps go.
func unpin(dir string) error {
	pins, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, links := range []bool{true, false} {
		for _, pin := range pins {
			if strings.HasPrefix(pin.Name(), "link-") != links {
				continue
			}
			at := filepath.Join(dir, pin.Name())
			if links {
				detach(at)
			}
			if err := os.RemoveAll(at); err != nil {
				return fmt.Errorf("remove pin: %w", err)
			}
		}
	}
	return nil
}

// detach ends a pinned link now: with its pin alone, the program would stay until
// the kernel gets round to freeing the inode. Where the interface is gone it fails,
// as there is nothing to detach from.
func detach(pin string) {
	if l, err := link.LoadPinnedLink(pin, nil); err == nil {
		_ = l.Detach()
		_ = l.Close()
	}
}
