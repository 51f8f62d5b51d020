package request

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
)

// listen serves on a loopback port of this test's own.
func listen(t *testing.T, s Service) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s.Addr, s.Connections = addr, 4
	limit := time.Now().Add(5 * time.Second)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if s.Proto == workload.UDP {
		time.Sleep(20 * time.Millisecond) // a datagram to a closed port is an error that is counted
		return addr
	}
	for {
		c, err := net.Dial("tcp", addr.String())
		if err == nil {
			c.Close()
			return addr
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func offer(t *testing.T, target netip.AddrPort) Offer {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	return Offer{Target: target, Connections: 4, Size: 1, Begin: now + 50*time.Millisecond,
		Duration: 300 * time.Millisecond}
}

func TestGenerateCountsAnsweredRequests(t *testing.T) {
	for _, tc := range []struct {
		proto workload.Proto
		once  bool
	}{{workload.TCP, false}, {workload.TCP, true}, {workload.UDP, false}} {
		o := offer(t, listen(t, Service{Proto: tc.proto, Size: 100, Once: tc.once}))
		o.Proto, o.Once, o.Size = tc.proto, tc.once, 100
		var b bytes.Buffer
		if err := Generate(t.Context(), &b, o); err != nil {
			t.Fatal(err)
		}
		c, err := workload.ParseCount(b.Bytes())
		if err != nil || c.Failed != 0 || c.Operations < 100 {
			t.Errorf("%+v: %+v, %v", tc, c, err)
		}
		// A closed loop spends all of its time waiting for answers, on each
		// connection until the last request that began in the window has its.
		busy := c.Latency.Mean() * float64(c.Operations)
		if whole := 4 * (o.Duration.Seconds() + c.Latency.Max()); busy > 1.01*whole {
			t.Errorf("%+v: %v s of latency in %v s", tc, busy, whole)
		}
	}
}

// TestAnswersThatAreWrong: datagrams that are late or damaged are no answers, and
// a request without one is counted.
func TestAnswersThatAreWrong(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		buf := make([]byte, 100)
		for n := 1; ; n++ {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n%2 == 0 {
				buf[0]++
			}
			_, _ = conn.WriteTo(buf[:size], from)
		}
	}()
	o := offer(t, netip.MustParseAddrPort(conn.LocalAddr().String()))
	o.Proto, o.Size, o.Duration = workload.UDP, 8, time.Second
	var b bytes.Buffer
	if err := Generate(t.Context(), &b, o); err != nil {
		t.Fatal(err)
	}
	if c, err := workload.ParseCount(b.Bytes()); err != nil || c.Failed == 0 || !strings.Contains(c.Failure, "timeout") {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestGenerateSaysWhyNothingCame(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	wrong := listen(t, Service{Size: 1, Once: true})
	for _, tc := range []struct {
		name   string
		target netip.AddrPort
		want   string
		once   bool
	}{
		{"refused", closed, "connection refused", false},
		{"silent", netip.MustParseAddrPort(silent.Addr().String()), "i/o timeout", false},
		{"cut off", wrong, "", false},
	} {
		o := offer(t, tc.target)
		o.Once = tc.once
		if tc.name == "cut off" {
			o.Size = 10 // the server answers one byte and closes
		}
		var b bytes.Buffer
		begin := time.Now()
		err := Generate(t.Context(), &b, o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || b.Len() > 0 {
			t.Errorf("%s: %v, printed %q", tc.name, err, b.String())
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s: took %v", tc.name, took)
		}
	}
}

func TestGenerateStartsInTimeOrNotAtAll(t *testing.T) {
	o := offer(t, netip.MustParseAddrPort("127.0.0.1:1"))
	o.Begin -= time.Second
	if err := Generate(t.Context(), &bytes.Buffer{}, o); err == nil || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("got %v", err)
	}
}

// TestGenerateCountsWrongAnswers: a server that says something else, of the
// right length and in time, has not answered.
func TestGenerateCountsWrongAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					if _, err := conn.Write(make([]byte, 1000)); err != nil {
						return
					}
				}
			}()
		}
	}()
	o := offer(t, netip.MustParseAddrPort(l.Addr().String()))
	o.Size = 100
	var b bytes.Buffer
	if err := Generate(t.Context(), &b, o); err == nil || !strings.Contains(err.Error(), "not what was sent") {
		t.Errorf("got %v", err)
	}
}
