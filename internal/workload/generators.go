package workload

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Generators is a run of generators of our own: a server in each pair's server
// pod, which says nothing, and a client in its client pod, which offers load from
// when it starts, counts what began in the window and prints it.
type Generators struct {
	// Server is the command of a pair's server, which listens by each of Protos, or
	// by TCP where there are none.
	Server func(pair int) []string
	Protos []Proto
	// Client is that of its client; the window begins at begin on the monotonic
	// clock, and the client must be ready by then.
	Client func(pair int, begin time.Duration) []string
	// Connections of a client; each takes some time to set up.
	Connections int
	// Patience is how long after the window a client may wait for answers.
	Patience time.Duration
	// Servers and Clients are what the programs left, by pair, once they have ended.
	Servers, Clients []Result

	tasks []*Task
}

// Time that generators get.
const (
	// generatorEnd is how long after its last answer a client may take to end.
	generatorEnd = 5 * time.Second
	// generatorLead is what clients may take to start and connect, beside what
	// a pair and a connection add.
	generatorLead  = 60 * time.Millisecond
	leadPerPair    = 20 * time.Millisecond
	leadPerHundred = 20 * time.Millisecond
)

// Run runs the generators on every pair and tells the meter of the window.
func (g *Generators) Run(ctx context.Context, bed Bed, w Window, m Meter) error {
	return Together(ctx, func(ctx context.Context, crew *Crew) error {
		lead, err := g.Serve(ctx, bed, crew)
		if err != nil {
			return err
		}
		begin := time.Now().Add(lead + w.Warmup)
		if err := g.Start(bed, crew, begin); err != nil {
			return err
		}
		if _, err := Measure(ctx, begin, w.Duration, m); err != nil {
			return err
		}
		return g.Wait(ctx)
	})
}

// Serve starts the servers and returns when they listen. The lead that it returns is
// what clients may take to start and connect.
func (g *Generators) Serve(ctx context.Context, bed Bed, crew *Crew) (lead time.Duration, err error) {
	started := time.Now()
	g.Servers = make([]Result, len(bed.Pairs))
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
	// Where servers took long to start, as on a guest's kernel, so will clients.
	return max(lead, 2*time.Since(started)), nil
}

// Start starts the clients, whose window begins then.
func (g *Generators) Start(bed Bed, crew *Crew, begin time.Time) error {
	now, err := Monotonic()
	if err != nil {
		return err
	}
	at := now + time.Until(begin)
	g.Clients, g.tasks = make([]Result, len(bed.Pairs)), nil
	for i := range bed.Pairs {
		g.tasks = append(g.tasks, crew.Go(func(ctx context.Context) (err error) {
			g.Clients[i], err = g.client(ctx, bed, i, at)
			return err
		}))
	}
	return nil
}

// Wait returns when all clients have ended, which is soon after the window, at whose
// end it must be called.
func (g *Generators) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, g.Patience+generatorEnd, errors.New("the clients did not end in time"))
	defer cancel()
	for _, c := range g.tasks {
		if err := c.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// client runs one pair's client to its end.
func (g *Generators) client(ctx context.Context, bed Bed, pair int, begin time.Duration) (Result, error) {
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
