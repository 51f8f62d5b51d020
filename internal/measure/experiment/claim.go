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

// claims keeps the entries for later: they speak of networks and workloads.
func (d *draft) claims(v config.Value) (err error) {
	d.claimed, err = v.Items()
	return err
}

// claim reads one statement of a document.
func (d *draft) claim(v config.Value) error {
	var c claim.Claim
	fields := d.where(&c.Where)
	for key, field := range map[string]config.Field{
		"id":        d.claimID(&c),
		"source":    text(&c.Source),
		"claim":     prose(&c.Text),
		"published": prose(&c.Published),
		"because":   prose(&c.Because),
		"exhibit":   list(&c.Exhibits, config.Value.Text),
		"untested":  prose(&c.Untested),
		"metric":    metric(&c.Metric),
		"networks":  d.networkNames(&c.Networks),
		"overall":   boolean(&c.Overall),
		"except":    text(&c.Except),
		"relative":  d.relative(&c),
		"ratio":     d.ratio(&c.Test),
		"order":     d.order(&c.Test),
		"value":     value(&c.Test),
		"optimum":   optimum(&c.Test),
		"trend":     trend(&c.Test),
		"choice":    d.choice(&c.Test),
	} {
		fields[key] = field
	}
	required := []string{"id", "claim"}
	if d.exp.Paper == nil {
		required = append(required, "source")
	}
	measured := !v.Has("untested") && !v.Has("choice")
	if measured {
		required = append(required, "workload")
	}
	if err := v.Fields(fields, required...); err != nil {
		return err
	}
	if err := d.settle(v, &c, measured); err != nil {
		return err
	}
	d.exp.Claims = append(d.exp.Claims, c)
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

// relative reads where the figures are that a claim's are divided by.
func (d *draft) relative(c *claim.Claim) config.Field {
	return func(v config.Value) error {
		c.Relative = &claim.Where{}
		fields := d.where(c.Relative)
		delete(fields, "kernels") // two kernels' figures are never compared
		return v.Fields(fields)
	}
}

// choice reads {app: NAME, load: optimum or high, robust: BOOL, network: NAME}.
func (d *draft) choice(t *claim.Test) config.Field {
	return func(v config.Value) error {
		t.Choice = &claim.Choice{}
		return v.Fields(map[string]config.Field{
			"app": text(&t.Choice.App), "robust": boolean(&t.Choice.Robust), "load": text(&t.Choice.Load),
			"network": func(v config.Value) (err error) { t.Choice.Network, err = d.networkName(v); return err },
		}, "app", "load", "network")
	}
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

func (d *draft) claimID(c *claim.Claim) config.Field {
	return func(v config.Value) (err error) {
		if c.ID, err = v.Text(); err != nil {
			return err
		}
		if !isName(c.ID) {
			return v.Errorf("%q: expected a name of letters, digits, dots, hyphens and underscores", c.ID)
		}
		if slices.ContainsFunc(d.exp.Claims, func(o claim.Claim) bool { return o.ID == c.ID }) {
			return v.Errorf("claim %q stands twice", c.ID)
		}
		return nil
	}
}

// where lists the keys that pick questions.
func (d *draft) where(w *claim.Where) map[string]config.Field {
	const anything = 1 << 30
	return map[string]config.Field{
		"workload":   d.workloadName(&w.Workload),
		"topologies": placements(&w.Placements),
		"pairs":      ints(&w.Pairs, 1, anything),
		"mtu":        ints(&w.MTUs, 1, anything),
		"outside":    outsides(&w.Outsides),
		"family":     families(&w.Families),
		"kernels":    list(&w.Kernels, d.kernelKind),
		"load": func(v config.Value) error {
			items, err := v.Items()
			for _, item := range items {
				var more []sample.Load
				if more, err = combinations(item); err != nil {
					return err
				}
				w.Loads = append(w.Loads, more...)
			}
			return err
		},
	}
}

func (d *draft) workloadName(dst *string) config.Field {
	return func(v config.Value) (err error) {
		if *dst, err = v.Text(); err != nil {
			return err
		}
		var names []string
		for _, e := range d.exp.Entries {
			names = append(names, e.Workload)
		}
		if d.exp.Paper != nil { // what its quick variant leaves out is not asked
			if _, err := d.workload(*dst); err != nil {
				return v.Wrap(err)
			}
			return nil
		}
		if !slices.Contains(names, *dst) {
			return v.Errorf("the experiment has no workload %q: it has %s", *dst, strings.Join(distinct(names), ", "))
		}
		return nil
	}
}

// networkName reads the name of a network of the experiment.
func (d *draft) networkName(v config.Value) (string, error) {
	name, err := v.Text()
	if err != nil {
		return "", err
	}
	var names []string
	for _, n := range d.exp.Networks {
		names = append(names, n.Name)
	}
	if !slices.Contains(names, name) {
		return "", v.Errorf("the experiment has no network %q: it has %s", name, strings.Join(distinct(names), ", "))
	}
	return name, nil
}

func (d *draft) networkNames(dst *[]string) config.Field { return list(dst, d.networkName) }

// distinct keeps the first of equal names.
func distinct(names []string) (out []string) {
	for _, n := range names {
		out = appendNew(out, n)
	}
	return out
}

// ratio reads {of: SIDE, to: SIDE, least: NUMBER, most: NUMBER}; a side that is
// not there means each of the claim's networks.
func (d *draft) ratio(t *claim.Test) config.Field {
	return func(v config.Value) error {
		t.Ratio = &claim.Ratio{}
		return v.Fields(map[string]config.Field{
			"of": d.side(&t.Ratio.Of), "to": d.side(&t.Ratio.To), "least": number(&t.Ratio.Least), "most": number(&t.Ratio.Most),
		})
	}
}

// side reads a network's name, or where the side differs from the claim.
func (d *draft) side(s *claim.Side) config.Field {
	return func(v config.Value) (err error) {
		if !v.IsMapping() {
			s.Network, err = d.networkName(v)
			return err
		}
		fields := d.where(&s.Where)
		delete(fields, "kernels") // two kernels' figures are never compared
		fields["network"] = func(v config.Value) (err error) { s.Network, err = d.networkName(v); return err }
		return v.Fields(fields)
	}
}

// order reads networks, the best first; a list in the list has no order in itself.
func (d *draft) order(t *claim.Test) config.Field {
	return func(v config.Value) error {
		items, err := v.Items()
		if err != nil {
			return err
		}
		for _, item := range items {
			var group []string
			if err := d.networkNames(&group)(item); err != nil {
				return err
			}
			t.Order = append(t.Order, group)
		}
		return nil
	}
}

// value reads {least: NUMBER, most: NUMBER}, in the metric's unit.
func value(t *claim.Test) config.Field {
	return func(v config.Value) error {
		t.Value = &claim.Range{}
		return v.Fields(map[string]config.Field{"least": number(&t.Value.Least), "most": number(&t.Value.Most)})
	}
}

// optimum reads {over: KNOB, at: NUMBER}, or {over: KNOB, least: NUMBER, most: NUMBER}.
func optimum(t *claim.Test) config.Field {
	return func(v config.Value) error {
		t.Optimum = &claim.Optimum{}
		r := &t.Optimum.Range
		var at *float64
		err := v.Fields(map[string]config.Field{
			"over": knob(&t.Optimum.Over), "at": number(&at), "least": number(&r.Least), "most": number(&r.Most),
		}, "over")
		switch {
		case err != nil || at == nil:
			return err
		case r.Least != nil || r.Most != nil:
			return v.Errorf("at stands beside least or most: expected one or the other")
		}
		r.Least, r.Most = at, at
		return nil
	}
}

// trend reads {over: KNOB, goes: up or down}.
func trend(t *claim.Test) config.Field {
	return func(v config.Value) error {
		t.Trend = &claim.Trend{}
		return v.Fields(map[string]config.Field{"over": knob(&t.Trend.Over), "goes": func(v config.Value) error {
			way, err := v.Text()
			if err == nil && way != "up" && way != "down" {
				return v.Errorf("%q: expected up or down", way)
			}
			t.Trend.Falling = way == "down"
			return err
		}}, "over", "goes")
	}
}

func knob(dst *claim.Knob) config.Field {
	return func(v config.Value) error {
		name, err := v.Text()
		if err == nil {
			*dst, err = claim.ParseKnob(name)
		}
		return err
	}
}

func metric(dst *string) config.Field {
	return func(v config.Value) (err error) {
		if *dst, err = v.Text(); err != nil {
			return err
		}
		if _, ok := sample.MetricByName(*dst); !ok {
			var names []string
			for _, m := range append(sample.Metrics(), sample.Derived()...) {
				names = append(names, m.Name)
			}
			return v.Errorf("unknown metric %q: expected one of %s", *dst, strings.Join(names, ", "))
		}
		return nil
	}
}

// prose reads a text of sentences, which may go over several lines.
func prose(dst *string) config.Field {
	return func(v config.Value) error {
		s, err := v.Text()
		*dst = strings.Join(strings.Fields(s), " ")
		return err
	}
}

func number(dst **float64) config.Field {
	return func(v config.Value) error {
		x, err := v.Number()
		*dst = &x
		return err
	}
}

func boolean(dst *bool) config.Field {
	return func(v config.Value) (err error) { *dst, err = v.Bool(); return err }
}
