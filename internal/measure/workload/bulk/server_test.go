package bulk

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

func listening(t testing.TB) *socket.Socket {
	t.Helper()
	l, err := socket.Listen(workload.TCP, netip.MustParseAddrPort("0.0.0.0:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// pair is two ends of a connection. Those that this end closes first keep their
// ports for a minute: of each loopback address there are as many again.
func pair(t testing.TB, l *socket.Socket) (client, server *socket.Socket) {
	t.Helper()
	addr, err := l.Local()
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrFrom4([4]byte{127, byte(rand.N(250)), byte(rand.N(250)), 1})
	if client, err = socket.Dial(workload.TCP, netip.AddrPortFrom(to, addr.Port()), time.Second); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// ends reports whether the server has left the connection in time.
func ends(t testing.TB, conn *socket.Socket, within time.Duration) bool {
	t.Helper()
	done := make(chan bool)
	go func() { serve(t.Context(), conn, &datagrams{}, within); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}

// TestServerLeavesTheSilent: who connects and says nothing, or half of a hello, does
// not keep a thread of the server's for ever.
func TestServerLeavesTheSilent(t *testing.T) {
	l := listening(t)
	for _, says := range []string{"", `{"direction":"up"`} {
		client, server := pair(t, l)
		if _, err := client.Write([]byte(says)); err != nil {
			t.Fatal(err)
		}
		if !ends(t, server, 20*time.Millisecond) {
			t.Errorf("the server waits on for a client that says %q", says)
		}
		client.Close()
	}
}

// TestServerEndsWithItsClient: whatever the hello asks for.
func TestServerEndsWithItsClient(t *testing.T) {
	l := listening(t)
	for _, d := range []Direction{Up, Down, Echo, Datagrams, "sideways"} {
		client, server := pair(t, l)
		if _, err := client.Write([]byte(Hello{Direction: d, Size: 100, Duration: time.Hour}.Line())); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if !ends(t, server, time.Second) {
			t.Errorf("%s: the server works on for a client that has gone", d)
		}
	}
}

// FuzzHello: whatever the first line says, the server ends when its client has gone.
func FuzzHello(f *testing.F) {
	for _, d := range []Direction{Up, Down, Echo, Datagrams} {
		f.Add(Hello{Direction: d, Size: 1, Begin: 1, Duration: time.Second}.Line())
	}
	f.Add(`{"direction":"up","size":1,"begin":9223372036854775807,"duration":86400000000000}` + "\n")
	l := listening(f)
	f.Fuzz(func(t *testing.T, line string) {
		var h Hello
		if err := json.Unmarshal([]byte(line), &h); err == nil && h.Size > 1<<16 {
			return // memory that a client may ask for
		}
		client, server := pair(t, l)
		if _, err := client.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if !ends(t, server, time.Second) {
			t.Fatalf("the server works on for a client that has gone: %s", line)
		}
	})
}
