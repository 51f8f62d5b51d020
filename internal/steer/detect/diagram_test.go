package detect

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDiagram: the diagram and the list of events in the docs are those of the table.
func TestDiagram(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/explanation/failure-detection.md")
	if err != nil {
		t.Fatal(err)
	}
	var drawn, want, described []string
	for _, m := range regexp.MustCompile(`(?m)^ +(\w+) --> (\w+): (.*)$`).FindAllStringSubmatch(string(raw), -1) {
		for on := range strings.SplitSeq(m[3], ", ") {
			drawn = append(drawn, m[1]+" "+on+" "+m[2])
		}
	}
	for _, r := range Table() {
		want = append(want, r.From.String()+" "+r.On.String()+" "+r.To.String())
	}
	for _, r := range DetourTable() {
		want = append(want, r.From.String()+" "+r.On.String()+" "+r.To.String())
	}
	slices.Sort(drawn)
	if slices.Sort(want); !slices.Equal(drawn, want) {
		t.Errorf("the diagrams have %v\nthe tables %v", drawn, want)
	}
	_, list, _ := strings.Cut(string(raw), "| event | what happened |\n|---|---|\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		described = append(described, strings.Split(strings.Split(line, " |")[0][2:], ", ")...)
	}
	for on := Silent; on <= Answered; on++ {
		if !slices.Contains(described, on.String()) {
			t.Errorf("%s is not described", on)
		}
	}
}
