package workload

import (
	"fmt"

	"pathwise.dev/pathwise/internal/sample"
)

// AddErrors adds to the outcome what failed at one client: failed of the
// operations that began in the window, the first with the reason given. Where
// any failed the outcome says so in a warning too, as its other figures are
// those of the operations that did not.
func (o *Outcome) AddErrors(client string, failed, finished int64, reason string) {
	if o.Metrics == nil {
		o.Metrics = map[string]float64{}
	}
	o.Metrics[sample.Errors] += float64(failed)
	if failed == 0 {
		return
	}
	o.Warnings = append(o.Warnings, sample.Warning{Gate: "errors",
		Text: fmt.Sprintf("client in pod %s: %d of %d operations failed, the first: %s", client, failed, failed+finished,
			reason)})
}

// SetLatency writes the figures of the outcome's histogram into its metrics.
func (o *Outcome) SetLatency() { o.Latency.Figures(o.Metrics) }
