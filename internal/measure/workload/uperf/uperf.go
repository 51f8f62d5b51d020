// Package uperf runs uperf's workload profiles: the two of Busch and Kammerer
// (2021), request and response (uperf-rr) and streaming (uperf-stream), and any
// other from its XML file (uperf:FILE), as far as Parse supports it.
//
// It is not uperf, which Debian does not have, but our own generator with uperf's
// semantics, as its source has them: strands that go through transactions of
// flowops in order, a barrier before each, blocking sockets, payload of zeros, and
// a slave that does the mirror. What differs: both ends draw the same random sizes,
// so that no read takes two messages for one; there are percentiles of latency,
// where uperf has mean and extremes; connections have the congestion control that
// the profile names, else the load's; and a datagram that is lost
// is a failed transaction, where uperf waits for ever.
package uperf

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Runs is a workload that runs a profile.
type Runs struct {
	// Self is the pathwise executable.
	Self string
	info workload.Info
	// profile for a load.
	profile func(sample.Load) Profile
}

// Prefix marks names of workloads that are profiles in files.
const Prefix = "uperf:"

// All returns the workloads uperf-rr and uperf-stream.
func All(self string) []workload.Workload {
	rr := describe("uperf-rr", "uperf: requests of 200 bytes, answers of the size, on lasting connections (Busch and Kammerer 2021)", false)
	rr.Default.Size = response
	stream := describe("uperf-stream", "uperf: transactions of 640 writes on lasting connections (Busch and Kammerer 2021)", true)
	stream.Default.Size = bulkWrite
	for _, i := range []*workload.Info{&rr, &stream} {
		i.Knobs = []string{"connections", "size", "congestion"}
		i.Default.Connections = 50
		i.Max = sample.Load{Connections: maxStrands, Size: maxSize}
	}
	return []workload.Workload{
		Runs{self, rr, func(l sample.Load) Profile { return RequestResponse(l.Connections, l.Size).under(l.Congestion) }},
		Runs{self, stream, func(l sample.Load) Profile { return Streaming(l.Connections, l.Size).under(l.Congestion) }},
	}
}

// FromFile returns the workload that runs the profile of an XML file. Its name is
// that of the file without directory and ending, after Prefix.
func FromFile(self, path string, getenv func(string) string) (Runs, error) {
	f, err := os.Open(path)
	if err != nil {
		return Runs{}, fmt.Errorf("open profile: %w", err)
	}
	defer f.Close()
	p, err := Parse(path, f, getenv)
	if err != nil {
		return Runs{}, err
	}
	name := Prefix + strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	info := describe(name, fmt.Sprintf("uperf: the profile %q, %d strands", p.Name, p.Strands()), p.bulk())
	info.MinDuration += p.thinks()
	if !p.any(Flowop.moves) {
		info.Metrics = slices.DeleteFunc(info.Metrics, func(m string) bool { return m == sample.Throughput })
	}
	if p.byDatagrams() {
		info.Metrics = append(info.Metrics, sample.Loss)
	}
	info.Knobs = []string{}
	if p.any(Flowop.asks) {
		info.Knobs = append(info.Knobs, "congestion")
	}
	info.Needs = append(info.Needs, p.needs()...)
	return Runs{self, info, func(l sample.Load) Profile { return p.under(l.Congestion) }}, nil
}

// needs are the congestion controls that the profile names itself.
func (p Profile) needs() (out []network.Need) {
	p.any(func(f Flowop) bool {
		need := network.NeedCongestion(f.Congestion)
		if f.Congestion != "" && !slices.Contains(out, need) {
			out = append(out, need)
		}
		return false
	})
	return out
}

// bulk reports whether a measured transaction has a flowop with a count, so that
// few or none may end in a short window.
func (p Profile) bulk() bool {
	for _, g := range p.Groups {
		for i, t := range g.Transactions {
			for _, f := range t.Flowops {
				if g.measured(i) && f.moves() && f.Count > 1 {
					return true
				}
			}
		}
	}
	return false
}

// thinks is how long a strand may think before it begins a measured transaction again.
func (p Profile) thinks() time.Duration {
	var most time.Duration
	for _, g := range p.Groups {
		var sum time.Duration
		for i, t := range g.Transactions {
			if g.timed() < 0 || g.measured(i) {
				sum += t.thinks()
			}
		}
		most = max(most, sum)
	}
	return most
}

