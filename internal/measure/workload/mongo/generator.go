package mongo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Offer is what the generator's client does, in the pod.
type Offer struct {
	Place
	// Connections side by side, each with one operation under way: mongo-perf's threads.
	Connections int
	// Congestion is TCP's congestion control of the client; "" is the machine's.
	Congestion string
	// Begin and Duration of the window; Begin is a time of the monotonic clock.
	Begin, Duration time.Duration
	// Ready, where there is one, is called once all connections are there, and tells Begin.
	Ready func() (time.Duration, error)
	// Drop the collection afterwards.
	Drop bool
}

// Count is what the client measured; it prints it as JSON.
type Count struct {
	// Operations that began in the window and were answered as they must be.
	Operations int64 `json:"operations"`
	// Failed are those that began in the window and were not, by kind.
	Failed map[string]int64 `json:"failed"`
	// Failure is the first one's reason, also of one before the window.
	Failure string            `json:"failure,omitempty"`
	Latency *sample.Histogram `json:"latency"`
	// ClientUser and ServerUser are the CPU time that both spent in user mode
	// in the window, in seconds; a server that does not tell has none.
	ClientUser float64  `json:"client_user"`
	ServerUser *float64 `json:"server_user,omitempty"`
}

func newCount() Count { return Count{Latency: sample.NewHistogram(), Failed: map[string]int64{}} }

// add adds what another connection counted.
func (c *Count) add(o Count) {
	c.Operations += o.Operations
	for kind, n := range o.Failed {
		c.Failed[kind] += n
	}
	if c.Failure == "" {
		c.Failure = o.Failure
	}
	c.Latency.Merge(o.Latency)
}

// failed is how many did, of every kind.
func (c Count) failed() (n int64) {
	for _, k := range c.Failed {
		n += k
	}
	return n
}

// patience is how long after the window an answer may come.
const patience = 2 * time.Second

// errPatience ends operations that get no answer.
var errPatience = fmt.Errorf("no answer until %v after the window", patience)

// Generate offers the load and writes what was measured to w. Operations that
// fail are counted; when none succeeds in the window, that is an error.
func Generate(ctx context.Context, w io.Writer, o Offer) error {
	op, err := operationByName(o.Operation)
	if err != nil {
		return err
	}
	fleet, err := connectAll(o.URI, o.Connections, o.Congestion)
	if err != nil {
		return err
	}
	defer fleet.close()
	if o.Ready != nil {
		if !fleet.awaitReady(ctx, o.Connections, time.Now().Add(connecting)) && ctx.Err() == nil {
			return fleet.late(ctx, o.Connections)
		}
		if o.Begin, err = o.Ready(); err != nil {
			return err
		}
	}
	begin, err := workload.Until(o.Begin)
	if err != nil {
		return err
	}
	l := &load{operation: op, fleet: fleet, begin: begin, end: begin.Add(o.Duration)}
	if !fleet.awaitReady(ctx, o.Connections, begin) && ctx.Err() == nil {
		return fleet.late(ctx, o.Connections)
	}
	sum, err := l.run(ctx, o)
	if err != nil {
		return err
	}
	if o.Drop {
		err = drop(ctx, fleet.of(0).Database(database), o.Collection)
	}
	if sum.Operations == 0 && sum.Failure == "" {
		// Those of the warm-up were still under way when the window ended.
		sum.Failure = fmt.Sprintf("one takes longer than the window of %v", o.Duration)
	}
	if sum.Operations == 0 {
		return errors.Join(fmt.Errorf("no operation was answered in the window: %s", sum.Failure), err)
	}
	if e := json.NewEncoder(w).Encode(sum); e != nil {
		return fmt.Errorf("write result: %w", e)
	}
	return err
}

// load is a running Offer.
type load struct {
	operation
	fleet      *fleet
	begin, end time.Time
}

// connecting is how long all connections may take that nothing else waits for.
const connecting = 20 * time.Second

// late says why not all connections were there when the window began.
func (f *fleet) late(ctx context.Context, connections int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	had := f.ready.Load()
	if err := f.of(0).Ping(ctx, nil); err != nil {
		return fmt.Errorf("%d of %d connections were there when the window began: %w", had, connections, err)
	}
	return fmt.Errorf("%d of %d connections were there when the window began", had, connections)
}

// run offers the load on all connections.
func (l *load) run(ctx context.Context, o Offer) (Count, error) {
	// No deadline: of one the driver would tell the server in every command.
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(time.Until(l.end.Add(patience)), func() { cancel(errPatience) }).Stop()
	counts := make([]Count, o.Connections)
	sum := newCount()
	var wg sync.WaitGroup
	wg.Go(func() { l.account(work, &sum) })
	for i := range counts {
		wg.Go(func() { counts[i] = l.loop(work, l.steps(l.fleet.of(i).Database(database).Collection(o.Collection))) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return sum, err
	}
	for _, n := range counts {
		sum.add(n)
	}
	return sum, nil
}

// account takes the CPU time of both ends over the window.
func (l *load) account(ctx context.Context, sum *Count) {
	if workload.SleepUntil(ctx, l.begin) != nil {
		return
	}
	server, ok := l.fleet.of(0).cpuTime(ctx)
	client := userTime()
	if workload.SleepUntil(ctx, l.end) != nil {
		return
	}
	sum.ClientUser = (userTime() - client).Seconds()
	then, still := l.fleet.of(0).cpuTime(ctx)
	if used := (then - server).Seconds(); ok && still {
		sum.ServerUser = &used
	}
}

// userTime is this process's CPU time in user mode.
func userTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it fails for a wrong pointer alone
	}
	return time.Duration(u.Utime.Nano())
}

// loop does one step after the other until the window is over.
func (l *load) loop(ctx context.Context, steps []step) Count {
	n := newCount()
	for i := 0; ctx.Err() == nil; i++ {
		start := time.Now()
		if !start.Before(l.end) {
			break
		}
		err := steps[i%len(steps)](ctx)
		took := time.Since(start)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			if n.Failure == "" {
				n.Failure = err.Error()
			}
			time.Sleep(time.Millisecond) // do not spin on a server that refuses
		}
		switch {
		case start.Before(l.begin):
		case err == nil:
			n.Operations++
			n.Latency.Record(took)
		default:
			n.Failed[kindOf(err)]++
		}
	}
	return n
}
