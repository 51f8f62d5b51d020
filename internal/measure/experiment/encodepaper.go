package experiment

import (
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
)

// study is what an experiment says of its document, as it is written.
type study struct {
	Title     string    `yaml:"title"`
	Authors   string    `yaml:"authors"`
	Reference string    `yaml:"reference,omitempty"`
	Setup     string    `yaml:"setup,omitempty"`
	Differs   string    `yaml:"differs,omitempty"`
	Networks  []alias   `yaml:"networks,omitempty"`
	Exhibits  []exhibit `yaml:"exhibits"`
}

type alias struct {
	Theirs string   `yaml:"theirs"`
	Here   []string `yaml:"here,omitempty,flow"`
	Note   string   `yaml:"note,omitempty"`
}

type exhibit struct {
	ID     string `yaml:"id"`
	Title  string `yaml:"title"`
	Shows  []view `yaml:"shows,omitempty"`
	Choice bool   `yaml:"choice,omitempty"`
	Why    string `yaml:"why,omitempty"`
	Left   string `yaml:"left,omitempty"`
}

type view struct {
	Where    place      `yaml:",inline"`
	Metric   string     `yaml:"metric,omitempty"`
	Over     claim.Knob `yaml:"over,omitempty"`
	Networks []string   `yaml:"networks,omitempty,flow"`
}

func encodePaper(p *paper.Paper) *study {
	if p == nil {
		return nil
	}
	out := &study{Title: p.Title, Authors: p.Authors, Reference: p.Reference, Setup: p.Setup, Differs: p.Differs}
	for _, a := range p.Networks {
		out.Networks = append(out.Networks, alias(a))
	}
	for _, e := range p.Exhibits {
		x := exhibit{ID: e.ID, Title: e.Title, Choice: e.Choice, Why: e.Why, Left: e.Left}
		for _, v := range e.Shows {
			x.Shows = append(x.Shows, view{encodeWhere(v.Where), v.Metric, v.Over, v.Networks})
		}
		out.Exhibits = append(out.Exhibits, x)
	}
	return out
}
