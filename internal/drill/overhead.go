package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/cost"
	"pathwise.dev/pathwise/internal/path/telemetry"
	"pathwise.dev/pathwise/internal/stream"
	"pathwise.dev/pathwise/internal/topo"
)

func overheadKind() kind {
	return kind{
		name: "overhead", about: "a steered path against the same path used natively, and programs attached against none, in pairs",
		defaults: Options{Repetitions: 30, For: time.Second}, keys: []string{"for", "encapsulate"},
		length: func(o Options, f File) time.Duration {
			return time.Duration(2*len(ways(f.Networks, o.Encapsulate))) * (o.For + 800*time.Millisecond)
		},
		run: runOverhead, figures: overheadFigures,
	}
}

// way is a pair of ways to send that is compared.
type way struct {
	kind    stream.Kind
	network string
	// with and without are the two ways' names; to is the pod that is talked to.
	with, without, to string
}

func (w way) variant(with bool) string {
	if with {
		return string(w.kind) + " " + w.network + " " + w.with
	}
	return string(w.kind) + " " + w.network + " " + w.without
}

// The ways: steered against the path's own addresses; on the default network
// with a peer that is known, and with a pod that is not, against no programs. Or
// encapsulated against the path's own addresses.
func ways(networks []string, encapsulate bool) (out []way) {
	for _, kind := range []stream.Kind{stream.TCP, stream.RR} {
		if encapsulate {
			for _, n := range networks[1:] {
				out = append(out, way{kind, n, "encapsulated", "native", "b"})
			}
			continue
		}
		out = append(out, way{kind, networks[0], "attached", "native", "b"}, way{kind, networks[0], "bystander", "alone", "d"})
		for _, n := range networks[1:] {
			out = append(out, way{kind, n, "steered", "native", "b"})
		}
	}
	return out
}

func runOverhead(ctx context.Context, s *session) ([]Sample, error) {
	g, err := s.ground(ctx, s.pair("overhead"))
	if err != nil {
		return nil, err
	}
	// All packets on the default network of one size, with programs and without.
	a := g.pod("a")
	for _, other := range []topo.Pod{g.pod("b"), g.pod("d")} {
		if err := (&planes{a: a, b: other, routes: g.routes(a, other)}).fit(); err != nil {
			return nil, err
		}
	}
	var out []Sample
	all := ways(g.nets, s.options().Encapsulate)
	for _, i := range s.order(len(all)) {
		// The two halves of a pair stand beside each other, in random order.
		first := s.rand.IntN(2) == 0
		for _, with := range []bool{first, !first} {
			one, err := s.try(ctx, all[i].variant(with), func(out *Sample) error { return g.compare(ctx, out, all[i], with) })
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}

func (g *ground) compare(ctx context.Context, out *Sample, w way, with bool) (failed error) {
	a, other := g.pod("a"), g.pod(w.to)
	t := traffic{kind: w.kind, from: a, to: other, args: []string{"--duration", "0"}}
	if with {
		p, err := g.steerer(a, g.pod("b"))
		if err == nil {
			err = p.move(p.index(w.network))
		}
		if err == nil && w.with == "encapsulated" {
			err = p.fit(w.network)
		}
		if err == nil && w.with == "steered" {
			err = p.straighten(w.network)
		}
		if err != nil {
			return err
		}
		defer func() { _ = g.drop() }() // what is left goes with the lab
		deaf, err := g.hear(a, g.pod("b"))
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, deaf()) }()
	} else if at, ok := other.On(w.network); ok {
		t.at = at.Addr
	}
	// Where the kernel places the ends of a stream, on one CPU or on two, makes more of
	// a difference than what is looked for.
	t.pin = lastCPU()
	if w.kind == stream.TCP {
		t.serverPin = nextCPU()
	}
	f, err := g.begin(ctx, t)
	if err != nil {
		return err
	}
	if err := pause(ctx, 250*time.Millisecond); err != nil {
		return errors.Join(err, f.abandon())
	}
	before, err := cost.Read()
	from := monotonic()
	crossed, err2 := g.crossed(a)
	if err := errors.Join(err, err2, pause(ctx, g.s.options().For)); err != nil {
		return errors.Join(err, f.abandon())
	}
	after, err := cost.Read()
	to := monotonic()
	now, err2 := g.crossed(a)
	client, server, err3 := f.end()
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	if at, part := carrier(crossed, now); at != w.network || part < 0.99 {
		return fmt.Errorf("traffic of %s: %w: %.0f %% on %q", w.variant(with), errAstray, part*100, at)
	}
	judge(out, client, server)
	if w.kind == stream.RR {
		out.Values["median_s"], out.Values["p99_s"] = client.Latency.Percentile(50), client.Latency.Percentile(99)
		out.Values["mean_s"] = client.Latency.Mean()
		return nil
	}
	bits := 8 * stream.Throughput(server, from, to) * (to - from).Seconds()
	out.Values["rate"] = bits / (to - from).Seconds()
	out.Values["per_cpu"] = bits / cost.Between(before, after).Busy()
	return nil
}

