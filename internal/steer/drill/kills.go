package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/stream"
)

func killsKind() kind {
	return kind{
		name: "kills", about: "agents are killed at random moments under traffic and started again; at last both are gone for good",
		defaults: Options{Repetitions: 2, Kills: 10}, keys: []string{"kills"},
		length: func(o Options, _ File) time.Duration {
			return time.Duration(o.Kills)*2500*time.Millisecond + 15*time.Second
		},
		run: runKills, figures: killsFigures,
	}
}

func runKills(ctx context.Context, s *session) ([]Sample, error) {
	g, err := s.ground(ctx, s.pair("kills"))
	if err == nil {
		err = g.healthy(ctx)
	}
	if err != nil {
		return nil, err
	}
	var flows []*flow
	for _, t := range []traffic{
		{kind: stream.TCP, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0", "--rate", "100000000"}},
		{kind: stream.RR, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0", "--think", "1ms"}},
	} {
		f, err := g.begin(ctx, t)
		if err != nil {
			return nil, err
		}
		flows = append(flows, f)
	}
	var out []Sample
	for i := range s.options().Kills {
		one, err := s.try(ctx, fmt.Sprintf("kill %d", i+1), func(out *Sample) error { return g.murder(ctx, out) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	gone, err := s.try(ctx, "gone for good", func(out *Sample) error { return g.orphan(ctx, out) })
	if err != nil {
		return nil, err
	}
	end, err := s.try(ctx, "application", func(out *Sample) error {
		for _, f := range flows {
			client, server, err := f.end()
			if err != nil {
				return err
			}
			judge(out, client, server)
			out.Values["connections"] += float64(client.Counts.Connections.Opened)
			feels := client
			if f.kind == stream.TCP {
				feels = server
			}
			gap, _ := stream.Stall(feels, feels.Started.Monotonic, feels.Ended)
			out.Values[string(f.kind)+"_longest_gap_s"] = gap.Length().Seconds()
			if err := s.keep(out, string(f.kind), feels); err != nil {
				return err
			}
		}
		return nil
	})
	return append(out, gone, end), err
}

// place moves the pair to a random network other than the default one, and
// waits until its bytes are there.
func (g *ground) place(ctx context.Context) (string, error) {
	network := g.nets[1+g.s.rand.IntN(len(g.nets)-1)]
	return network, g.pin(ctx, "h1", agent.Order{Local: "a", Remote: "b", Network: network}, 2*time.Second)
}

// pin has a host's agent keep a pair's flows on a network, and waits until pod a's bytes leave there.
func (g *ground) pin(ctx context.Context, host string, o agent.Order, limit time.Duration) error {
	o.Pin = true
	if err := g.order(ctx, host, o); err != nil {
		return err
	}
	return g.arrives(ctx, o.Network, limit)
}

// arrives waits until pod a's bytes leave on the network.
func (g *ground) arrives(ctx context.Context, network string, limit time.Duration) error {
	last, err := sentOn(g.pod("a"))
	if err != nil {
		return err
	}
	return until(ctx, limit, 40*time.Millisecond, "traffic is on "+network, func() (bool, error) {
		now, err := sentOn(g.pod("a"))
		at, part := carrier(last, now)
		last = now
		return at == network && part > 0.9, err
	})
}

// murder kills one agent at a random moment and starts it again.
func (g *ground) murder(ctx context.Context, out *Sample) error {
	network, err := g.place(ctx)
	if err != nil {
		return err
	}
	host := g.lab.Hosts()[g.s.rand.IntN(2)].Name
	if err := pause(ctx, time.Duration(g.s.rand.Int64N(int64(400*time.Millisecond)))); err != nil {
		return err
	}
	g.agents[host].kill()
	// Its successor comes before the lease of three seconds ends.
	if err := pause(ctx, time.Duration(g.s.rand.Int64N(int64(1500*time.Millisecond)))); err != nil {
		return err
	}
	// Whichever agent is dead, flows stay where they are.
	stays := g.arrives(ctx, network, time.Second)
	a, err := g.startAgent(ctx, host)
	if err := errors.Join(stays, err); err != nil {
		return err
	}
	out.Text["host"], out.Text["network"] = host, network
	if host == "h1" {
		out.Values["adopted"] = 0
		// A busy machine has it say so somewhat later.
		if err := until(ctx, 1500*time.Millisecond, 10*time.Millisecond, "the successor tells where flows are",
			func() (bool, error) { return a.adopts(ctx, network) }); err != nil {
			out.Text["adopted"] = err.Error()
		} else {
			out.Values["adopted"] = 1
		}
	}
	// Not stale: what the agents say is where the bytes are, in all buckets.
	out.Values["stale"] = 1
	err = until(ctx, 1500*time.Millisecond, 10*time.Millisecond, "agent and bytes agree",
		func() (bool, error) { return g.agrees(ctx) })
	if err == nil {
		out.Values["stale"] = 0
	} else {
		out.Text["stale"] = err.Error()
	}
	return ctx.Err()
}

// adopts reports whether the agent has said that it found the flows of pod a on the network.
func (a *agentProcess) adopts(ctx context.Context, network string) (bool, error) {
	events, err := a.events(ctx, 0)
	return slices.ContainsFunc(events, func(e agent.Event) bool {
		return e.Kind == agent.EventAdopted && e.Pair == "a>b" && e.To == network
	}), err
}

// agrees reports whether pod a's bytes are where its agent says that they are.
func (g *ground) agrees(ctx context.Context) (bool, error) {
	last, err := sentOn(g.pod("a"))
	err = errors.Join(err, pause(ctx, 100*time.Millisecond))
	now, nowErr := sentOn(g.pod("a"))
	paths, pathsErr := g.agents["h1"].client.Paths(ctx)
	if err := errors.Join(err, nowErr, pathsErr); err != nil {
		return false, err
	}
	at, part := carrier(last, now)
	for _, p := range paths {
		if p.Pair == "a>b" && p.Active && p.Network == at && part > 0.9 && p.Buckets == dataplane.Buckets {
			return true, nil
		}
	}
	return false, fmt.Errorf("%w: %.0f %% of the bytes on %s; the agent: %+v", errElsewhere, part*100, at, paths)
}

// orphan kills both agents for good: flows must be back on the default network
// when the lease has ended.
func (g *ground) orphan(ctx context.Context, out *Sample) error {
	network, err := g.place(ctx)
	if err != nil {
		return err
	}
	for host, a := range g.agents {
		a.kill()
		delete(g.agents, host)
	}
	from := program.Kernel()
	at, err := g.departure(ctx, network, from, 2*dataplane.DefaultLease)
	if err != nil {
		return err
	}
	out.Values["back_s"] = (at - from).Seconds()
	out.Text["network"] = network
	err = g.arrives(ctx, g.nets[0], time.Second)
	if err != nil {
		return err
	}
	return pause(ctx, 500*time.Millisecond) // the connections go on there
}

func killsFigures(_ Options, all []Sample) []Figure {
	adopted := values(all, "", "adopted")
	for i := range adopted {
		adopted[i] = 1 - adopted[i]
	}
	lost := total("connections lost", values(all, "application", "connections_lost"), atMost(0))
	lost.Note = fmt.Sprintf("%d kills, %.0f connections that lived through all of a repetition; longest gap of the stream %s, longest request %s", len(values(all, "", "stale")),
		sum(values(all, "application", "connections")),
		seconds(summary("", "", values(all, "application", "tcp_longest_gap_s"), worst, nil).Value),
		seconds(summary("", "", values(all, "application", "rr_longest_gap_s"), worst, nil).Value))
	stale := total("stale steering after a restart", values(all, "", "stale"), atMost(0))
	back := summary("both gone for good: back on the default network, longest", "s", values(all, "", "back_s"), worst,
		atMost(dataplane.DefaultLease.Seconds()))
	back.Note = "after the kill; the lease is counted from the last heartbeat"
	return []Figure{lost, total("... corrupt", values(all, "application", "corrupt"), atMost(0)), stale,
		total("choices not adopted by the successor", adopted, atMost(0)), back}
}
