package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

func quietKind() kind {
	return kind{
		name: "quiet", about: "nothing happens, under sparse requests and under a steady stream at once: no flow may move but to a network that answers sooner",
		defaults: Options{Repetitions: 1, For: time.Minute}, keys: []string{"for"},
		length: func(o Options, _ File) time.Duration { return o.For + placing + 8*time.Second },
		run:    runQuiet, figures: quietFigures,
	}
}

// placing is the time that new pairs have to find their networks.
const placing = 15 * time.Second

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
		flows, err := g.beginAll(ctx, []traffic{
			{kind: stream.TCP, from: g.pod("a"), to: g.pod("b"), args: []string{"--duration", "0", "--rate", "200000000"}},
			{kind: stream.RR, from: g.pod("c"), to: g.pod("d"), args: []string{"--duration", "0", "--think", "10ms"}},
		})
		if err != nil {
			return err
		}
		// A new pair is on the default network, and goes to the best one: that is no
		// move on a quiet path, but is told.
		if err := pause(ctx, placing); err != nil {
			return err
		}
		for _, a := range g.agents {
			before, err := a.events(ctx, 0)
			if err != nil {
				return err
			}
			out.Values["settling_moves"] += float64(len(moves(before)))
		}
		logs, err := g.follow(ctx)
		if err != nil {
			return err
		}
		begin, from := s.Now(), program.Kernel()
		err = readFor(ctx, logs, s.options().For)
		to := program.Kernel()
		out.Values["quiet_s"] = (to - from).Seconds()
		var all []moved
		for _, l := range logs {
			err = errors.Join(err, l.more(ctx))
			count(out, l.events)
			for _, e := range moves(l.events) {
				all = append(all, moved{at: from + e.At.Sub(begin), pair: e.Pair, kind: e.Kind, from: e.From, to: e.To})
			}
		}
		asked, e := endAll(out, flows) // the last one's
		err = errors.Join(err, e)
		out.Values["false_moves"] = float64(falseMoves(all, asked, from, to))
		return err
	})
	return []Sample{one}, err
}

// endAll ends flows, judges what they saw, and returns what the last one's client says.
func endAll(out *Sample, flows []*flow) (last stream.Report, err error) {
	for _, f := range flows {
		client, server, e := f.end()
		err = errors.Join(err, e)
		judge(out, client, server)
		last = client
	}
	return last, err
}

// asker is the pair whose requests tell which network answers sooner.
const asker = "c>d"

// moved is a move of a pair's flows.
type moved struct {
	at                   time.Duration
	pair, kind, from, to string
}

// falseMoves counts the moves between from and to that were not right: all but
// those for gain after which requests were answered sooner than before. A pair
// other than the one that asks is judged by that one's move between the same networks.
func falseMoves(all []moved, asked stream.Report, from, to time.Duration) (n int) {
	slices.SortFunc(all, func(a, b moved) int { return cmp.Compare(a.at, b.at) })
	const most = time.Minute // about as much of before and after is compared
	right := map[[2]string]bool{}
	for i, m := range all {
		if m.pair != asker {
			continue
		}
		before, after := max(from, m.at-most), min(to, m.at+most)
		for j, other := range all {
			switch {
			case other.pair != asker || j == i:
			case j < i:
				before = max(before, other.at)
			default:
				after = min(after, other.at)
			}
		}
		sooner := stream.Throughput(asked, m.at, after) > stream.Throughput(asked, before, m.at) && m.at > before
		if was, judged := right[[2]string{m.from, m.to}]; judged {
			sooner = sooner && was
		}
		right[[2]string{m.from, m.to}] = sooner
	}
	for _, m := range all {
		if m.kind != string(decide.Switch) || !right[[2]string{m.from, m.to}] {
			n++
		}
	}
	return n
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
	f := total("false moves of flows while nothing happens", values(all, "", "false_moves"), atMost(0))
	f.Note = fmt.Sprintf("in %s, of a stream of 200 Mbit/s and of a request every 10 ms; canaries: %.0f; moves in the %v before, from the default network: %.0f",
		seconds(sum(values(all, "", "quiet_s"))), sum(values(all, "", "events canary")), placing,
		sum(values(all, "", "settling_moves")))
	for _, s := range all {
		if s.Text["move"] != "" {
			f.Note += "; " + s.Text["move"]
		}
	}
	return []Figure{f, total("... moves, with those after which requests were answered sooner", values(all, "", "moves"), nil),
		total("connections lost", values(all, "", "connections_lost"), atMost(0))}
}
