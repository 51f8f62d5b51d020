package uperf

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
	"pathwise.dev/pathwise/internal/sample"
)

// Offer is what the client, uperf's master, does in the pod.
type Offer struct {
	// Target is the server's address and port.
	Target  netip.AddrPort `json:"target"`
	Profile Profile        `json:"profile"`
	// Begin and Duration of the window; Begin is a time of the monotonic clock.
	Begin    time.Duration `json:"begin"`
	Duration time.Duration `json:"duration"`
}

// Count is what the client measured; it prints it as JSON.
type Count struct {
	// Count is of measured transactions, but that those that failed are of any kind,
	// under way in the window.
	workload.Count
	// Cut were under way in the window, and left at its end.
	Cut int64 `json:"cut,omitempty"`
	// Flowops that ended in the window and the bytes that they moved, as uperf
	// counts them: each flowop with its count when all of it is done, reads and
	// writes alike.
	Flowops     int64 `json:"flowops"`
	FlowopBytes int64 `json:"flowop_bytes"`
	// Received is the payload read in the window, by the client and by the server;
	// Sent and Arrived are the datagrams that both wrote and read.
	Received       int64 `json:"received"`
	ServerReceived int64 `json:"server_received"`
	Sent           int64 `json:"sent,omitempty"`
	Arrived        int64 `json:"arrived,omitempty"`
	// Spared are failures that the profile allows (canfail); the first is Spare.
	Spared int64  `json:"spared,omitempty"`
	Spare  string `json:"spare,omitempty"`
	// Congestion is the congestion controls that the connections had.
	Congestion []string `json:"congestion,omitempty"`
	// Writes is the latency of single writes in flowops with a count above 1.
	Writes *sample.Histogram `json:"writes"`
}

func newCount() Count {
	return Count{Count: workload.Count{Latency: sample.NewHistogram()}, Writes: sample.NewHistogram()}
}

// add adds what another strand counted.
func (c *Count) add(o Count) {
	c.Add(o.Count)
	c.Cut += o.Cut
	c.Flowops += o.Flowops
	c.FlowopBytes += o.FlowopBytes
	c.Received += o.Received
	c.ServerReceived += o.ServerReceived
	c.Sent += o.Sent
	c.Arrived += o.Arrived
	c.Spared += o.Spared
	c.Spare = cmp.Or(c.Spare, o.Spare)
	for _, name := range o.Congestion {
		if !slices.Contains(c.Congestion, name) {
			c.Congestion = append(c.Congestion, name)
		}
	}
	c.Writes.Merge(o.Writes)
}

// patience is how long after the window an answer may come.
const patience = 2 * time.Second

// Generate runs the profile and writes what was measured to w. Transactions
// that fail are counted; when none ended in the window, that is an error, but for
// bulk transfer, where it is one if nothing was moved either.
func Generate(ctx context.Context, w io.Writer, o Offer) error {
	begin, err := workload.Until(o.Begin)
	if err != nil {
		return err
	}
	if err := o.Profile.Check(); err != nil {
		return fmt.Errorf("start generator: %w", err)
	}
	socket.Threads(o.Profile.Threads())
	r := &run{Offer: o, begin: begin, end: begin.Add(o.Duration), open: map[*socket.Socket]bool{}}
	sum := r.strands(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	theirs, err := r.ask()
	if err != nil && sum.Failure != "" {
		return fmt.Errorf("%s; and the server does not tell what it received: %w", sum.Failure, err)
	} else if err != nil {
		return fmt.Errorf("ask the server what it received: %w", err)
	}
	sum.ServerReceived = theirs.Received
	sum.Arrived += theirs.Arrived
	sum.Sent += theirs.Sent
	// A bulk transaction is longer than many windows: what was moved counts, and
	// connections that got nothing through are errors alongside it.
	moved := sum.Received + sum.ServerReceived
	if sum.Operations == 0 && (moved == 0 || sum.Failed > 0 && !o.Profile.bulk()) {
		return fmt.Errorf("no transaction with %s ended in the window, and %d bytes were moved: %s", o.Target, moved,
			cmp.Or(sum.Failure, sum.Spare, "the strands were still connecting"))
	}
	if err := json.NewEncoder(w).Encode(sum); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// run is an Offer under way.
type run struct {
	Offer
	begin, end time.Time
	mu         sync.Mutex
	// open sockets; nil once all are hung up.
	open  map[*socket.Socket]bool
	zeros zeros
}

// strands runs all strands to their ends.
func (r *run) strands(ctx context.Context) Count {
	defer context.AfterFunc(ctx, r.hangup)()
	defer time.AfterFunc(time.Until(r.end.Add(patience)), r.hangup).Stop()
	var wg sync.WaitGroup
	counts := make([]Count, r.Profile.Strands())
	at := 0
	for k := range r.Profile.Groups {
		g := &r.Profile.Groups[k]
		gate := newBarrier(g.Strands)
		for range g.Strands {
			s := &strand{run: r, group: g, gate: gate, number: at, Count: newCount(), conns: map[int]*pipe{}}
			wg.Go(func() {
				s.live(ctx)
				counts[s.number] = s.Count
			})
			at++
		}
	}
	wg.Wait()
	sum := newCount()
	for _, c := range counts {
		sum.add(c)
	}
	return sum
}

// hangup ends what all strands wait for.
func (r *run) hangup() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.open {
		s.Hangup()
	}
	r.open = nil
}

// keep registers a socket for hangup; it reports whether there was one already.
func (r *run) keep(s *socket.Socket) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		return false
	}
	r.open[s] = true
	return true
}

// close closes a socket.
func (r *run) close(s *socket.Socket) {
	r.mu.Lock()
	delete(r.open, s)
	r.mu.Unlock()
	s.Close()
}

// ask asks the server for its report.
func (r *run) ask() (report, error) {
	var rep report
	conn, err := socket.Dial(workload.TCP, r.Target, patience)
	if err != nil {
		return rep, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	if err := conn.Patience(patience); err != nil {
		return rep, err
	}
	if err := writeLine(conn, hello{Report: true, Begin: r.Begin}); err != nil {
		return rep, err
	}
	line, err := readLine(conn, maxLine)
	if err != nil {
		return rep, err
	}
	if err := json.Unmarshal(line, &rep); err != nil || rep.Received < 0 || rep.Arrived < 0 || rep.Sent < 0 {
		return rep, fmt.Errorf("the server answered %.40q", line)
	}
	return rep, nil
}

// parse reads what the client printed.
func parse(out []byte) (Count, error) {
	var c Count
	if err := json.Unmarshal(out, &c); err != nil {
		return c, fmt.Errorf("read result: %w", err)
	}
	if c.Cut < 0 || c.Received < 0 || c.ServerReceived < 0 || c.Flowops < 0 || c.FlowopBytes < 0 ||
		c.Sent < 0 || c.Arrived < 0 || c.Spared < 0 || c.Writes == nil {
		return c, fmt.Errorf("read result: figures that cannot be: %d operations, %d failed", c.Operations, c.Failed)
	}
	return c, c.Check()
}
