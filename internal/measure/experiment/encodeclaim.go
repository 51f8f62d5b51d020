package experiment

import (
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/topo"
)

// statement is a claim as it is written.
type statement struct {
	ID        string   `yaml:"id"`
	Source    string   `yaml:"source"`
	Claim     string   `yaml:"claim"`
	Published string   `yaml:"published,omitempty"`
	Exhibits  []string `yaml:"exhibit,omitempty,flow"`
	Metric    string   `yaml:"metric,omitempty"`
	Where     place    `yaml:",inline"`
	Networks  []string `yaml:"networks,omitempty,flow"`
	Overall   bool     `yaml:"overall,omitempty"`
	Except    string   `yaml:"except,omitempty"`
	Relative  *place   `yaml:"relative,omitempty,flow"`
	Ratio     *ratio   `yaml:"ratio,omitempty,flow"`
	Order     []any    `yaml:"order,omitempty,flow"`
	Value     *bounds  `yaml:"value,omitempty,flow"`
	Optimum   *along   `yaml:"optimum,omitempty,flow"`
	Trend     *along   `yaml:"trend,omitempty,flow"`
	Choice    *choice  `yaml:"choice,omitempty,flow"`
	Untested  string   `yaml:"untested,omitempty"`
	Because   string   `yaml:"because,omitempty"`
}

type place struct {
	Network    string           `yaml:"network,omitempty"`
	Workload   string           `yaml:"workload,omitempty"`
	Topologies []topo.Placement `yaml:"topologies,omitempty,flow"`
	Pairs      []int            `yaml:"pairs,omitempty,flow"`
	MTU        []int            `yaml:"mtu,omitempty,flow"`
	Outside    []topo.Outside   `yaml:"outside,omitempty,flow"`
	Family     []int            `yaml:"family,omitempty,flow"`
	Kernels    []string         `yaml:"kernels,omitempty,flow"`
	Load       []load           `yaml:"load,omitempty,flow"`
}

type bounds struct {
	Least *float64 `yaml:"least,omitempty"`
	Most  *float64 `yaml:"most,omitempty"`
}

type ratio struct {
	Of     any    `yaml:"of,omitempty"`
	To     any    `yaml:"to,omitempty"`
	Bounds bounds `yaml:",inline"`
}

type along struct {
	Over   claim.Knob `yaml:"over"`
	Goes   string     `yaml:"goes,omitempty"`
	Bounds bounds     `yaml:",inline"`
}

type choice struct {
	App     string `yaml:"app"`
	Load    string `yaml:"load"`
	Robust  bool   `yaml:"robust"`
	Network string `yaml:"network"`
}

func encodeClaim(c claim.Claim) statement {
	out := statement{ID: c.ID, Source: c.Source, Claim: c.Text, Published: c.Published, Metric: c.Metric,
		Where: encodeWhere(c.Where), Networks: c.Networks, Overall: c.Overall, Except: c.Except, Because: c.Because,
		Exhibits: c.Exhibits, Untested: c.Untested}
	if c.Relative != nil {
		p := encodeWhere(*c.Relative)
		out.Relative = &p
	}
	if t := c.Test.Choice; t != nil {
		out.Choice = &choice{t.App, t.Load, t.Robust, t.Network}
	}
	for _, group := range c.Test.Order {
		if len(group) == 1 {
			out.Order = append(out.Order, group[0])
		} else {
			out.Order = append(out.Order, group)
		}
	}
	if r := c.Test.Ratio; r != nil {
		out.Ratio = &ratio{encodeSide(r.Of), encodeSide(r.To), bounds(r.Range)}
	}
	if r := c.Test.Value; r != nil {
		b := bounds(*r)
		out.Value = &b
	}
	if o := c.Test.Optimum; o != nil {
		out.Optimum = &along{Over: o.Over, Bounds: bounds(o.Range)}
	}
	if t := c.Test.Trend; t != nil {
		out.Trend = &along{Over: t.Over, Goes: "up"}
		if t.Falling {
			out.Trend.Goes = "down"
		}
	}
	return out
}

// encodeSide is a name where the side is nothing but a network, and nil where
// it is each of the claim's.
func encodeSide(s claim.Side) any {
	w := encodeWhere(s.Where)
	switch {
	case w.empty() && s.Network == "":
		return nil
	case w.empty():
		return s.Network
	}
	w.Network = s.Network
	return w
}

func (p place) empty() bool {
	return p.Workload == "" && len(p.Topologies)+len(p.Pairs)+len(p.MTU)+len(p.Outside)+len(p.Family)+len(p.Kernels)+len(
		p.Load) == 0
}

func encodeWhere(w claim.Where) place {
	out := place{Workload: w.Workload, Topologies: w.Placements, Pairs: w.Pairs, MTU: w.MTUs, Outside: w.Outsides,
		Kernels: w.Kernels}
	for _, f := range w.Families {
		out.Family = append(out.Family, topo.Scenario{Family: f}.IP())
	}
	for _, l := range w.Loads {
		out.Load = append(out.Load, load(l))
	}
	return out
}
