package application

import (
	"fmt"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// Bound is what a network must keep, such as a 99th percentile of 5 ms at most.
type Bound struct {
	// Workload is one of the application's, at the load at which it is looked at.
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	// Least and Most are in the metric's unit; nil where there is none.
	Least *float64 `json:"least,omitempty"`
	Most  *float64 `json:"most,omitempty"`
}

// Keeps tells whether a figure keeps the bound.
func (b Bound) Keeps(v float64) bool {
	return (b.Least == nil || v >= *b.Least) && (b.Most == nil || v <= *b.Most)
}

// String is "latency_p99 of http at most 5ms".
func (b Bound) String() string {
	out := b.Metric + " of " + b.Workload
	if b.Least != nil {
		out += " at least " + Amount(b.Metric, *b.Least)
	}
	if b.Least != nil && b.Most != nil {
		out += " and"
	}
	if b.Most != nil {
		out += " at most " + Amount(b.Metric, *b.Most)
	}
	return out
}

// Amount shows a figure with its unit, as an experiment file takes it: 5ms, 1.2G, 0.1%.
func Amount(metric string, v float64) string {
	m, _ := sample.MetricByName(metric)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
	switch m.Unit {
	case "s":
		return time.Duration(v * float64(time.Second)).String()
	case "bit/s", "1/s":
		for _, s := range []struct {
			suffix string
			factor float64
		}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
			if v >= s.factor {
				return number(v/s.factor) + s.suffix
			}
		}
	case "ratio":
		if v > 0 && v <= 1 {
			return fmt.Sprintf("%s%%", number(100*v))
		}
	}
	return number(v)
}
