// Package claim is what a document says about networks, as a value that trials
// can test, and the test.
//
// It tells what was measured and whether that agrees with what was published; it
// neither ranks networks nor finds out why they differ: Because is written by
// people who looked into it. It is pure, and knows no file, clock or format.
package claim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
)

// Claim is one statement of a document.
type Claim struct {
	// ID names the claim in its experiment.
	ID string `json:"id"`
	// Source is the document's authors and year, such as "Suo et al. 2018".
	Source string `json:"source"`
	// Text is the statement, as near to the document's words as a test allows.
	Text string `json:"text"`
	// Published is the figure that the document gives; free text.
	Published string `json:"published,omitempty"`
	// Metric names the figure that is compared, one of sample.Metrics.
	Metric string `json:"metric"`
	// Where picks the questions that the claim is about. It is tested on each
	// of them by itself.
	Where Where `json:"where"`
	// Networks are those of which a test speaks one by one, where it names none.
	Networks []string `json:"networks,omitempty"`
	// Except leaves out trials with a note that has this text: a datapath, say,
	// that is not the one that the document measured.
	Except string `json:"except,omitempty"`
	// Overall takes the mean over all loads that Where picks as one figure.
	Overall bool `json:"overall,omitempty"`
	// Relative, where it is not nil, divides every figure by the same network's
	// in this other place, repetition by repetition: at one connection, say,
	// which makes the figure a growth.
	Relative *Where `json:"relative,omitempty"`
	// Exhibits are the figures and tables of the document that show it.
	Exhibits []string `json:"exhibits,omitempty"`
	// Untested is why no trial can test the claim; it has no test then.
	Untested string `json:"untested,omitempty"`
	Test     Test   `json:"test,omitzero"`
	// Because explains what was found on machines that this was looked into on;
	// it does not change the verdict.
	Because string `json:"because,omitempty"`
}

// Test is what figures are held against: exactly one field is set.
type Test struct {
	Ratio   *Ratio   `json:"ratio,omitempty"`
	Order   Order    `json:"order,omitempty"`
	Value   *Range   `json:"value,omitempty"`
	Optimum *Optimum `json:"optimum,omitempty"`
	Trend   *Trend   `json:"trend,omitempty"`
	Choice  *Choice  `json:"choice,omitempty"`
}

// tests counts the fields that are set.
func (t Test) tests() (n int) {
	for _, set := range []bool{t.Ratio != nil, t.Order != nil, t.Value != nil, t.Optimum != nil, t.Trend != nil,
		t.Choice != nil} {
		if set {
			n++
		}
	}
	return n
}

// Ratio holds the figure of one side over that of the other to a range.
type Ratio struct {
	Of Side `json:"of"`
	To Side `json:"to"`
	Range
}

// Side is one side of a ratio.
type Side struct {
	// Network; "" means each of the claim's Networks.
	Network string `json:"network,omitempty"`
	// Where replaces what it sets of the claim's.
	Where Where `json:"where,omitzero"`
}

// Order lists networks from the best to the worst by the metric. Those of one
// group are in no order among themselves, so that [[a] [b c]] says that a is
// the best of three.
type Order [][]string

// Optimum says at which value of a knob the figure is best.
type Optimum struct {
	Over Knob `json:"over"`
	// Range holds the values of the knob, ends included.
	Range
}

// Trend says that a figure grows, or shrinks, with each step of a knob.
type Trend struct {
	Over Knob `json:"over"`
	// Falling: the figure shrinks. It is the figure itself that is meant,
	// whether that is better or worse.
	Falling bool `json:"falling,omitempty"`
}

// Range is an interval of figures, ends included; a missing end is open.
type Range struct {
	Least *float64 `json:"least,omitempty" yaml:"least,omitempty" doc:"lower end of the range; a figure has its metric's unit" default:"none"`
	Most  *float64 `json:"most,omitempty" yaml:"most,omitempty" doc:"upper end of the range" default:"none"`
}

// Above tells whether v lies above the range, Below whether below.
func (r Range) Above(v float64) bool { return r.Most != nil && v > *r.Most }

// Below tells whether v lies below the range.
func (r Range) Below(v float64) bool { return r.Least != nil && v < *r.Least }

// Contains tells whether v lies in the range; NaN lies nowhere.
func (r Range) Contains(v float64) bool {
	return (r.Least == nil || v >= *r.Least) && (r.Most == nil || v <= *r.Most) && !math.IsNaN(v)
}

