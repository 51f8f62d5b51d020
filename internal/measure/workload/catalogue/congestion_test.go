package catalogue_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/topo"
)

// TestCongestionIsWhatIsSaid: the kernel's own word for each connection under load, at both
// ends, is what the outcome says, and what was asked for where the workload takes it.
func TestCongestionIsWhatIsSaid(t *testing.T) {
	self := build(t)
	for _, w := range kinds(self) {
		info := w.Info()
		takes := slices.Contains(info.Knobs, "congestion")
		if !takes && !strings.HasPrefix(info.Name, "mpi-") && info.Name != "tcp-latency" {
			continue // no TCP
		}
		asked := []string{""}
		// the others are told alike
		if slices.Contains([]string{"http", "tcp-rr", "loaded-latency", "mongo-insert-int-vector"}, info.Name) {
			asked = append(asked, "reno")
		}
		for _, name := range asked {
			t.Run(fmt.Sprintf("%s/%s", info.Name, name), func(t *testing.T) {
				t.Parallel()
				g := bed(t, 1, self)
				var seen []string
				m := &testbed.Meter{OnBegin: func() { seen = congestion(t, g) }}
				l := load(w)
				l.Congestion = name
				window := workload.Window{Warmup: 200 * time.Millisecond, Duration: max(info.MinDuration, 300*time.Millisecond)}
				out, err := w.Run(t.Context(), g.Bed(), l, window, m)
				// on a busy machine a window is over before ss looks
				for ; err == nil && len(seen) == 0 && lasts(info.Name) && window.Duration < 10*time.Second; window.Duration *= 4 {
					out, err = w.Run(t.Context(), g.Bed(), l, window, m)
				}
				if err != nil {
					t.Fatal(err)
				}
				said := out.Details["congestion"]
				if takes && said != workload.CongestionOf(l) {
					t.Errorf("the outcome says %q", said)
				}
				for _, s := range seen {
					if s != said {
						t.Errorf("the outcome says %q, a connection has %s", said, s)
					}
				}
				if len(seen) == 0 && lasts(info.Name) {
					t.Error("no connection was seen")
				}
				if told := strings.Join(out.Notes, "; "); !takes && (said != workload.Congestion) != strings.Contains(told,
					"cannot be told") {
					t.Errorf("congestion control %s, notes %q", said, told)
				}
			})
		}
	}
}

// lasts tells whether the workload's connections are longer than a request.
func lasts(name string) bool {
	return !slices.Contains([]string{"connect", "http-close", "netperf-tcp-crr"}, name)
}

// connection is what ss gives of a connection's TCP_INFO: the congestion control, behind
// flags, and the segments that it sent and got.
var connection = regexp.MustCompile(`(?m)^\t(?: (?:ts|sack|ecn|ecnseen|fastopen))*\s*([a-z]+)\b.*\bsegs_out:(\d+)(?: segs_in:(\d+))?`)

// congestion is what both pods' kernel says of the connections under load: netperf and
// iperf3 keep one for what they have to say to one another, which is idle.
func congestion(t *testing.T, g *testbed.Ground) (seen []string) {
	t.Helper()
	for _, pod := range []topo.Pod{g.Pairs[0].Client, g.Pairs[0].Server} {
		res, err := g.Exec(t.Context(), pod, "ss", "-tinH", "state", "established")
		if err != nil {
			t.Error(err)
			return nil
		}
		busiest, busy := 0, map[string]int{}
		for _, f := range connection.FindAllStringSubmatch(string(res.Stdout), -1) {
			sent, _ := strconv.Atoi(f[2])
			got, _ := strconv.Atoi(f[3])
			busy[f[1]], busiest = max(busy[f[1]], sent+got), max(busiest, sent+got)
		}
		if busiest == 0 {
			t.Logf("no connection in\n%s", res.Stdout)
		}
		for name, n := range busy {
			if n > busiest/5 && !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
		}
	}
	return seen
}
