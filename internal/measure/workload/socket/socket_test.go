package socket

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload"
)

// listen listens on a loopback port.
func listen(t *testing.T, options ...Option) (*Socket, netip.AddrPort) {
	t.Helper()
	l, err := Listen(workload.TCP, netip.MustParseAddrPort("127.0.0.1:0"), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	addr, err := l.Local()
	if err != nil {
		t.Fatal(err)
	}
	return l, addr
}

// TestOptions: both ends have them, and from the beginning.
func TestOptions(t *testing.T) {
	l, addr := listen(t, Congestion("reno"))
	c, err := Dial(workload.TCP, addr, time.Second, Congestion("reno"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, end := range []*Socket{c, s} {
		got, err := unix.GetsockoptString(end.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if got = strings.TrimRight(got, "\x00"); err != nil || got != "reno" {
			t.Errorf("congestion control %q, %v", got, err)
		}
	}
	if _, err := Dial(workload.TCP, addr, time.Second, Congestion("warp")); err == nil ||
		!strings.Contains(err.Error(), "warp") {
		t.Errorf("unknown congestion control: %v", err)
	}
}

// TestPatience is that of what a listener accepts, too.
func TestPatience(t *testing.T) {
	l, addr := listen(t)
	if err := l.Patience(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("accept: %v", err)
	}
	c, err := Dial(workload.TCP, addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := io.ReadFull(s, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
}

// TestLoop: a turn is taken at once, and then no more often than it needs to be.
func TestLoop(t *testing.T) {
	var l Loop
	now := time.Now()
	for _, tc := range []struct{ after, turned time.Duration }{{0, 0}, {breath - 1, 0}, {breath, breath},
		{breath + 1, breath}} {
		l.TurnAt(now.Add(tc.after))
		if got := l.turned.Sub(now); got != tc.turned {
			t.Errorf("after %v: turned at %v, want %v", tc.after, got, tc.turned)
		}
	}
	if allocs := testing.AllocsPerRun(10, func() {
		for turn := (Loop{}); turn.turned.IsZero(); turn.Turn() {
		}
	}); allocs > 0 {
		t.Errorf("%g allocations", allocs)
	}
}
