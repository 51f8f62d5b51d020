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
	"strconv"
	"strings"

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
	Test    Test `json:"test"`
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
	Least *float64 `json:"least,omitempty"`
	Most  *float64 `json:"most,omitempty"`
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
	return []Where{c.Where}
}

// Check returns an error for a claim that cannot be tested whatever is measured.
func (c Claim) Check() error {
	if _, ok := sample.MetricByName(c.Metric); !ok {
		return fmt.Errorf("metric: unknown metric %q", c.Metric)
	}
	n := 0
	for _, set := range []bool{c.Test.Ratio != nil, c.Test.Order != nil, c.Test.Value != nil, c.Test.Optimum != nil, c.Test.Trend != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%d tests: expected one of ratio, order, value, optimum, trend", n)
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
				return fmt.Errorf("order: %s stands twice", n)
			}
			seen[n] = true
		}
	}
	return nil
}

// Knob is a part of a question that a claim may vary.
type Knob string

// Knobs.
const (
	Connections Knob = "connections"
	Size        Knob = "size"
	Rate        Knob = "rate"
	Pairs       Knob = "pairs"
	MTU         Knob = "mtu"
)

// Knobs lists them all.
func Knobs() []Knob { return []Knob{Connections, Size, Rate, Pairs, MTU} }

// ParseKnob returns the knob called s.
func ParseKnob(s string) (Knob, error) {
	if k := Knob(s); slices.Contains(Knobs(), k) {
		return k, nil
	}
	return "", fmt.Errorf("unknown knob %q: expected one of %v", s, Knobs())
}

// Say is a value of the knob in words, such as "50 connections".
func (k Knob) Say(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	switch k {
	case Connections, Pairs:
		if v == 1 {
			return "1 " + strings.TrimSuffix(string(k), "s")
		}
		return text + " " + string(k)
	case MTU:
		return "MTU " + text
	case Size:
		return text + " B"
	default:
		return "rate " + text
	}
}

// Of is the knob's value in a question.
func (k Knob) Of(q sample.Question) float64 {
	switch k {
	case Connections:
		return float64(q.Load.Connections)
	case Size:
		return float64(q.Load.Size)
	case Rate:
		return q.Load.Rate
	case Pairs:
		return float64(q.Scenario.Pairs)
	default:
		return float64(q.Scenario.MTU)
	}
}

// without returns the question with the knob at 0, which none has by itself.
func (k Knob) without(q sample.Question) sample.Question {
	switch k {
	case Connections:
		q.Load.Connections = 0
	case Size:
		q.Load.Size = 0
	case Rate:
		q.Load.Rate = 0
	case Pairs:
		q.Scenario.Pairs = 0
	case MTU:
		q.Scenario.MTU = 0
	}
	return q
}
