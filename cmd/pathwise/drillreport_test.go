package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// The page says what the drill counted: legs by their nominal lengths and by each run's own
// windows, whatever the points, and the lengths that the legs took in the steered run, add up to.
func TestReportOfDemoCountsAsTheDrill(t *testing.T) {
	act := drill.Act{
		Started: time.Unix(1_700_000_000, 0),
		Legs:    []drill.Mark{{At: 0, Kind: "load", Text: "calm"}, {At: 5, Kind: "limit", Text: "limit"}},
		Spans:   []float64{4, 4},
		// (60 + 90) / (100 + 90) = 0.789 of hindsight; x has 140, so 1.071 of the best single one.
		Rates: map[string][]float64{"steered": {60e6, 90e6}, "x": {100e6, 40e6}, "y": {20e6, 90e6}},
	}
	for run, rates := range act.Rates {
		for leg, rate := range rates {
			for i := range 45 {
				// The steered run's first leg took a second longer than it was meant to.
				act.Seconds = append(act.Seconds, drill.Second{Run: run, Leg: leg, At: 5*float64(leg) + 0.1001*float64(i),
					Rate: 1.02 * rate})
			}
		}
	}
	s := scriptOf(act)
	for _, r := range s.Runs {
		if r.Step < 100*time.Millisecond || r.Step > 101*time.Millisecond {
			t.Errorf("%s: a point holds %v", r.Name, r.Step)
		}
	}
	var text, page bytes.Buffer
	in := report.SteeringInput{Name: "demo", Scripts: []report.SteeringScript{s}}
	if err := report.SteeringText(&text, in, report.Options{Width: 400}); err != nil {
		t.Fatal(err)
	}
	if err := report.Steering(&page, in, report.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"78.9 % of the best choice in hindsight", "107 % of the best static network, x"} {
		for name, got := range map[string]string{"text": text.String(), "page": page.String()} {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	if t.Failed() {
		t.Log(text.String())
	}
}
