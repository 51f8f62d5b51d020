package workload_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
)

// TestSocketsOfAPod looks into a real pod: its own sockets count, those of the
// machine do not.
func TestSocketsOfAPod(t *testing.T) {
	g := testbed.New(t, 1)
	pod := g.Pairs[0].Server
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, context.DeadlineExceeded)
	defer cancel()
	if err := workload.AwaitListening(ctx, g, pod, workload.TCP); err == nil ||
		!strings.Contains(err.Error(), "nothing listens on tcp port 5201") {
		t.Errorf("before: got %v", err)
	}
	var l net.Listener
	if err := g.Do(pod, func() (err error) {
		l, err = net.Listen("tcp", pod.Service.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := workload.AwaitListening(t.Context(), g, pod, workload.TCP); err != nil {
		t.Error(err)
	}
	s, err := workload.OpenSockets(g, pod, workload.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []int{0, 1} {
		if listening, connected, err := s.Count(pod.Listen); err != nil || listening != 1 || connected != want {
			t.Errorf("got %d listening, %d connected, %v; want 1 and %d", listening, connected, err, want)
		}
		if want == 0 {
			c := dial(t, g, pod.Service.String())
			defer c.Close()
		}
	}
	if err := workload.AwaitConnected(t.Context(), g, pod, workload.TCP, 1); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, g *testbed.Ground, addr string) net.Conn {
	t.Helper()
	var c net.Conn
	if err := g.Do(g.Pairs[0].Client, func() (err error) {
		c, err = net.Dial("tcp", addr)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return c
}
