package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

func peersKind() kind {
	return kind{
		name: "peers", about: "what a packet costs with 1 to 1,000 peers entered, and what an agent costs with many peer hosts active",
		defaults: Options{Repetitions: 10, Peers: []int{1, 10, 100, 1000}, For: time.Second, Hosts: 51},
		keys:     []string{"peers", "for", "hosts"},
		length: func(o Options, _ File) time.Duration {
			return time.Duration(len(o.Peers)) * (o.For + time.Second) * 3 / 2
		},
		run: runPeers, figures: peersFigures,
	}
}

// runPeers measures the data plane in each repetition, and after that, in the last
// one, the agent of a large lab. The two labs do not stand at the same time: what
// many hosts need of the machine, such as room in its table of neighbours, the
// round trips must not wait for.
func runPeers(ctx context.Context, s *session) ([]Sample, error) {
	out, err := s.acquaintances(ctx)
	if err != nil || s.repetition < s.options().Repetitions || s.options().Hosts < 2 {
		return out, err
	}
	if err := s.close(ctx); err != nil {
		return nil, err
	}
	one, err := s.try(ctx, "agent", func(out *Sample) error { return s.crowd(ctx, out) })
	return append(out, one), err
}

// acquaintances measures round trips by the number of peers entered.
func (s *session) acquaintances(ctx context.Context) ([]Sample, error) {
	var out []Sample
	g, err := s.ground(ctx, s.pair("peers"))
	if err != nil {
		return nil, err
	}
	if g.planes == nil {
		p, err := g.steerer(g.pod("a"), g.pod("b"))
		if err == nil {
			err = errors.Join(p.fit(), p.move(1))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, i := range s.order(len(s.options().Peers)) {
		n := s.options().Peers[i]
		one, err := s.try(ctx, strconv.Itoa(n), func(out *Sample) error { return g.acquainted(ctx, out, n) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// acquainted measures round trips with n peers entered, the one that talks and
// others that nobody is.
func (g *ground) acquainted(ctx context.Context, out *Sample, n int) error {
	p := g.planes.from
	begin := time.Now()
	for i := 1; i < n; i++ {
		if err := p.SetPeer(nobody(g.planes.a, i)); err != nil {
			return fmt.Errorf("enter peer %d: %w", i, err)
		}
	}
	if n > 1 {
		out.Values["enter_s"] = time.Since(begin).Seconds() / float64(n-1)
	}
	defer func() {
		for i := 1; i < n; i++ {
			_ = p.RemovePeer(fmt.Sprintf("nobody-%d", i)) // what is left goes with the lab
		}
	}()
	if have := len(p.Peers()); have != n {
		return fmt.Errorf("%d peers entered: %w: %d", n, errNotYet, have)
	}
	f, err := g.begin(ctx, traffic{kind: stream.RR, from: g.planes.a, to: g.planes.b, pin: lastCPU(),
		args: []string{"--duration", "0"}})
	if err != nil {
		return err
	}
	err = pause(ctx, g.s.options().For+200*time.Millisecond)
	client, server, endErr := f.end()
	if err := errors.Join(err, endErr); err != nil {
		return err
	}
	out.Values["median_s"], out.Values["p99_s"] = client.Latency.Percentile(50), client.Latency.Percentile(99)
	judge(out, client, server)
	return nil
}

// nobody is a peer that is no pod, on all of the pod's networks.
func nobody(a topo.Pod, i int) dataplane.Peer {
	at := func(net int) netip.Addr { return netip.AddrFrom4([4]byte{100, byte(64 + net), byte(i >> 8), byte(i)}) }
	out := dataplane.Peer{UID: fmt.Sprintf("nobody-%d", i), Pairs: []dataplane.Pair{{Local: a.Addr(), Remote: at(0)}}}
	for n, x := range a.Attachments[1:] {
		out.Paths = append(out.Paths,
			dataplane.Path{Index: n + 1, Dev: x.Dev, MTU: x.MTU, Pairs: []dataplane.Pair{{Local: x.Addr, Remote: at(n + 1)}}})
	}
	return out
}

// crowd builds a lab of many hosts with a real agent on each, lets the pod on
// the first one talk to those on all the others, and measures its agent.
func (s *session) crowd(ctx context.Context, out *Sample) error {
	o := s.options()
	p := plan{name: "crowd", networks: s.File.Networks, hosts: o.Hosts, agents: true}
	for h := 1; h <= o.Hosts; h++ {
		p.pods = append(p.pods, lab.PodSpec{Name: fmt.Sprintf("p%d", h), Host: h})
	}
	begin := time.Now()
	g, err := s.ground(ctx, p)
	if err != nil {
		return err
	}
	defer func() {
		_ = g.close(context.WithoutCancel(ctx)) // the run's end finds what is left
		delete(s.grounds, p.name)
	}()
	out.Values["built_s"] = time.Since(begin).Seconds()
	for _, h := range g.lab.Hosts() {
		if _, err := g.startAgent(ctx, h.Name); err != nil {
			return err
		}
	}
	talk, err := g.chat(ctx, 100*time.Millisecond)
	if err != nil {
		return err
	}
	defer func() { _ = talk.stop() }()                 // its sockets go with the process
	if err := pause(ctx, 10*time.Second); err != nil { // pairs are opened, first probes are through
		return err
	}
	return g.hubCosts(ctx, out, 20*time.Second)
}

// hubCosts measures the first host's agent, and the others alongside it.
func (g *ground) hubCosts(ctx context.Context, out *Sample, d time.Duration) error {
	read := func() (all []usage, err error) {
		for _, h := range g.lab.Hosts() {
			u, e := usageOf(g.agents[h.Name].cmd.Process.Pid)
			all, err = append(all, u), errors.Join(err, e)
		}
		return all, err
	}
	was, err := g.agents["h1"].client.Health(ctx)
	before, beforeErr := read()
	err = errors.Join(err, beforeErr, pause(ctx, d))
	after, afterErr := read()
	health, healthErr := g.agents["h1"].client.Health(ctx)
	paths, pathsErr := g.agents["h1"].client.Paths(ctx)
	if err := errors.Join(err, afterErr, healthErr, pathsErr); err != nil {
		return err
	}
	for name, c := range health.Senders {
		out.Values["answers_per_s"] += float64(c.Received-was.Senders[name].Received) / d.Seconds()
	}
	for name, c := range health.Reflectors {
		out.Values["reflected_per_s"] += float64(c.Reflected-was.Reflectors[name].Reflected) / d.Seconds()
	}
	share := func(i int) float64 {
		return (after[i].cpu - before[i].cpu).Seconds() / after[i].at.Sub(before[i].at).Seconds()
	}
	out.Values["cpu"], out.Values["rss"] = share(0), after[0].rss
	out.Values["system"] = (after[0].system - before[0].system).Seconds() / after[0].at.Sub(before[0].at).Seconds()
	var others []float64
	for i := 1; i < len(before); i++ {
		others = append(others, share(i))
	}
	slices.Sort(others)
	out.Values["other_cpu"] = median(others)
	active := map[string]bool{}
	for _, p := range paths {
		active[p.Pair] = true
	}
	out.Values["pairs"], out.Values["active"], out.Values["hosts"] = float64(health.Pairs), float64(len(active)),
		float64(len(before))
	out.Values["stalls"] = float64(health.Stalls)
	return nil
}

func peersFigures(o Options, all []Sample) []Figure {
	var out []Figure
	for _, n := range o.Peers[min(1, len(o.Peers)):] {
		f := summary(fmt.Sprintf("rr round trip, %d peers / %d", n, o.Peers[0]), "ratio",
			ratios(all, strconv.Itoa(n), strconv.Itoa(o.Peers[0]), "median_s"), median, nil)
		if n == slices.Max(o.Peers) {
			f.Bar = atMost(1.01)
			f.Note = fmt.Sprintf("with one: %s; to enter a peer takes %s; both ends on one core",
				seconds(summary("", "", values(all, strconv.Itoa(o.Peers[0]), "median_s"), median, nil).Value),
				seconds(summary("", "", values(all, strconv.Itoa(n), "enter_s"), median, nil).Value))
		}
		out = append(out, f)
	}
	if o.Hosts > 1 {
		f := summary("agent's CPU, many peer hosts active", "share", values(all, "agent", "cpu"), median, atMost(0.02))
		of := func(value string) float64 { return sum(values(all, "agent", value)) }
		f.Note = fmt.Sprintf("of one core, %s of it in the kernel; %.0f pairs active over %.0f hosts, a datagram and its echo every 100 ms each; %.0f probes a second sent and %.0f reflected; the other hosts' agents: %s (median)",
			Quantity(of("system"), "share"), of("active"), of("hosts"), of("answers_per_s"), of("reflected_per_s"),
			Quantity(of("other_cpu"), "share"))
		out = append(out, f, summary("... its memory", "B", values(all, "agent", "rss"), median, atMost(64<<20)))
	}
	return out
}