// describe is what the workloads have in common. The main figure of bulk transfer
// is the payload that arrives, that of others the transactions.
func describe(name, summary string, bulk bool) workload.Info {
	info := workload.Info{
		Name:        name,
		Summary:     summary,
		Tool:        "pathwise generate: uperf's transactions (service time, closed loop) and payload that was read",
		Needs:       []network.Need{network.NeedRoot()},
		Metrics:     []string{sample.Throughput, sample.Errors},
		Pairs:       true,
		MinDuration: 200 * time.Millisecond,
		Extra:       time.Second,
	}
	if !bulk {
		info.Metrics = []string{sample.Rate, sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean,
			sample.Throughput, sample.Errors}
	}
	return info
}

// Info implements workload.Workload.
func (r Runs) Info() workload.Info { return r.info }

// Run implements workload.Workload.
func (r Runs) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	p := r.profile(load)
	// All strands are connected before the first moves anything, and each of thousands
	// has threads at both ends that are made then.
	const timesLead = 4
	// the client asks the server for its report at last
	g := workload.Generators{Connections: timesLead * p.Threads(), Patience: 3 * patience,
		Server: func(i int) []string {
			return []string{r.Self, "generate", "uperf-serve", "--addr", fmt.Sprintf("[::]:%d", bed.Pairs[i].Server.Listen),
				"--connections", strconv.Itoa(p.Strands()), "--datagrams=" + strconv.FormatBool(p.byDatagrams())}
		},
		Client: func(i int, begin string) []string {
			o := Offer{Target: bed.Pairs[i].Server.Service, Profile: p, Duration: w.Duration}
			plan, err := json.Marshal(o)
			if err != nil {
				panic(err) // it holds numbers and strings alone
			}
			return []string{r.Self, "generate", "uperf", "--begin", begin, "--plan", string(plan)}
		}}
	if err := g.Run(ctx, bed, w, m); err != nil {
		return workload.Outcome{}, fmt.Errorf("run %s: %w", r.info.Name, err)
	}
	out, err := r.outcome(bed, p, w, g.Clients)
	if err != nil {
		return out, fmt.Errorf("run %s: %w", r.info.Name, err)
	}
	return out, nil
}

// outcome merges what the pairs' clients counted.
func (r Runs) outcome(bed workload.Bed, p Profile, w workload.Window, results []program.Result) (
	workload.Outcome, error) {
	out := workload.Outcome{Metrics: map[string]float64{}, Details: map[string]string{}}
	sum := newCount()
	seconds := w.Duration.Seconds()
	for i, res := range results {
		pod := bed.Pairs[i].Client.Name
		c, err := parse(res.Stdout)
		if err != nil {
			return out, fmt.Errorf("client in pod %s: %w", pod, err)
		}
		sum.add(c)
		out.Operations += float64(c.Operations)
		out.AddErrors(pod, c.Failed, c.Operations+c.Cut, c.Failure)
		out.AddUser(res, p.Strands())
	}
	out.Bytes = float64(sum.Received + sum.ServerReceived)
	if out.Bytes > 0 {
		out.Metrics[sample.Throughput] = 8 * out.Bytes / seconds
	}
	if sum.Operations > 0 {
		out.Latency = sum.Latency
		out.Metrics[sample.Rate] = out.Operations / seconds
		out.SetLatency()
	}
	if p.byDatagrams() {
		out.Metrics[sample.Loss] = max(0, 1-float64(sum.Arrived)/float64(max(sum.Sent, 1)))
	}
	sum.detail(out.Details, seconds)
	return out, nil
}

// detail tells the rest of what was counted.
func (c Count) detail(out map[string]string, seconds float64) {
	out["uperf counts"] = fmt.Sprintf("%.6g op/s, %.6g bit/s: each flowop with its count once all of it is done, reads and writes alike",
		float64(c.Flowops)/seconds, 8*float64(c.FlowopBytes)/seconds)
	out["received"] = fmt.Sprintf("%d bytes by servers, %d by clients", c.ServerReceived, c.Received)
	if c.Writes.Count() > 0 {
		out["single writes"] = fmt.Sprintf("p50 %.4g s, p99 %.4g s, max %.4g s", c.Writes.Percentile(50),
			c.Writes.Percentile(99), c.Writes.Max())
	}
	if c.Cut > 0 {
		out["cut"] = fmt.Sprintf("%d transactions were under way at the end and are not counted", c.Cut)
	}
	if len(c.Congestion) > 0 {
		out["congestion"] = strings.Join(slices.Sorted(slices.Values(c.Congestion)), ", ")
	}
	if c.Sent > 0 {
		out["datagrams"] = fmt.Sprintf("%d sent, %d arrived, at both ends", c.Sent, c.Arrived)
	}
	if c.Spared > 0 {
		out["canfail"] = fmt.Sprintf("%d failures that the profile allows are not errors, the first: %s", c.Spared, c.Spare)
	}
}
