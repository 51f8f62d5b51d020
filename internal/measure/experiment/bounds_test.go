package experiment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/experiment"
)

// TestBoundsAreTheKeys: the bounds that flags are held to are those that the file's keys have.
func TestBoundsAreTheKeys(t *testing.T) {
	for _, tc := range []struct {
		key         string
		least, most time.Duration
	}{
		{"duration", experiment.LeastDuration, experiment.MostDuration},
		{"budget", experiment.LeastBudget, experiment.MostBudget},
	} {
		for d, taken := range map[time.Duration]bool{
			tc.least: true, tc.least - time.Millisecond: false, tc.most: true, tc.most + time.Second: false} {
			text := fmt.Sprintf("name: x\nnetworks: [vxlan]\nworkloads: [tcp-rr]\n%s: %v\n", tc.key, d)
			if _, err := experiment.Parse("x.yaml", strings.NewReader(text), catalogue()); (err == nil) != taken {
				t.Errorf("%s %v: %v, taken: %v", tc.key, d, err, taken)
			}
		}
	}
}
