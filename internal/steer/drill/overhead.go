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

	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/figure"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/steer/telemetry"
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
		out = append(out, way{kind, networks[0], "attached", "native", "b"},
			way{kind, networks[0], "bystander", "alone", "d"})
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
		// The two halves of a pair stand next to each other, in random order.
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

// compare measures one half of a pair.
func (g *ground) compare(ctx context.Context, out *Sample, w way, with bool) (failed error) {
	a, other := g.pod("a"), g.pod(w.to)
	t := traffic{kind: w.kind, from: a, to: other, args: []string{"--duration", "0"}}
	if with {
		strip, err := g.equip(w)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, strip()) }()
	} else if at, ok := other.On(w.network); ok {
		t.at = at.Addr
	}
	// Where the kernel places the ends of a stream, on one CPU or on two, makes more of
	// a difference than what is looked for.
	t.pin = lastCPU()
	if w.kind == stream.TCP {
		t.serverPin = nextCPU()
	}
	m, err := g.watched(ctx, t)
	if err != nil {
		return err
	}
	if m.at != w.network || m.part < 0.99 {
		return fmt.Errorf("traffic of %s: %w: %.0f %% on %q", w.variant(with), errElsewhere, m.part*100, m.at)
	}
	judge(out, m.client, m.server)
	if w.kind == stream.RR {
		out.Values["median_s"], out.Values["p99_s"] = m.client.Latency.Percentile(50), m.client.Latency.Percentile(99)
		out.Values["mean_s"] = m.client.Latency.Mean()
		return nil
	}
	span := (m.to - m.from).Seconds()
	bits := 8 * stream.Throughput(m.server, m.from, m.to) * span
	out.Values["rate"] = bits / span
	out.Values["per_cpu"] = bits / m.busy
	return nil
}

// equip attaches to pods a and b what agents would for this way, and has flows go it.
func (g *ground) equip(w way) (strip func() error, err error) {
	a, b := g.pod("a"), g.pod("b")
	p, err := g.steerer(a, b)
	if err == nil {
		err = p.move(p.index(w.network))
	}
	if err != nil {
		return nil, err
	}
	switch w.with {
	case "encapsulated":
		err = p.fit(w.network)
	case "steered":
		err = p.routeDirectly(w.network)
	}
	if err != nil {
		return nil, err
	}
	detach, err := g.listen(a, b)
	if err != nil {
		_ = g.drop()
		return nil, err
	}
	return func() error {
		err := detach()
		_ = g.drop() // what is left goes with the lab
		return err
	}, nil
}

// watching is what was seen of traffic from a time to another.
type watching struct {
	from, to       time.Duration
	busy           float64 // CPU-seconds of the machine
	at             string  // the network that carried most, and how much of all
	part           float64
	client, server stream.Report
}

// watched has traffic run until it is steady, and watches it for as long as the drill says.
func (g *ground) watched(ctx context.Context, t traffic) (m watching, err error) {
	f, err := g.begin(ctx, t)
	if err != nil {
		return m, err
	}
	if err := pause(ctx, 250*time.Millisecond); err != nil {
		return m, errors.Join(err, f.abandon())
	}
	before, err := cost.Read()
	m.from = program.Kernel()
	crossed, crossedErr := sentOn(t.from)
	if err := errors.Join(err, crossedErr, pause(ctx, g.s.options().For)); err != nil {
		return m, errors.Join(err, f.abandon())
	}
	after, err := cost.Read()
	m.to = program.Kernel()
	now, nowErr := sentOn(t.from)
	var endErr error
	m.client, m.server, endErr = f.end()
	if err := errors.Join(err, nowErr, endErr); err != nil {
		return m, err
	}
	m.busy = cost.Between(before, after).Busy()
	m.at, m.part = carrier(crossed, now)
	return m, nil
}

// listen attaches telemetry to the connections between two pods and reads it, as an
// agent does, until detach is called.
func (g *ground) listen(a, b topo.Pod) (detach func() error, err error) {
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
		_, watchErr := c.Watch(pod.Netns)
		err = errors.Join(err, watchErr)
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

var errElsewhere = errors.New("it went another way")

func overheadFigures(o Options, all []Sample) []Figure {
	// Not known here are the file's: so the default one first, of which nothing is
	// encapsulated, and the others by name.
	networks := []string{""}
	for _, s := range all {
		f := strings.Fields(s.Variant)
		switch {
		case len(f) != 3 || slices.Contains(networks, f[1]):
		case f[2] == "bystander":
			networks[0] = f[1]
		case f[2] == "steered" || f[2] == "encapsulated":
			networks = append(networks, f[1])
		}
	}
	if len(networks) == 1 && networks[0] == "" {
		return nil
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
	bar := map[string]*figure.Bar{"steered": atLeast(0.95), "attached": atLeast(0.99), "bystander": atLeast(0.99)}[w.with]
	rate := summary(w.title("TCP throughput"), "ratio", ratios(all, w.variant(true), w.variant(false), "rate"),
		median, bar)
	rate.Note = w.without + ": " + Quantity(summary("", "", values(all, w.variant(false), "rate"), median, nil).Value,
		"bit/s")
	return []Figure{rate,
		summary(w.title("bits per CPU-second"), "ratio", ratios(all, w.variant(true), w.variant(false), "per_cpu"),
			median, bar)}
}

func (w way) trips(all []Sample) []Figure {
	note := w.without + ": " + seconds(summary("", "", values(all, w.variant(false), "median_s"), median, nil).Value)
	if w.with == "steered" || w.with == "encapsulated" {
		var bar *figure.Bar
		if w.with == "steered" {
			bar = atMost(1e-6)
		}
		f := summary(strings.Replace(w.title("rr round trip on one core"), "/", "-", 1), "s",
			differences(all, w.variant(true), w.variant(false), "median_s"), median, bar)
		f.Note = note
		return []Figure{f}
	}
	f := summary(w.title("rr round trip on one core"), "ratio", ratios(all, w.variant(true), w.variant(false), "median_s"),
		median, atMost(1.01))
	f.Note = note
	return []Figure{f}
}
