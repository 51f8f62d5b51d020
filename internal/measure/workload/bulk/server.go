package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/request"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// Service is what the generator's server does, in the pod: it does with each
// connection what its hello asks for.
type Service struct {
	Addr netip.AddrPort
	// Connections to expect.
	Connections int
	// Datagrams are taken as well, at the same port.
	Datagrams bool
	// Congestion is TCP's congestion control.
	Congestion string
}

// Serve serves until ctx ends.
func (s Service) Serve(ctx context.Context) error {
	l, err := socket.Listen(workload.TCP, s.Addr, socket.Congestion(s.Congestion), socket.KeepAlive)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, l.Hangup)()
	socket.Threads(s.Connections + 1)
	var d *datagrams
	if s.Datagrams {
		u, err := socket.Listen(workload.UDP, s.Addr)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, u.Hangup)()
		d = &datagrams{}
		go d.receive(ctx, u)
	}
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go serve(ctx, conn, d, greet)
	}
}

// greet bounds how long a client may take to say what it wants.
const greet = 10 * time.Second

// serve serves one connection, whose hello is there within the given time. What
// goes wrong on it, the client tells.
func serve(ctx context.Context, conn *socket.Socket, d *datagrams, within time.Duration) {
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Hangup)()
	if conn.Patience(within) != nil {
		return
	}
	var h Hello
	if readLine(conn, &h) != nil || conn.Unbound() != nil || h.Size < 1 || h.Size > maxSize || h.Duration <= 0 ||
		h.Duration > longestWindow {
		return
	}
	w, err := newWindow(h)
	if err != nil {
		return
	}
	switch h.Direction {
	case Up:
		// The client's clock may be ahead by what this process waited for a CPU: who
		// ends its stream in order has had its window.
		if err := receive(conn, h.Size, w); err == nil || errors.Is(err, io.EOF) {
			_ = json.NewEncoder(conn).Encode(w.tally)
			_, _ = io.Copy(io.Discard, conn) // what is on its way, or the close resets the connection
		}
	case Down:
		// Until the client has had its window and closes: its clock is its own.
		w.end = w.end.Add(time.Second)
		_, _ = send(conn.Write, h.Size, w, nil)
	case Echo:
		_ = conn.Undelayed()
		request.Echo(conn, h.Size)
	case Datagrams:
		if d == nil {
			return
		}
		d.expect(w)
		if _, err := io.WriteString(conn, "{}\n"); err == nil && readLine(conn, &struct{}{}) == nil {
			_ = json.NewEncoder(conn).Encode(d.told())
		}
	}
}

// receive counts messages of up to size bytes until the window is over. The error
// is why the connection was before.
func receive(conn io.Reader, size int, w *window) error {
	// As iperf3 does, the receiver asks for as much as a message holds, and as netperf
	// for no less than a socket's buffer gathers of small ones: of 128 KiB, 256 and
	// 512 the second was the fastest (6.18, loopback, one core, 16 KiB: 45.8, 47.4, 46.0 Gbit/s).
	const least = 256 << 10
	buf := make([]byte, max(size, least))
	for turn := (socket.Loop{}); ; turn.Turn() {
		n, err := conn.Read(buf)
		if !w.count(n) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// send sends messages of size bytes until the window is over, and calls begun
// when it begins. It returns how many it sent in the window.
func send(write func([]byte) (int, error), size int, w *window, begun func()) (sent int64, err error) {
	buf := make([]byte, size)
	var turn socket.Loop
	var looks looks
	for inside := false; ; {
		if now, looked := looks.next(); looked {
			turn.TurnAt(now)
			if !now.Before(w.end) {
				return sent, nil
			}
			if !inside && !now.Before(w.begin) {
				if inside = true; begun != nil {
					begun()
				}
			}
		}
		if _, err := write(buf); err != nil {
			return sent, err
		}
		if inside {
			sent++
		}
	}
}

// looks are looks at the clock between messages, as often as their rate asks for:
// one for each would be a fiftieth of the CPU time of small ones.
type looks struct {
	last         time.Time
	stride, left int
}

// apart is how long messages between two looks may take together.
const apart = 20 * time.Microsecond

// next reads the clock, unless the messages since it was read cannot have taken long.
func (l *looks) next() (now time.Time, looked bool) {
	if l.left > 0 {
		l.left--
		return now, false
	}
	const most = 16
	now = time.Now()
	switch took := now.Sub(l.last); {
	case took > apart:
		l.stride = 1
	case took < apart/2:
		l.stride = min(2*l.stride, most)
	}
	l.last, l.left = now, l.stride-1
	return now, true
}

// datagrams counts what comes at the server's UDP port.
type datagrams struct {
	mu sync.Mutex
	w  *window
}

// Marks in a datagram's first byte.
const (
	markWarmup byte = iota
	markWindow
)

func (d *datagrams) expect(w *window) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.w = w
}

func (d *datagrams) told() Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.w.tally
}

// receive counts until the socket ends.
func (d *datagrams) receive(ctx context.Context, u *socket.Socket) {
	defer u.Close()
	buf := make([]byte, maxDatagram)
	for turn := (socket.Loop{}); ctx.Err() == nil; turn.Turn() {
		n, err := u.Read(buf)
		if err != nil {
			return
		}
		d.mu.Lock()
		if d.w != nil {
			d.w.count(n)
			if buf[0] == markWindow {
				d.w.tally.Datagrams++
			}
		}
		d.mu.Unlock()
	}
}
