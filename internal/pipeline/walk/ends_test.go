package walk_test

import (
	"strings"

	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// ends is why the switch is not asked: by some choice, which it may make, it would come to its end, or begin one pass
// after the other without end, as a trace knows no limit of passes; or a walk ends there where a trace goes on, perhaps
// without end.
func (c check) ends() string {
	var made choices
	for range mostChoices {
		got := c.follow(&made)
		for _, n := range got.Unknown {
			if n.Reason == walk.ActionSetTracked || goesOn(n.Reason) {
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

// goesOn reports whether a walk ends, for that reason, where a trace goes on.
func goesOn(why string) bool {
	switch why {
	case walk.AfterPop, walk.ManyLabels, walk.NoLabel, walk.TwoTags, walk.MayHaveLearnt:
		return true
	}
	return false
}
