package bulk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
)

// Direction of a connection, as seen by the client.
type Direction string

// Directions. A client says in the first line of each connection what it is for.
const (
	// Up: the client sends, the server counts and tells.
	Up Direction = "up"
	// Down: the server sends, the client counts.
	Down Direction = "down"
	// Echo: the server sends messages back, as that of package request does.
	Echo Direction = "echo"
	// Datagrams: the client sends these alongside the connection; the server counts
	// them, and tells when the client has said that it is done.
	Datagrams Direction = "datagrams"
)

// Hello is the first line of a connection, in JSON.
type Hello struct {
	Direction Direction `json:"direction"`
	// Size of a message in bytes.
	Size int `json:"size"`
	// Begin of the window by the monotonic clock, and its Duration.
	Begin    time.Duration `json:"begin"`
	Duration time.Duration `json:"duration"`
}

// Line is the hello as it is sent.
func (h Hello) Line() string {
	raw, err := json.Marshal(h)
	if err != nil {
		panic(err) // it has no field that cannot be encoded
	}
	return string(raw) + "\n"
}

// longest line of the protocol, in bytes. A tally has a bin for each tenth of a second.
const longest = 1 << 20

// readLine reads one line without reading beyond it.
func readLine(r io.Reader, out any) error {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			return fmt.Errorf("read line: %w", err)
		}
		if one[0] == '\n' {
			break
		}
		if line = append(line, one[0]); len(line) > longest {
			return fmt.Errorf("read line: longer than %d bytes", longest)
		}
	}
	if err := json.Unmarshal(line, out); err != nil {
		return fmt.Errorf("read line: %w", err)
	}
	return nil
}

// step is the width of a tally's bins.
const step = 100 * time.Millisecond

// Tally is what a receiver got in the window.
type Tally struct {
	// Bins are the bytes by tenths of a second.
	Bins []int64 `json:"bins"`
	// Datagrams received of those that were sent in the window, whenever they came.
	Datagrams int64 `json:"datagrams,omitempty"`
}

// window is where a tally counts.
type window struct {
	begin, end time.Time
	tally      Tally
}

// newWindow places the hello's window on this process's clock.
func newWindow(h Hello) (*window, error) {
	begin, err := onWall(h.Begin)
	if err != nil {
		return nil, err
	}
	w := &window{begin: begin}
	w.end = w.begin.Add(h.Duration)
	w.tally.Bins = make([]int64, (h.Duration+step-1)/step)
	return w, nil
}

// onWall is when the monotonic clock shows at. Its two clocks are read one after the
// other: where this process had to wait for a CPU between, they are read again.
func onWall(at time.Duration) (time.Time, error) {
	const apart, tries = 50 * time.Microsecond, 5
	var best time.Time
	least := time.Duration(math.MaxInt64)
	for range tries {
		before, err := program.Monotonic()
		wall := time.Now()
		after, afterErr := program.Monotonic()
		if err := errors.Join(err, afterErr); err != nil {
			return time.Time{}, err
		}
		if d := after - before; d < least {
			least, best = d, wall.Add(at-before-d/2)
		}
		if least < apart {
			break
		}
	}
	return best, nil
}

// count adds what has come now and reports whether the window goes on.
func (w *window) count(n int) bool {
	at := time.Since(w.begin)
	if at < 0 {
		return true
	}
	bin := int(at / step)
	if bin >= len(w.tally.Bins) || !w.begin.Add(at).Before(w.end) {
		return false
	}
	w.tally.Bins[bin] += int64(n)
	return true
}

// Bytes is the sum of the bins.
func (t Tally) Bytes() (sum int64) {
	for _, b := range t.Bins {
		sum += b
	}
	return sum
}

// add adds another receiver's.
func (t *Tally) add(o Tally) {
	for len(t.Bins) < len(o.Bins) {
		t.Bins = append(t.Bins, 0)
	}
	for i, b := range o.Bins {
		t.Bins[i] += b
	}
	t.Datagrams += o.Datagrams
}

// check refuses what no receiver can have counted.
func (t Tally) check() error {
	for _, b := range t.Bins {
		if b < 0 {
			return fmt.Errorf("read tally: %d bytes", b)
		}
	}
	if t.Datagrams < 0 {
		return fmt.Errorf("read tally: %d datagrams", t.Datagrams)
	}
	return nil
}
