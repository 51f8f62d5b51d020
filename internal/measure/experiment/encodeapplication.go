package experiment

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"pathwise.dev/pathwise/internal/measure/application"
)

// Applicable returns the applications as far as the experiment offers their workloads:
// a part of it may lack some. One that has none left is not returned.
func (e Experiment) Applicable() (out []application.Application) {
	for _, a := range e.Applications {
		a.Parts = slices.DeleteFunc(slices.Clone(a.Parts), func(p application.Part) bool {
			return !slices.ContainsFunc(e.Entries,
				func(e Entry) bool { return e.Workload == p.Workload && slices.ContainsFunc(e.Loads, p.Takes) })
		})
		a.Bounds = slices.DeleteFunc(slices.Clone(a.Bounds), func(b application.Bound) bool { return !a.Has(b.Workload) })
		if len(a.Parts) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// applied is an application as it is written.
type applied struct {
	Name      string  `yaml:"name"`
	Workloads []piece `yaml:"workloads"`
	Bounds    []held  `yaml:"bounds,omitempty,flow"`
}

type piece struct {
	Workload string  `yaml:"workload"`
	Weight   float64 `yaml:"weight"`
	Load     *load   `yaml:"load,omitempty,flow"`
	// Metrics are in order, as the first one decides the optimum.
	Metrics *yaml.Node `yaml:"metrics,omitempty"`
}

type held struct {
	Workload string `yaml:"workload"`
	Metric   string `yaml:"metric"`
	Least    string `yaml:"least,omitempty"`
	Most     string `yaml:"most,omitempty"`
}

func encodeApplication(a application.Application) applied {
	out := applied{Name: a.Name}
	for _, p := range a.Parts {
		w := piece{Workload: p.Workload, Weight: p.Weight}
		if p.Load != nil {
			w.Load = &load{Connections: p.Load.Connections, Size: p.Load.Size, Rate: p.Load.Rate, Congestion: p.Load.Congestion}
		}
		if len(p.Offered) == 0 { // those that differ by load are the usual ones
			w.Metrics = encodeWeights(p.Metrics)
		}
		out.Workloads = append(out.Workloads, w)
	}
	for _, b := range a.Bounds {
		h := held{Workload: b.Workload, Metric: b.Metric}
		if b.Least != nil {
			h.Least = application.Amount(b.Metric, *b.Least)
		}
		if b.Most != nil {
			h.Most = application.Amount(b.Metric, *b.Most)
		}
		out.Bounds = append(out.Bounds, h)
	}
	return out
}

func encodeWeights(metrics []application.Metric) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for _, m := range metrics {
		out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: m.Name},
			&yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(m.Weight, 'g', -1, 64)})
	}
	return out
}
