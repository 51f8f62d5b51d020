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
	// Server is the command of a pair's server.
	Server func(pair int) []string
	// Client is that of its client; the window begins at begin on the monotonic
	// clock, and the client must be ready by then.
	Client func(pair int, begin time.Duration) []string
	// Connections of a client; each takes some time to set up.
	Connections int
	// Patience is how long after the window a client may wait for answers.
	Patience time.Duration
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

// Run runs the generators on every pair, tells the meter of the window, and
// returns what the clients left.
func (g Generators) Run(ctx context.Context, bed Bed, w Window, m Meter) ([]Result, error) {
	out := make([]Result, len(bed.Pairs))
	err := Together(ctx, func(ctx context.Context, crew *Crew) error {
		started := time.Now()
		for i, pair := range bed.Pairs {
			crew.Serve("server in pod "+pair.Server.Name, func(ctx context.Context) error {
				_, err := bed.Exec(ctx, pair.Server, g.Server(i)...)
				return err
			})
		}
		if err := AwaitServers(ctx, bed, TCP); err != nil {
			return err
		}
		lead := generatorLead + time.Duration(len(bed.Pairs))*leadPerPair + time.Duration(g.Connections)*leadPerHundred/100
		// Where servers took long to start, as on a guest's kernel, so will clients.
		lead = max(lead, 2*time.Since(started))
		begin := time.Now().Add(lead + w.Warmup)
		now, err := Monotonic()
		if err != nil {
			return err
		}
		at := now + time.Until(begin)
		var clients []*Task
		for i := range bed.Pairs {
			clients = append(clients, crew.Go(func(ctx context.Context) (err error) {
				out[i], err = g.client(ctx, bed, i, at)
				return err
			}))
		}
		if _, err := Measure(ctx, begin, w.Duration, m); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, g.Patience+generatorEnd, errors.New("the clients did not end in time"))
		defer cancel()
		for _, c := range clients {
			if err := c.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// client runs one pair's client to its end.
func (g Generators) client(ctx context.Context, bed Bed, pair int, begin time.Duration) (Result, error) {
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
