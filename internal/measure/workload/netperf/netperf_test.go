package netperf

import (
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// udp is what netperf 2.7.0 of Debian 12 printed for UDP_STREAM between two
// namespaces, with all keys that are asked for.
const udp = `MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.9.0.2 () port 15300 AF_INET : demo
ELAPSED_TIME=1.03
LOCAL_SEND_CALLS=45394
REMOTE_RECV_CALLS=29560
REMOTE_BYTES_RECVD=41384000
LOCAL_TRANSPORT_RETRANS=-1
MEAN_LATENCY=22.44
P50_LATENCY=9
P99_LATENCY=16
`

var all = Run{TCPRR}.keys()

func TestParse(t *testing.T) {
	got, err := parse([]byte(udp), all)
	if err != nil || got[received] != 41384000 || got[meanLatency] != 22.44 {
		t.Errorf("%v, %v", got, err)
	}
	for bad, want := range map[string]string{
		"":                                   "no " + elapsed,
		strings.ReplaceAll(udp, "=9", "="):   "P50_LATENCY: expected a number",
		strings.ReplaceAll(udp, "1.03", "0"): elapsed,
	} {
		if _, err := parse([]byte(bad), all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestOutcome(t *testing.T) {
	figures, err := parse([]byte(udp), all)
	if err != nil {
		t.Fatal(err)
	}
	run := func(test Test) workload.Outcome {
		tr := &trial{Run: Run{test}, size: 1400, window: workload.Window{Duration: time.Second},
			clients: make([]program.Result, 1), figures: []map[string]float64{figures},
			bed: workload.Bed{Pairs: []workload.Pair{{Client: topo.Pod{Name: "c1"}}}}}
		out, err := tr.outcome()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run(UDPStream)
	if got := out.Metrics[sample.Throughput]; got < 321e6 || got > 322e6 { // netperf said 321.71
		t.Errorf("throughput %g", got)
	}
	if got := out.Metrics[sample.Loss]; got < 0.348 || got > 0.349 || len(out.Warnings) != 1 {
		t.Errorf("loss %g, %v", got, out.Warnings)
	}
	out = run(TCPRR)
	if got := out.Metrics[sample.LatencyMean]; got < 22.43e-6 || got > 22.45e-6 || out.Operations != 45394 {
		t.Errorf("mean latency %g, %g operations", got, out.Operations)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(udp))
	f.Add([]byte("ELAPSED_TIME=NaN\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := parse(raw, all); err == nil && !(got[elapsed] > 0) {
			t.Errorf("accepted %v", got)
		}
	})
}
