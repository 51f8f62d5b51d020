package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// application reads {name: NAME, workloads: [...], bounds: [...]}.
func (d *draft) application(_ config.Value, _ *applied, read func() error) error {
	d.app = &application.Application{}
	if err := read(); err != nil {
		return err
	}
	d.exp.Applications = append(d.exp.Applications, *d.app)
	return nil
}

// applicationName reads a name that no other application has.
func (d *draft) applicationName(name string) error {
	named := func(a application.Application) bool { return a.Name == name }
	switch {
	case slices.ContainsFunc(application.Shipped(), named):
		return fmt.Errorf("application %q comes with Pathwise: expected another name", name)
	case slices.ContainsFunc(d.exp.Applications, named):
		return fmt.Errorf("application %q is given twice", name)
	}
	d.app.Name = name // bounds say it
	return nil
}

// part reads a workload's name alone, or {workload: NAME, weight: NUMBER, load: {...},
// metrics: ...}.
func (d *draft) part(v config.Value, in *piece, read func() error) error {
	in.Weight = 1
	if err := read(); err != nil {
		return err
	}
	if d.app.Has(in.Workload) {
		return v.Errorf("workload %s is given twice", in.Workload)
	}
	p := application.Part{Workload: in.Workload, Weight: in.Weight}
	info, err := d.workload(p.Workload)
	if err != nil {
		return v.Wrap(err)
	}
	if in.Load != nil {
		if p.Load, err = d.oneLoad(v.Key("load"), *in.Load, p.Workload); err != nil {
			return err
		}
	}
	if !v.Has("metrics") {
		p.Metrics, p.Offered = usual(p.Workload, info)
	} else if p.Metrics, err = readWeights(v.Key("metrics"), info); err != nil {
		return err
	}
	if len(p.Metrics) == 0 {
		return v.Errorf("metrics: missing key")
	}
	d.app.Parts = append(d.app.Parts, p)
	return nil
}

// usual are the metrics of a workload for which none are named: those of the shipped
// application that has it, or its main one.
func usual(name string, info workload.Info) (metrics, offered []application.Metric) {
	for _, a := range application.Shipped() {
		for _, p := range a.Parts {
			if p.Workload == name {
				return p.Metrics, p.Offered
			}
		}
	}
	if len(info.Metrics) > 0 {
		metrics = application.Alike(name, info.Metrics[0]).Metrics
	}
	return metrics, nil
}

// readWeights reads one metric, a list of metrics that weigh the same, or {METRIC: WEIGHT}.
func readWeights(v config.Value, info workload.Info) (out []application.Metric, err error) {
	if !v.IsMapping() {
		items, err := v.Items()
		var names []string
		for _, item := range items {
			name, err := told(item, info)
			if err != nil {
				return nil, err
			}
			if slices.Contains(names, name) {
				return nil, item.Errorf("%s is given twice", name)
			}
			names = append(names, name)
		}
		return application.Alike("", names...).Metrics, err
	}
	fields := map[string]config.Field{}
	for _, name := range toldBy(info) {
		fields[name] = func(v config.Value) error {
			weight, err := parseWeight(v)
			out = append(out, application.Metric{Name: name, Weight: weight})
			return err
		}
	}
	if err := v.Fields(fields); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, v.Errorf("expected a metric with its weight, such as %s: 1", toldBy(info)[0])
	}
	return out, nil
}

// MarshalYAML keeps the order.
func (w weights) MarshalYAML() (any, error) {
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for _, m := range w {
		out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: m.Name},
			&yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(m.Weight, 'g', -1, 64)})
	}
	return out, nil
}

// toldBy are the metrics that a workload tells, or all where that is not known.
func toldBy(info workload.Info) []string {
	if len(info.Metrics) > 0 {
		return info.Metrics
	}
	return metricNames(sample.Metrics())
}

// told reads the name of a metric that a workload tells.
func told(v config.Value, info workload.Info) (string, error) {
	name, err := v.Text()
	if names := toldBy(info); err == nil && !slices.Contains(names, name) {
		err = v.Errorf("workload %s tells no %q: expected one of %s", info.Name, name, strings.Join(names, ", "))
	}
	return name, err
}

// oneLoad is {connections: 8, rate: 1000}: a load that the experiment offers, in the knobs
// that it has.
func (d *draft) oneLoad(v config.Value, in load, name string) (*sample.Load, error) {
	loads := in.combinations()
	if len(loads) != 1 {
		return nil, v.Errorf("%d loads: expected one", len(loads))
	}
	p := application.Part{Load: &loads[0]}
	for _, e := range d.exp.Entries {
		if e.Workload == name && slices.ContainsFunc(e.Loads, p.Takes) {
			return p.Load, nil
		}
	}
	return nil, v.Errorf("the experiment does not offer %s at load %v", name, loads[0])
}

// bound reads {workload: NAME, metric: METRIC, least: AMOUNT, most: AMOUNT}.
func (d *draft) bound(v config.Value, in *held, read func() error) error {
	if err := read(); err != nil {
		return err
	}
	if !d.app.Has(in.Workload) {
		var names []string
		for _, p := range d.app.Parts {
			names = append(names, p.Workload)
		}
		return v.Errorf("workload: application %s has no workload %q: it has %s", d.app.Name, in.Workload,
			strings.Join(names, ", "))
	}
	b := application.Bound{Workload: in.Workload}
	info, err := d.workload(in.Workload)
	if err == nil {
		b.Metric, err = told(v.Key("metric"), info)
	}
	if err == nil && v.Has("least") {
		b.Least, err = amount(v.Key("least"), b.Metric)
	}
	if err == nil && v.Has("most") {
		b.Most, err = amount(v.Key("most"), b.Metric)
	}
	switch {
	case err != nil:
		return v.Wrap(err)
	case b.Least == nil && b.Most == nil:
		return v.Errorf("expected least, most or both, such as most: 5ms")
	case b.Least != nil && b.Most != nil && *b.Least > *b.Most:
		return v.Errorf("least %s is above most %s", application.Amount(b.Metric, *b.Least),
			application.Amount(b.Metric, *b.Most))
	}
	d.app.Bounds = append(d.app.Bounds, b)
	return nil
}

// amount reads a figure with the unit of its metric: 5ms, 1.2G, 0.1%, or a number.
func amount(v config.Value, metric string) (*float64, error) {
	known, _ := sample.MetricByName(metric)
	var out float64
	var err error
	switch text, _ := v.Text(); {
	case known.Unit == "s":
		var d time.Duration
		d, err = v.Duration(0, 24*time.Hour)
		out = d.Seconds()
	case known.Unit == "bit/s" || known.Unit == "1/s":
		out, err = v.Rate(math.MaxFloat64)
	case strings.HasSuffix(text, "%"):
		out, err = v.Percent()
	default:
		out, err = v.Number()
	}
	return &out, err
}

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

func appliedOf(a application.Application) applied {
	out := applied{Name: a.Name}
	for _, p := range a.Parts {
		w := piece{Workload: p.Workload, Weight: p.Weight}
		if p.Load != nil {
			l := loadOf(*p.Load)
			w.Load = &l
		}
		if len(p.Offered) == 0 { // those that differ by load are the usual ones
			w.Metrics = p.Metrics
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
