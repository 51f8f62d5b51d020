package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
)

// serving returns the address of a server on a loopback port of this test's own.
func serving(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Service{Addr: addr, Connections: 4, Datagrams: true}.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr.String())
		if err == nil {
			c.Close()
			return addr
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
}

func offer(t *testing.T, target netip.AddrPort) Offer {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	return Offer{Target: target, Size: 1000, Begin: now + 100*time.Millisecond, Duration: 250 * time.Millisecond}
}

func TestGenerate(t *testing.T) {
	for name, set := range map[string]func(*Offer){
		"up":        func(o *Offer) { o.Up = 2 },
		"both ways": func(o *Offer) { o.Up, o.Down = 1, 1 },
		"datagrams": func(o *Offer) { o.Up, o.Datagrams = 1, true },
	} {
		o := offer(t, serving(t))
		set(&o)
		var out bytes.Buffer
		if err := Generate(t.Context(), &out, o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := parse(out.Bytes())
		if err != nil || c.Up.Bytes() == 0 || (c.Down.Bytes() > 0) != (o.Down > 0) || len(c.Up.Bins) != 3 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if o.Datagrams && (c.Sent == 0 || c.Up.Datagrams == 0 || c.Up.Datagrams > c.Sent) {
			t.Errorf("%s: %d of %d datagrams", name, c.Up.Datagrams, c.Sent)
		}
	}
}

// TestServersThatFail: each ends with a reason, and no figure.
func TestServersThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"closes":         {func(c net.Conn) { c.Close() }, ""},
		"tells nonsense": {func(c net.Conn) { _, _ = c.Write([]byte("warp\n")); _, _ = c.Read(make([]byte, 1<<20)) }, ""},
		"tells less than nothing": {func(c net.Conn) {
			_, _ = c.Write([]byte(`{"bins":[-1]}` + "\n"))
			for buf := make([]byte, 1<<16); ; {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
		}, "-1 bytes"},
		"stalls": {func(net.Conn) {}, "timeout"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := l.Accept(); err == nil {
				tc.serve(c)
			}
		}()
		o := offer(t, netip.MustParseAddrPort(l.Addr().String()))
		o.Up = 1
		var out bytes.Buffer
		if err := Generate(t.Context(), &out, o); err == nil || !strings.Contains(err.Error(), tc.want) || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
		l.Close()
	}
}

// TestWindow: what comes before and after does not count.
func TestWindow(t *testing.T) {
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		begin time.Duration
		on    bool
		bytes int64
	}{{time.Hour, true, 0}, {-time.Second, true, 7}, {-time.Hour, false, 0}} {
		w, err := newWindow(Hello{Begin: now + tc.begin, Duration: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if on := w.count(7); on != tc.on || w.tally.Bytes() != tc.bytes {
			t.Errorf("begin in %v: goes on %v, %d bytes", tc.begin, on, w.tally.Bytes())
		}
	}
}

func TestSeries(t *testing.T) {
	got := Tally{Bins: []int64{100, 50}}.series(150 * time.Millisecond)
	if len(got) != 2 || got[0].Value != 8000 || got[1].At != 0.1 || got[1].Value != 8000 {
		t.Errorf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"Up":{"bins":[1,2]},"Down":{"bins":null},"Sent":3}`))
	f.Add([]byte(`{"Up":{"bins":[-1]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parse(raw); err == nil && (!json.Valid(raw) || c.Sent < 0) {
			t.Errorf("accepted %+v", c)
		}
	})
}

// FuzzReadLine: a server reads its hellos from anyone.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte(Hello{Direction: Up, Size: 1, Duration: time.Second}.Line()))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h Hello
		if err := readLine(bytes.NewReader(raw), &h); err == nil && !bytes.Contains(raw, []byte("\n")) {
			t.Error("accepted what is no line")
		}
	})
}

// TestLooks: slow messages are timed one by one, quick ones some at a time.
func TestLooks(t *testing.T) {
	var l looks
	for range 3 {
		if _, looked := l.next(); !looked {
			t.Error("the clock was not read after a message that took long")
		}
		l.last = time.Now().Add(-time.Second)
	}
	read := 0
	for range 100 {
		if _, looked := l.next(); looked {
			read++
			l.last = time.Now()
		}
	}
	if read > 20 {
		t.Errorf("the clock was read %d times in 100 messages that took no time", read)
	}
	l.left, l.last = 0, time.Now().Add(-time.Second)
	l.next()
	if _, looked := l.next(); !looked {
		t.Error("the clock was not read again at once when messages became slow")
	}
}

// TestClientAhead: a client whose clock is ahead of the server's ends its stream
// before the server's window is over, and gets its tally all the same.
func TestClientAhead(t *testing.T) {
	conn, err := net.Dial("tcp", serving(t).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	h := Hello{Direction: Up, Size: 1000, Begin: now - time.Second, Duration: time.Minute}
	if _, err := io.WriteString(conn, h.Line()+strings.Repeat("x", 5000)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var got Tally
	if err := json.NewDecoder(conn).Decode(&got); err != nil || got.Bytes() != 5000 {
		t.Errorf("%d bytes, %v", got.Bytes(), err)
	}
}
