//go:build agree

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// TestAgree compares what bench says with the tools run by hand: in each round
// one bench trial and one plain iperf3 or sockperf between two pods of a lab, by
// turns, on every network. "make agree" runs it and prints the table; it takes
// a quarter of an hour and wants a quiet machine.
func TestAgree(t *testing.T) {
	rounds := 6
	if v := os.Getenv("PATHWISE_ROUNDS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(binDir(t), "pathwise")
	fmt.Printf("%-16s %-12s %22s %22s %22s\n", "network", "workload", "bench", "by hand", "ratio (95 % interval)")
	disagree, compared := 0, 0
	for _, n := range catalogue.All() {
		info := n.Info()
		place := topo.TwoHosts
		if ok, _ := info.Supports(place); !ok {
			place = topo.OneHost
		}
		if ok, _ := info.Supports(place); !ok {
			continue
		}
		for _, w := range []string{"tcp-stream", "tcp-latency"} {
			ours, hand := stat.Blocks{}, stat.Blocks{}
			for r := 1; r <= rounds; r++ {
				ours[r] = byBench(t, bin, info.Name, w, place)
				hand[r] = byHand(t, bin, info.Name, w, place)
			}
			ratio := stat.RatioT(ours, hand, stat.Level)
			a, b := stat.MeanT(values(ours), stat.Level), stat.MeanT(values(hand), stat.Level)
			verdict := "agree"
			if compared++; !ratio.Contains(1) {
				verdict = "differ"
				disagree++
			}
			fmt.Printf("%-16s %-12s %10.4g ± %8.2g %10.4g ± %8.2g  %.3f (%.3f to %.3f) %s\n", info.Name, w,
				a.Center, a.High-a.Center, b.Center, b.High-b.Center, ratio.Center, ratio.Low, ratio.High, verdict)
		}
	}
	fmt.Printf("%d of %d rows differ; 5 %% are expected to by chance\n", disagree, compared)
	if disagree*5 > compared {
		t.Errorf("%d of %d rows differ", disagree, compared)
	}
}

func values(b stat.Blocks) []float64 {
	var out []float64
	for _, v := range b {
		out = append(out, v)
	}
	return out
}

// metric of the comparison: goodput in bit/s, or round trips per second.
func metric(w string) string {
	if w == "tcp-stream" {
		return sample.Throughput
	}
	return sample.Rate
}

func byBench(t *testing.T, bin, network, w string, place topo.Placement) float64 {
	t.Helper()
	dir := t.TempDir()
	exp := filepath.Join(dir, "one.yaml")
	text := fmt.Sprintf("{name: one, networks: [%s], topologies: %s, warmup: 500ms, duration: 1500ms, repetitions: 1, workloads: [%s]}", network, place, w)
	if err := os.WriteFile(exp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if raw, err := exec.Command(bin, "bench", "-f", exp, "--out", out).CombinedOutput(); err != nil {
		t.Fatalf("bench: %v: %s", err, raw)
	}
	r, err := result.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range r.Samples.Trials {
		if tr.Network == network && tr.Status == sample.OK {
			return tr.Metrics[metric(w)]
		}
	}
	t.Fatalf("%s %s: no figure", network, w)
	return 0
}

// byHand does what a user without Pathwise's bench would type.
func byHand(t *testing.T, bin, network, w string, place topo.Placement) float64 {
	t.Helper()
	hosts := 1
	if place == topo.TwoHosts {
		hosts = 2
	}
	run := func(args ...string) []byte {
		out, err := exec.Command(bin, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return out
	}
	run("lab", "up", "--network", network, "--name", "agree", "--hosts", strconv.Itoa(hosts))
	defer run("lab", "down", "agree")
	st, err := lab.Store{Root: lab.DefaultRoot}.Load("agree")
	if err != nil {
		t.Fatal(err)
	}
	p2 := st.Pods[1]
	addr, port := p2.Service.Addr().String(), strconv.Itoa(int(p2.Service.Port()))
	listen := strconv.Itoa(int(p2.Listen))
	server := []string{"iperf3", "-s", "-1", "-p", listen}
	client := []string{"iperf3", "-c", addr, "-p", port, "-t", "2", "-C", "cubic", "-J"}
	if w == "tcp-latency" {
		server = []string{"sockperf", "server", "--tcp", "-p", listen}
		client = []string{"sockperf", "ping-pong", "--tcp", "--full-rtt", "-m", "64", "-t", "2", "-i", addr, "-p", port}
	}
	srv := exec.Command(bin, append([]string{"lab", "exec", "--lab", "agree", "p2", "--"}, server...)...)
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Process.Kill(); _ = srv.Wait() }() // lab down ends the server itself
	run("lab", "exec", "--lab", "agree", "p2", "--", "sh", "-c",
		"until ss -Htln 'sport = :"+listen+"' | grep -q .; do sleep 0.01; done")
	out := run(append([]string{"lab", "exec", "--lab", "agree", "p1", "--"}, client...)...)
	if w == "tcp-latency" {
		return messages(t, string(out))
	}
	var rep struct {
		End struct {
			Got struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatal(err)
	}
	return rep.End.Got.Bits
}

// messages reads sockperf's "[Valid Duration] RunTime=1.550 sec; SentMessages=1; ReceivedMessages=1".
func messages(t *testing.T, out string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(out, "[Valid Duration] RunTime=")
	var seconds float64
	var sent, got int
	if !ok {
		t.Fatalf("sockperf said %s", out)
	}
	if _, err := fmt.Sscanf(rest, "%f sec; SentMessages=%d; ReceivedMessages=%d", &seconds, &sent, &got); err != nil {
		t.Fatal(err)
	}
	return float64(got) / seconds
}
