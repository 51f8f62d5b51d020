// Package prior is what a bench promises for steering: which network it recommends at a load, and what TCP gets
// and costs on each. It reads trials, and writes and reads the form in which a cluster's agents are told. It is pure,
// and decides nothing.
package prior

import (
	"encoding/json"
	"errors"
	"fmt"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/topo"
)

// Prior is what a bench promises. Its zero value promises nothing.
type Prior struct {
	Table decide.Table
	// Rates in bit/s and CPU in CPU-seconds per GB, by network.
	Rates, CPU map[string]float64
}

var (
	errNoRates    = errors.New("no TCP throughput between two hosts: run \"pathwise bench\" with the topology two-hosts and the workload tcp-stream")
	errNoNetworks = errors.New("it names no network of a cluster: expected the result of \"pathwise bench --kube\"")
)

// Of is what trials promise: what rank recommends between two hosts, and the networks' median TCP throughput and
// its cost there. The error says that no trial measured that.
func Of(trials []sample.Trial) (p Prior, err error) {
	for _, g := range rank.Table(trials, rank.Options{}) {
		if here(g.Scenario) {
			p.Table.Name = g.Scenario.String()
			p.Table.Rows = append(p.Table.Rows, decide.TableOf(g).Rows...)
		}
	}
	for _, workload := range []string{"tcp-stream", "tcp-bulk"} {
		if p.Rates, p.CPU = promised(trials, workload); len(p.Rates) > 0 {
			return p, nil
		}
	}
	return p, errNoRates
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

// written is the form in which agents are told.
type written struct {
	Rates map[string]float64 `json:"rates"`
	CPU   map[string]float64 `json:"cpu"`
}

// Encode writes, as JSON, what is promised of the networks that a cluster has. The error says that none is of them.
func (p Prior) Encode(has func(network string) bool) ([]byte, error) {
	w := written{Rates: map[string]float64{}, CPU: map[string]float64{}}
	for name, rate := range p.Rates {
		if has(name) {
			w.Rates[name] = rate
			if cost, ok := p.CPU[name]; ok {
				w.CPU[name] = cost
			}
		}
	}
	if len(w.Rates) == 0 {
		return nil, errNoNetworks
	}
	return json.MarshalIndent(w, "", "  ")
}

// Decode reads what Encode has written.
func Decode(raw []byte) (Prior, error) {
	var w written
	if err := json.Unmarshal(raw, &w); err != nil {
		return Prior{}, err
	}
	for name, rate := range w.Rates {
		if !(rate > 0) || w.CPU[name] < 0 {
			return Prior{}, fmt.Errorf("network %s: expected a rate above 0, and a cost of 0 or more", name)
		}
	}
	return Prior{Rates: w.Rates, CPU: w.CPU}, nil
}
