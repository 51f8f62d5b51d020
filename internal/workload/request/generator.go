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
	"net"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/workload"
)

// Offer is what the generator's client does, in the pod.
type Offer struct {
	// Target is the server's address and port.
	Target string
	// Connections side by side, each with one request under way.
	Connections int
	// Size of a request, and of its answer, in bytes.
	Size int
	// Once opens a connection for each request.
	Once bool
	// Begin and Duration of the window; Begin is a time of the monotonic clock,
	// which processes share, so that the client and the one who accounts for
	// CPU time mean the same window.
	Begin, Duration time.Duration
}

// Count is what the client measured; it prints it as JSON.
type Count struct {
	// Operations that began in the window and were answered.
	Operations int64 `json:"operations"`
	// Failed are those that began in the window and were not.
	Failed int64 `json:"failed"`
	// Failure is the first one's reason, also of one before the window.
	Failure string            `json:"failure,omitempty"`
	Latency *sample.Histogram `json:"latency"`
}

// add adds what another connection counted.
func (c *Count) add(o Count) {
	if c.Failure == "" || (c.Failed == 0 && o.Failed > 0) {
		c.Failure = o.Failure
	}
	c.Operations += o.Operations
	c.Failed += o.Failed
	c.Latency.Merge(o.Latency)
}

// patience is how long after the window an answer may come.
const patience = 2 * time.Second

// Generate offers the load and writes what was measured to w. Requests that
// fail are counted; when none succeeds in the window, that is an error.
func Generate(ctx context.Context, w io.Writer, o Offer) error {
	now, err := workload.Monotonic()
	if err != nil {
		return err
	}
	begin := time.Now().Add(o.Begin - now)
	if late := time.Since(begin); late > 0 {
		return fmt.Errorf("start generator: %v after the window began: the machine is too busy", late.Round(time.Millisecond))
	}
	c := &client{Offer: o, begin: begin, end: begin.Add(o.Duration)}
	counts := make([]Count, o.Connections)
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() { counts[i] = c.loop(ctx) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	sum := Count{Latency: sample.NewHistogram()}
	for _, n := range counts {
		sum.add(n)
	}
	if sum.Operations == 0 {
		return fmt.Errorf("no request to %s was answered in the window: %s", o.Target, sum.Failure)
	}
	if err := json.NewEncoder(w).Encode(sum); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// client is a running Offer.
type client struct {
	Offer
	begin, end time.Time
}

// loop sends requests one after the other until the window is over.
func (c *client) loop(ctx context.Context) Count {
	n := Count{Latency: sample.NewHistogram()}
	var late string
	var conn net.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	q := newQuestion(c.Size)
	for ctx.Err() == nil {
		start := time.Now()
		if !start.Before(c.end) {
			n.Failure = cmp.Or(n.Failure, late) // nothing worse
			return n
		}
		var err error
		if conn == nil {
			if conn, err = c.dial(ctx); err == nil && !c.Once {
				if took := time.Since(start); start.Add(took).After(c.begin) {
					late = fmt.Sprintf("connecting took %v, into the window", took.Round(time.Millisecond))
				}
				continue // what connecting took is no request's
			}
		}
		if err == nil {
			err = c.ask(conn, q)
		}
		if conn != nil && (c.Once || err != nil) {
			conn.Close()
			conn = nil
		}
		c.count(&n, start, err)
	}
	return n
}

// count adds a request that began at start, if that was in the window.
func (c *client) count(n *Count, start time.Time, err error) {
	took := time.Since(start)
	if err != nil {
		time.Sleep(time.Millisecond) // do not spin on a server that refuses
		if n.Failure == "" {
			n.Failure = err.Error()
		}
	}
	switch {
	case start.Before(c.begin):
	case err == nil:
		n.Operations++
		n.Latency.Record(took)
	default:
		n.Failed++
	}
}

func (c *client) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Deadline: c.end.Add(patience), KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", c.Target)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := conn.SetDeadline(c.end.Add(patience)); err != nil {
		return conn, fmt.Errorf("set deadline: %w", err)
	}
	return conn, nil
}

// ask sends one request and reads its answer and, where the connection is for
// it alone, the server's close: the server closes first, so that TIME_WAIT is
// on its side and the client's ports do not run out.
func (c *client) ask(conn net.Conn, q *question) error {
	q.next()
	if _, err := conn.Write(q.sent); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if _, err := io.ReadFull(conn, q.got); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if !bytes.Equal(q.sent, q.got) {
		return errors.New("receive: the answer is not what was sent")
	}
	if !c.Once {
		return nil
	}
	switch n, err := conn.Read(q.got); {
	case n > 0:
		return errors.New("receive end: the server sent more than it was asked for")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("receive end: %w", err)
	default:
		return nil
	}
}

// question is one connection's request and what came back for it.
type question struct {
	sent, got []byte
	number    uint64
}

func newQuestion(size int) *question {
	return &question{sent: make([]byte, size), got: make([]byte, size)}
}

// next makes a request that differs from the one before, so that no old answer
// passes for a new one.
func (q *question) next() {
	q.number++
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], q.number)
	copy(q.sent, n[:])
}

// Serve answers requests of size bytes on addr until ctx ends.
func Serve(ctx context.Context, addr string, size int, once bool) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go answer(conn, size, once)
	}
}

// answer serves one connection. What goes wrong on it, the client tells.
func answer(conn net.Conn, size int, once bool) {
	defer conn.Close()
	buf := make([]byte, size)
	for {
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		if _, err := conn.Write(buf); err != nil || once {
			return
		}
	}
}
