package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// Bars of the stall by a black hole, in seconds.
const (
	stallMedian = 0.060
	stallP99    = 0.250
)

// faultMPTCP is a black hole of one of two subflows of MPTCP (RFC 8684), with no agent.
const faultMPTCP = "mptcp"

func blackholeKind() kind {
	return kind{
		name: "blackhole", about: "the active path goes silent, both ways or one, on a whole host or one pod: the longest gap that the application feels; MPTCP next to it",
		defaults: Options{Repetitions: 30, Hold: 2 * time.Second, Traffic: []string{"tcp", "rr"},
			Faults: []string{"both", "in", "out", "pod", "pod-in", "pod-out", faultMPTCP}},
		keys: []string{"hold", "traffic", "faults"},
		length: func(o Options, _ File) time.Duration {
			return time.Duration(len(o.Traffic)*len(o.Faults)) * (o.Hold + 3500*time.Millisecond)
		},
		run: runBlackhole, figures: blackholeFigures,
	}
}

func runBlackhole(ctx context.Context, s *session) ([]Sample, error) {
	o := s.options()
	var out []Sample
	for _, i := range s.order(len(o.Traffic) * len(o.Faults)) {
		kind, how := stream.Kind(o.Traffic[i/len(o.Faults)]), o.Faults[i%len(o.Faults)]
		one, err := s.try(ctx, string(kind)+" "+how, func(out *Sample) error {
			if how == faultMPTCP {
				return s.twoSubflows(ctx, out, kind)
			}
			return s.hole(ctx, out, kind, how)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// aim is the network that a fault is of, each of these in turn, and where the fault is made: all is well, and it is
// prepared there.
func (s *session) aim(ctx context.Context, g *ground, nets []string, how string) (network, where string, err error) {
	network, where = nets[s.repetition%len(nets)], "h1"
	if ofPod(how) {
		where = "a"
	}
	return network, where, errors.Join(g.healthy(ctx), g.prepare(where, network))
}

// moment has a host's agent keep a pair's traffic on a network, which takes long where the agents have not agreed on it
// yet, and lets it be there for some time. It ends at a moment at random.
func (s *session) moment(ctx context.Context, g *ground, host string, o agent.Order) error {
	random := time.Duration(s.rand.Int64N(int64(200 * time.Millisecond)))
	if err := g.pin(ctx, host, o, 5*time.Second); err != nil {
		return err
	}
	return pause(ctx, 400*time.Millisecond+random)
}

// hole breaks the path that the agents have the traffic on.
func (s *session) hole(ctx context.Context, out *Sample, kind stream.Kind, how string) error {
	g, err := s.ground(ctx, s.pair("steered"))
	if err != nil {
		return err
	}
	// Pinned, so that it is the one.
	network, where, err := s.aim(ctx, g, g.nets, how)
	if err != nil {
		return err
	}
	f, err := g.begin(ctx, traffic{kind: kind, from: g.pod("a"), to: g.pod("b"),
		at: g.pod("b").Address(s.File.Family), args: []string{"--duration", "0"}})
	if err != nil {
		return err
	}
	err = s.moment(ctx, g, "h1", agent.Order{Local: "a", Remote: "b", Network: network})
	since, sinceErr := g.agents["h1"].lastEvent(ctx)
	if err := errors.Join(err, sinceErr, ctx.Err()); err != nil {
		return errors.Join(err, f.abandon())
	}
	healed, err := g.breakNetwork(ctx, out, f, where, network, how)
	if err != nil {
		return err
	}
	events, err := g.agents["h1"].events(ctx, since)
	out.found(events, s.pairOf("a>b"), network)
	out.usable(events, network, healed)
	if ofPair(how) || err != nil {
		// What a pair has found out about its path it believes for a while: begin again.
		g.stopAgents()
	}
	return err
}

// pairOf is how agents call the pair of the traffic, as the lab's pods have both families.
func (s *session) pairOf(name string) string {
	if s.File.Family == topo.IPv6 {
		return agent.InIPv6(name)
	}
	return name
}

// ofPod reports whether a fault is of one pod's port, not of its whole host.
func ofPod(how string) bool { return strings.HasPrefix(how, "pod") }

// ofPair reports whether a fault is found by a pair alone, which keeps it in mind for a while.
func ofPair(how string) bool { return ofPod(how) || how == faultTCP || how == faultLarge }

// breakNetwork breaks a network for the time of the drill, and says how long the
// application waited, and when the fault was over.
func (g *ground) breakNetwork(ctx context.Context, out *Sample, f *flow, where, network, how string) (
	healed time.Time, err error,
) {
	before, err := sentOn(g.pod("a"))
	err = errors.Join(err, pause(ctx, 100*time.Millisecond))
	after, afterErr := sentOn(g.pod("a"))
	if err := errors.Join(err, afterErr); err != nil {
		return healed, errors.Join(err, f.abandon())
	}
	at, part := carrier(before, after)
	if network == "" {
		network = at
	}
	out.Text["network"] = network
	if at != network || at == "" {
		err := fmt.Errorf("before the fault: %w: %.0f %% on %q, expected %q", errElsewhere, part*100, at, network)
		return healed, errors.Join(err, f.abandon())
	}
	from := program.Kernel()
	err = g.impair(where, network, fault(how))
	out.Values["struck_s"] = (program.Kernel() - from).Seconds()
	err = errors.Join(err, pause(ctx, g.s.options().Hold))
	to := program.Kernel()
	err = errors.Join(err, g.heal())
	healed = g.s.Now()
	if err == nil && len(g.agents) > 0 && !ofPair(how) {
		// Traffic goes on until all is well: without it the agents look less often.
		err = g.healthy(ctx)
	}
	client, server, endErr := f.end()
	if err := errors.Join(err, endErr); err != nil {
		return healed, err
	}
	feels := client
	if f.kind == stream.TCP {
		feels = server
	}
	gap, found := stream.Stall(feels, from, to)
	stall := feels.Gaps.Floor
	if found {
		stall = gap.Length()
	}
	out.Values["stall_s"], out.Values["fault_s"] = stall.Seconds(), from.Seconds()
	if stream.Throughput(feels, to-300*time.Millisecond, to) == 0 {
		out.Values["stall_s"] = max((to - from).Seconds(), stall.Seconds())
		out.Text["stalled"] = "not over when the fault ended"
	}
	judge(out, client, server)
	return healed, errors.Join(g.s.keep(out, "client", client), g.s.keep(out, "server", server))
}

// healthy waits until both agents run and hold every path for usable.
func (g *ground) healthy(ctx context.Context) error {
	for _, h := range g.lab.Hosts() {
		if g.agents[h.Name] == nil {
			if _, err := g.startAgent(ctx, h.Name); err != nil {
				return err
			}
			if err := pause(ctx, 1200*time.Millisecond); err != nil { // a few probes
				return err
			}
		}
	}
	return until(ctx, 15*time.Second, 100*time.Millisecond, "all paths are up", func() (bool, error) {
		for _, a := range g.agents {
			paths, err := a.client.Paths(ctx)
			if err != nil {
				return false, err
			}
			for _, p := range paths {
				if p.State != "up" && !strings.Contains(p.Why, "confirmed") {
					return false, fmt.Errorf("%s on %s: %s: %w (%s)", p.Pair, p.Network, p.State, errUnwell, p.Why)
				}
			}
		}
		return true, nil
	})
}

var errUnwell = errors.New("it is not up")

// twoSubflows does the same to an MPTCP connection with a subflow on each of two
// networks, without agents.
func (s *session) twoSubflows(ctx context.Context, out *Sample, kind stream.Kind) error {
	p := s.pair("mptcp")
	p.agents, p.pods, p.networks = false, p.pods[:2], p.networks[:2]
	fresh := s.grounds[p.name] == nil
	g, err := s.ground(ctx, p)
	if err != nil {
		return err
	}
	a, b := g.pod("a"), g.pod("b")
	if fresh {
		if err := g.endpoints(ctx, a, b); err != nil {
			return err
		}
	}
	if err := errors.Join(g.prepare("h1", g.nets[0]), g.prepare("h1", g.nets[1])); err != nil {
		return err
	}
	// About one MPTCP connection of four carries nothing for a second, without a
	// fault (6.18): the receiver has all that was sent in order, but the sender
	// never received the last data-level acknowledgments, and its window is full
	// until MPTCP's own timer retransmits. They are counted, and another is tried.
	for try := 0; ; try++ {
		f, err := g.subflowed(ctx, kind, a, b)
		if err == nil {
			_, err = g.breakNetwork(ctx, out, f, "h1", "", "both") // the subflow that carries more
		}
		idle := errors.Is(err, errNoSubflow) || errors.Is(err, errElsewhere)
		if !idle || try == 11 {
			return err
		}
		out.Values["never_began"]++
	}
}

// subflowed begins an MPTCP flow and waits until it carries data on two subflows.
func (g *ground) subflowed(ctx context.Context, kind stream.Kind, a, b topo.Pod) (*flow, error) {
	f, err := g.begin(ctx, traffic{kind: kind, from: a, to: b, mptcp: true, args: []string{"--duration", "0"}})
	if err != nil {
		return nil, err
	}
	err = pause(ctx, 800*time.Millisecond+time.Duration(g.s.rand.Int64N(int64(200*time.Millisecond))))
	before, beforeErr := sentOn(a)
	subflows, subflowsErr := g.subflows(ctx, a)
	err = errors.Join(err, beforeErr, subflowsErr, pause(ctx, 100*time.Millisecond))
	after, afterErr := sentOn(a)
	if err := errors.Join(err, afterErr); err != nil {
		return nil, errors.Join(err, f.abandon())
	}
	if at, _ := carrier(before, after); subflows < 2 || at == "" {
		return nil, errors.Join(fmt.Errorf("%w: %d subflows, most on %q", errNoSubflow, subflows, at), f.abandon())
	}
	return f, nil
}

var errNoSubflow = errors.New("MPTCP carries nothing over two subflows")

// endpoints tells both ends of their second address (ip-mptcp(8)).
func (g *ground) endpoints(ctx context.Context, a, b topo.Pod) error {
	for _, pod := range []topo.Pod{a, b} {
		at := pod.Attachments[1]
		flag := "subflow"
		if pod.Name == b.Name {
			flag = "signal"
		}
		if err := netns.Do(pod.Netns, enableMPTCP); err != nil {
			return err
		}
		for _, argv := range [][]string{
			{"ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2"},
			{"ip", "mptcp", "endpoint", "add", at.Addr.String(), "dev", at.Dev, flag},
		} {
			if _, err := g.lab.Run(ctx, pod.Netns, argv...); err != nil {
				return err
			}
		}
	}
	return nil
}

// subflows counts the established TCP connections of the pod to the ports of drills.
func (g *ground) subflows(ctx context.Context, pod topo.Pod) (int, error) {
	out, err := g.lab.Run(ctx, pod.Netns, "ss", "-Htn", "state", "established")
	return strings.Count(strings.TrimSpace(string(out)), "\n") + 1, err
}

func blackholeFigures(o Options, all []Sample) []Figure {
	var out []Figure
	for _, kind := range o.Traffic {
		for _, how := range o.Faults {
			v := kind + " " + how
			stalls := values(all, v, "stall_s")
			if len(stalls) == 0 {
				continue
			}
			if how == faultMPTCP {
				f := summary(v+": stall, median", "s", stalls, median, nil)
				f.Note = fmt.Sprintf("two subflows, both ways; %.0f more connections carried nothing before the fault",
					sum(values(all, v, "never_began")))
				out = append(out, f, summary("... 99th percentile", "s", stalls, p99, nil))
				continue
			}
			name := map[string]string{"both": "both ways", "in": "inwards only", "out": "outwards only", "pod": "one pod's port",
				"pod-in": "one pod's port, inwards only", "pod-out": "one pod's port, outwards only", faultTCP: "TCP alone",
				faultLarge: "packets above 1000 bytes"}[how]
			f := summary(kind+", "+name+": stall, median", "s", stalls, median, atMost(stallMedian))
			f.Note = detection(all, v)
			switch {
			case ofPod(how):
				f.Note += "; the hosts' probes pass, so the pair's own echoes tell"
			case ofPair(how):
				f.Note += "; probes and echoes pass, so the connections themselves tell"
			}
			out = append(out, f, summary("... 99th percentile", "s", stalls, p99, atMost(stallP99)))
			if again := values(all, v, "again_s"); len(again) > 0 {
				out = append(out, summary("... the network usable again, after the fault, median", "s", again, median, nil))
			}
		}
	}
	return append(out, total("connections lost, steered", steeredOnly(all, "connections_lost"), atMost(0)))
}

func steeredOnly(all []Sample, key string) []float64 {
	var out []float64
	for _, s := range all {
		if v, ok := s.Values[key]; ok && !strings.HasSuffix(s.Variant, "mptcp") {
			out = append(out, v)
		}
	}
	return out
}

// enableMPTCP enables it in the namespace of the calling thread.
func enableMPTCP() error { return writeSysctl("net/mptcp/enabled", "1") }
