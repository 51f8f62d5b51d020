package experiment

import (
	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/paper"
)

// study reads what an experiment says of its document. Its views and the claims behind it
// may speak of what its quick variant leaves out.
func (d *draft) study(_ config.Value, in *study, read func() error) error {
	d.exp.Paper = &paper.Paper{}
	err := read()
	p := paper.Paper{Title: in.Title, Authors: in.Authors, Reference: in.Reference, Setup: in.Setup, Differs: in.Differs,
		Networks: in.Networks}
	for _, x := range in.Exhibits {
		e := paper.Exhibit{ID: x.ID, Title: x.Title, Choice: x.Choice, Why: x.Why, Left: x.Left}
		for _, v := range x.Shows {
			e.Shows = append(e.Shows, paper.View{Where: v.Where.where(), Metric: v.Metric, Over: v.Over, Networks: v.Networks})
		}
		p.Exhibits = append(p.Exhibits, e)
	}
	d.exp.Paper = &p
	return err
}

func (d *draft) view(v config.Value, w *view, read func() error) error {
	err := read()
	if err == nil {
		err = v.Need("workload")
	}
	if err != nil || w.Metric != "" {
		return err
	}
	info, err := d.workload(w.Where.Workload)
	if err == nil && len(info.Metrics) > 0 {
		w.Metric = info.Metrics[0]
	}
	return v.Wrap(err)
}

func studyOf(p *paper.Paper) *study {
	if p == nil {
		return nil
	}
	out := &study{Title: p.Title, Authors: p.Authors, Reference: p.Reference, Setup: p.Setup, Differs: p.Differs,
		Networks: p.Networks}
	for _, e := range p.Exhibits {
		x := exhibit{ID: e.ID, Title: e.Title, Choice: e.Choice, Why: e.Why, Left: e.Left}
		for _, v := range e.Shows {
			x.Shows = append(x.Shows, view{placeOf(v.Where), v.Metric, v.Over, v.Networks})
		}
		out.Exhibits = append(out.Exhibits, x)
	}
	return out
}
