package report

import (
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// TestAlikeOver: a rate that grows with the connections is one curve, and one that
// they share is too.
func TestAlikeOver(t *testing.T) {
	for name, tc := range map[string]struct {
		loads []sample.Load
		want  int
	}{
		"each its own": {[]sample.Load{{Connections: 1, Rate: 1e6}, {Connections: 100, Rate: 1e8}}, 1},
		"shared":       {[]sample.Load{{Connections: 1, Rate: 1e6}, {Connections: 100, Rate: 1e6}}, 1},
		"as it goes":   {[]sample.Load{{Connections: 1}, {Connections: 100}}, 1},
		"by two shares": {[]sample.Load{{Connections: 1, Rate: 1e6}, {Connections: 5, Rate: 5e6}, {Connections: 1, Rate: 2e6},
			{Connections: 5, Rate: 1e7}}, 2},
	} {
		var questions []sample.Question
		for _, l := range tc.loads {
			questions = append(questions, sample.Question{Workload: "udp-stream", Load: l})
		}
		keys := map[sample.Question]bool{}
		for _, q := range questions {
			keys[alikeOver(claim.Connections, questions)(q)] = true
		}
		if len(keys) != tc.want {
			t.Errorf("%s: %d curves, want %d", name, len(keys), tc.want)
		}
	}
}
