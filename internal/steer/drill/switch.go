package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// spacing of the datagrams in the drill switch, as in the bar.
const spacing = 50 * time.Microsecond

func switchKind() kind {
	return kind{
		name: "switch", about: "switches under UDP at 50 us spacing, and under TCP stream, request-response, UDP and ICMP at once",
		defaults: Options{Repetitions: 1, Switches: 10000, Interval: 3 * time.Millisecond, For: 3 * time.Second,
			Traffic: []string{"udp", "mix"}},
		keys: []string{"switches", "interval", "for", "traffic", "encapsulate"},
		length: func(o Options, f File) time.Duration {
			storm := time.Duration(o.Switches)*o.Interval + 3*time.Second
			return time.Duration(len(o.Traffic))*storm + time.Duration(len(f.Networks))*(o.For+time.Second)
		},
		run: runSwitch, figures: switchFigures,
	}
}

func runSwitch(ctx context.Context, s *session) ([]Sample, error) {
	g, err := s.ground(ctx, s.pair("switch"))
	if err != nil {
		return nil, err
	}
	if g.planes == nil {
		p, err := g.steerer(g.pod("a"), g.pod("b"))
		if err != nil {
			return nil, err
		}
		if err := p.fit(); err != nil {
			return nil, err
		}
	}
	var out []Sample
	delays := make([]time.Duration, len(g.nets)) // by path
	for _, i := range s.order(len(g.nets)) {
		path := g.planes.index(g.nets[i])
		one, err := s.try(ctx, "still "+g.nets[i], func(out *Sample) error { return g.still(ctx, out, path, &delays[path]) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	for _, i := range s.order(len(s.options().Traffic)) {
		what := s.options().Traffic[i]
		one, err := s.try(ctx, what, func(out *Sample) error { return g.swarm(ctx, out, what, delays) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func udp() []string { return []string{"--duration", "0", "--interval", spacing.String()} }

// still measures the delays of a path on which nothing is switched.
func (g *ground) still(ctx context.Context, out *Sample, path int, delay *time.Duration) error {
	if err := g.planes.lead(path); err != nil {
		return err
	}
	f, err := g.begin(ctx, traffic{kind: stream.UDP, from: g.pod("a"), to: g.pod("b"), args: udp()})
	if err != nil {
		return err
	}
	if err := pause(ctx, g.s.options().For); err != nil {
		return errors.Join(err, f.abandon())
	}
	client, server, err := f.end()
	if err != nil {
		return err
	}
	*delay = time.Duration(server.Latency.Percentile(50) * float64(time.Second))
	out.Values["delay_median_s"], out.Values["delay_p99_s"] = server.Latency.Percentile(50), server.Latency.Percentile(99)
	datagrams(out, server)
	return errors.Join(g.s.keep(out, "client", client), g.s.keep(out, "server", server))
}

func datagrams(out *Sample, r stream.Report) {
	d := r.Counts.Datagrams
	out.Values["expected"] += float64(d.Expected)
	out.Values["lost"] += float64(d.Lost - d.SocketDrops)
	out.Values["socket_drops"] += float64(d.SocketDrops)
	out.Values["duplicated"] += float64(d.Duplicated)
	out.Values["reordered"] += float64(d.Reordered)
	out.Values["max_extent"] = max(out.Values["max_extent"], float64(d.MaxExtent))
}

// swarm switches under traffic.
func (g *ground) swarm(ctx context.Context, out *Sample, what string, delays []time.Duration) error {
	a, b, o := g.pod("a"), g.pod("b"), g.s.options()
	if err := g.planes.lead(0); err != nil {
		return err
	}
	flows, err := g.beginAll(ctx, swarmOf(what, a, b))
	leave := func(err error) error {
		for _, f := range flows {
			_ = f.abandon()
		}
		return err
	}
	if err := errors.Join(err, pause(ctx, 500*time.Millisecond)); err != nil {
		return leave(err)
	}
	w, err := g.planes.shuffle(ctx, o.Switches, len(g.nets), o.Interval, g.s.rand)
	if err := errors.Join(err, pause(ctx, 300*time.Millisecond)); err != nil {
		return leave(err)
	}
	w.note(out)
	if what == "udp" {
		out.Values["explained"] = float64(explained(w.turns, delays, spacing))
	}
	for _, f := range flows {
		if err := g.tellOf(f, out); err != nil {
			return err
		}
	}
	return nil
}

// swarmOf is the traffic that is switched: UDP alone, or everything at once.
func swarmOf(what string, a, b topo.Pod) []traffic {
	if what != "mix" {
		return []traffic{{kind: stream.UDP, from: a, to: b, args: udp()}}
	}
	long := []string{"--duration", "0"}
	spaced := append(slices.Clone(long), "--interval", "1ms")
	return []traffic{
		{kind: stream.TCP, from: a, to: b, args: long}, {kind: stream.RR, from: a, to: b, args: long},
		{kind: stream.ICMP, from: a, to: b, args: spaced}, {kind: stream.UDP, from: a, to: b, args: spaced},
	}
}

// tellOf ends a flow of the swarm and notes what it felt.
func (g *ground) tellOf(f *flow, out *Sample) error {
	client, server, err := f.end()
	if err != nil {
		return fmt.Errorf("%s: %w", f.kind, err)
	}
	judge(out, client, server)
	switch f.kind {
	case stream.UDP:
		datagrams(out, server)
	case stream.ICMP:
		out.Values["icmp_lost"], out.Values["icmp_sent"] = float64(client.Counts.Datagrams.Lost),
			float64(client.Counts.Datagrams.Sent)
	case stream.RR:
		out.Values["operations"] = float64(client.Counts.Operations)
	case stream.TCP:
		out.Values["bytes"] = float64(server.Counts.BytesReceived)
	}
	return errors.Join(g.s.keep(out, string(f.kind)+"-client", client), keepIf(g.s, out, f, server))
}

func keepIf(s *session, out *Sample, f *flow, server stream.Report) error {
	if f.server == nil {
		return nil
	}
	return s.keep(out, string(f.kind)+"-server", server)
}

func switchFigures(_ Options, all []Sample) []Figure {
	var out []Figure
	if writes := values(all, "udp", "write_median_s"); len(writes) > 0 {
		n := sum(values(all, "udp", "switches"))
		f := summary("map write of all 64 buckets under UDP, median", "s", writes, median, atMost(2e-6))
		f.Note = fmt.Sprintf("%.0f switches by package dataplane, p99 %s, longest %s", n,
			seconds(median(values(all, "udp", "write_p99_s"))),
			seconds(summary("", "s", values(all, "udp", "write_most_s"), worst, nil).Value))
		lost := total("UDP at 50 us: packets lost by the network", values(all, "udp", "lost"), atMost(0))
		lost.Note = fmt.Sprintf("of %.0f; the receiver's own socket dropped %.0f more", sum(values(all, "udp", "expected")),
			sum(values(all, "udp", "socket_drops")))
		e := sum(values(all, "udp", "explained"))
		re := total("UDP at 50 us: reordered", values(all, "udp", "reordered"), atMost(e))
		re.Note = fmt.Sprintf("the difference of the paths' median delays explains %.0f; without switches: %.0f", e,
			sum(values(all, "", "reordered"))-sum(values(all, "udp", "reordered"))-sum(values(all, "mix", "reordered")))
		out = append(out, f, lost, re, total("UDP at 50 us: duplicated", values(all, "udp", "duplicated"),
			atMost(0)))
	}
	if n := values(all, "mix", "switches"); len(n) > 0 {
		lost := total("TCP, rr, UDP, ICMP at once: connections lost", values(all, "mix", "connections_lost"),
			atMost(0))
		lost.Note = fmt.Sprintf("%.0f switches, %s by TCP, %.0f operations", sum(n),
			Quantity(sum(values(all, "mix", "bytes")), "B"), sum(values(all, "mix", "operations")))
		out = append(out, lost, total("... corrupt connections", values(all, "mix", "corrupt"), atMost(0)),
			total("... UDP lost", values(all, "mix", "lost"), atMost(0)),
			total("... ICMP lost", values(all, "mix", "icmp_lost"), atMost(0)))
	}
	return out
}