// Subjects lists the networks that the claim speaks of, in its order.
func (c Claim) Subjects() []string {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if n != "" && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	if r := c.Test.Ratio; r != nil {
		add(r.Of.Network, r.To.Network)
	}
	for _, group := range c.Test.Order {
		add(group...)
	}
	if t := c.Test.Choice; t != nil {
		add(t.Network)
	}
	add(c.Networks...)
	return out
}

// each lists the networks that the test is put to one by one; one empty name
// for a test that names its networks itself.
func (c Claim) each() []string {
	if len(c.Networks) == 0 {
		return []string{""}
	}
	return c.Networks
}

// Among returns the claim as far as it can be put to the networks alone: a test
// of each of several networks is put to those that there are, and any other one
// needs all that it speaks of.
func (c Claim) Among(networks []string) (Claim, bool) {
	kept := slices.DeleteFunc(slices.Clone(c.Networks), func(n string) bool { return !slices.Contains(networks, n) })
	if len(kept) == 0 && len(c.Networks) > 0 {
		return c, false
	}
	c.Networks = kept
	for _, n := range c.Subjects() {
		if !slices.Contains(networks, n) {
			return c, false
		}
	}
	return c, true
}

// Places lists where the claim looks for figures: its Where, or those of a
// ratio's two sides.
func (c Claim) Places() []Where {
	if r := c.Test.Ratio; r != nil {
		return []Where{c.Where.with(r.Of.Where), c.Where.with(r.To.Where)}
	}
	if c.Relative != nil {
		return []Where{c.Where, c.Where.with(*c.Relative)}
	}
	return []Where{c.Where}
}

// Check returns an error for a claim that cannot be tested whatever is measured.
func (c Claim) Check() error {
	if c.Untested != "" {
		if c.Test.tests() > 0 {
			return errors.New("untested: is given with a test: expected one or the other")
		}
		return nil
	}
	if n := c.Test.tests(); n != 1 {
		return fmt.Errorf("%d tests: expected one of ratio, order, value, optimum, trend, choice, or untested with the reason", n)
	}
	if c.Test.Choice != nil {
		return c.Test.Choice.check()
	}
	if _, ok := sample.MetricByName(c.Metric); !ok {
		return fmt.Errorf("metric: unknown metric %q", c.Metric)
	}
	if c.Overall && (c.Test.Optimum != nil || c.Test.Trend != nil) {
		return errors.New("overall: an optimum or a trend is one over loads: it has no figure over all of them")
	}
	if err := c.checkNetworks(); err != nil {
		return err
	}
	switch {
	case c.Test.Ratio != nil:
		return c.Test.Ratio.check()
	case c.Test.Value != nil:
		return c.Test.Value.check("value")
	case c.Test.Optimum != nil:
		return c.Test.Optimum.check("optimum")
	case c.Test.Order != nil:
		return c.Test.Order.check()
	}
	return nil
}

// checkNetworks looks whether the test has networks to be put to, and all of
// those that are named a test.
func (c Claim) checkNetworks() error {
	r := c.Test.Ratio
	wants := c.Test.Order == nil
	if r != nil {
		wants = r.Of.Network == "" || r.To.Network == ""
	}
	switch {
	case wants && len(c.Networks) == 0:
		return errors.New("networks: missing: the test names none itself")
	case !wants && len(c.Networks) > 0:
		return errors.New("networks: the test names its own")
	}
	return nil
}

func (r Ratio) check() error {
	// Two sides that differ in nothing have the ratio 1 by definition.
	if r.Of.same(r.To) {
		return errors.New("ratio: both sides are the same")
	}
	if r.Least != nil && *r.Least < 0 {
		return fmt.Errorf("ratio: least %g: expected a ratio, 0 or more", *r.Least)
	}
	return r.Range.check("ratio")
}

func (r Range) check(what string) error {
	switch {
	case r.Least == nil && r.Most == nil:
		return fmt.Errorf("%s: expected least, most or both", what)
	case r.Least != nil && r.Most != nil && *r.Least > *r.Most:
		return fmt.Errorf("%s: least %g is above most %g", what, *r.Least, *r.Most)
	}
	return nil
}

func (o Order) check() error {
	if len(o) < 2 {
		return errors.New("order: expected two networks or more, the best first")
	}
	seen := map[string]bool{}
	for _, group := range o {
		for _, n := range group {
			if seen[n] {
				return fmt.Errorf("order: %s is given twice", n)
			}
			seen[n] = true
		}
	}
	return nil
}
