package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// Offer is what the generator's client does, in the pod.
type Offer struct {
	// Target is the server's address and port.
	Target netip.AddrPort
	// Up and Down are connections by which the client sends and receives.
	Up, Down int
	// Datagrams are sent from one socket, instead of connections.
	Datagrams bool
	// Size of a message in bytes.
	Size int
	// Congestion is TCP's congestion control; "" is the machine's.
	Congestion string
	// Begin and Duration of the window; Begin is a time of the monotonic clock.
	Begin, Duration time.Duration
}

// Count is what both ends measured; the client prints it as JSON.
type Count struct {
	// Up is what the server got, Down what the client got.
	Up, Down Tally
	// Sent are the datagrams that were sent in the window.
	Sent int64
	// Retransmits are the segments that the client sent again in the window.
	Retransmits int64
}

// Time that the client gives.
const (
	connectTimeout = 5 * time.Second
	// patience is how long after the window the server may take to tell its
	// tally, behind what waits in buffers.
	patience = 3 * time.Second
	// linger is how long after the last datagram others may be on their way.
	linger = 100 * time.Millisecond
)

// Generate offers the load and writes what was measured to w. A connection that
// fails is an error of the whole.
func Generate(ctx context.Context, w io.Writer, o Offer) error {
	_, err := workload.Until(o.Begin)
	if err != nil {
		return err
	}
	socket.Threads(o.Up + o.Down + 1)
	var sum Count
	if o.Datagrams {
		sum, err = o.datagrams(ctx)
	} else {
		sum, err = o.streams(ctx)
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(sum); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// streams runs all connections and adds up what they carried.
func (o Offer) streams(ctx context.Context) (sum Count, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failed []error
	var wg sync.WaitGroup
	for i := range o.Up + o.Down {
		wg.Go(func() {
			d, run := Up, o.up
			if i >= o.Up {
				d, run = Down, o.down
			}
			one, err := o.connection(ctx, d, run)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", d, err))
				cancel() // the first failure is the one to tell
			}
			sum.Up.add(one.Up)
			sum.Down.add(one.Down)
			sum.Retransmits += one.Retransmits
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		return sum, failed[0]
	}
	return sum, nil
}

// connection runs one connection, which ends at the latest when its time is up.
func (o Offer) connection(ctx context.Context, d Direction, run func(*socket.Socket, *window) (Count, error)) (
	Count, error) {
	h := Hello{Direction: d, Size: o.Size, Begin: o.Begin, Duration: o.Duration}
	w, err := newWindow(h)
	if err != nil {
		return Count{}, err
	}
	conn, err := socket.Dial(workload.TCP, o.Target, connectTimeout, socket.Congestion(o.Congestion))
	if err != nil {
		return Count{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Hangup)()
	late := time.AfterFunc(time.Until(w.end.Add(patience)), conn.Hangup)
	defer late.Stop()
	if _, err := io.WriteString(conn, h.Line()); err != nil {
		return Count{}, fmt.Errorf("say hello: %w", err)
	}
	c, err := run(conn, w)
	if err != nil && time.Since(w.end) >= patience {
		err = fmt.Errorf("%w: no tally within %v after the window", os.ErrDeadlineExceeded, patience)
	}
	return c, err
}

// up sends, and takes the server's tally.
func (o Offer) up(conn *socket.Socket, w *window) (c Count, err error) {
	var before, after uint32
	var bad error
	if _, err = send(conn.Write, o.Size, w, func() { before, bad = conn.Retransmitted() }); err != nil {
		return c, fmt.Errorf("send: %w", err)
	}
	after, err = conn.Retransmitted()
	if err = errors.Join(bad, err); err != nil {
		return c, err
	}
	if err := conn.CloseWrite(); err != nil {
		return c, fmt.Errorf("end stream: %w", err)
	}
	if err := readLine(conn, &c.Up); err != nil {
		return c, fmt.Errorf("take tally: %w", err)
	}
	c.Retransmits = int64(after - before)
	return c, c.Up.check()
}

// down counts what the server sends.
func (o Offer) down(conn *socket.Socket, w *window) (c Count, err error) {
	if err := receive(conn, o.Size, w); err != nil {
		return c, fmt.Errorf("receive: the connection ended before the window did: %w", err)
	}
	c.Down = w.tally
	return c, nil
}

// datagrams sends from one socket as fast as it takes them.
func (o Offer) datagrams(ctx context.Context) (Count, error) {
	return o.connection(ctx, Datagrams, func(conn *socket.Socket, w *window) (c Count, err error) {
		if err := readLine(conn, &struct{}{}); err != nil {
			return c, fmt.Errorf("await server: %w", err)
		}
		u, err := socket.Dial(workload.UDP, o.Target, connectTimeout)
		if err != nil {
			return c, fmt.Errorf("connect: %w", err)
		}
		defer u.Close()
		m := &marked{conn: u, mark: markWarmup}
		if c.Sent, err = send(m.send, o.Size, w, func() { m.mark = markWindow }); err != nil {
			return c, fmt.Errorf("send: %w", err)
		}
		c.Sent -= m.refused
		time.Sleep(linger)
		if _, err := io.WriteString(conn, "{}\n"); err != nil {
			return c, fmt.Errorf("end: %w", err)
		}
		if err := readLine(conn, &c.Up); err != nil {
			return c, fmt.Errorf("take tally: %w", err)
		}
		return c, c.Up.check()
	})
}

// marked sends datagrams with a mark.
type marked struct {
	conn *socket.Socket
	mark byte
	// refused are those that the kernel had no memory for, which netperf too
	// leaves out of what it sent.
	refused int64
}

// send writes the mark into p.
func (m *marked) send(p []byte) (int, error) {
	p[0] = m.mark
	n, err := m.conn.Write(p)
	if errors.Is(err, unix.ENOBUFS) {
		if m.mark == markWindow {
			m.refused++
		}
		return len(p), nil
	}
	return n, err
}
