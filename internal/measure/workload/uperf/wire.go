package uperf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// A connection begins with a line of JSON from the client, which tells the server
// what to do on it, and the server's line "ready"; uperf tells its slave all
// that on a control connection. Then there is payload alone, as uperf's.

// hello is the first line.
type hello struct {
	// Report asks for what the server has received in the window that begins at
	// Begin; the rest is empty.
	Report bool `json:"report,omitempty"`
	// Proto is UDP where payload goes by it, and Token what the end that connects
	// then says to the other until it is heard; this connection lasts as long.
	Proto workload.Proto `json:"proto,omitempty"`
	Token string         `json:"token,omitempty"`
	// Back is where the client listens, if the server is to connect to it: accept.
	Back       uint16    `json:"back,omitempty"`
	Script     []segment `json:"script,omitempty"`
	NoDelay    bool      `json:"no_delay,omitempty"`
	Window     int       `json:"window,omitempty"`
	Congestion string    `json:"congestion,omitempty"`
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
	case h.Window < 0 || h.Window > maxWindow:
		return fmt.Errorf("socket buffers of %d bytes", h.Window)
	case h.Proto != "" && h.Proto != workload.UDP, h.datagrams() && len(h.Token) != tokenLength:
		return fmt.Errorf("payload by %q with the token %.40q", h.Proto, h.Token)
	case len(h.Congestion) > maxCongestion:
		return fmt.Errorf("congestion control %.40q", h.Congestion)
	}
	for i, g := range h.Script {
		switch {
		case g.Iterations < 0:
			return fmt.Errorf("%d iterations", g.Iterations)
		case !g.moves():
			return errors.New("a part of the script without steps that move something")
		case g.Iterations == 0 && i < len(h.Script)-1:
			return errors.New("a part of the script after one without an end")
		}
		for _, t := range g.Steps {
			if err := t.check(h.largest()); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error for a step that cannot be done with messages of at most
// that size. One who has gone does not see how long a server thinks.
func (t step) check(largest int) error {
	switch {
	case t.Count < 1, t.Pause < 0, t.Pause == 0 && t.Size < 1, t.Size > largest, t.Max < 0, t.Max > largest,
		t.Pause > 0 && t.Count > int(maxPause/t.Pause):
		return errors.New("a step that cannot be")
	}
	return nil
}

// largest message there can be.
func (h hello) largest() int {
	if h.datagrams() {
		return maxDatagram
	}
	return maxSize
}

// datagrams reports whether payload goes by UDP.
func (h hello) datagrams() bool { return h.Proto == workload.UDP }

// most is the size of the largest message that the server reads, and of that which
// it writes.
func (h hello) most() (read, write int) {
	read, write = 1, 1
	for _, g := range h.Script {
		for _, t := range g.Steps {
			if t.Write {
				write = max(write, t.Size, t.Max)
			} else {
				read = max(read, t.Size, t.Max)
			}
		}
	}
	return read, write
}

// report is what the server tells at the end.
type report struct {
	// Received is the payload that it read in the window, in bytes.
	Received int64 `json:"received"`
	// Arrived and Sent are datagrams that it read and wrote in the window.
	Arrived int64 `json:"arrived,omitempty"`
	Sent    int64 `json:"sent,omitempty"`
}

const ready = "ready\n"

// refusal begins the line that says in place of ready why the server cannot.
const refusal = "refused: "

// expectReady reads what the other end says once it is ready.
func expectReady(conn *socket.Socket) error {
	line, err := readLine(conn, maxLine)
	why, refused := strings.CutPrefix(string(line), refusal)
	switch {
	case err != nil || string(line)+"\n" == ready:
		return err
	case refused:
		return fmt.Errorf("the server: %.200s", why)
	}
	return fmt.Errorf("the server answered %.40q", line)
}

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

// timedOut reports whether the error is a socket's that waited for too long.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
