package drill

import (
	"testing"

	"pathwise.dev/pathwise/internal/steer/agent"
)

// TestGap: events that an agent has forgotten before they were read are not passed over.
func TestGap(t *testing.T) {
	for _, tt := range []struct {
		name  string
		since int
		first int // number of the first event that is there, 0 for none
		gone  bool
	}{
		{"none has come", 7, 0, false},
		{"the next one", 7, 8, false},
		{"one is gone", 7, 9, true},
		{"the first of all", 0, 1, false},
		{"the first is gone", 0, 2, true},
	} {
		var all []agent.Event
		if tt.first > 0 {
			all = []agent.Event{{ID: tt.first}, {ID: tt.first + 1}}
		}
		if err := gap(all, tt.since); (err != nil) != tt.gone {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
