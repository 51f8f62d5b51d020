package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// playShared plays a course with agents whose bulk may share networks, beginning on the
// default one.
func (s *session) playShared(ctx context.Context, out *Sample, c sharing, by string, all []leg, networks []string,
	_ string) (carried, error) {
	g, err := s.ground(ctx, s.stage("shares-"+c.name, networks))
	if err != nil {
		return carried{}, err
	}
	if err := c.limit(ctx, g, all[0]); err != nil {
		return carried{}, err
	}
	g.stopAgents()
	if err := g.startAgents(ctx, "--share", "on"); err != nil {
		return carried{}, err
	}
	p := programNamed(by)
	opener, other := g.ends(p)
	host := g.hostOf(opener)
	since, err := g.home(ctx, opener, other)
	if err != nil {
		return carried{}, err
	}
	got, err := s.play(ctx, out, g, p, all)
	if err != nil {
		return got, err
	}
	events, err := g.agents[host].events(ctx, since)
	tellPairs(out, "events", events, opener.Name+">"+other.Name)
	return got, err
}

// tellPairs keeps what an agent did about some pairs.
func tellPairs(out *Sample, key string, events []agent.Event, pairs ...string) {
	var lines []string
	for _, e := range events {
		if e.Pair != "" && !slices.Contains(pairs, e.Pair) {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s %s->%s %s", e.At.Format("05.000"), e.Kind, e.From, e.To, e.Reason))
	}
	out.Text[key] = strings.Join(lines, "\n")
}

// playAlone plays a course without agents, all flows on one network.
func (s *session) playAlone(ctx context.Context, out *Sample, c sharing, by string, all []leg, networks []string,
	network string) (carried, error) {
	g, err := s.ground(ctx, s.stage("alone-"+c.name, networks))
	if err != nil {
		return carried{}, err
	}
	if err := g.keepOn(network); err != nil {
		return carried{}, err
	}
	if err := c.limit(ctx, g, all[0]); err != nil {
		return carried{}, err
	}
	got, err := s.play(ctx, out, g, programNamed(by), all)
	if part := out.Values["on "+network]; err == nil && part < 0.95 {
		err = fmt.Errorf("%w: %.0f %% on %s", errElsewhere, part*100, network)
	}
	if most := all[0].rates[network] * boundedBy; err == nil && len(all) == 1 && got.bits > most {
		err = fmt.Errorf("%s: %.4g of %.4g bit/s: %w", network, got.bits, most, errUnbounded)
	}
	return got, err
}

// limit gives networks what the leg has them give: of their own, or all of them one bottleneck.
func (c sharing) limit(ctx context.Context, g *ground, l leg) error {
	if c.beneath {
		return g.bottleneck(ctx, l.rates[g.nets[0]])
	}
	return g.uplink(ctx, l.rates, l.credits)
}

// play has a program carry what it can while the legs go by.
func (s *session) play(ctx context.Context, out *Sample, g *ground, p realProgram, all []leg) (
	got carried, err error,
) {
	o := s.options()
	t, err := p.begin(ctx, g, job{connections: o.Connections, span: o.For})
	if err != nil {
		return got, err
	}
	defer t.stop()
	if err := g.connected(ctx, t.port, o.Connections); err != nil {
		return got, err
	}
	sent, err := sentOn(g.pod("a"))
	segments, again, e := g.segments(ctx)
	if err := errors.Join(err, e); err != nil {
		return got, err
	}
	var f outage
	for i, l := range all {
		begin := program.Kernel()
		if i > 0 {
			err = g.alter(ctx, all[i-1], l)
		}
		if len(l.holes) > 0 {
			f = outage{from: begin, done: program.Kernel(), span: l.span}
		}
		if err := errors.Join(err, pause(ctx, l.span)); err != nil {
			return got, errors.Join(err, g.heal())
		}
	}
	after, err := sentOn(g.pod("a"))
	segmentsAfter, againAfter, e := g.segments(ctx)
	bits, report, endErr := t.end()
	if err := errors.Join(err, e, endErr, g.heal()); err != nil {
		return got, err
	}
	got = carried{bits: bits, again: float64(againAfter-again) / max(float64(segmentsAfter-segments), 1)}
	out.Values["bits"], out.Values["sent_again"] = got.bits, float64(againAfter-again)
	tellNetworks(out, sent, after)
	if report != nil {
		judge(out, *report)
		if strings.HasSuffix(out.Variant, sharedVariant) {
			f.tell(out, *report)
		}
		return got, s.keep(out, "server", *report)
	}
	return got, nil
}

// outage is when a network fails: its rules were changed between from and done.
type outage struct{ from, done, span time.Duration }

// drains is how long after a network has failed the last bytes may come that were on their way, in its queue.
const drains = 50 * time.Millisecond

// tell keeps the longest gap of a connection that the failure began, that of the whole time of it, and that of as long
// before: on the network that is left, and full, there are others.
func (f outage) tell(out *Sample, r stream.Report) {
	if f.span == 0 {
		return
	}
	for key, between := range map[string][2]time.Duration{"gap_s": {f.from, f.done + drains},
		"gap_outage_s": {f.from, f.done + f.span}, "gap_before_s": {f.from - f.span, f.from}} {
		if gap, ok := stream.Stall(r, between[0], between[1]); ok {
			out.Values[key] = gap.Length().Seconds()
		}
	}
}

// tellNetworks says what part of the sender's bytes went out on each network.
func tellNetworks(out *Sample, before, after map[string]uint64) {
	all := 0.0
	for network, n := range after {
		all += float64(n - before[network])
	}
	for network, n := range after {
		out.Values["on "+network] = float64(n-before[network]) / max(all, 1)
	}
}

// segments are those that pod a's TCP has sent, and sent again (proc(5), net/snmp).
func (g *ground) segments(ctx context.Context) (sent, again int, err error) {
	out, err := g.lab.Run(ctx, g.pod("a").Netns, "cat", "/proc/net/snmp")
	if err != nil {
		return 0, 0, err
	}
	sent, err = counter(string(out), "Tcp:", "OutSegs")
	again, more := counter(string(out), "Tcp:", "RetransSegs")
	return sent, again, errors.Join(err, more)
}
