package uperf

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// left has a server answer a client that says line and goes at once, and reports
// whether the server has ended within the given time.
func left(t testing.TB, s *server, l *socket.Socket, line string, within time.Duration) bool {
	t.Helper()
	addr, err := l.Local()
	if err != nil {
		t.Fatal(err)
	}
	// Connections that this end closes first keep their ports for a minute: of each
	// loopback address there are as many again.
	to := netip.AddrFrom4([4]byte{127, byte(rand.N(250)), byte(rand.N(250)), 1})
	c, err := socket.Dial(workload.TCP, netip.AddrPortFrom(to, addr.Port()), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() { s.answer(conn); close(done) }()
	c.Close()
	select {
	case <-done:
		return true
	case <-time.After(within):
		return false
	}
}

func listening(t testing.TB) *socket.Socket {
	t.Helper()
	l, err := socket.Listen(workload.TCP, netip.MustParseAddrPort("0.0.0.0:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// helloNow is a hello with a window that begins now.
func helloNow(t testing.TB, script ...segment) hello {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	return hello{Script: script, Begin: now, Duration: time.Second}
}

// TestServerEndsWithItsClient: whatever the script, the server has nothing to do
// once the client has gone. Rounds without steps did not notice.
func TestServerEndsWithItsClient(t *testing.T) {
	write, read := step{Write: true, Count: 1, Size: 100}, step{Count: 1, Size: 100}
	for name, h := range map[string]hello{
		"no steps, for ever":   helloNow(t, segment{}),
		"no steps, many times": helloNow(t, segment{Iterations: 1 << 60}),
		"no steps after some":  helloNow(t, segment{Iterations: 1, Steps: []step{read}}, segment{}),
		"writes, for ever":     helloNow(t, segment{Steps: []step{write}}),
		"reads, for ever":      helloNow(t, segment{Steps: []step{read}}),
		"one write, many times": helloNow(t,
			segment{Iterations: 1, Steps: []step{{Write: true, Count: 1 << 60, Size: 1}}}),
		"nothing":                  helloNow(t),
		"something after for ever": helloNow(t, segment{Steps: []step{write}}, segment{}),
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			if !left(t, &server{}, listening(t), string(raw), 5*time.Second) {
				t.Error("the server works on for a client that has gone")
			}
		})
	}
}

// TestHello: what a server cannot do, it refuses before it says that it is ready.
func TestHello(t *testing.T) {
	ok := step{Count: 1, Size: 1}
	for name, tc := range map[string]struct {
		change func(*hello)
		want   string
	}{
		"sound":    {func(*hello) {}, ""},
		"report":   {func(h *hello) { *h = hello{Report: true, Begin: 7} }, ""},
		"no steps": {func(h *hello) { h.Script = []segment{{Iterations: 3}} }, "without steps that move"},
		"negative iterations": {func(h *hello) { h.Script = []segment{{Iterations: -1, Steps: []step{ok}}} },
			"iterations"},
		"something after for ever": {func(h *hello) {
			h.Script = []segment{{Steps: []step{ok}},
				{Iterations: 1, Steps: []step{ok}}}
		}, "without an end"},
		"no size":           {func(h *hello) { h.Script[0].Steps[0].Size = 0 }, "cannot be"},
		"huge":              {func(h *hello) { h.Script[0].Steps[0].Max = maxSize + 1 }, "cannot be"},
		"no window":         {func(h *hello) { h.Duration = 0 }, "window"},
		"a window of years": {func(h *hello) { h.Duration = 1 << 62 }, "window"},
		"negative buffers":  {func(h *hello) { h.Window = -1 }, "buffers"},
	} {
		h := hello{Duration: 1, Script: []segment{{Iterations: 1, Steps: []step{ok}}}}
		tc.change(&h)
		raw, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseHello(raw)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// TestWindowsAreBounded: windows that clients name and leave are forgotten, and
// asking for the report of one makes none.
func TestWindowsAreBounded(t *testing.T) {
	var w windows
	for i := range 10 * mostWindows {
		if _, err := w.enter(time.Duration(i), time.Now().Add(-2*remembered)); err != nil {
			t.Fatalf("window %d after others that are long over: %v", i, err)
		}
		w.report(time.Duration(-i))
	}
	if len(w.open) > mostWindows {
		t.Errorf("%d windows are remembered", len(w.open))
	}
	w = windows{}
	for i := range mostWindows {
		if _, err := w.enter(time.Duration(i), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.enter(-1, time.Now()); err == nil {
		t.Errorf("%d windows at once", len(w.open))
	}
	n, err := w.enter(7, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if n.add(moved{received: 5, sent: 1}); w.report(7) != (report{Received: 5, Sent: 1}) {
		t.Errorf("report %+v, want 5 bytes", w.report(7))
	}
}

// FuzzHello: a hello is refused or can be done: what the server does for it ends
// when the client has gone, and takes no more memory than the largest message.
func FuzzHello(f *testing.F) {
	l := listening(f)
	for _, h := range []hello{helloNow(f), helloNow(f, segment{}),
		helloNow(f, segment{Steps: []step{{Write: true, Count: 2, Size: 9, Max: 99}}}),
		helloNow(f, segment{Iterations: 1 << 40, Steps: []step{{Count: 1, Size: 1}}}), {Report: true}} {
		raw, err := json.Marshal(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, line string) {
		h, err := parseHello([]byte(line))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read hello: ") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		read, write := h.most()
		if max(read, write) > maxSize || h.Duration > longest {
			t.Fatalf("accepted %+v", h)
		}
		if h.Back != 0 || h.datagrams() || max(read, write) > 1<<16 || strings.Contains(line, "\n") {
			return
		}
		if !h.Report { // now, that there is something to do
			h.Begin = helloNow(t).Begin
		}
		raw, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if !left(t, &server{}, l, string(raw), 5*time.Second) {
			t.Fatalf("the server works on for a client that has gone: %s", raw)
		}
	})
}
