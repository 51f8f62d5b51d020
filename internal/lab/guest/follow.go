package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// follower copies what is appended to a file. The guest writes files and no
// terminal or pipe, because what is in a file outlives it.
type follower struct {
	stop chan struct{}
	err  chan error
}

// follow starts to copy the file to w, which may be nil. It writes while it has the
// turn, as another may have the same writer.
func follow(path string, w io.Writer, turn *sync.Mutex) *follower {
	f := &follower{stop: make(chan struct{}), err: make(chan error, 1)}
	if w == nil {
		w = io.Discard
	}
	go func() { f.err <- f.copy(path, inTurn{w, turn}) }()
	return f
}

// inTurn is a writer that is used by several. It hides what else the writer can:
// bytes.Buffer.ReadFrom would hold it for longer than a Write.
type inTurn struct {
	w    io.Writer
	turn *sync.Mutex
}

func (i inTurn) Write(b []byte) (int, error) {
	i.turn.Lock()
	defer i.turn.Unlock()
	return i.w.Write(b)
}

func (f *follower) copy(path string, w io.Writer) error {
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read guest's output: %w", err)
	}
	defer in.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ended := false; ; {
		if _, err := io.Copy(w, in); err != nil {
			return fmt.Errorf("copy guest's output: %w", err)
		}
		if ended {
			return nil
		}
		select {
		case <-tick.C:
		case <-f.stop:
			ended = true
		}
	}
}

// finish copies the rest of a file that grows no more.
func (f *follower) finish() error {
	close(f.stop)
	err := <-f.err
	if errors.Is(err, os.ErrClosed) { // the reader has gone away
		return nil
	}
	return err
}
