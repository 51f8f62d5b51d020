package lab

import (
	"bytes"
	"fmt"
)

// Bounds of what programs print, in bytes: a workload's result with its histograms
// and time lines is some MB, and of errors the end is what tells.
const (
	mostPrinted = 256 << 20
	mostErrors  = 64 << 10
)

// capture keeps what a program prints, up to a bound. One that prints more is cut
// off: exec closes the pipe when Write fails.
type capture struct {
	kept []byte
	most int
	over bool
}

func (c *capture) Write(b []byte) (int, error) {
	if len(c.kept)+len(b) > c.most {
		c.over = true
		return 0, c.err()
	}
	c.kept = append(c.kept, b...)
	return len(b), nil
}

// err says that there was too much, if there was.
func (c *capture) err() error {
	if !c.over {
		return nil
	}
	return fmt.Errorf("it printed more than %d bytes", c.most)
}

// ending keeps the end of what a program prints.
type ending struct {
	bytes.Buffer
	most int
}

func (e *ending) Write(b []byte) (int, error) {
	if len(b) > e.most {
		e.Reset()
	}
	e.Buffer.Write(b[max(0, len(b)-e.most):])
	if drop := e.Len() - e.most; drop > e.most { // not at each write, which would move all of it
		e.Next(drop)
	}
	return len(b), nil
}
