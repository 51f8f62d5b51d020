// Package stat is the arithmetic of uncertainty: confidence intervals over
// repetitions, tests of a difference, and the rule by which a run may stop.
//
// Its values are one figure per rebuilt network, so an interval speaks of what
// the next rebuild will show; it must not be fed with the packets or seconds
// of one trial, which are not independent. Callers say what they have and the
// package picks the method, which the result names. What a reader must know
// (too few repetitions, no variance) comes back as data in the result, not as
// an error. It is pure, knows nothing of networks or metrics, and offers
// neither means without an interval nor tests to choose from.
package stat

import (
	"encoding/json"
	"fmt"
	"math"
)

// Level is the confidence level used where nobody asks for another one, that
// of Atici and Boluk (2020).
const Level = 0.95

// Methods by which an Interval or a Test was made.
const (
	MeanStudent   = "mean, Student t"
	RatioPaired   = "ratio, paired by block, t on logs"
	RatioWelch    = "ratio, Welch t on logs"
	RatioOfMeans  = "ratio of means, no interval"
	DifferenceLog = "Welch t on logs"
	DifferenceRaw = "Welch t"
	Permutation   = "permutation bound"
	Trend         = "rise of a least-squares line"
)

// Warning is something that a reader of a result must know. It has the shape
// of sample.Warning and converts to it.
type Warning struct {
	// Gate names the kind: "repetitions", "constant", "not-finite", "zero", "level".
	Gate string `json:"gate"`
	Text string `json:"text"`
}

// Interval is an estimate with its confidence interval, in the unit of the
// values, or a bare ratio. Where the data give no bound, Low is -Inf (0 for a
// ratio) and High is +Inf; without any usable value Center is NaN. JSON, which
// has no such numbers, shows them as null.
type Interval struct {
	Center float64
	Low    float64
	High   float64
	// N is the number of values that entered (for a ratio, the smaller side's).
	N int
	// Level of confidence, between 0 and 1.
	Level float64
	// Method names how it was made: one of the constants above.
	Method string
	// Borrowed is how many degrees of freedom its spread has from other comparisons
	// (see Prior), alongside its own.
	Borrowed float64
	Warnings []Warning
}

// intervalJSON is Interval as written: a nil number is one that JSON lacks.
type intervalJSON struct {
	Center   *float64  `json:"center"`
	Low      *float64  `json:"low"`
	High     *float64  `json:"high"`
	N        int       `json:"n"`
	Level    float64   `json:"level"`
	Method   string    `json:"method,omitempty"`
	Borrowed float64   `json:"borrowed,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
}

// MarshalJSON writes the interval with null for what is unbounded or unknown.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal(intervalJSON{
		Center: finite(i.Center), Low: finite(i.Low), High: finite(i.High),
		N: i.N, Level: i.Level, Method: i.Method, Borrowed: i.Borrowed, Warnings: i.Warnings,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote; a null low reads as -Inf.
func (i *Interval) UnmarshalJSON(data []byte) error {
	var in intervalJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("decode interval: %w", err)
	}
	*i = Interval{
		Center: valueOr(in.Center, math.NaN()), Low: valueOr(in.Low, math.Inf(-1)), High: valueOr(in.High, math.Inf(1)),
		N: in.N, Level: in.Level, Method: in.Method, Borrowed: in.Borrowed, Warnings: in.Warnings,
	}
	return nil
}

func finite(v float64) *float64 {
	if !isFinite(v) {
		return nil
	}
	return &v
}

func valueOr(p *float64, other float64) float64 {
	if p == nil {
		return other
	}
	return *p
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Bounded tells whether the interval has a centre and both ends.
func (i Interval) Bounded() bool {
	return isFinite(i.Center) && isFinite(i.Low) && isFinite(i.High)
}

// Contains tells whether v lies in the interval, ends included.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// RelHalfWidth is half the interval's width as a part of its centre, 0.05 for
// +-5 %. It is +Inf where a bound or the centre is missing, or where the
// centre is 0 and the width is not.
func (i Interval) RelHalfWidth() float64 {
	half := (i.High - i.Low) / 2
	switch {
	case !i.Bounded():
		return math.Inf(1)
	case half == 0:
		return 0
	case i.Center == 0:
		return math.Inf(1)
	}
	return half / math.Abs(i.Center)
}

func (i *Interval) warn(gate, format string, args ...any) {
	i.Warnings = append(i.Warnings, Warning{Gate: gate, Text: fmt.Sprintf(format, args...)})
}
