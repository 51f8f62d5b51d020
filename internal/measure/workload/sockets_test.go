package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func table(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestParseSockets reads the tables of a pod in which an iperf3 server was
// serving a UDP test of three streams, and a sockperf UDP server waited.
func TestParseSockets(t *testing.T) {
	type figures struct{ listening, connected int }
	for name, want := range map[string]map[uint16]figures{
		"tcp":  {},
		"tcp6": {5201: {1, 1}}, // one socket for both families, and the control connection
		"udp":  {5202: {1, 0}},
		"udp6": {5201: {0, 3}},
	} {
		socks, err := parseSockets(table(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[uint16]figures{}
		for _, s := range socks {
			f := got[s.port]
			switch s.state {
			case stateListen, stateClose:
				f.listening++
			case stateEstablished:
				f.connected++
			}
			got[s.port] = f
		}
		for port, f := range want {
			if got[port] != f {
				t.Errorf("%s: port %d: got %+v, want %+v", name, port, got[port], f)
			}
		}
	}
}

func TestParseSocketsRefuses(t *testing.T) {
	const head = "  sl  local_address rem_address   st\n"
	for name, line := range map[string]string{
		"short":    "0: 00000000:1451 00000000:0000\n",
		"no port":  "0: 00000000 00000000:0000 0A 0\n",
		"big port": "0: 00000000:11451 00000000:0000 0A 0\n",
		"no state": "0: 00000000:1451 00000000:0000 XY 0\n",
	} {
		if got, err := parseSockets([]byte(head + line)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v, %v, want an error with the line", name, got, err)
		}
	}
	if got, err := parseSockets([]byte(head + "\n")); err != nil || len(got) != 0 {
		t.Errorf("empty table: got %v, %v", got, err)
	}
}

func FuzzParseSockets(f *testing.F) {
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f.Add(table(f, name))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := parseSockets(raw); err == nil && len(got) > strings.Count(string(raw), "\n")+1 {
			t.Errorf("%d sockets in %d lines", len(got), strings.Count(string(raw), "\n"))
		}
	})
}
