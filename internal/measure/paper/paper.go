// Package paper is a document whose study can be repeated: its figures and
// tables one by one, how its networks are called here, and which questions of
// an experiment show the counterpart of each.
//
// It holds neither what the document claims (package claim) nor how it is
// measured (package experiment), and judges nothing. It is pure.
package paper

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// Paper is one document.
type Paper struct {
	Title string `json:"title"`
	// Authors and year, as claims cite it: "Suo et al. 2018".
	Authors string `json:"authors"`
	// Reference is where it appeared.
	Reference string `json:"reference"`
	// Setup is what its authors measured on, in their words.
	Setup string `json:"setup"`
	// Differs says what is other here: kernels, lengths, machines.
	Differs  string    `json:"differs"`
	Networks []Alias   `json:"networks"`
	Exhibits []Exhibit `json:"exhibits"`
}

// Alias maps a network of the document to the catalogue's.
type Alias struct {
	// Theirs is the document's name.
	Theirs string `json:"theirs" yaml:"theirs" is:"prose" key:"needed" doc:"the document's name of the network"`
	// Here are networks of the experiment; none where it has none.
	Here []string `json:"here,omitempty" yaml:"here,omitempty,flow" is:"measured" doc:"networks of the experiment that represent it" default:"none"`
	Note string   `json:"note,omitempty" yaml:"note,omitempty" is:"prose" doc:"how they differ" default:"none"`
}

// Exhibit is a figure or a table of the document.
type Exhibit struct {
	// ID is its number, such as table-4 or fig-7b; slides without numbers are
	// named after what they show.
	ID    string `json:"id"`
	Title string `json:"title"`
	// Shows are the questions whose figures are its counterpart.
	Shows []View `json:"shows,omitempty"`
	// Choice: the recommendation table is its counterpart.
	Choice bool `json:"choice,omitempty"`
	// Left says what a variant of the study leaves out of the counterpart.
	Left string `json:"left,omitempty"`
	// Why says why there is no counterpart, or what the counterpart lacks.
	Why string `json:"why,omitempty"`
}

// View is one table or chart: a metric of networks, along a knob where one varies.
type View struct {
	Where  claim.Where `json:"where"`
	Metric string      `json:"metric"`
	// Over is the knob along which it is drawn; "" for the first one that varies.
	Over claim.Knob `json:"over,omitempty"`
	// Networks to show, in order; none means all.
	Networks []string `json:"networks,omitempty"`
}

// Exhibit returns the exhibit called id.
func (p Paper) Exhibit(id string) (Exhibit, bool) {
	i := slices.IndexFunc(p.Exhibits, func(e Exhibit) bool { return e.ID == id })
	if i < 0 {
		return Exhibit{}, false
	}
	return p.Exhibits[i], true
}

// Abridged tells whether a variant of the study leaves something out.
func (p Paper) Abridged() bool {
	return slices.ContainsFunc(p.Exhibits, func(e Exhibit) bool { return e.Left != "" })
}

// Check returns an error for an exhibit that has neither a counterpart nor a
// reason, and that no claim speaks of; and for a claim of an exhibit that the
// document has not.
func (p Paper) Check(claims []claim.Claim) error {
	told := map[string]bool{}
	for _, c := range claims {
		for _, id := range c.Exhibits {
			if _, ok := p.Exhibit(id); !ok {
				return fmt.Errorf("claim %s: the paper has no exhibit %q", c.ID, id)
			}
			told[id] = true
		}
	}
	for _, e := range p.Exhibits {
		if len(e.Shows) == 0 && !e.Choice && e.Why == "" && !told[e.ID] {
			return fmt.Errorf("exhibit %s: nothing shows it: expected shows, choice, why, or a claim with exhibit: %s", e.ID, e.ID)
		}
	}
	return nil
}

// Picks tells whether the question is one that the view shows.
func (v View) Picks(q sample.Question) bool { return v.Where.Picks(q) }
