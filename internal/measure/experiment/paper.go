package experiment

import (
	"time"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/sample"
)

// document reads what speaks of networks and workloads, once those are known:
// the quick variant, the paper, and the claims, which look for all three.
func (d *draft) document() error {
	if d.quick != nil {
		if err := d.variant(*d.quick); err != nil {
			return err
		}
	}
	if d.paper != nil {
		if err := d.study(*d.paper); err != nil {
			return err
		}
	}
	for _, v := range d.applied {
		if err := d.application(v); err != nil {
			return err
		}
	}
	for _, v := range d.claimed {
		if err := d.claim(v); err != nil {
			return err
		}
	}
	if d.paper != nil {
		return d.paper.Wrap(d.exp.Paper.Check(d.exp.Claims))
	}
	return nil
}

// variant reads the quick variant: the file's own keys of the same names, where
// it has them, replaced.
func (d *draft) variant(v config.Value) error {
	q := &draft{exp: d.exp, file: d.file, catalogue: d.catalogue, places: d.places, window: d.window,
		seen: map[sample.Cell]bool{}}
	q.exp.Entries = nil
	err := v.Fields(map[string]config.Field{
		"workloads":   q.workloads,
		"topologies":  placements(&q.places.placements),
		"warmup":      duration(&q.window.Warmup, 0, maxDuration),
		"duration":    duration(&q.window.Duration, minDuration, maxDuration),
		"repetitions": q.repetitions,
		"budget":      duration(&q.exp.Budget, time.Second, maxBudget),
	}, "budget", "workloads")
	if err != nil {
		return err
	}
	for _, entry := range q.entries {
		if err := q.entry(entry); err != nil {
			return err
		}
	}
	d.exp.Quick = &Variant{Entries: q.exp.Entries, Repeat: q.exp.Repeat, Budget: q.exp.Budget}
	return nil
}

// study reads what an experiment says of its document.
func (d *draft) study(v config.Value) error {
	p := &paper.Paper{}
	d.exp.Paper = p
	return v.Fields(map[string]config.Field{
		"title":     prose(&p.Title),
		"authors":   text(&p.Authors),
		"reference": prose(&p.Reference),
		"setup":     prose(&p.Setup),
		"differs":   prose(&p.Differs),
		"networks":  each(&p.Networks, d.alias),
		"exhibits":  each(&p.Exhibits, d.exhibit),
	}, "title", "authors", "exhibits")
}

// each reads a list of mappings.
func each[T any](dst *[]T, read func(config.Value, *T) error) config.Field {
	return func(v config.Value) error {
		items, err := v.Items()
		for _, item := range items {
			var x T
			if err = read(item, &x); err != nil {
				return err
			}
			*dst = append(*dst, x)
		}
		return err
	}
}

func (d *draft) alias(v config.Value, a *paper.Alias) error {
	return v.Fields(map[string]config.Field{"theirs": prose(&a.Theirs), "here": d.networkNames(&a.Here),
		"note": prose(&a.Note)}, "theirs")
}

func (d *draft) exhibit(v config.Value, e *paper.Exhibit) error {
	err := v.Fields(map[string]config.Field{
		"id": text(&e.ID), "title": prose(&e.Title), "why": prose(&e.Why), "left": prose(&e.Left),
		"shows": each(&e.Shows, d.view), "choice": boolean(&e.Choice),
	}, "id", "title")
	if err == nil && !isName(e.ID) {
		return v.Errorf("id %q: expected a name of letters, digits, dots, hyphens and underscores", e.ID)
	}
	return err
}

func (d *draft) view(v config.Value, w *paper.View) error {
	fields := d.where(&w.Where)
	fields["metric"] = metric(&w.Metric)
	fields["networks"] = d.networkNames(&w.Networks)
	fields["over"] = func(v config.Value) error {
		name, err := v.Text()
		if err == nil {
			w.Over, err = claim.ParseKnob(name)
		}
		return err
	}
	if err := v.Fields(fields, "workload"); err != nil {
		return err
	}
	if w.Metric == "" {
		info, err := d.workload(w.Where.Workload)
		if err != nil {
			return v.Wrap(err)
		}
		if len(info.Metrics) > 0 {
			w.Metric = info.Metrics[0]
		}
	}
	return nil
}
