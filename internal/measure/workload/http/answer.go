package http

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// maxHeader is how long an answer's header may be, in bytes.
const maxHeader = 16 << 10

// answer reads one HTTP/1.1 answer as it comes in: a status of 200 and a body of
// exactly the length that was asked for. Anything else is no answer.
type answer struct {
	// want is the length of the body.
	want int64
	// header collects what came in of a header that is not yet whole.
	header []byte
	// left of the body; negative while the header is read.
	left int64
	// server is what the header Server says.
	server string
}

func newAnswer(size int64) answer { return answer{want: size, left: -1} }

// reset makes it ready for the next answer.
func (a *answer) reset() { a.header, a.left = a.header[:0], -1 }

// feed takes the bytes that came in and reports whether the answer is complete.
func (a *answer) feed(p []byte) (done bool, err error) {
	if a.left < 0 {
		if p, err = a.head(p); err != nil || a.left < 0 {
			return false, err
		}
	}
	a.left -= int64(len(p))
	if a.left < 0 {
		return false, errors.New("the server sent more than was asked for")
	}
	return a.left == 0, nil
}

// head takes what belongs to the header and returns the rest.
func (a *answer) head(p []byte) ([]byte, error) {
	whole := p
	if len(a.header) > 0 {
		a.header = append(a.header, p...)
		whole = a.header
	}
	// What cannot become an answer is told at once: nothing more may come.
	if n := min(len(whole), len(version)); string(whole[:n]) != version[:n] {
		return nil, fmt.Errorf("the server does not speak HTTP/1.1: it says %.40q", whole)
	}
	end := bytes.Index(whole, []byte("\r\n\r\n"))
	switch {
	case end > maxHeader, end < 0 && len(whole) > maxHeader:
		return nil, fmt.Errorf("the header of the answer is longer than %d bytes", maxHeader)
	case end < 0:
		if len(a.header) == 0 {
			a.header = append(a.header, p...)
		}
		return nil, nil
	}
	if err := a.parse(whole[:end]); err != nil {
		return nil, err
	}
	return whole[end+4:], nil
}

const version = "HTTP/1.1 "

// parse reads the header without the empty line at its end.
func (a *answer) parse(head []byte) error {
	status, rest, _ := bytes.Cut(head, []byte("\r\n"))
	text := status[min(len(version), len(status)):]
	if !bytes.HasPrefix(text, []byte("200")) || len(text) > 3 && text[3] != ' ' {
		return fmt.Errorf("the server answered %.40q", text)
	}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			if err != nil || n != a.want {
				return fmt.Errorf("the answer has a Content-Length of %.20q, expected %d", bytes.TrimSpace(value), a.want)
			}
			a.left = n
		case a.server == "" && len(name) == len("Server") && bytes.EqualFold(name, []byte("Server")):
			a.server = string(bytes.TrimSpace(value))
		}
	}
	if a.left < 0 {
		return errors.New("the answer has no Content-Length")
	}
	return nil
}
