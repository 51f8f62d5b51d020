package claim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
)

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

// Without returns the question with the knob at 0, which none has by itself.
func (k Knob) Without(q sample.Question) sample.Question {
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
