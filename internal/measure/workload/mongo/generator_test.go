package mongo

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload/mongowire"
)

// serve runs the embedded server on loopback, and returns its URI.
func serve(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := mongowire.New(time.Now, func() (user, system time.Duration) { return time.Second, 0 })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return uriOf(l.Addr())
}

func uriOf(a net.Addr) string { return "mongodb://" + a.String() + "/?directConnection=true" }

func offer(t testing.TB, uri, operation string) Offer {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	return Offer{Place: Place{URI: uri, Operation: operation, Collection: "docs"}, Connections: 4,
		Begin: now + 200*time.Millisecond, Duration: 300 * time.Millisecond}
}

func TestEveryOperation(t *testing.T) {
	uri := serve(t)
	for _, op := range operations() {
		var b bytes.Buffer
		o := offer(t, uri, op.name)
		if err := Prepare(t.Context(), &b, o.Place, true); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		var p Prepared
		if err := json.Unmarshal(b.Bytes(), &p); err != nil || !strings.Contains(p.Server, "Pathwise's own") {
			t.Errorf("%s: server %q, %v", op.name, p.Server, err)
		}
		b.Reset()
		if err := Generate(t.Context(), &b, offer(t, uri, op.name)); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		c, err := parse(b.Bytes())
		if err != nil || c.failed() != 0 || c.Operations < 10 || c.ClientUser <= 0 || c.ServerUser == nil {
			t.Errorf("%s: %+v, %v", op.name, c, err)
		}
		// A closed loop spends all of its time waiting for answers; the last operation of
		// each connection may end after the window.
		busy := c.Latency.Mean() * float64(c.Operations)
		whole := 4 * o.Duration.Seconds()
		if longest := c.Latency.Percentile(100); busy > max(1.2*whole, 1.05*(whole+4*longest)) {
			t.Errorf("%s: %v s of latency in %v s", op.name, busy, whole)
		}
		t.Logf("%s: %d operations, p50 %v s", op.name, c.Operations, c.Latency.Percentile(50))
	}
}

func TestCommand(t *testing.T) {
	for server, want := range map[string]string{
		"mongod": "mongod --bind_ip_all --port 27017 --dbpath /d",
		"bin/ferretdb --listen :${PORT} --dir ${DIR}/x": "bin/ferretdb --listen :27017 --dir /d/x",
		"mongod --quiet": "mongod --quiet",
	} {
		if got := strings.Join(Command(server, 27017, "/d"), " "); got != want {
			t.Errorf("%s: got %q, want %q", server, got, want)
		}
	}
}
