package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// writeBench writes the Go benchmark format (golang.org/x/perf/benchfmt), one
// line per OK trial, for benchstat and its kin:
//
//	benchstat -col /network result.txt
//	benchstat before.txt after.txt
//
// Only what makes figures incomparable is a configuration key, because
// benchstat splits its tables by those; the rest is comments.
func writeBench(w io.Writer, in Input) error {
	bw := bufio.NewWriter(w)
	h := in.Results.Header
	fmt.Fprintf(bw, "# pathwise, seed %d, %s\n", h.Seed, counts(in.Results.Trials))
	if s := in.incomplete(); s != "" {
		fmt.Fprintf(bw, "# %s\n", s)
	}
	for _, g := range in.byGate() {
		fmt.Fprintf(bw, "# %s\n", oneLine(g.String()))
	}
	fmt.Fprintf(bw, "experiment: %s\n", oneLine(h.Experiment))
	for _, m := range sample.Metrics() {
		better := map[sample.Better]string{sample.Higher: "higher", sample.Lower: "lower"}[m.Better]
		fmt.Fprintf(bw, "Unit %s better=%s\n", benchUnit(m), better)
	}
	for _, t := range in.Results.Trials {
		if t.Status != sample.OK || len(t.Metrics) == 0 {
			continue
		}
		fmt.Fprintf(bw, "%s 1", benchName(t.Cell))
		for _, m := range sample.Metrics() {
			if v, ok := t.Metrics[m.Name]; ok {
				fmt.Fprintf(bw, " %s %s", exact(v), benchUnit(m))
			}
		}
		fmt.Fprintln(bw)
	}
	return bw.Flush()
}

// benchName is the cell as a benchmark's name:
// BenchmarkTCPStream/network=vxlan/placement=two-hosts/c=1.
func benchName(c sample.Cell) string {
	out := "Benchmark" + camel(c.Workload) + "/network=" + benchWord(c.Network) + "/placement=" +
		string(c.Scenario.Placement)
	if n := c.Scenario.Pairs; n != 1 {
		out += fmt.Sprintf("/pairs=%d", n)
	}
	if n := c.Scenario.MTU; n != topo.DefaultMTU {
		out += fmt.Sprintf("/mtu=%d", n)
	}
	if o := c.Scenario.Outside; o != c.Scenario.Placement.Outside() {
		out += "/outside=" + string(o)
	}
	if o := c.Scenario.Cores; o != topo.CoresFree {
		out += "/cores=" + string(o)
	}
	if r := c.Scenario.Rmem; r != topo.RmemAuto {
		out += "/rmem=" + r.Word()
	}
	if c.Scenario.IP() == topo.IPv6 {
		out += "/family=6"
	}
	if vm := c.Scenario.VM; vm != "" {
		out += "/vm=" + benchWord(vm)
	}
	if k := c.Scenario.Kernel; k != "" {
		out += "/kernel=" + benchWord(k)
	}
	for _, knob := range strings.Split(c.Load.String(), ",") {
		if strings.Contains(knob, "=") {
			out += "/" + knob
		}
	}
	return out
}

// camel is tcp-stream as TCPStream.
func camel(s string) string {
	var out strings.Builder
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == '_' || r == ' ' || r == '/' }) {
		switch part {
		case "tcp", "udp", "http", "mpi":
			out.WriteString(strings.ToUpper(part))
		default:
			out.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return out.String()
}

// benchWord keeps a name from ending a field or a part of the benchmark's name.
func benchWord(s string) string {
	return strings.NewReplacer(" ", "_", "\t", "_", "\n", "_", "/", "_").Replace(s)
}

// benchUnit names a metric as a unit, because that is what tells the figures
// of one line apart; the seconds are spelled as benchunit knows them.
func benchUnit(m sample.Metric) string {
	switch m.Name {
	case sample.Throughput:
		return "bit/s"
	case sample.Rate:
		return "op/s"
	case sample.LatencyP50:
		return "p50-sec"
	case sample.LatencyP99:
		return "p99-sec"
	case sample.LatencyP999:
		return "p99.9-sec"
	case sample.LatencyMean:
		return "mean-sec"
	case sample.Retransmits:
		return "retransmits/GB"
	case sample.CPUPerGB:
		return "cpu-sec/GB"
	case sample.CPUPerKop:
		return "cpu-sec/kop"
	}
	name := strings.ReplaceAll(m.Name, "_", "-")
	if m.Unit == "s" {
		name += "-sec"
	}
	return name
}