// hear attaches telemetry to the connections between two pods and reads it, as an
// agent does, until deaf is called.
func (g *ground) hear(a, b topo.Pod) (deaf func() error, err error) {
	cgroup, err := telemetry.CgroupRoot()
	if err != nil {
		return nil, err
	}
	c, err := telemetry.Attach(cgroup, filepath.Join(g.pins, "telemetry"))
	if err != nil {
		return nil, err
	}
	err = c.SetPeers([]netip.Addr{a.Addr(), b.Addr()})
	for _, pod := range []topo.Pod{a, b} {
		_, err2 := c.Watch(pod.Netns)
		err = errors.Join(err, err2)
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		every := time.NewTicker(100 * time.Millisecond)
		defer every.Stop()
		var first error
		for {
			select {
			case <-every.C:
				if _, err := c.Read(); first == nil {
					first = err
				}
			case <-stop:
				stopped <- first
				return
			}
		}
	}()
	return func() error {
		close(stop)
		return errors.Join(<-stopped, c.Remove())
	}, nil
}

var errAstray = errors.New("it went another way")

func overheadFigures(o Options, all []Sample) []Figure {
	var networks []string // in the order of the file: not known here, so by name, the default first
	for _, s := range all {
		f := strings.Fields(s.Variant)
		if len(f) == 3 && !slices.Contains(networks, f[1]) {
			if f[2] == "bystander" {
				networks = append([]string{f[1]}, networks...)
			} else if f[2] == "steered" || f[2] == "encapsulated" {
				networks = append(networks, f[1])
			}
		}
	}
	if len(networks) == 0 {
		return nil
	}
	if o.Encapsulate {
		networks = append([]string{""}, networks...) // the default network is not among them
	}
	slices.Sort(networks[1:])
	var out []Figure
	for _, w := range ways(networks, o.Encapsulate) {
		if w.kind == stream.TCP {
			out = append(out, w.streams(all)...)
		} else {
			out = append(out, w.trips(all)...)
		}
	}
	return out
}

func (w way) title(what string) string {
	return fmt.Sprintf("%s, %s %s / %s", what, w.network, w.with, w.without)
}

func (w way) streams(all []Sample) []Figure {
	bar := map[string]*Bar{"steered": atLeast(0.95), "attached": atLeast(0.99), "bystander": atLeast(0.99)}[w.with]
	rate := figure(w.title("TCP throughput"), "ratio", ratios(all, w.variant(true), w.variant(false), "rate"), median, bar)
	rate.Note = w.without + ": " + Quantity(figure("", "", values(all, w.variant(false), "rate"), median, nil).Value, "bit/s")
	return []Figure{rate, figure(w.title("bits per CPU-second"), "ratio", ratios(all, w.variant(true), w.variant(false), "per_cpu"), median, bar)}
}

func (w way) trips(all []Sample) []Figure {
	note := w.without + ": " + seconds(figure("", "", values(all, w.variant(false), "median_s"), median, nil).Value)
	if bar, pair := map[string]*Bar{"steered": atMost(1e-6), "encapsulated": nil}[w.with]; pair {
		f := figure(strings.Replace(w.title("rr round trip on one core"), "/", "-", 1), "s", differences(all, w.variant(true), w.variant(false), "median_s"), median, bar)
		f.Note = note
		return []Figure{f}
	}
	f := figure(w.title("rr round trip on one core"), "ratio", ratios(all, w.variant(true), w.variant(false), "median_s"), median, atMost(1.01))
	f.Note = note
	return []Figure{f}
}
