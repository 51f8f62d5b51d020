package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// watchNamespaces says when a file in /run/netns comes or goes, until ctx ends.
func watchNamespaces(ctx context.Context, wg *sync.WaitGroup, changed chan<- struct{}) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch %s: %w", netns.Dir, err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, netns.Dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE); err != nil {
		return errors.Join(fmt.Errorf("watch %s: %w", netns.Dir, err), events.Close())
	}
	wg.Go(func() { <-ctx.Done(); events.Close() })
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			if _, err := events.Read(buf); err != nil {
				return // closed; one looks every few seconds anyway
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	return nil
}
