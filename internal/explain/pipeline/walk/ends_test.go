package walk_test

import (
	"strings"

	"pathwise.dev/pathwise/internal/explain/pipeline/walk"
)

// ends is why the switch is not asked: by some choice, which it may make, it would come to its end, or begin one pass
// after the other without end, as a trace knows no limit of passes.
func (c check) ends() string {
	var made choices
	for range mostChoices {
		got := c.follow(&made)
		for _, n := range got.Unknown {
			if n.Reason == walk.ActionSetTracked {
				return n.Reason
			}
		}
		for _, p := range got.Passes {
			if strings.HasSuffix(p.Failed, "passes") {
				return p.Failed
			}
		}
		if !made.advance() {
			return ""
		}
	}
	return "more choices than are tried"
}
