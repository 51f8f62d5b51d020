package sockperf

import (
	"fmt"
	"os"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// tally is what one pair's log says of the window.
type tally struct {
	remarks
	hist *sample.Histogram
	// first and last are the ends of all that the log holds.
	first, last time.Duration
}

// read takes from a log the round trips that began in the window.
func read(path string, begin, end time.Duration) (tally, error) {
	t := tally{hist: sample.NewHistogram()}
	f, err := os.Open(path)
	if err != nil {
		return t, fmt.Errorf("open sockperf's log: %w", err)
	}
	defer f.Close()
	t.remarks, err = parseLog(f, func(k trip) {
		if t.first == 0 || k.sent < t.first {
			t.first = k.sent
		}
		t.last = max(t.last, k.received)
		if k.sent >= begin && k.sent < end {
			t.hist.Record(k.received - k.sent)
		}
	})
	return t, err
}

// late is how much of the window may lie before the first round trip of a log.
const late = 0.1

// reach returns which part of the window the log covers. sockperf measures
// beyond the window, so a log that ends within it tells of an answer that
// never came.
func (t tally) reach(begin, end time.Duration) (time.Duration, error) {
	window := end - begin
	switch {
	case t.Trips == 0:
		return 0, fmt.Errorf("no round trip was finished")
	case t.first-begin > time.Duration(late*float64(window)):
		return 0, fmt.Errorf("the log begins %v after the window: the machine was too busy for sockperf to start in time",
			(t.first - begin).Round(time.Millisecond))
	case t.last >= end:
		return window, nil
	case t.last-begin < window/2:
		return 0, fmt.Errorf(
			"answers ended %v before the window did: a message was lost and sockperf waits for its answer for ever, or the pair started long before others", (end - t.last).Round(time.Millisecond))
	default:
		return t.last - begin, nil
	}
}

// outcome turns the pairs' logs into figures of the window.
func (t *trial) outcome() (workload.Outcome, error) {
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: sample.NewHistogram(), Details: map[string]string{}}
	var each []string
	for i, pair := range t.bed.Pairs {
		// The log's times are of the client's own clock.
		ahead := workload.ClockOf(t.bed.Ground, pair.Client)
		begin, end := t.begin-ahead, t.end-ahead
		got, err := read(t.log(i), begin, end)
		if err != nil {
			return out, fmt.Errorf("client in pod %s: %w", pair.Client.Name, err)
		}
		reach, err := got.reach(begin, end)
		if err != nil {
			return out, fmt.Errorf("client in pod %s: %w", pair.Client.Name, err)
		}
		out.Warnings = append(out.Warnings, got.warnings(pair, t.end-t.begin, reach)...)
		rate := float64(got.hist.Count()) / reach.Seconds()
		if limit := t.cap(); limit > 0 && stretch*rate > 0.9*float64(limit) {
			out.Warnings = append(out.Warnings, sample.Warning{Gate: "generator-bound",
				Text: fmt.Sprintf("client in pod %s: %.0f round trips/s may be all that sockperf was allowed", pair.Client.Name, rate)})
		}
		out.Metrics[sample.Rate] += rate
		out.Latency.Merge(got.hist)
		each = append(each, fmt.Sprintf("%.4g", got.hist.Percentile(50)))
		out.GeneratorUser = max(out.GeneratorUser, t.servers[i].User.Seconds()/float64(t.seconds()))
	}
	out.Metrics[sample.LatencyP50] = out.Latency.Percentile(50)
	out.Metrics[sample.LatencyP99] = out.Latency.Percentile(99)
	out.Metrics[sample.LatencyP999] = out.Latency.Percentile(99.9)
	out.Metrics[sample.LatencyMean] = out.Latency.Mean()
	out.Operations = out.Metrics[sample.Rate] * (t.end - t.begin).Seconds()
	out.Details["median per pair"] = strings.Join(each, " ") + " s"
	out.Details["client"] = strings.Join(t.clientArgs(t.bed.Pairs[0].Server, "LOG"), " ")
	out.Details["server"] = strings.Join(t.serverArgs(t.bed.Pairs[0].Server), " ")
	return out, nil
}

// warnings tells what a reader of the pair's figures must know.
func (t tally) warnings(pair workload.Pair, window, reach time.Duration) []sample.Warning {
	var out []sample.Warning
	if reach < window {
		out = append(out, sample.Warning{Gate: "loss",
			Text: fmt.Sprintf("client in pod %s: a message was lost %v into the window of %v; sockperf waits for its answer for ever, so the rest is not measured",
				pair.Client.Name, reach.Round(time.Millisecond), window.Round(time.Millisecond))})
	}
	if t.Dropped+t.Duplicated+t.Disordered > 0 {
		out = append(out, sample.Warning{Gate: "loss",
			Text: fmt.Sprintf("client in pod %s: %d messages dropped, %d duplicated, %d out of order", pair.Client.Name,
				t.Dropped, t.Duplicated, t.Disordered)})
	}
	return out
}
