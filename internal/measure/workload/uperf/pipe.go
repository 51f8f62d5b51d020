package uperf

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// moved is what one read or write moved.
type moved struct {
	// received is bytes of payload; arrived and sent are datagrams.
	received, arrived, sent int64
}

// pipe is a connection once both ends know what it is for.
type pipe struct {
	*socket.Socket
	// control is the TCP connection of a flow by UDP.
	control   *socket.Socket
	datagrams bool
	buf, zero []byte
	sizes     *rand.Rand
	// tell is told of every read, and of every datagram written.
	tell func(moved, time.Time)
	turn socket.Loop
	// waits is how long a read waits, where that is not for the connection's whole
	// time.
	waits time.Duration
	// begun: the client has said that it begins.
	begun bool
	// over: the control connection has ended.
	over atomic.Bool
}

// longestRead is how much one read takes at most.
const longestRead = 256 << 10

// newPipe is the server's end of a connection, or with mirrored the client's.
func newPipe(data, control *socket.Socket, h hello, mirrored bool, z *zeros, tell func(moved, time.Time)) *pipe {
	read, write := h.most()
	if mirrored {
		read, write = write, read
	}
	room := min(read, longestRead)
	if h.datagrams() {
		room = max(room, len(greeting(h.Token))) + 1 // one that is longer shows
	}
	return &pipe{Socket: data, control: control, datagrams: h.datagrams(), buf: make([]byte, room),
		zero:  z.atLeast(max(room, write)),
		sizes: rand.New(rand.NewPCG(h.Seed, 0)), tell: tell}
}

// zeros are zero bytes that all connections send and compare with: with thousands
// of connections those of each would take more memory than there is.
type zeros struct {
	mu   sync.Mutex
	have []byte
}

func (z *zeros) atLeast(n int) []byte {
	z.mu.Lock()
	defer z.mu.Unlock()
	if n > len(z.have) {
		z.have = make([]byte, n)
	}
	return z.have
}

// begin says that payload comes by UDP from now on, once.
func (p *pipe) begin() error {
	if p.control == nil || p.begun {
		return nil
	}
	p.begun = true
	_, err := p.control.Write([]byte("\n"))
	return err
}

// draw is the size of the next message.
func (p *pipe) draw(least, most int) int {
	if most <= least {
		return least
	}
	return least + p.sizes.IntN(most-least+1)
}

// write sends a message of zero bytes, as uperf does.
func (p *pipe) write(least, most int) (int, error) {
	n := p.draw(least, most)
	if _, err := p.Write(p.zero[:n]); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	if p.datagrams {
		p.tell(moved{sent: 1}, time.Now())
	}
	return n, nil
}

var errNotZero = errors.New("read: what came is not what uperf's ends send")

// read takes a message, all of which must be zero. Of a stream both ends draw the
// same sizes; a datagram tells its own.
func (p *pipe) read(least, most int) (int, error) {
	if p.datagrams {
		return p.datagram(least, most)
	}
	n := p.draw(least, most)
	for left := n; left > 0; {
		got, err := p.take(min(left, len(p.buf)))
		if err != nil {
			return 0, err
		}
		left -= got
		p.tell(moved{received: int64(got)}, time.Now())
	}
	return n, nil
}

// take reads once.
func (p *pipe) take(room int) (int, error) {
	got, err := p.Read(p.buf[:room])
	if timedOut(err) && p.waits > 0 {
		return 0, fmt.Errorf("%w %v", errLate, p.waits)
	}
	if err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(p.buf[:got], p.zero[:got]) && !(p.datagrams && isGreeting(p.buf[:got])) {
		return 0, errNotZero
	}
	return got, nil
}

// errLate is of a read that waited for as long as it may.
var errLate = errors.New("read: nothing came within")

// datagram reads a datagram.
func (p *pipe) datagram(least, most int) (int, error) {
	for {
		got, err := p.take(len(p.buf))
		switch {
		case err != nil:
			return 0, err
		case isGreeting(p.buf[:got]):
			continue // said once more than was needed
		}
		p.tell(moved{received: int64(got), arrived: 1}, time.Now())
		if got < least || got > max(least, most) {
			return 0, fmt.Errorf("read: a datagram of %d bytes in place of one of %d, which is lost", got, least)
		}
		return got, nil
	}
}

// within bounds reads from here on; 0 is for as long as the connection has.
func (p *pipe) within(d time.Duration, whole func() time.Duration) error {
	if d == p.waits {
		return nil
	}
	p.waits = d
	if d == 0 {
		d = whole()
	}
	return p.Patience(d)
}
