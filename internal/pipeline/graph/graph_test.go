package graph_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/graph"
	"pathwise.dev/pathwise/internal/pipeline/survey"
)

// TestWrite: each table and each way is drawn, and what flows hold is text, not markup.
func TestWrite(t *testing.T) {
	p := pipeline.New(nil)
	err := p.Read(strings.NewReader(`table=0,priority=9,ip actions=ct(table=10)
table=0,priority=1 actions=resubmit(,10)
table=10,ip actions=resubmit(,0)
table="<b>" actions=frobnicate(<i>)`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := graph.Write(&b, survey.Of(p)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for text, n := range map[string]int{"<rect ": 3, `<path class="ct"`: 1, `<path class="goto"`: 2, "<b>": 0, "<i>": 0,
		"ct: table 0 to table 10, 1 flow": 1, "script": 0, "http": 0} {
		if got := strings.Count(page, text); got != n {
			t.Errorf("%d times %q, want %d", got, text, n)
		}
	}
	svg := page[strings.Index(page, "<svg"):strings.Index(page, "</svg>")] + "</svg>"
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the drawing is not well formed: %v", err)
		}
	}
}
