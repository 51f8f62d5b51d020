package example

import (
	"os"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
)

// TestPing runs the example between real pods, and against one that does not answer.
func TestPing(t *testing.T) {
	g := testbed.New(t, 1)
	w := workload.Window{Warmup: 50 * time.Millisecond, Duration: 300 * time.Millisecond}
	m := &testbed.Meter{}
	out, err := Ping{}.Run(t.Context(), g.Bed(), Ping{}.Info().Fill(sample.Load{}), w, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range (Ping{}).Info().Metrics {
		if v, ok := out.Metrics[name]; !ok || v <= 0 && name != sample.Errors {
			t.Errorf("%s: %g", name, v)
		}
	}
	if len(m.Told) != 2 || out.Operations < 1 {
		t.Errorf("told %v, %g operations", m.Told, out.Operations)
	}
	g.Pairs[0].Server.Attachments[0].Addr = testbed.AddrPort("203.0.113.9:0").Addr()
	if _, err := (Ping{}).Run(t.Context(), g.Bed(), sample.Load{Size: 56}, w, &testbed.Meter{}); err == nil {
		t.Error("a pod that is not there answered")
	}
}

// TestTheDocsShowIt: what readers copy is what the test above has run.
func TestTheDocsShowIt(t *testing.T) {
	code, err := os.ReadFile("example.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../../../docs/howto/own-workload.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), "```go\n"+string(code)+"```") {
		t.Error("docs/howto/own-workload.md does not show example.go as it is")
	}
}
