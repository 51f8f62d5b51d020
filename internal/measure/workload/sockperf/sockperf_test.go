package sockperf

import (
	"os"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func TestReach(t *testing.T) {
	s := func(f float64) time.Duration { return time.Duration(f * 1e9) }
	for name, tc := range map[string]struct {
		trips       int
		first, last time.Duration
		want        time.Duration
		fails       string
	}{
		"beyond both ends":   {1000, s(9), s(13), s(2), ""},
		"begins a bit late":  {1000, s(10.1), s(13), s(2), ""},
		"begins late":        {1000, s(10.3), s(13), 0, "too busy"},
		"ends in the window": {1000, s(9), s(11.5), s(1.5), ""},
		"ends early in it":   {1000, s(9), s(10.5), 0, "a message was lost"},
		"ends before it":     {1000, s(8), s(9), 0, "a message was lost"},
		"empty":              {0, 0, 0, 0, "no round trip"},
	} {
		got, err := tally{remarks: remarks{Trips: tc.trips}, first: tc.first, last: tc.last}.reach(s(10), s(12))
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: got %v, want an error with %q", name, err, tc.fails)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
	}
}

func TestArguments(t *testing.T) {
	server := topo.Pod{Listen: 5202, Service: testbed.AddrPort("198.18.0.2:20003")}
	tr := trial{Latency: Latency{Proto: workload.TCP}, size: 64, speed: 4e9,
		bed:    workload.Bed{Pairs: make([]workload.Pair, 1)},
		window: workload.Window{Warmup: time.Second, Duration: 5 * time.Second}}
	const client = "sockperf ping-pong -i 198.18.0.2 -p 20003 -m 64 -t 8 --full-rtt --no-rdtsc --full-log LOG"
	if got := strings.Join(tr.clientArgs(server, "LOG"), " "); got != client+" --tcp" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(tr.serverArgs(server), " "); got != "sockperf server -p 5202 --uc-reuseaddr --tcp" {
		t.Errorf("got %s", got)
	}
	tr.Proto = workload.UDP
	if got := strings.Join(tr.clientArgs(server, "LOG"), " "); got != client {
		t.Errorf("got %s", got)
	}
}

func TestRateCap(t *testing.T) {
	const fast, slow = 4e9, 5e7 // the latter as on User-mode Linux 6.1
	for _, tc := range []struct {
		pairs, cpus int
		speed       clearing
		want        int
	}{
		{1, 2, fast, 0}, {4, 2, fast, 0}, {8, 2, fast, 300000}, {128, 2, fast, 18750}, {128, 64, fast, 0},
		{1, 1, slow, 125000}, {4, 1, slow, 50000}, {128, 1, slow, 9375},
	} {
		const seconds = 5
		if got := rateCap(tc.pairs, tc.cpus, tc.speed, seconds); got != tc.want {
			t.Errorf("%d pairs on %d CPUs at %v B/s: got %d, want %d", tc.pairs, tc.cpus, tc.speed, got, tc.want)
		}
	}
}

// TestLostDatagram: after one lost datagram sockperf waits for ever, and says
// that none was dropped. That must not pass for a measurement of the window.
func TestLostDatagram(t *testing.T) {
	g := testbed.New(t, 1)
	l := Latency{Proto: workload.UDP}
	lose := func(after time.Duration) (workload.Outcome, error) {
		m := &testbed.Meter{}
		m.OnBegin = func() {
			time.AfterFunc(after, func() {
				// Long enough for a client that waits for its turn on a busy machine: after the
				// first loss it sends nothing more.
				if err := g.Lose(0, func() { time.Sleep(250 * time.Millisecond) }); err != nil {
					t.Error(err)
				}
			})
		}
		return l.Run(t.Context(), g.Bed(), sample.Load{Size: 64}, workload.Window{Duration: time.Second}, m)
	}
	// Where nothing came back before it, sockperf itself says so.
	if _, err := lose(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "a message was lost") &&
		!strings.Contains(err.Error(), "No valid observations") {
		t.Errorf("lost early: got %v, want an error that tells the loss", err)
	}
	out, err := lose(700 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Warnings) != 1 || out.Warnings[0].Gate != "loss" {
		t.Errorf("lost late: got warnings %+v, want one of the loss", out.Warnings)
	}
	if left, err := os.ReadDir(g.Dir); err != nil || len(left) > 0 {
		t.Errorf("logs left: %v, %v", left, err)
	}
}
