package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
)

func ratelimitKind() kind {
	return kind{
		name: "ratelimit", about: "the active path is limited to a tenth under bulk TCP: how long until the traffic has moved",
		defaults: Options{Repetitions: 10, Hold: 5 * time.Second, Capacity: 400e6}, keys: []string{"hold", "capacity"},
		length: func(o Options, _ File) time.Duration { return o.Hold + 6*time.Second },
		run:    runRatelimit, figures: ratelimitFigures,
	}
}

func runRatelimit(ctx context.Context, s *session) ([]Sample, error) {
	network := s.File.Networks[s.repetition%len(s.File.Networks)]
	one, err := s.try(ctx, "tcp", func(out *Sample) error {
		g, err := s.ground(ctx, s.pair("limited"))
		if err != nil {
			return err
		}
		return g.squeeze(ctx, out, network)
	})
	return []Sample{one}, err
}

// squeeze limits the active network to a tenth of what it carries; the traffic
// is first put on a given one.
func (g *ground) squeeze(ctx context.Context, out *Sample, first string) error {
	// The network is the best one, on an uplink that gives each its share: where
	// all compete for the processors alone, none is best for long.
	rates := map[string]float64{}
	for _, n := range g.nets {
		rates[n] = 0.75 * g.s.options().Capacity
	}
	rates[first] = g.s.options().Capacity
	if err := g.uplink(ctx, rates, nil); err != nil {
		return err
	}
	// A fresh agent each time: what it has learned of the last limit is not the question.
	if err := g.startAgents(ctx); err != nil {
		return err
	}
	if err := errors.Join(pause(ctx, 1200*time.Millisecond), g.healthy(ctx)); err != nil {
		return err
	}
	f, err := g.begin(ctx, traffic{kind: stream.TCP, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0"}})
	if err != nil {
		return err
	}
	err = g.order(ctx, "h1", agent.Order{Local: "a", Remote: "b", Network: first})
	network, rate, networkErr := g.settled(ctx)
	since, sinceErr := g.agents["h1"].lastEvent(ctx)
	if err := errors.Join(err, networkErr, sinceErr); err != nil {
		return errors.Join(err, f.abandon())
	}
	out.Text["network"] = network
	limited, wall := program.Kernel(), g.s.Now()
	err = g.uplink(ctx, map[string]float64{network: rate / 10}, nil)
	moved, movedErr := g.departure(ctx, network, limited, g.s.options().Hold)
	err = errors.Join(err, movedErr, pause(ctx, time.Second))
	to := program.Kernel()
	events, eventsErr := g.agents["h1"].events(ctx, since)
	client, server, endErr := f.end()
	if err := errors.Join(err, eventsErr, endErr); err != nil {
		return err
	}
	out.Values["before"], out.Values["limit"] = rate, rate/10
	out.Values["moved_s"] = (moved - limited).Seconds()
	out.Values["after"] = 8 * stream.Throughput(server, to-500*time.Millisecond, to)
	for _, e := range moves(events) {
		if e.Pair == "a>b" && e.From == network {
			out.Values["decided_s"], out.Text["moved"] = e.At.Sub(wall).Seconds(), e.Kind+" to "+e.To+": "+e.Reason
			break
		}
	}
	judge(out, client, server)
	return g.s.keep(out, "server", server)
}

// settled waits until pod a's bytes have kept to one network for a second: an
// agent that has just begun tries the others first. It is then the active path,
// whichever it is.
func (g *ground) settled(ctx context.Context) (network string, rate float64, err error) {
	before, err := sentOn(g.pod("a"))
	if err != nil {
		return "", 0, err
	}
	from := program.Kernel()
	err = until(ctx, 20*time.Second, time.Second, "the traffic keeps to one network", func() (bool, error) {
		after, err := sentOn(g.pod("a"))
		if err != nil {
			return false, err
		}
		now := program.Kernel()
		at, part := carrier(before, after)
		network, rate = at, 8*float64(after[at]-before[at])/(now-from).Seconds()
		early := now-from < time.Second/2
		before, from = after, now
		if early || at == "" || part < 0.98 {
			return false, fmt.Errorf("%w: %.0f %% on one network, %q", errElsewhere, part*100, at)
		}
		return true, nil
	})
	return network, rate, err
}

// departure waits until most of pod a's bytes leave on another network, by its
// interfaces' own count, and says when; the limit if they do not.
func (g *ground) departure(ctx context.Context, network string, since, limit time.Duration) (time.Duration, error) {
	const window = 50 * time.Millisecond
	last, err := sentOn(g.pod("a"))
	if err != nil {
		return 0, err
	}
	for program.Kernel() < since+limit {
		begin := program.Kernel()
		if err := pause(ctx, window); err != nil {
			return 0, err
		}
		now, err := sentOn(g.pod("a"))
		if err != nil {
			return 0, err
		}
		if at, part := carrier(last, now); at != network && at != "" && part > 0.5 {
			return begin + window/2, nil
		}
		last = now
	}
	return since + limit, nil
}

func ratelimitFigures(o Options, all []Sample) []Figure {
	moved := values(all, "", "moved_s")
	f := summary("limited to a tenth: traffic moved, median", "s", moved, median, atMost(1))
	f.Note = fmt.Sprintf("%s means that it had not moved by the end; before %s, after the move %s (medians)", seconds(o.Hold.Seconds()),
		Quantity(summary("", "", values(all, "", "before"), median, nil).Value, "bit/s"),
		Quantity(summary("", "", values(all, "", "after"), median, nil).Value, "bit/s"))
	return []Figure{f, summary("... longest", "s", moved, worst, atMost(1)),
		total("connections lost", values(all, "", "connections_lost"), atMost(0))}
}

// writeSysctl sets a sysctl of the network namespace of the calling thread.
func writeSysctl(key, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s: %w", key, err)
	}
	return nil
}
