package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
)

// Generators is a run of generators of our own: a server in each pair's server
// pod, which says nothing, and a client in its client pod, which offers load from
// when it starts, counts what began in the window and prints it.
type Generators struct {
	// Server is the command of a pair's server, which listens by each of Protos, or
	// by TCP where there are none.
	Server func(pair int) []string
	Protos []Proto
	// Client is that of its client, which reads begin by Beginning: the client must be
	// ready when the window begins.
	Client func(pair int, begin string) []string
	// Connections of a client; each takes some time to set up.
	Connections int
	// Patience is how long after the window a client may wait for answers.
	Patience time.Duration
	// Servers and Clients are what the programs left, by pair, once they have ended.
	Servers, Clients []program.Result

	bed     Bed
	crew    *Crew
	barrier *barrier // nil where pods are on kernels that share no FIFO
	tasks   []*Task
}

// Time that generators get.
const (
	// generatorEnd is how long after its last answer a client may take to end.
	generatorEnd = 5 * time.Second
	// generatorLead is what clients may take to connect, and to start where no barrier
	// holds them until all have; a pair and a connection add to it.
	generatorLead = 60 * time.Millisecond
	leadPerPair   = 20 * time.Millisecond
	// leadElsewhere is the least of clients that a busy machine has to be asked for.
	leadElsewhere  = 400 * time.Millisecond
	leadPerHundred = 20 * time.Millisecond
)

// Run runs the generators on every pair and tells the meter of the window.
func (g *Generators) Run(ctx context.Context, bed Bed, w Window, m Meter) error {
	return Together(ctx, func(ctx context.Context, crew *Crew) error {
		lead, err := g.Serve(ctx, bed, crew)
		if err != nil {
			return err
		}
		if err := g.Gather(ctx, bed, crew); err != nil {
			return err
		}
		begin := time.Now().Add(lead + w.Warmup)
		if err := g.Begin(begin); err != nil {
			return err
		}
		if _, err := Measure(ctx, begin, w.Duration, m); err != nil {
			return err
		}
		return g.Wait(ctx)
	})
}

// Serve starts the servers and returns when they listen. The lead that it returns is
// what clients may take to connect, and to start where they are on other kernels.
func (g *Generators) Serve(ctx context.Context, bed Bed, crew *Crew) (lead time.Duration, err error) {
	started := time.Now()
	g.Servers = make([]program.Result, len(bed.Pairs))
	for i, pair := range bed.Pairs {
		crew.Serve("server in pod "+pair.Server.Name, func(ctx context.Context) (err error) {
			g.Servers[i], err = bed.Exec(ctx, pair.Server, g.Server(i)...)
			return err
		})
	}
	protos := g.Protos
	if len(protos) == 0 {
		protos = []Proto{TCP}
	}
	for _, p := range protos {
		if err := AwaitServers(ctx, bed, p); err != nil {
			return 0, err
		}
	}
	lead = generatorLead + time.Duration(len(bed.Pairs))*leadPerPair + time.Duration(g.Connections)*leadPerHundred/100
	// Where servers took long to start, as on a guest's kernel, so will clients, and so
	// does connecting.
	took := time.Since(started)
	if clientsElsewhere(bed) {
		return max(lead, 2*took, leadElsewhere), nil
	}
	return max(lead, took/2), nil
}

// clientsElsewhere tells whether some client is on another kernel, which shares no FIFO.
func clientsElsewhere(bed Bed) bool {
	return slices.ContainsFunc(bed.Pairs, func(p Pair) bool { return Elsewhere(bed, p.Client) })
}

// Gather starts the clients and returns when each of them has, ready to be told of
// its window by Begin. Clients on other kernels start at Begin.
func (g *Generators) Gather(ctx context.Context, bed Bed, crew *Crew) (err error) {
	g.bed, g.crew, g.barrier = bed, crew, nil
	if clientsElsewhere(bed) {
		return nil
	}
	if g.barrier, err = newBarrier(bed.Dir, len(bed.Pairs)); err != nil {
		return err
	}
	g.start(g.barrier.begin)
	if err := g.barrier.wait(ctx); err != nil {
		return errors.Join(err, g.barrier.close())
	}
	return nil
}

// Begin tells the clients that were gathered when their window begins.
func (g *Generators) Begin(begin time.Time) error {
	now, err := program.Monotonic()
	if err != nil {
		return err
	}
	at := now + time.Until(begin)
	if g.barrier != nil {
		return g.barrier.tell(at)
	}
	g.start(func(int) string { return at.String() })
	return nil
}

// Gathered tells whether clients have started when Gather returns.
func (g *Generators) Gathered() bool { return g.barrier != nil }

// Release lets clients go that were gathered and for which no window begins.
func (g *Generators) Release() error {
	if g.barrier == nil {
		return nil
	}
	return g.barrier.close()
}

// start starts the clients.
func (g *Generators) start(begin func(pair int) string) {
	g.Clients, g.tasks = make([]program.Result, len(g.bed.Pairs)), nil
	for i := range g.bed.Pairs {
		g.tasks = append(g.tasks, g.crew.Go(func(ctx context.Context) (err error) {
			g.Clients[i], err = g.client(ctx, g.bed, i, begin(i))
			return err
		}))
	}
}

// Wait returns when all clients have ended, which is soon after the window, at whose
// end it must be called.
func (g *Generators) Wait(ctx context.Context) error {
	return WaitAll(ctx, g.tasks, time.Now().Add(g.Patience+generatorEnd), errors.New("the clients did not end in time"))
}

// client runs one pair's client to its end.
func (g *Generators) client(ctx context.Context, bed Bed, pair int, begin string) (program.Result, error) {
	pod := bed.Pairs[pair].Client
	res, err := bed.Exec(ctx, pod, g.Client(pair, begin)...)
	if ctx.Err() != nil {
		return res, context.Cause(ctx)
	}
	if err != nil {
		return res, fmt.Errorf("client in pod %s: %w", pod.Name, err)
	}
	return res, nil
}
