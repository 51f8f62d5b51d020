package explain

import (
	"cmp"
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
)

// Finding is an account and what follows from it.
type Finding struct {
	Account
	Bound Bound `json:"bound"`
	// Sentence says what bounds the network, with figures.
	Sentence string `json:"sentence"`
}

// NotSampled is why a trial measured without looking inside has no samples.
const NotSampled = "not sampled: measure with \"pathwise bench --explain\""

// Find explains a result: its profiles, and cells that have none by what their
// trials tell. baseline is the network that others are compared with.
func Find(t *Table, trials []sample.Trial, profiles []Profile, baseline string) []Finding {
	accounts := append(Accounts(t, profiles), coarse(trials, profiles)...)
	slices.SortStableFunc(accounts, func(a, b Account) int {
		return cmp.Or(a.Question().Compare(b.Question()), cmp.Compare(rank(b.Network, baseline), rank(a.Network, baseline)),
			cmp.Compare(a.Network, b.Network))
	})
	var out []Finding
	for _, a := range accounts {
		s := Situation{Account: a}
		for i := range accounts {
			if accounts[i].Network == baseline && accounts[i].Question() == a.Question() && accounts[i].Missing == "" {
				s.Baseline = &accounts[i]
			}
		}
		s.Offered = a.Load.Rate * float64(a.Scenario.Pairs)
		// A workload that counts operations is asked for so many a second.
		if s.Got = mean(trials, a.Cell, sample.Rate); s.Got > 0 {
			s.PerSecond = true
		} else if s.Got = mean(trials, a.Cell, sample.Throughput); s.Got == 0 {
			s.Offered = 0 // nothing to compare it with
		}
		f := Finding{Account: a}
		f.Bound, f.Sentence = s.Bound()
		out = append(out, f)
	}
	return out
}

// rank puts the baseline first.
func rank(network, baseline string) int {
	if network == baseline {
		return 1
	}
	return 0
}

// mean is a metric's mean over a cell's OK trials; 0 where there is none.
func mean(trials []sample.Trial, cell sample.Cell, metric string) float64 {
	var sum float64
	var n int
	for _, t := range trials {
		if v, ok := t.Metrics[metric]; ok && t.Cell == cell && t.Status == sample.OK {
			sum += v
			n++
		}
	}
	return per(sum, float64(n))
}

// coarse accounts for the cells that nobody looked into: the machine's modes, of
// which the idle machine's are subtracted, are in every trial.
func coarse(trials []sample.Trial, profiles []Profile) []Account {
	looked := map[sample.Cell]bool{}
	for _, p := range profiles {
		looked[p.Cell] = true
	}
	cells := map[sample.Cell]*Account{}
	sums := map[sample.Cell]sample.CPU{}
	for _, t := range trials {
		if looked[t.Cell] || t.Status != sample.OK || t.CPU == nil {
			continue
		}
		a := cells[t.Cell]
		if a == nil {
			a = &Account{Cell: t.Cell, Missing: NotSampled}
			cells[t.Cell] = a
		}
		a.Trials++
		sums[t.Cell] = add(sums[t.Cell], *t.CPU)
	}
	var out []Account
	for _, cell := range slices.SortedFunc(maps.Keys(cells),
		func(a, b sample.Cell) int { return cmp.Compare(a.String(), b.String()) }) {
		a := cells[cell]
		a.Machine = shares(sums[cell])
		if v := mean(trials, cell, sample.CPUPerGB); v > 0 {
			a.Unit, a.Lab = PerGB, v
		} else if v := mean(trials, cell, sample.CPUPerKop); v > 0 {
			a.Unit, a.Lab = PerKop, v
		}
		out = append(out, *a)
	}
	return out
}
