package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// barrier holds programs back until all of them have started: each opens a FIFO of its
// own, which tells that it is there, and reads from it when the window begins. A time
// that is agreed on before they start would be missed by some where many do.
type barrier struct {
	dir string
	// told are the FIFOs' other ends, by program; nil until it has come.
	told []*os.File
}

// Time that programs get to come to a barrier.
const (
	// gather is the most that all may take.
	gather = time.Minute
	// look is how often those that are missing are looked for.
	look = 2 * time.Millisecond
)

// barrierPrefix marks a --begin that is read from a FIFO.
const barrierPrefix = "fifo:"

func newBarrier(dir string, programs int) (*barrier, error) {
	dir, err := os.MkdirTemp(dir, "begin-")
	if err != nil {
		return nil, fmt.Errorf("make barrier: %w", err)
	}
	b := &barrier{dir: dir, told: make([]*os.File, programs)}
	for i := range programs {
		if err := unix.Mkfifo(b.path(i), 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("make barrier: %w", err), b.close())
		}
	}
	return b, nil
}

func (b *barrier) path(i int) string { return filepath.Join(b.dir, strconv.Itoa(i)) }

// begin is what the program is given for --begin.
func (b *barrier) begin(i int) string { return barrierPrefix + b.path(i) }

// wait returns when all programs have come.
func (b *barrier) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, gather, fmt.Errorf("the generators had not all started after %v", gather))
	defer cancel()
	for i := range b.told {
		for b.told[i] == nil {
			// Opening fails with ENXIO until somebody reads (fifo(7)).
			f, err := os.OpenFile(b.path(i), os.O_WRONLY|unix.O_NONBLOCK, 0)
			if err == nil {
				b.told[i] = f
				break
			}
			if !errors.Is(err, unix.ENXIO) {
				return fmt.Errorf("wait for generators: %w", err)
			}
			if err := SleepUntil(ctx, time.Now().Add(look)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell tells all programs when the window begins, a time of Monotonic.
func (b *barrier) tell(at time.Duration) error {
	for _, f := range b.told {
		if _, err := io.WriteString(f, at.String()+"\n"); err != nil {
			return errors.Join(fmt.Errorf("tell generators of the window: %w", err), b.close())
		}
	}
	return b.close()
}

// close lets programs go that were told nothing: they fail. It may be called again.
func (b *barrier) close() error {
	var errs []error
	for i, f := range b.told {
		if f != nil {
			errs = append(errs, f.Close())
			b.told[i] = nil
		}
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// Held tells whether Beginning waits for the others of a barrier.
func Held(begin string) bool { return strings.HasPrefix(begin, barrierPrefix) }

// Beginning reads a --begin: a time of Monotonic, or the FIFO of a barrier, at which
// it waits to be told one.
func Beginning(text string) (time.Duration, error) {
	if path, ok := strings.CutPrefix(text, barrierPrefix); ok {
		raw, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("wait for the other generators: %w", err)
		}
		if text = strings.TrimSpace(string(raw)); text == "" {
			return 0, errors.New("wait for the other generators: who started this one has gone")
		}
	}
	at, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("read beginning of the window: %w", err)
	}
	return at, nil
}
