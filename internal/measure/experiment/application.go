package experiment

import (
	"math"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// applications keeps the entries for later: they speak of workloads.
func (d *draft) applications(v config.Value) (err error) {
	d.applied, err = v.Items()
	return err
}

// application reads {name: NAME, workloads: [...], bounds: [...]}.
func (d *draft) application(v config.Value) error {
	var a application.Application
	var bounds []config.Value
	err := v.Fields(map[string]config.Field{
		"name": d.applicationName(&a.Name),
		"workloads": func(v config.Value) error {
			items, err := v.Items()
			for _, item := range items {
				if err = d.part(item, &a); err != nil {
					return err
				}
			}
			return err
		},
		"bounds": func(v config.Value) (err error) { bounds, err = v.Items(); return err },
	}, "name", "workloads")
	for i := 0; err == nil && i < len(bounds); i++ {
		err = d.bound(bounds[i], &a)
	}
	if err != nil {
		return err
	}
	d.exp.Applications = append(d.exp.Applications, a)
	return nil
}

func (d *draft) applicationName(dst *string) config.Field {
	return func(v config.Value) (err error) {
		if *dst, err = v.Text(); err != nil {
			return err
		}
		named := func(a application.Application) bool { return a.Name == *dst }
		switch {
		case !isName(*dst):
			return v.Errorf("%q: expected a name of letters, digits, dots, hyphens and underscores", *dst)
		case slices.ContainsFunc(application.Shipped(), named):
			return v.Errorf("application %q comes with Pathwise: expected another name", *dst)
		case slices.ContainsFunc(d.exp.Applications, named):
			return v.Errorf("application %q stands twice", *dst)
		}
		return nil
	}
}

// part reads a workload's name alone, or {workload: NAME, weight: NUMBER, load: {...},
// metrics: ...}.
func (d *draft) part(v config.Value, a *application.Application) error {
	p := application.Part{Weight: 1}
	var metrics, load *config.Value
	var err error
	if v.IsMapping() {
		err = v.Fields(map[string]config.Field{
			"workload": d.workloadName(&p.Workload),
			"weight":   weight(&p.Weight),
			"metrics":  func(v config.Value) error { metrics = &v; return nil },
			"load":     func(v config.Value) error { load = &v; return nil },
		}, "workload")
	} else {
		err = d.workloadName(&p.Workload)(v)
	}
	if err != nil {
		return err
	}
	if a.Has(p.Workload) {
		return v.Errorf("workload %s stands twice", p.Workload)
	}
	info, err := d.workload(p.Workload)
	if err != nil {
		return v.Wrap(err)
	}
	if load != nil {
		if p.Load, err = d.oneLoad(*load, p.Workload); err != nil {
			return err
		}
	}
	if metrics == nil {
		p.Metrics, p.Offered = usual(p.Workload, info)
	} else if p.Metrics, err = weights(*metrics, info); err != nil {
		return err
	}
	if len(p.Metrics) == 0 {
		return v.Errorf("metrics: missing key")
	}
	a.Parts = append(a.Parts, p)
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

// weights reads one metric, a list of metrics that weigh the same, or {METRIC: WEIGHT}.
func weights(v config.Value, info workload.Info) (out []application.Metric, err error) {
	if !v.IsMapping() {
		var names []string
		if err := list(&names, func(v config.Value) (name string, err error) {
			err = told(&name, info)(v)
			return name, err
		})(v); err != nil {
			return nil, err
		}
		return application.Alike("", names...).Metrics, nil
	}
	fields := map[string]config.Field{}
	for _, name := range metricNames(info) {
		fields[name] = func(v config.Value) error {
			m := application.Metric{Name: name}
			err := weight(&m.Weight)(v)
			out = append(out, m)
			return err
		}
	}
	if err := v.Fields(fields); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, v.Errorf("expected a metric with its weight, such as %s: 1", metricNames(info)[0])
	}
	return out, nil
}

// metricNames are those that a workload tells, or all where that is not known.
func metricNames(info workload.Info) (out []string) {
	if len(info.Metrics) > 0 {
		return info.Metrics
	}
	for _, m := range sample.Metrics() {
		out = append(out, m.Name)
	}
	return out
}

// told reads the name of a metric that a workload tells.
func told(dst *string, info workload.Info) config.Field {
	return func(v config.Value) (err error) {
		if *dst, err = v.Text(); err != nil {
			return err
		}
		if names := metricNames(info); !slices.Contains(names, *dst) {
			return v.Errorf("workload %s tells no %q: expected one of %s", info.Name, *dst, strings.Join(names, ", "))
		}
		return nil
	}
}

func weight(dst *float64) config.Field {
	return func(v config.Value) (err error) {
		if *dst, err = v.Number(); err == nil && *dst <= 0 {
			return v.Errorf("%g: expected a weight above 0", *dst)
		}
		return err
	}
}

// oneLoad reads {connections: 8, rate: 1000}: a load that the experiment offers, in
// the knobs that it has.
func (d *draft) oneLoad(v config.Value, name string) (*sample.Load, error) {
	loads, err := combinations(v)
	if err != nil {
		return nil, err
	}
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
func (d *draft) bound(v config.Value, a *application.Application) error {
	var b application.Bound
	var least, most, named *config.Value
	keep := func(dst **config.Value) config.Field {
		return func(v config.Value) error { *dst = &v; return nil }
	}
	err := v.Fields(map[string]config.Field{
		"workload": text(&b.Workload), "metric": keep(&named), "least": keep(&least), "most": keep(&most),
	}, "workload", "metric")
	if err != nil {
		return err
	}
	if !a.Has(b.Workload) {
		var names []string
		for _, p := range a.Parts {
			names = append(names, p.Workload)
		}
		return v.Errorf("workload: application %s has no workload %q: it has %s", a.Name, b.Workload,
			strings.Join(names, ", "))
	}
	info, err := d.workload(b.Workload)
	if err == nil {
		err = told(&b.Metric, info)(*named)
	}
	if err == nil {
		b.Least, b.Most, err = ends(b.Metric, least, most)
	}
	switch {
	case err != nil:
		return err
	case least == nil && most == nil:
		return v.Errorf("expected least, most or both, such as most: 5ms")
	case b.Least != nil && b.Most != nil && *b.Least > *b.Most:
		return v.Errorf("least %s is above most %s", application.Amount(b.Metric, *b.Least),
			application.Amount(b.Metric, *b.Most))
	}
	a.Bounds = append(a.Bounds, b)
	return nil
}

// ends reads the two ends of a bound, where they are.
func ends(metric string, least, most *config.Value) (l, m *float64, err error) {
	if least != nil {
		l, err = amount(*least, metric)
	}
	if most != nil && err == nil {
		m, err = amount(*most, metric)
	}
	return l, m, err
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
