package http

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// state of a connection.
type state int

const (
	idle state = iota
	connecting
	asking
	// closing: the answer is complete, the server's close is not there yet. It
	// closes first, so that TIME_WAIT is on its side and the client's ports do
	// not run out.
	closing
)

// conn is one connection: one request is under way at a time.
type conn struct {
	fd    int
	index int32
	state state
	// due is when the next request may begin, or by a rate must.
	due time.Duration
	// begun is when the request under way began, or was due.
	begun time.Duration
	// took is how long after begun its answer was complete.
	took   time.Duration
	answer answer
}

// start begins a request that counts from begun.
func (w *worker) start(c *conn, begun time.Duration) {
	c.begun = begun
	w.busy++
	if c.fd >= 0 {
		w.ask(c)
		return
	}
	c.state = connecting
	if err := w.connect(c); err != nil {
		w.finish(c, fmt.Errorf("connect: %w", err))
	}
}

func (w *worker) connect(c *conn) error {
	fd, err := unix.Socket(w.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.fd = fd
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := socket.Congest(fd, w.Congestion); err != nil {
		return err
	}
	if err := unix.Connect(fd, w.to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLOUT, Fd: c.index})
}

// ready acts on what epoll says of the connection.
func (w *worker) ready(c *conn) {
	switch c.state {
	case connecting:
		w.connected(c)
	case asking, closing:
		w.receive(c)
	default: // the server closed a connection that was idle
		w.hangup(c)
	}
}

func (w *worker) connected(c *conn) {
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err == nil {
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.index})
	}
	if err != nil {
		w.finish(c, fmt.Errorf("connect: %w", err))
		return
	}
	if !w.Close && w.step == 0 {
		c.begun = w.now() // what connecting took is no request's
	}
	w.ask(c)
}

// ask sends the request.
func (w *worker) ask(c *conn) {
	c.state = asking
	c.answer.reset()
	// Nothing else is in the socket's buffer, so all of it fits.
	if n, err := unix.Write(c.fd, w.request); err != nil {
		w.finish(c, fmt.Errorf("send: %w", err))
	} else if n != len(w.request) {
		w.finish(c, errors.New("send: the socket took a part of the request"))
	}
}

// receive reads what there is.
func (w *worker) receive(c *conn) {
	for {
		n, err := unix.Read(c.fd, w.buf)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			return
		case c.state == closing && err == nil && n == 0:
			w.finish(c, nil)
			return
		case c.state == closing && err == nil:
			w.finish(c, errors.New("receive end: the server sent more than was asked for"))
			return
		case err != nil:
			w.finish(c, fmt.Errorf("receive: %w", err))
			return
		case n == 0:
			w.finish(c, errClosed)
			return
		}
		done, err := c.answer.feed(w.buf[:n])
		switch {
		case err != nil:
			w.finish(c, fmt.Errorf("receive: %w", err))
			return
		case done:
			c.took = w.now() - c.begun
			if !w.Close {
				w.finish(c, nil)
				return
			}
			c.state = closing
		case n < len(w.buf):
			return
		}
	}
}

// finish ends the request under way.
func (w *worker) finish(c *conn, err error) {
	w.count(c, err)
	if err != nil || w.Close {
		w.hangup(c)
	}
	c.state = idle
	w.busy--
	switch {
	case w.step > 0:
		c.due = c.begun + w.step
	case err != nil:
		c.due = w.now() + time.Millisecond // do not spin on a server that refuses
	}
	heap.Push(&w.waiting, c)
}

func (w *worker) hangup(c *conn) {
	if c.fd >= 0 {
		_ = unix.Close(c.fd) // which takes it out of epoll
	}
	c.fd = -1
}

// queue is the connections that wait, by when they are due.
type queue []*conn

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(c any)        { *q = append(*q, c.(*conn)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}
