package experiment

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// claim reads one statement of a document.
func (d *draft) claim(v config.Value, in *statement, read func() error) error {
	if err := read(); err != nil {
		return err
	}
	if d.exp.Paper == nil {
		if err := v.Need("source"); err != nil {
			return err
		}
	}
	measured := !v.Has("untested") && !v.Has("choice")
	if measured {
		if err := v.Need("workload"); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(d.exp.Claims, func(o claim.Claim) bool { return o.ID == in.ID }) {
		return v.Key("id").Errorf("claim %q is given twice", in.ID)
	}
	c := in.claim()
	if err := d.settle(v, &c, measured); err != nil {
		return err
	}
	d.exp.Claims = append(d.exp.Claims, c)
	return nil
}

func (in *statement) claim() claim.Claim {
	c := claim.Claim{ID: in.ID, Source: in.Source, Text: in.Claim, Published: in.Published, Metric: in.Metric,
		Where: in.Where.where(), Networks: in.Networks, Overall: in.Overall, Except: in.Except, Because: in.Because,
		Exhibits: in.Exhibits, Untested: in.Untested, Test: claim.Test{Value: in.Value, Choice: in.Choice}}
	if in.Relative != nil {
		w := in.Relative.where()
		c.Relative = &w
	}
	for _, group := range in.Order {
		c.Test.Order = append(c.Test.Order, group)
	}
	if r := in.Ratio; r != nil {
		c.Test.Ratio = &claim.Ratio{Of: r.Of.side(), To: r.To.side(), Range: r.Range}
	}
	if o := in.Optimum; o != nil {
		c.Test.Optimum = &claim.Optimum{Over: o.Over, Range: o.Range}
	}
	if t := in.Trend; t != nil {
		c.Test.Trend = &claim.Trend{Over: t.Over, Falling: t.Goes == down}
	}
	return c
}

func (s *side) side() claim.Side {
	if s == nil {
		return claim.Side{}
	}
	return claim.Side{Network: s.Network, Where: s.Where.where()}
}

// optimum reads {over: KNOB, at: NUMBER}, or {over: KNOB, least: NUMBER, most: NUMBER}.
func (d *draft) optimum(v config.Value, o *optimum, read func() error) error {
	err := read()
	switch {
	case err != nil || o.At == nil:
		return err
	case o.Range.Least != nil || o.Range.Most != nil:
		return v.Errorf("at is given with least or most: expected one or the other")
	}
	o.Range = claim.Range{Least: o.At, Most: o.At}
	return nil
}

// settle fills in what a claim leaves to its paper and its workload, and checks
// it. One that is measured asks questions of its own.
func (d *draft) settle(v config.Value, c *claim.Claim, measured bool) error {
	if d.exp.Paper != nil {
		c.Source = cmp.Or(c.Source, d.exp.Paper.Authors)
	}
	if measured && c.Metric == "" {
		info, err := d.workload(c.Where.Workload)
		if err != nil {
			return v.Wrap(err)
		}
		if len(info.Metrics) == 0 {
			return v.Errorf("metric: missing key")
		}
		c.Metric = info.Metrics[0]
	}
	if err := c.Check(); err != nil {
		return v.Wrap(err)
	}
	// The claims of a paper are all kept: of what is not asked the verdict says so.
	if !measured || d.exp.Paper != nil {
		return nil
	}
	return v.Wrap(d.exp.Asks(*c))
}

// Recorded is the catalogue of an experiment that has been run: all that it
// names was there, also where this program or machine has it no more.
func Recorded() Catalogue {
	return Catalogue{
		Network: func(string) error { return nil },
		Workload: func(name string) (workload.Info, error) {
			if file, ok := strings.CutPrefix(name, Profiled+":"); ok {
				name = Profiled + ":" + strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			}
			return workload.Info{Name: name, Pairs: true, Server: "any",
				Knobs: []string{"connections", "size", "rate", "congestion"},
				Max:   sample.Load{Connections: math.MaxInt, Size: math.MaxInt, Rate: math.MaxFloat64}}, nil
		},
	}
}

func statementOf(c claim.Claim) statement {
	out := statement{ID: c.ID, Source: c.Source, Claim: c.Text, Published: c.Published, Metric: c.Metric,
		Where: placeOf(c.Where), Networks: c.Networks, Overall: c.Overall, Except: c.Except, Because: c.Because,
		Exhibits: c.Exhibits, Untested: c.Untested, Value: c.Test.Value, Choice: c.Test.Choice}
	if c.Relative != nil {
		p := placeOf(*c.Relative)
		out.Relative = &p
	}
	for _, group := range c.Test.Order {
		out.Order = append(out.Order, group)
	}
	if r := c.Test.Ratio; r != nil {
		out.Ratio = &ratio{sideOf(r.Of), sideOf(r.To), r.Range}
	}
	if o := c.Test.Optimum; o != nil {
		out.Optimum = &optimum{Over: o.Over, Range: o.Range}
	}
	if t := c.Test.Trend; t != nil {
		out.Trend = &trend{Over: t.Over, Goes: up}
		if t.Falling {
			out.Trend.Goes = down
		}
	}
	return out
}

// sideOf is nil where the side is each of the claim's networks.
func sideOf(s claim.Side) *side {
	out := side{s.Network, placeOf(s.Where)}
	if out.Network == "" && out.Where.empty() {
		return nil
	}
	return &out
}
