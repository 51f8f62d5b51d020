package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/agent"
	"pathwise.dev/pathwise/internal/stream"
)

func quietKind() kind {
	return kind{
		name: "quiet", about: "nothing happens, under sparse requests and under a steady stream at once: no flow may move",
		defaults: Options{Repetitions: 1, For: time.Minute}, keys: []string{"for"},
		length: func(o Options, _ File) time.Duration { return o.For + 8*time.Second },
		run:    runQuiet, figures: quietFigures,
	}
}

// runQuiet watches two pairs at once: a sends to b a steady stream of 200 Mbit/s,
// c asks d a request every 10 ms.
func runQuiet(ctx context.Context, s *session) ([]Sample, error) {
	one, err := s.try(ctx, "stream and requests", func(out *Sample) error {
		g, err := s.ground(ctx, s.pair("quiet"))
		if err == nil {
			err = g.healthy(ctx)
		}
		if err != nil {
			return err
		}
		var flows []*flow
		for _, t := range []traffic{
			{kind: stream.TCP, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0", "--rate", "200000000"}},
			{kind: stream.RR, from: g.pod("c"), to: g.pod("d"), args: []string{"--duration", "0", "--think", "10ms"}},
		} {
			f, err := g.begin(ctx, t)
			if err != nil {
				return err
			}
			flows = append(flows, f)
		}
		since := map[string]int{}
		for host, a := range g.agents {
			n, err := a.lastEvent(ctx)
			if err != nil {
				return err
			}
			since[host] = n
		}
		begin := s.Now()
		err = pause(ctx, s.options().For)
		out.Values["quiet_s"] = s.Now().Sub(begin).Seconds()
		for host, a := range g.agents {
			events, e := a.events(ctx, since[host])
			err = errors.Join(err, e)
			count(out, events)
		}
		for _, f := range flows {
			client, server, e := f.end()
			err = errors.Join(err, e)
			judge(out, client, server)
		}
		return err
	})
	return []Sample{one}, err
}

// count adds what the agents did.
func count(out *Sample, events []agent.Event) {
	for _, e := range events {
		out.Values["events "+e.Kind]++
	}
	for _, e := range moves(events) {
		out.Values["moves"]++
		out.Text["move"] = e.Pair + " " + e.Kind + " " + e.From + " -> " + e.To + ": " + e.Reason
	}
	out.Values["moves"] += 0 // zero is a figure too
}

func quietFigures(_ Options, all []Sample) []Figure {
	f := total("moves of flows while nothing happens", "count", values(all, "", "moves"), atMost(0))
	f.Note = fmt.Sprintf("in %s, of a stream of 200 Mbit/s and of a request every 10 ms; canaries: %.0f",
		seconds(sum(values(all, "", "quiet_s"))), sum(values(all, "", "events canary")))
	for _, s := range all {
		if s.Text["move"] != "" {
			f.Note += "; " + s.Text["move"]
		}
	}
	return []Figure{f, total("connections lost", "count", values(all, "", "connections_lost"), atMost(0))}
}
