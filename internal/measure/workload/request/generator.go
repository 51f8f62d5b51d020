package request

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
	"pathwise.dev/pathwise/internal/sample"
)

// Offer is what the generator's client does, in the pod.
type Offer struct {
	// Proto is TCP unless it says UDP.
	Proto workload.Proto
	// Target is the server's address and port.
	Target netip.AddrPort
	// Connections side by side, each with one request under way.
	Connections int
	// Size of a request, and of its answer, in bytes.
	Size int
	// Once opens a connection for each request.
	Once bool
	// Hello is sent first on each connection, to a server that wants to be told
	// what it is for.
	Hello string
	// Congestion is TCP's congestion control; "" is the machine's, and UDP's.
	Congestion string
	// Begin and Duration of the window; Begin is a time of the monotonic clock,
	// which processes share, so that the client and the one who accounts for
	// CPU time mean the same window.
	Begin, Duration time.Duration
}

// Patience of the client.
const (
	// patience is how long after the window an answer may come.
	patience = 2 * time.Second
	// lost is how long a datagram's answer may take. Nobody sends it again.
	lost = 250 * time.Millisecond
)

// Generate offers the load and writes what was measured to w. Requests that
// fail are counted; when none succeeds in the window, that is an error.
func Generate(ctx context.Context, w io.Writer, o Offer) error {
	begin, err := workload.Until(o.Begin)
	if err != nil {
		return err
	}
	socket.Threads(o.Connections)
	counts := make([]workload.Count, o.Connections)
	var wg sync.WaitGroup
	for i := range counts {
		c := &client{Offer: o, begin: begin, end: begin.Add(o.Duration), request: make([]byte, o.Size),
			answer: make([]byte, o.Size)}
		wg.Go(func() { counts[i] = c.loop(ctx) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	sum := workload.Count{Latency: sample.NewHistogram()}
	for _, n := range counts {
		sum.Add(n)
	}
	if sum.Operations == 0 {
		return fmt.Errorf("no request to %s was answered in the window: %s", o.Target, sum.Failure)
	}
	if err := json.NewEncoder(w).Encode(sum); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// client is one connection of a running Offer.
type client struct {
	Offer
	begin, end      time.Time
	request, answer []byte
	sequence        uint64
}

// loop sends requests one after the other until the window is over.
func (c *client) loop(ctx context.Context) workload.Count {
	n := workload.Count{Latency: sample.NewHistogram()}
	var late string
	var conn *socket.Socket
	hangup := func() {}
	leave := func() {
		hangup()
		if conn != nil {
			conn.Close()
		}
		conn, hangup = nil, func() {}
	}
	defer func() { leave() }()
	turn, start := socket.Loop{}, time.Now()
	for ctx.Err() == nil {
		if !start.Before(c.end) {
			n.Failure = cmp.Or(n.Failure, late) // nothing worse
			return n
		}
		var err error
		if conn == nil {
			if conn, err = c.dial(); err == nil {
				hangup = c.bound(ctx, conn)
			}
			if err == nil && !c.Once {
				if took := time.Since(start); took > time.Millisecond && start.Add(took).After(c.begin) {
					late = fmt.Sprintf("connecting took %v, into the window", took.Round(time.Millisecond))
				}
				start = time.Now() // what connecting took is no request's
				continue
			}
		}
		if err == nil {
			err = c.ask(conn)
		}
		if err != nil && time.Since(c.end) >= patience { // hung up by bound
			err = fmt.Errorf("receive: %w", os.ErrDeadlineExceeded)
		}
		end := time.Now()
		c.count(&n, start, end, err)
		// One request begins when another ends, as reading the clock takes time,
		// too, unless something else was done meanwhile.
		start = end
		if turn.TurnAt(end) || err != nil || c.Once {
			// A datagram that was lost says nothing against the socket.
			if c.Once || err != nil && !(c.Proto == workload.UDP && errors.Is(err, os.ErrDeadlineExceeded)) {
				leave()
			}
			if err != nil {
				time.Sleep(time.Millisecond) // do not spin on a server that refuses
			}
			start = time.Now()
		}
	}
	return n
}

// bound ends what the connection waits for when its time is up. The function
// that it returns must be called before the connection is closed.
func (c *client) bound(ctx context.Context, conn *socket.Socket) func() {
	if c.Once { // a timer and a watcher would cost as much as the connection
		return func() {}
	}
	timer := time.AfterFunc(time.Until(c.end.Add(patience)), conn.Hangup)
	watcher := context.AfterFunc(ctx, conn.Hangup)
	return func() { timer.Stop(); watcher() }
}

// count adds a request from start to end, if it began in the window.
func (c *client) count(n *workload.Count, start, end time.Time, err error) {
	if err != nil && n.Failure == "" {
		n.Failure = err.Error()
	}
	switch {
	case start.Before(c.begin):
	case err == nil:
		n.Operations++
		n.Latency.Record(end.Sub(start))
	default:
		n.Failed++
	}
}

func (c *client) dial() (conn *socket.Socket, err error) {
	left := time.Until(c.end.Add(patience))
	if conn, err = socket.Dial(c.Proto, c.Target, left, socket.Congestion(c.Congestion)); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	switch {
	case c.Proto == workload.UDP:
		err = conn.Patience(lost)
	case c.Once: // there is nothing that Nagle's algorithm could delay
		err = conn.Patience(left)
	default: // bound sees to its end: patience would set a timer for each answer
		err = conn.Undelayed()
	}
	if err == nil && c.Hello != "" {
		_, err = io.WriteString(conn, c.Hello)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// ask sends one request and reads its answer, which must be the same bytes.
func (c *client) ask(conn *socket.Socket) error {
	c.number()
	if _, err := conn.Write(c.request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if c.Proto == workload.UDP {
		return c.await(conn)
	}
	if _, err := io.ReadFull(conn, c.answer); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if !bytes.Equal(c.request, c.answer) {
		return errors.New("receive: the answer is not what was sent")
	}
	if !c.Once {
		return nil
	}
	// The server closes first, so that TIME_WAIT is on its side and the
	// client's ports do not run out.
	switch n, err := conn.Read(c.answer); {
	case n > 0:
		return errors.New("receive end: the server sent more than it was asked for")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("receive end: %w", err)
	default:
		return nil
	}
}

// number makes the request differ from those before it, as far as its size allows.
func (c *client) number() {
	c.sequence++
	var seq [8]byte
	binary.LittleEndian.PutUint64(seq[:], c.sequence)
	copy(c.request, seq[:])
}

// await reads datagrams until the answer comes. Late answers to requests that
// were given up are none.
func (c *client) await(conn *socket.Socket) error {
	for {
		n, err := conn.Read(c.answer)
		switch {
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case n == len(c.request) && bytes.Equal(c.request, c.answer):
			return nil
		}
	}
}
