package mpi

import (
	"bufio"
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// tally is what the ranks measured.
type tally struct {
	latency *sample.Histogram
	// bits is the sum of the sending ranks' rates, in bit/s.
	bits    float64
	senders int
}

// parse reads what rank 0 printed.
func parse(out []byte) (tally, error) {
	t := tally{latency: sample.NewHistogram()}
	scan := bufio.NewScanner(bytes.NewReader(out))
	for n := 1; scan.Scan(); n++ {
		f := strings.Fields(scan.Text())
		var v [2]int64
		for i := 1; i < len(f) && i <= len(v); i++ {
			var err error
			if v[i-1], err = strconv.ParseInt(f[i], 10, 64); err != nil || v[i-1] < 0 {
				return t, fmt.Errorf("read result: line %d: expected a number, got %q", n, f[i])
			}
		}
		switch {
		case len(f) == 2 && f[0] == "latency":
			t.latency.Record(time.Duration(v[0]))
		case len(f) == 3 && f[0] == "stream" && v[1] > 0:
			t.bits += 8 * float64(v[0]) / (float64(v[1]) / 1e9)
			t.senders++
		case len(f) == 3 && f[0] == "stream": // nothing ended in the window
			t.senders++
		default:
			return t, fmt.Errorf("read result: line %d: expected a latency or a stream, got %q", n, scan.Text())
		}
	}
	if err := scan.Err(); err != nil {
		return t, fmt.Errorf("read result: %w", err)
	}
	return t, nil
}

// outcome turns it into figures.
func (t *trial) outcome(said []byte) (workload.Outcome, error) {
	out := workload.Outcome{Metrics: map[string]float64{}, Details: map[string]string{
		"command": strings.Join(t.args(), " "), "ranks": fmt.Sprintf("%d in %d pods", t.ranks, 2*len(t.bed.Pairs))}}
	got, err := parse(said)
	if err != nil {
		return out, err
	}
	seconds := t.window.Duration.Seconds()
	switch {
	case t.Kind == Stream && got.bits == 0:
		return out, fmt.Errorf("no %d messages of %d bytes were acknowledged in the window", 64, t.load.Size)
	case t.Kind == Stream:
		out.Metrics[sample.Throughput] = got.bits
		out.Bytes = got.bits / 8 * seconds
	case got.latency.Count() == 0:
		return out, fmt.Errorf("no operation was finished in the window")
	default:
		out.Latency, out.Operations = got.latency, float64(got.latency.Count())
		out.Metrics[sample.Rate] = out.Operations / seconds
		out.SetLatency()
	}
	if cores := runtime.NumCPU(); t.ranks > cores {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "generator-bound",
			Text: fmt.Sprintf("%d ranks share %d CPUs: the figure holds what they wait for one another", t.ranks, cores)})
	}
	return out, nil
}
