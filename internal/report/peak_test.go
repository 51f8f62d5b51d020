package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestCurve: of a load that grows the text tells every figure with its interval,
// and for each network where it is best.
func TestCurve(t *testing.T) {
	var out bytes.Buffer
	if err := Render(&out, Text, Input{Results: manyPlan().results()}, Options{}); err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(out.String(), "against pod pairs\n")
	if !ok {
		t.Fatalf("no curve in\n%s", out.String())
	}
	if !regexp.MustCompile(`^network +1 +4 +16 +64 +128 +best at\nhost( +[0-9.]+ ± [0-9.]+){5} +[0-9]+( or [0-9]+)*\n`).MatchString(table) {
		t.Errorf("got\n%.600s", table)
	}
	if !strings.Contains(table, "Best at is the load with the best mean") {
		t.Error("the table does not say what best at is")
	}
}
