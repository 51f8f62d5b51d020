package http

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
	"pathwise.dev/pathwise/internal/sample"
)

// Offer is what the generator's client does, in the pod.
type Offer struct {
	// Target is the server's address and port.
	Target netip.AddrPort
	// Connections side by side, each with one request under way.
	Connections int
	// Size of the object, in bytes.
	Size int
	// Close asks for a connection for each request.
	Close bool
	// Rate of requests per second, of all connections together; 0 is a closed
	// loop, in which the next request waits for the last answer.
	Rate float64
	// Congestion is TCP's congestion control.
	Congestion string
	// Begin and Duration of the window; Begin is a time of the monotonic clock.
	Begin, Duration time.Duration
}

// Count is what the client measured; it prints it as JSON. It counts requests
// that began, or at a constant rate were due, in the window.
type Count struct {
	workload.Count
	// Unsent are those of the failed that never began, as the connection was still
	// busy with those before.
	Unsent int64 `json:"unsent,omitempty"`
	// Bytes of bodies received.
	Bytes int64 `json:"bytes"`
	// Server is what it says that it is.
	Server string `json:"server,omitempty"`
}

func newCount() Count { return Count{Count: workload.Count{Latency: sample.NewHistogram()}} }

// add adds what another worker counted.
func (c *Count) add(o Count) {
	c.Add(o.Count)
	c.Unsent += o.Unsent
	c.Bytes += o.Bytes
	c.Server = cmp.Or(c.Server, o.Server)
}

// patience is how long after the window an answer may come.
const patience = 2 * time.Second

// Generate offers the load and writes what was measured to w. Requests that
// fail are counted; when none succeeds in the window, that is an error.
func Generate(ctx context.Context, w io.Writer, o Offer) error {
	begin, err := workload.Until(o.Begin)
	if err != nil {
		return err
	}
	base := time.Now()
	p := newPlan(o, base, begin.Sub(base))
	counts := make([]Count, min(o.Connections, runtime.NumCPU()))
	socket.Threads(len(counts)) // workers wait in the kernel
	errs := make([]error, len(counts))
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() { counts[i], errs[i] = p.work(ctx, i, len(counts)) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	sum := newCount()
	for _, n := range counts {
		sum.add(n)
	}
	if sum.Operations == 0 {
		return fmt.Errorf("no request to %s was answered in the window, %d were due that could not begin: %s", o.Target, sum.Unsent, sum.Failure)
	}
	if err := json.NewEncoder(w).Encode(sum); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// parse reads what the client printed.
func parse(out []byte) (Count, error) {
	var c Count
	if err := json.Unmarshal(out, &c); err != nil {
		return c, fmt.Errorf("read result: %w", err)
	}
	if c.Operations < 1 || c.Failed < c.Unsent || c.Unsent < 0 || c.Bytes < 0 {
		return c, fmt.Errorf("read result: figures that cannot be: %d operations, %d failed, %d bytes", c.Operations, c.Failed, c.Bytes)
	}
	return c, c.Check()
}
