package uperf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// Connections by UDP. uperf's end that connects says a line to the other's socket,
// and tells all the rest on its control connection. Here there is a control
// connection, by TCP, for each: it carries the hello, says when both ends are
// ready, and ends what has no end of its own. Both ends connect their sockets, as
// iperf3's do, so that the kernel tells flows apart.

// greetingWord begins what the end that connects says. Payload is zeros.
const greetingWord = "uperf udp "

// tokenLength is that of what tells a connection's greeting from others'.
const tokenLength = 26

func greeting(token string) string { return greetingWord + token }

func isGreeting(p []byte) bool { return strings.HasPrefix(string(p), greetingWord) }

// call says the greeting until the other end is ready.
func call(data, control *socket.Socket, token string, until time.Time) error {
	for again := time.Millisecond; ; again = min(2*again, 50*time.Millisecond) {
		if _, err := data.Write([]byte(greeting(token))); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := control.Patience(again); err != nil {
			return err
		}
		if err := expectReady(control); !timedOut(err) || time.Now().After(until) {
			return err
		}
	}
}

// hear waits for the greeting with the token, connects the socket to who says it,
// and says on control that it has come.
func hear(data, control *socket.Socket, token string) error {
	buf := make([]byte, len(greeting(token))+1)
	for {
		n, from, err := data.ReadFrom(buf)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return os.ErrDeadlineExceeded
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case from == nil: // hung up
			return errCut
		case string(buf[:n]) != greeting(token):
			continue
		}
		if err := data.Connect(from); err != nil {
			return err
		}
		_, err = control.Write([]byte(ready))
		return err
	}
}

// door is the socket on which greetings come to a server.
type door struct {
	*socket.Socket
	addr netip.AddrPort
	mu   sync.Mutex
	// waiting are the connections that expect a greeting, by its token.
	waiting map[string]chan *socket.Socket
}

// openDoor opens it on the address.
func openDoor(addr netip.AddrPort) (*door, error) {
	s, err := socket.Listen(workload.UDP, addr, socket.Shared)
	if err != nil {
		return nil, err
	}
	return &door{Socket: s, addr: addr, waiting: map[string]chan *socket.Socket{}}, nil
}

// open gives each greeting that is expected a socket of its own, until ctx ends.
func (d *door) open(ctx context.Context) error {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := d.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		token, is := strings.CutPrefix(string(buf[:n]), greetingWord)
		if !is || from == nil {
			continue
		}
		d.mu.Lock()
		if waits := d.waiting[token]; waits != nil {
			delete(d.waiting, token)
			waits <- d.answer(from)
		}
		d.mu.Unlock()
	}
}

// answer is a socket at the door's port for that peer alone; nil if there can be none.
func (d *door) answer(from syscall.Sockaddr) *socket.Socket {
	s, err := socket.Listen(workload.UDP, d.addr, socket.Shared)
	if err != nil {
		return nil
	}
	if err := s.Connect(from); err != nil {
		s.Close()
		return nil
	}
	return s
}

// expect says on control that a greeting with the token may come, and waits for it.
func (d *door) expect(control *socket.Socket, token string) (*socket.Socket, error) {
	waits := make(chan *socket.Socket, 1)
	d.mu.Lock()
	d.waiting[token] = waits
	d.mu.Unlock()
	_, err := control.Write([]byte(ready))
	if err == nil {
		select {
		case <-time.After(greet):
		case s := <-waits:
			return given(s)
		}
		err = fmt.Errorf("no datagram came within %v", greet)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, token)
	select {
	case s := <-waits:
		return given(s)
	default:
		return nil, err
	}
}

func given(s *socket.Socket) (*socket.Socket, error) {
	if s == nil {
		return nil, errors.New("no socket for the client's datagrams")
	}
	return s, nil
}
