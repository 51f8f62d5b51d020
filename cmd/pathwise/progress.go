package main

import (
	"fmt"
	"io"
	"time"

	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/sample"
)

// progress shows a run on standard error: on a terminal one line that is
// rewritten, elsewhere a line for each trial.
type progress struct {
	w           io.Writer
	interactive bool
	now         func() time.Time
}

func newProgress(w io.Writer, interactive bool, now func() time.Time) *progress {
	return &progress{w, interactive, now}
}

// clearLine moves to the line's start and erases it (ECMA-48 EL).
const clearLine = "\r\x1b[K"

// Observe shows a step of a campaign.
func (p *progress) Observe(e bench.Event) {
	t := e.Trial
	switch {
	case !e.Ended && p.interactive:
		line := fmt.Sprintf("[%d/%d, %s left] %s #%d", e.Done+1, e.Total, left(e.Left), t.Cell, t.Repetition)
		const width = 79
		if len(line) > width {
			line = line[:width]
		}
		fmt.Fprint(p.w, clearLine, line)
	case e.Ended && (!p.interactive || t.Status == sample.Failed || t.Status == sample.Invalid):
		p.Clear()
		fmt.Fprintf(p.w, "[%d/%d, %s left] %s #%d: %s\n", e.Done, e.Total, left(e.Left), t.Cell, t.Repetition, p.outcome(t))
	}
}

// Clear takes the line away.
func (p *progress) Clear() {
	if p.interactive {
		fmt.Fprint(p.w, clearLine)
	}
}

// outcome is a trial's main figure, or why there is none.
func (p *progress) outcome(t sample.Trial) string {
	if t.Status != sample.OK {
		return fmt.Sprintf("%s: %s", t.Status, t.Reason)
	}
	for _, m := range sample.Metrics() {
		if v, ok := t.Metrics[m.Name]; ok {
			return report.Figure(m, v)
		}
	}
	return string(t.Status)
}

// left is a time to go for people. What takes longer than was estimated has no less than
// none to go.
func left(d time.Duration) string { return max(0, d).Round(time.Second).String() }
