package uperf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"pathwise.dev/pathwise/internal/workload/socket"
)

// A connection begins with a line of JSON from the client, which tells the server
// what to do on it, and the server's line "ready"; uperf tells its slave all
// that on a control connection. Then there is payload alone, as uperf's.

// hello is the first line.
type hello struct {
	// Report asks for what the server has received in the window that begins at
	// Begin; the rest is empty.
	Report bool `json:"report,omitempty"`
	// Back is where the client listens, if the server is to connect to it: accept.
	Back    uint16    `json:"back,omitempty"`
	Script  []segment `json:"script,omitempty"`
	NoDelay bool      `json:"no_delay,omitempty"`
	Window  int       `json:"window,omitempty"`
	// Seed of the sizes, where they are random: both ends draw the same.
	Seed uint64 `json:"seed,omitempty"`
	// Begin and Duration of the window, on the monotonic clock.
	Begin    time.Duration `json:"begin,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
}

// longest window of a trial.
const longest = 24 * time.Hour

// parseHello reads a hello and refuses what a server cannot do.
func parseHello(line []byte) (hello, error) {
	var h hello
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("read hello: %w", err)
	}
	if err := h.check(); err != nil {
		return h, fmt.Errorf("read hello: %w", err)
	}
	return h, nil
}

// check sees to it that every round of the script moves something: a client that
// has gone ends it then, by the error of its connection.
func (h hello) check() error {
	switch {
	case h.Report:
		return nil
	case h.Duration <= 0 || h.Duration > longest:
		return fmt.Errorf("a window of %v", h.Duration)
	case h.Window < 0 || h.Window > maxSize:
		return fmt.Errorf("socket buffers of %d bytes", h.Window)
	}
	for i, g := range h.Script {
		switch {
		case g.Iterations < 0:
			return fmt.Errorf("%d iterations", g.Iterations)
		case len(g.Steps) == 0:
			return errors.New("a part of the script without steps")
		case g.Iterations == 0 && i < len(h.Script)-1:
			return errors.New("a part of the script after one without an end")
		}
		for _, t := range g.Steps {
			if t.Size < 1 || t.Size > maxSize || t.Max < 0 || t.Max > maxSize || t.Count < 1 {
				return errors.New("a step that cannot be")
			}
		}
	}
	return nil
}

// most is the size of the largest message.
func (h hello) most() int {
	most := 0
	for _, g := range h.Script {
		for _, t := range g.Steps {
			most = max(most, t.Size, t.Max)
		}
	}
	return most
}

// report is what the server tells at the end.
type report struct {
	// Received is the payload that it read in the window, in bytes.
	Received int64 `json:"received"`
}

const ready = "ready\n"

// maxLine bounds lines of JSON.
const maxLine = 1 << 20

// readLine reads up to the end of a line and not beyond.
func readLine(r io.Reader, most int) ([]byte, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		if line = append(line, one[0]); len(line) > most {
			return nil, fmt.Errorf("a line longer than %d bytes", most)
		}
	}
}

// writeLine writes v as a line of JSON.
func writeLine(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}

// pipe is a connection once both ends know what it is for.
type pipe struct {
	*socket.Socket
	buf, zero []byte
	sizes     *rand.Rand
	// moved is told of every read: how much and when it was done.
	moved func(n int, at time.Time)
	turn  socket.Loop
}

func newPipe(s *socket.Socket, seed uint64, most int, moved func(int, time.Time)) *pipe {
	most = max(most, 1)
	return &pipe{Socket: s, buf: make([]byte, most), zero: make([]byte, most), sizes: rand.New(rand.NewPCG(seed, 0)), moved: moved}
}

// draw is the size of the next message.
func (p *pipe) draw(least, most int) int {
	if most <= least {
		return least
	}
	return least + p.sizes.IntN(most-least+1)
}

// write sends n zero bytes, as uperf does.
func (p *pipe) write(n int) error {
	_, err := p.Write(p.zero[:n])
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

var errNotZero = errors.New("read: what came is not what uperf's ends send")

// read takes n bytes, all of which must be zero.
func (p *pipe) read(n int) error {
	for left := n; left > 0; {
		got, err := p.Read(p.buf[:left])
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if !bytes.Equal(p.buf[:got], p.zero[:got]) {
			return errNotZero
		}
		left -= got
		p.moved(got, time.Now())
	}
	return nil
}

// timedOut reports whether the error is a socket's that waited for too long.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
