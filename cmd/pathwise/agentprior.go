package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/topo"
)

// prior is what a bench on this machine promises.
type prior struct {
	table decide.Table
	// rates in bit/s and cpu in CPU-seconds per GB, by network.
	rates, cpu map[string]float64
}

func readPrior(f agentFlags) (p prior, err error) {
	if f.table == "" {
		if f.policy == "table" {
			return p, usageError{errors.New("agent: --policy table needs --table DIR, the result of a bench")}
		}
		return p, nil
	}
	return tableOf(f.table)
}

func randomSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw seed: %w", err)
	}
	return binary.NativeEndian.Uint64(b[:])>>1 | 1, nil
}

// tableOf reads the result of a bench: what it recommends between two hosts, and
// the networks' median TCP throughput and its cost there.
func tableOf(dir string) (p prior, err error) {
	in, err := openResult(dir)
	if err != nil {
		return p, err
	}
	trials := in.Results.Trials
	for _, g := range rank.Table(trials, rank.Options{}) {
		if here(g.Scenario) {
			p.table.Name = g.Scenario.String()
			p.table.Rows = append(p.table.Rows, decide.TableOf(g).Rows...)
		}
	}
	rates, cpu := map[string][]float64{}, map[string][]float64{}
	for _, t := range trials {
		if t.Status != sample.OK || !here(t.Scenario) || t.Workload != "tcp-stream" {
			continue
		}
		if v, ok := t.Metrics[sample.Throughput]; ok {
			rates[t.Network] = append(rates[t.Network], v)
		}
		if v, ok := t.Metrics[sample.CPUPerGB]; ok {
			cpu[t.Network] = append(cpu[t.Network], v)
		}
	}
	if p.rates, p.cpu = medians(rates), medians(cpu); len(p.rates) == 0 {
		return p, fmt.Errorf("%s holds no TCP throughput between two hosts: run \"pathwise bench\" with the topology two-hosts and the workload tcp-stream", dir)
	}
	return p, nil
}

// here: the agent steers between hosts, on the machine's own kernel. Figures of both IP
// families are not mixed.
func here(s topo.Scenario) bool {
	return s.Placement == topo.TwoHosts && s.Kernel == "" && s.Outside == "" && s.IP() == topo.IPv4
}

func medians(by map[string][]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range by {
		out[k] = stat.Median(v)
	}
	return out
}
