// Package figure is what a drill has found, one answer each: a value with its interval
// and spread, and the bar that it is held to. Drills make figures and reports show them.
// It does no I/O.
package figure

// Figure is one answer of a drill, with its spread and its bar.
type Figure struct {
	Drill string `json:"drill"`
	// Name says what was measured, Unit is "s", "ratio", "count", "bit/s", "B", "share",
	// "change" or another word.
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value is what is held against the bar; Low and High its interval of 95 %, equal
	// where there is none.
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// N values entered, from N repetitions or events, none where nothing was measured;
	// Least, Median, P99 and Most are their spread.
	N      int     `json:"n"`
	Least  float64 `json:"least"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Most   float64 `json:"most"`
	// Bar is nil where nothing is asked.
	Bar *Bar `json:"bar,omitempty"`
	// Note is what a reader must know.
	Note string `json:"note,omitempty"`
}

// Bar is what a figure is held to.
type Bar struct {
	// AtLeast or else at most Limit.
	AtLeast bool    `json:"at_least,omitempty"`
	Limit   float64 `json:"limit"`
}

// Sign is the bar's, least or most.
func (b Bar) Sign(least, most string) string {
	if b.AtLeast {
		return least
	}
	return most
}

// Met reports whether the figure meets its bar. One without values does not, and neither
// does one that is not a number.
func (f Figure) Met() bool {
	switch {
	case f.Bar == nil:
		return true
	case f.N == 0:
		return false
	case f.Bar.AtLeast:
		return f.Value >= f.Bar.Limit
	}
	return f.Value <= f.Bar.Limit
}
