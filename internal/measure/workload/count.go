package workload

import (
	"encoding/json"
	"fmt"
	"runtime"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/sample"
)

// Count is what a client of our own counted of its operations; it prints it as JSON,
// often with more next to it.
type Count struct {
	// Operations are those that began in the window and ended well.
	Operations int64 `json:"operations"`
	// Failed are those that began in it and did not.
	Failed int64 `json:"failed"`
	// Failure is the first one's reason, also of one before the window.
	Failure string            `json:"failure,omitempty"`
	Latency *sample.Histogram `json:"latency"`
}

// Add adds what another connection counted.
func (c *Count) Add(o Count) {
	if c.Failure == "" || (c.Failed == 0 && o.Failed > 0) {
		c.Failure = o.Failure
	}
	c.Operations += o.Operations
	c.Failed += o.Failed
	c.Latency.Merge(o.Latency)
}

// Check refuses what no client can have counted.
func (c Count) Check() error {
	if c.Operations < 0 || c.Failed < 0 || c.Latency == nil || c.Latency.Count() != c.Operations {
		return fmt.Errorf("read result: figures that cannot be: %d operations, %d failed", c.Operations, c.Failed)
	}
	return nil
}

// ParseCount reads a Count of a client that has one operation at least.
func ParseCount(out []byte) (c Count, err error) {
	if err := json.Unmarshal(out, &c); err != nil {
		return c, fmt.Errorf("read result: %w", err)
	}
	if c.Operations == 0 {
		return c, fmt.Errorf("read result: no operation")
	}
	return c, c.Check()
}

// AddCount adds to the outcome what one client counted, but for its latencies.
func (o *Outcome) AddCount(client string, c Count) {
	o.Operations += float64(c.Operations)
	o.AddErrors(client, c.Failed, c.Operations, c.Failure)
}

// AddUser keeps the share of user-mode CPU time of the busiest generator, a program
// that works in up to so many threads and has as many processors as there are.
func (o *Outcome) AddUser(r program.Result, threads int) {
	n := float64(max(1, min(threads, runtime.NumCPU())))
	o.GeneratorUser = max(o.GeneratorUser, r.User.Seconds()/n/max(r.Wall.Seconds(), 1e-3))
}
