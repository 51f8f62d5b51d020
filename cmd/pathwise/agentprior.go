package main

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/kube/trial"
	"pathwise.dev/pathwise/internal/topo"
)

// prior is what a bench on this machine promises.
type prior struct {
	table decide.Table
	// rates in bit/s and cpu in CPU-seconds per GB, by network.
	rates, cpu map[string]float64
}

func readPrior(f agentFlags) (p prior, err error) {
	if f.prior != "" {
		p.rates, p.cpu, err = readTold(f.prior)
		return p, err
	}
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
	for _, workload := range []string{"tcp-stream", "tcp-bulk"} {
		if p.rates, p.cpu = promised(trials, workload); len(p.rates) > 0 {
			return p, nil
		}
	}
	return p, fmt.Errorf("%s holds no TCP throughput between two hosts: run \"pathwise bench\" with the topology two-hosts and the workload tcp-stream", dir)
}

// promised are the medians of a workload's throughput and of its cost, by network.
func promised(trials []sample.Trial, workload string) (map[string]float64, map[string]float64) {
	rates, cpu := map[string][]float64{}, map[string][]float64{}
	for _, t := range trials {
		if t.Status != sample.OK || !here(t.Scenario) || t.Workload != workload {
			continue
		}
		if v, ok := t.Metrics[sample.Throughput]; ok {
			rates[t.Network] = append(rates[t.Network], v)
		}
		if v, ok := t.Metrics[sample.CPUPerGB]; ok {
			cpu[t.Network] = append(cpu[t.Network], v)
		}
	}
	return medians(rates), medians(cpu)
}

// told is what the agents of a cluster are told of a bench.
type told struct {
	// Rates in bit/s and CPU in CPU-seconds per GB, by network.
	Rates map[string]float64 `json:"rates"`
	CPU   map[string]float64 `json:"cpu"`
}

// tell writes what a bench on a cluster promises for its agents.
func tell(dir string) ([]byte, error) {
	p, err := tableOf(dir)
	if err != nil {
		return nil, err
	}
	t := told{Rates: map[string]float64{}, CPU: map[string]float64{}}
	for name, rate := range p.rates {
		if name == trial.Default || strings.Contains(name, "/") {
			t.Rates[name] = rate
			if cost, ok := p.cpu[name]; ok {
				t.CPU[name] = cost
			}
		}
	}
	if len(t.Rates) == 0 {
		return nil, fmt.Errorf("%s names no network of a cluster: expected the result of \"pathwise bench --kube\"", dir)
	}
	return json.MarshalIndent(t, "", "  ")
}

// readTold reads what tell has written. A file that is not there says nothing.
func readTold(file string) (rates, cpu map[string]float64, err error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("read prior: %w", err)
	}
	var t told
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, nil, fmt.Errorf("read prior %s: %w", file, err)
	}
	for name, rate := range t.Rates {
		if !(rate > 0) || t.CPU[name] < 0 {
			return nil, nil, fmt.Errorf("read prior %s: network %s: expected a rate above 0, and a cost of 0 or more", file, name)
		}
	}
	return t.Rates, t.CPU, nil
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
