package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

func swingsKind() kind {
	return kind{
		name: "swings", about: "what networks give swings and senders come in bursts, and nothing fails: nothing may be taken for a failure",
		defaults: Options{Repetitions: 1, For: time.Minute, Capacity: 200e6}, keys: []string{"for", "capacity"},
		length: func(o Options, _ File) time.Duration { return o.For + 8*time.Second },
		run:    runSwings, figures: swingsFigures,
	}
}

// What a network gives, as a part of the capacity: 30 to 170 Mbit/s of 200, and for how long.
const (
	swingLeast, swingMost       = 0.15, 0.85
	swingShortest, swingLongest = 500 * time.Millisecond, 5 * time.Second
)

// swing draws what the networks give next, and for how long.
func swing(r *rand.Rand, networks []string, capacity float64) (map[string]float64, time.Duration) {
	rates := map[string]float64{}
	for _, n := range networks {
		rates[n] = capacity * (swingLeast + (swingMost-swingLeast)*r.Float64())
	}
	return rates, swingShortest + time.Duration(r.Int64N(int64(swingLongest-swingShortest)))
}

// bursts is the traffic: a sends to b as fast as it goes by two connections, and asks it small questions; three
// connections of c send d 200 kB to 8 MB at once, again and again.
func bursts(g *ground) []traffic {
	return []traffic{
		{kind: stream.TCP, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0", "--connections", "2"}},
		{kind: stream.RR, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0", "--think", "10ms"}},
		{kind: stream.RR, from: g.pod("c"), to: g.pod("d"), args: []string{"--duration", "0", "--connections", "3",
			"--request", "200000-8000000", "--think", "300ms"}},
	}
}

func runSwings(ctx context.Context, s *session) ([]Sample, error) {
	one, err := s.try(ctx, "streams, requests and bursts", func(out *Sample) error {
		g, err := s.ground(ctx, s.pair("swings"))
		if err == nil {
			err = g.healthy(ctx)
		}
		if err != nil {
			return err
		}
		rates, hold := swing(s.rand, g.nets, s.options().Capacity)
		if err := g.uplink(ctx, rates, nil); err != nil {
			return err
		}
		logs, err := g.follow(ctx)
		if err != nil {
			return err
		}
		flows, err := g.beginAll(ctx, bursts(g))
		if err != nil {
			return err
		}
		from := program.Kernel()
		end := from + s.options().For
		for err == nil && program.Kernel() < end {
			if err = readFor(ctx, logs, min(hold, end-program.Kernel())); err == nil {
				rates, hold = swing(s.rand, g.nets, s.options().Capacity)
				err = g.uplink(ctx, rates, nil)
				out.Values["swings"]++
			}
		}
		out.Values["swung_s"] = (program.Kernel() - from).Seconds()
		for _, l := range logs {
			err = errors.Join(err, l.more(ctx))
			count(out, l.events)
			mistaken(out, l.events)
		}
		_, e := endAll(out, flows)
		return errors.Join(err, e)
	})
	return []Sample{one}, err
}

// mistaken counts what agents took for a failure, of hosts and of pairs, also where no flow was there to leave.
func mistaken(out *Sample, events []agent.Event) {
	out.Values["failures"] += 0 // zero is a figure too
	for _, e := range events {
		host := e.Kind == agent.EventPeer && strings.Contains(e.Reason, "has failed")
		pair := e.Kind == agent.EventSuspect && strings.Contains(e.Reason, "packets do not pass")
		if host || pair || e.Kind == string(decide.Failover) {
			out.Values["failures"]++
			out.Text["failure"] = e.At.Format(time.TimeOnly) + " " + e.Pair + " " + e.From + " -> " + e.To + ": " + e.Reason
		}
	}
}

func swingsFigures(_ Options, all []Sample) []Figure {
	f := total("failures seen while nothing fails", values(all, "", "failures"), atMost(0))
	f.Note = fmt.Sprintf("in %s, as each network's rate changed %.0f times; suspicions: %.0f",
		seconds(sum(values(all, "", "swung_s"))), sum(values(all, "", "swings")),
		sum(values(all, "", "events "+agent.EventSuspect)))
	for _, s := range all {
		if s.Text["failure"] != "" {
			f.Note += "; " + s.Text["failure"]
		}
	}
	return []Figure{f, total("... moves", values(all, "", "moves"), nil),
		total("connections lost", values(all, "", "connections_lost"), atMost(0))}
}
