package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/json"
)

// What an API server writes of a node is for the most part who has written which field, and pods that are as
// they were. So its JSON is parted, and those parts alone are decoded that are new.

// errCut says that a text ends before its JSON does, or is none.
var errCut = errors.New("cut off, or no JSON")

// spans finds where an object, a list or a string ends. It goes on where it has stopped.
type spans struct {
	at, depth int
	text      bool // in a string
}

// end is the place after the value, or -1 where it goes on after b.
func (s *spans) end(b []byte) int {
	for ; s.at < len(b); s.at++ {
		c := b[s.at]
		if s.text {
			if c == '\\' {
				s.at++ // what it escapes
			} else if c == '"' {
				s.text = false
				if s.depth == 0 {
					return s.at + 1
				}
			}
			continue
		}
		switch c {
		case '"':
			s.text = true
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth--; s.depth <= 0 {
				return s.at + 1
			}
		}
	}
	return -1
}

// cursor is a place in JSON.
type cursor struct {
	b []byte
	i int
}

// peek is what comes next that is no space; 0 is the end.
func (c *cursor) peek() byte {
	for ; c.i < len(c.b); c.i++ {
		switch c.b[c.i] {
		case ' ', '\n', '\t', '\r':
		default:
			return c.b[c.i]
		}
	}
	return 0
}

// take takes the value that comes next.
func (c *cursor) take() ([]byte, error) {
	var n int
	switch c.peek() {
	case '"', '{', '[':
		n = (&spans{}).end(c.b[c.i:])
	default: // a number, true, false or null
		if n = bytes.IndexAny(c.b[c.i:], ",]} \t\r\n"); n < 0 {
			n = len(c.b) - c.i
		}
	}
	if n <= 0 {
		return nil, errCut
	}
	value := c.b[c.i : c.i+n]
	c.i += n
	return value, nil
}

// into decodes the value that comes next.
func (c *cursor) into(to any) error {
	value, err := c.take()
	if err == nil {
		err = json.Unmarshal(value, to)
	}
	return err
}

// each has what is between two brackets be taken, one after the other.
func (c *cursor) each(open, shut byte, take func() error) error {
	if c.peek() != open {
		return errCut
	}
	for c.i++; c.peek() != shut; {
		if err := take(); err != nil {
			return err
		}
		switch c.peek() {
		case ',':
			c.i++
		case shut:
		default:
			return errCut
		}
	}
	c.i++
	return nil
}

// members has the value of each member of an object be taken. Its key is as it is written.
func (c *cursor) members(take func(key string) error) error {
	return c.each('{', '}', func() error {
		if c.peek() != '"' {
			return errCut
		}
		key, err := c.take()
		if err != nil || c.peek() != ':' {
			return errCut
		}
		c.i++
		return take(string(key[1 : len(key)-1]))
	})
}

// elements has each element of a list be taken; null is an empty one.
func (c *cursor) elements(take func() error) error {
	if c.peek() == 'n' {
		var none []struct{}
		return c.into(&none)
	}
	return c.each('[', ']', take)
}

// pass passes a value that nobody asks for.
func (c *cursor) pass() error {
	_, err := c.take()
	return err
}

// mostFrame bounds an object that comes: etcd takes none of more than a megabyte and a half.
const mostFrame = 16 << 20

// frames reads objects that come one after the other.
type frames struct {
	from io.Reader
	buf  []byte // what was read, and not returned
	used int    // of it, what was returned the last time
}

// next is the next one, until the next is asked for.
func (f *frames) next() ([]byte, error) {
	f.buf = f.buf[:copy(f.buf, f.buf[f.used:])]
	f.used = 0
	for s := (spans{}); ; {
		if end := s.end(f.buf); end >= 0 {
			f.used = end
			return f.buf[:end], nil
		}
		at := len(f.buf)
		if at >= mostFrame {
			return nil, fmt.Errorf("an object of more than %d bytes", mostFrame)
		}
		if cap(f.buf)-at < 4<<10 {
			f.buf = append(make([]byte, 0, max(32<<10, 2*cap(f.buf))), f.buf...)
		}
		n, err := f.from.Read(f.buf[at:cap(f.buf)])
		f.buf = f.buf[:at+n]
		if n == 0 && err != nil {
			if len(bytes.TrimSpace(f.buf)) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}
