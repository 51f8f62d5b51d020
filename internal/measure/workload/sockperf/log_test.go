package sockperf

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

func open(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestParseLog reads what sockperf 3.7 wrote on the development machine, and
// compares what comes out with the statistics that sockperf made of the same
// round trips.
func TestParseLog(t *testing.T) {
	for name, want := range map[string]struct {
		trips       int
		first, last time.Duration
	}{
		"tcp.csv":      {164, 2404083727, 2947517456},
		"udp.csv":      {15, 3614108537358, 3614201940755},
		"udp-lost.csv": {180, 3705510435896, 3706703900893},
		"silent.csv":   {0, 0, 0},
	} {
		raw := open(t, name)
		hist := sample.NewHistogram()
		var trips []trip
		got, err := parseLog(bytes.NewReader(raw), func(k trip) {
			trips = append(trips, k)
			hist.Record(k.received - k.sent)
		})
		if err != nil || got.Trips != want.trips || len(trips) != want.trips ||
			got.Dropped+got.Duplicated+got.Disordered != 0 {
			t.Errorf("%s: got %+v, %v, want %d trips", name, got, err, want.trips)
			continue
		}
		if len(trips) == 0 {
			continue
		}
		if trips[0].sent != want.first || trips[len(trips)-1].received != want.last {
			t.Errorf("%s: from %d to %d, want %d to %d", name, trips[0].sent, trips[len(trips)-1].received, want.first,
				want.last)
		}
		for label, ours := range map[string]float64{
			`avg-rtt=`: hist.Mean(), `percentile 50.000 =`: hist.Percentile(50), `<MAX> observation =`: hist.Max(),
		} {
			m := regexp.MustCompile(label + ` *([0-9.]+)`).FindSubmatch(raw)
			if m == nil {
				t.Fatalf("%s: no %q", name, label)
			}
			theirs, err := strconv.ParseFloat(string(m[1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			// sockperf prints microseconds; the histogram has three digits, and
			// of 15 values the two medians may be neighbours.
			if len(trips) > 100 && math.Abs(ours*1e6-theirs) > 0.005*theirs {
				t.Errorf("%s: %s %.3f us, sockperf says %.3f", name, label, ours*1e6, theirs)
			}
		}
	}
}

func TestParseLogCounts(t *testing.T) {
	// The colours are sockperf's where a count is not 0.
	in := "sockperf: \x1b[1;31m# dropped messages = 3; # duplicated messages = 12; # out-of-order messages = 1\x1b[0m\n"
	got, err := parseLog(strings.NewReader(in), nil)
	if want := (remarks{Dropped: 3, Duplicated: 12, Disordered: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestParseLogRefuses(t *testing.T) {
	const head = "packet, txTime(sec), rxTime(sec), rtt(usec)\n"
	for name, tc := range map[string]struct{ in, want string }{
		"cut off":               {head + "0, 1.000000000, 1.000001000, 1.000\n", "does not end"},
		"cut off in a line":     {head + "0, 1.000000000, 1.0000\n", "line 2"},
		"few decimals":          {head + "0, 1.0, 1.000001000, 1.000\n---\n", "nine decimals"},
		"answer before message": {head + "0, 1.000000002, 1.000000001, 1.000\n---\n", "before its message"},
		"negative":              {head + "0, -1.000000002, 1.000000001, 1.000\n---\n", "line 2"},
		"counts":                {"# dropped messages = many\n", "counts"},
		"a line without end":    {strings.Repeat("x", 1<<17), "too long"},
	} {
		if _, err := parseLog(strings.NewReader(tc.in), func(trip) {}); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
	}
}

func TestComplaint(t *testing.T) {
	for name, want := range map[string]string{
		"ok.txt":      "",
		"refused.txt": "Can`t connect socket (errno=111 Connection refused)",
		"silent.txt":  "No messages were received from the server. Is the server down?",
		"reset.txt":   "A connection was forcibly closed by a peer (errno=0 Success)",
		"size.txt":    "Invalid message size: 5 (min: 14)",
	} {
		if got := complaint(open(t, name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func FuzzParseLog(f *testing.F) {
	for _, name := range []string{"tcp.csv", "udp.csv", "udp-lost.csv", "silent.csv", "ok.txt"} {
		f.Add(open(f, name))
	}
	f.Add([]byte("packet, txTime(sec), rxTime(sec), rtt(usec)\n0, 4294967295.999999999, 4294967295.999999999, 0.000\n---\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := 0
		got, err := parseLog(bytes.NewReader(raw), func(k trip) {
			n++
			if k.sent < 0 || k.received < k.sent {
				t.Errorf("round trip %+v", k)
			}
		})
		if err == nil && got.Trips != n {
			t.Errorf("%d trips told, %d counted", n, got.Trips)
		}
		complaint(raw)
	})
}
