package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bounds of what programs print, in bytes: a workload's result with its histograms
// and time lines is some MB, and of errors the end is what tells.
const (
	mostPrinted = 256 << 20
	mostErrors  = 64 << 10
)

// EndOf reads the last bytes of a log, of which others write as much as they like.
func EndOf(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-most), io.SeekStart)
	}
	raw, rerr := io.ReadAll(io.LimitReader(f, most))
	return raw, errors.Join(err, rerr)
}

// Capture keeps what a program prints, up to a bound. One that prints more is cut
// off: exec closes the pipe when Write fails.
type Capture struct {
	kept []byte
	most int
	over bool
}

// Captured is an empty one.
func Captured(most int) *Capture { return &Capture{most: most} }

// Bytes are what is kept.
func (c *Capture) Bytes() []byte { return c.kept }

func (c *Capture) Write(b []byte) (int, error) {
	if len(c.kept)+len(b) > c.most {
		c.over = true
		return 0, c.err()
	}
	c.kept = append(c.kept, b...)
	return len(b), nil
}

// err says that there was too much, if there was.
func (c *Capture) err() error {
	if !c.over {
		return nil
	}
	return fmt.Errorf("it printed more than %d bytes", c.most)
}

// ending keeps the end of what a program prints. It has no ReadFrom, as a buffer
// has: io.Copy would fill that to the last byte of memory and never call Write.
type ending struct {
	kept bytes.Buffer
	most int
}

// Bytes are what is kept.
func (e *ending) Bytes() []byte { return e.kept.Bytes() }

func (e *ending) Write(b []byte) (int, error) {
	if len(b) > e.most {
		e.kept.Reset()
	}
	e.kept.Write(b[max(0, len(b)-e.most):])
	if drop := e.kept.Len() - e.most; drop > e.most { // not at each write, which would move all of it
		e.kept.Next(drop)
	}
	return len(b), nil
}
