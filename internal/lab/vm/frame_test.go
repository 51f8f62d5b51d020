package vm

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

// FuzzReceive: whatever a machine sends, it ends with an exit code that was there or
// an error, and no more is written than came.
func FuzzReceive(f *testing.F) {
	var whole bytes.Buffer
	s := &sender{w: &whole}
	for _, err := range []error{s.send(frameStdout, []byte("out")), s.send(frameStderr, nil),
		s.send(frameExit, []byte{0, 0, 0, 7})} {
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Add(whole.Bytes())
	f.Add([]byte{frameStdout, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{frameExit, 0, 0, 0, 1, 9})
	f.Add([]byte{frameError, 0, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out, errs bytes.Buffer
		code, err := receive(bytes.NewReader(raw), Streams{Stdout: &out, Stderr: &errs})
		if out.Len()+errs.Len() > len(raw) {
			t.Errorf("%d bytes of %d were written", out.Len()+errs.Len(), len(raw))
		}
		if err == nil && (!bytes.Contains(raw, binary.BigEndian.AppendUint32([]byte{frameExit, 0, 0, 0, 4}, uint32(code))) ||
			code < 0) {
			t.Errorf("ended with %d, which nobody said: %x", code, raw)
		}
		var in closed
		feed(bytes.NewReader(raw), &in)
		if in.n > len(raw) || !in.closed {
			t.Errorf("a program was given %d bytes of %d, closed %v", in.n, len(raw), in.closed)
		}
		kind, content, err := readFrame(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := (&sender{w: &again}).send(kind, content); err != nil || !bytes.HasPrefix(raw, again.Bytes()) {
			t.Errorf("%x came back as %x: %v", raw, again.Bytes(), err)
		}
	})
}

// closed is a program's standard input.
type closed struct {
	n      int
	closed bool
}

func (c *closed) Write(b []byte) (int, error) {
	if c.closed {
		return 0, io.ErrClosedPipe
	}
	c.n += len(b)
	return len(b), nil
}

func (c *closed) Close() error { c.closed = true; return nil }
