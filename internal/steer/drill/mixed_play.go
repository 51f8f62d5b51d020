package drill

import (
	"context"
	"errors"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/lab/sockdiag"
)

// mixedRun is a repetition under way.
type mixedRun struct {
	*session
	disagreement
	mixedResult
}

func runMixed(ctx context.Context, s *session) (out []Sample, err error) {
	o, networks := s.options(), s.File.Networks
	r := &mixedRun{session: s, disagreement: disagree(s.rand, networks, o.Capacity),
		mixedResult: mixedResult{map[string]map[string]mixedPart{}, map[mix]mixedPart{}, map[mix]mixedPart{}}}
	type variant struct {
		name string
		play func(context.Context, *Sample) error
	}
	var variants []variant
	for _, p := range o.Programs {
		r.alone[p] = map[string]mixedPart{}
		for _, n := range networks {
			variants = append(variants, variant{p + " alone on " + n,
				func(ctx context.Context, out *Sample) error { return r.aloneOn(ctx, out, p, n) }})
		}
	}
	for _, m := range mixes(o) {
		variants = append(variants,
			variant{m.String() + " steered",
				func(ctx context.Context, out *Sample) error { return r.withAgents(ctx, out, m) }})
	}
	for _, i := range s.order(len(variants)) {
		one, err := s.try(ctx, variants[i].name, func(out *Sample) error { return variants[i].play(ctx, out) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	// By now it is known which network is best for whom.
	for _, m := range mixes(o) {
		one, err := s.try(ctx, m.String()+" kept apart", func(out *Sample) error { return r.keptApart(ctx, out, m) })
		if err != nil {
			return nil, err
		}
		verdict, err := s.try(ctx, m.String()+" verdict", func(out *Sample) error { return r.judge(out, m, len(networks)) })
		if err != nil {
			return nil, err
		}
		out = append(out, one, verdict)
	}
	return out, nil
}

// aloneOn has a program run on one network, without agents and with nothing next to it.
func (r *mixedRun) aloneOn(ctx context.Context, out *Sample, p, network string) error {
	g, err := r.keptOn(ctx, network)
	if err != nil {
		return err
	}
	m := mix{bulk: p}
	if programNamed(p).asks {
		m = mix{asks: p}
	}
	one, err := r.playMix(ctx, out, g, m, over{})
	if err == nil {
		r.alone[p][network] = one
	}
	return err
}

// keptOn is the ground without agents, with all flows between the pods' own addresses on one network.
func (r *mixedRun) keptOn(ctx context.Context, network string) (*ground, error) {
	g, err := r.ground(ctx, r.stage("kept-mixed", r.File.Networks))
	if err != nil {
		return nil, err
	}
	return g, errors.Join(g.keepOn(network), g.impose(ctx, r.disagreement))
}

// withAgents has both run with agents, beginning on the default network.
func (r *mixedRun) withAgents(ctx context.Context, out *Sample, m mix) error {
	g, err := r.ground(ctx, r.stage("mixed", r.File.Networks))
	if err != nil {
		return err
	}
	if err := g.impose(ctx, r.disagreement); err != nil {
		return err
	}
	g.stopAgents()
	if err := g.startAgents(ctx); err != nil {
		return err
	}
	var pairs []string
	since := map[string]int{}
	for _, name := range []string{m.bulk, m.asks} {
		opener, other := g.ends(programNamed(name))
		if since[g.hostOf(opener)], err = g.home(ctx, opener, other); err != nil {
			return err
		}
		pairs = append(pairs, opener.Name+">"+other.Name)
	}
	one, err := r.playMix(ctx, out, g, m, over{})
	if err != nil {
		return err
	}
	r.byAgents[m] = one
	for host, after := range since {
		events, err := g.agents[host].events(ctx, after)
		if err != nil {
			return err
		}
		tellPairs(out, "events of "+host, events, pairs...)
	}
	return nil
}

// keptApart has both run without agents, each by the own addresses of the network that was best for it
// alone: what the machine leaves of that where both run at once.
func (r *mixedRun) keptApart(ctx context.Context, out *Sample, m mix) error {
	_, wide := r.mostBits(m.bulk)
	_, quick := r.least(m.asks, func(w waits) float64 { return w.p50 })
	if wide == "" || quick == "" {
		return errIncomplete
	}
	g, err := r.keptOn(ctx, r.File.Networks[0]) // whose own addresses are the stable ones
	if err != nil {
		return err
	}
	one, err := r.playMix(ctx, out, g, m, over{wide, quick})
	if err == nil {
		r.byHand[m] = one
	}
	return err
}

// over names networks whose own addresses programs serve at; "" are the pods' stable ones.
type over struct{ bulk, asks string }

// playMix runs what the mix has of the two until flows have settled, and counts after that. What waits
// for answers is run twice, for the time before and for the one that counts.
func (r *mixedRun) playMix(ctx context.Context, out *Sample, g *ground, m mix, by over) (one mixedPart, err error) {
	o := r.options()
	var bulk *transfer
	if m.bulk != "" {
		const spare = 10 * time.Second // for the start of the other one; it is stopped
		bulk, err = programNamed(m.bulk).begin(ctx, g,
			job{connections: o.Connections, span: o.learning() + o.For + spare, over: by.bulk})
		if err != nil {
			return one, err
		}
		defer bulk.stop()
		if err := g.connected(ctx, bulk.port, o.Connections); err != nil {
			return one, err
		}
	}
	if one.early, err = g.ask(ctx, m.asks, by.asks, o.learning()); err != nil {
		return one, err
	}
	sent, err := sentOn(g.pod("a"))
	acked, e := g.acked(bulk)
	if err := errors.Join(err, e); err != nil {
		return one, err
	}
	from := program.Kernel()
	if one.waits, err = g.ask(ctx, m.asks, by.asks, o.For); err != nil {
		return one, err
	}
	after, err := sentOn(g.pod("a"))
	more, e := g.acked(bulk)
	one.bits = 8 * float64(more-acked) / (program.Kernel() - from).Seconds()
	if err := errors.Join(err, e); err != nil {
		return one, err
	}
	tellNetworks(out, sent, after)
	if bulk != nil {
		out.Values["bits"] = one.bits
	}
	if m.asks != "" {
		out.Values["p50_s"], out.Values["p99_s"] = one.p50, one.p99
		out.Values["early_p50_s"], out.Values["early_p99_s"] = one.early.p50, one.early.p99
	}
	return one, nil
}

// ask runs a program that waits for answers for so long; without one it waits alone.
func (g *ground) ask(ctx context.Context, name, over string, span time.Duration) (waits, error) {
	if name == "" {
		return waits{}, pause(ctx, span)
	}
	t, err := programNamed(name).begin(ctx, g, job{connections: 1, span: span, over: over})
	if err != nil {
		return waits{}, err
	}
	defer t.stop()
	if err := pause(ctx, span); err != nil {
		return waits{}, err
	}
	return t.answers()
}

// acked is how many bytes of a transfer's pod a has had acknowledged, on connections that there are.
func (g *ground) acked(t *transfer) (n uint64, err error) {
	if t == nil {
		return 0, nil
	}
	err = sockdiag.Each(g.pod("a").Netns, func(s sockdiag.Socket) {
		if s.Local.Port() == t.port || s.Remote.Port() == t.port {
			n += s.BytesAcked
		}
	})
	return n, err
}
