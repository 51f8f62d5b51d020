package drill

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// outcome is a course as it went: by leg, when it was and what the application got.
type outcome struct {
	from, to []time.Duration
	wall     []time.Time
	// came is when each leg's faults came, or where it has none its networks' rates: both
	// come while the leg before is not over or connections are made.
	came   []time.Time
	rates  []float64
	total  float64 // bits
	report []stream.Report
}

// player is the traffic of a course while it is under way.
type player struct {
	g *ground
	// now is the application's flow of this leg, crowd what others send.
	now   *flow
	crowd []*flow
	// past are the flows of the legs before, which tell in their own time; of has the number
	// of each leg's flow.
	past []chan ended
	of   []int
	leg  leg
}

// ended is what a flow's server saw.
type ended struct {
	report stream.Report
	err    error
}

// run plays the legs. Each has connections of its own, made before its faults
// come: a handshake goes over the default network, under every policy.
func (g *ground) run(ctx context.Context, all []leg, begun func(leg, int)) (r outcome, err error) {
	p := &player{g: g}
	defer p.leave()
	for i, l := range all {
		over, came, err := p.change(ctx, l)
		if err != nil {
			return r, err
		}
		if i > 0 {
			r.to = append(r.to, over)
		}
		r.came = append(r.came, came)
		r.from, r.wall = append(r.from, program.Kernel()), append(r.wall, g.s.Now())
		if begun != nil {
			begun(l, i)
		}
		if err := pause(ctx, l.span); err != nil {
			return r, err
		}
	}
	r.to = append(r.to, program.Kernel())
	p.finish()
	return r, errors.Join(p.tell(&r), g.heal())
}

// change begins a leg: its networks, its connections, those of others, its
// faults. It returns when the leg before was over, and when the change came.
func (p *player) change(ctx context.Context, l leg) (over time.Duration, came time.Time, err error) {
	before := p.leg
	p.leg = l
	if l.goesOn {
		p.of = append(p.of, len(p.past))
		over, came = program.Kernel(), p.g.s.Now()
		return over, came, p.g.alter(ctx, before, l)
	}
	p.disperse()
	came = p.g.s.Now()
	if err := errors.Join(p.g.heal(), p.g.uplink(ctx, l.rates, l.credits)); err != nil {
		return 0, came, err
	}
	f, err := p.g.begin(ctx, traffic{kind: stream.TCP, from: p.g.pod("a"), to: p.g.pod("b"), args: l.args()})
	if err != nil {
		return 0, came, err
	}
	p.finish()
	p.of = append(p.of, len(p.past))
	p.now, over = f, program.Kernel()
	if err := p.g.connected(ctx, p.g.port, l.connections); err != nil {
		return over, came, err
	}
	if p.crowd, err = p.g.gather(ctx, l); err != nil {
		return over, came, err
	}
	if len(l.faults()) > 0 {
		came = p.g.s.Now()
	}
	for network, bad := range l.faults() {
		if err := p.g.impair("h1", network, bad); err != nil {
			return over, came, err
		}
	}
	return over, came, nil
}

// alter makes the networks what they are in a leg that has the connections of the one before.
func (g *ground) alter(ctx context.Context, before, l leg) error {
	if !maps.Equal(before.rates, l.rates) || !maps.Equal(before.credits, l.credits) {
		if err := g.uplink(ctx, l.rates, l.credits); err != nil {
			return err
		}
	}
	if maps.Equal(before.faults(), l.faults()) {
		return nil
	}
	err := g.heal()
	for network, bad := range l.faults() {
		err = errors.Join(err, g.impair("h1", network, bad))
	}
	return err
}

// finish lets the leg's flow end by itself.
func (p *player) finish() {
	if p.now == nil {
		return
	}
	f, ch := p.now, make(chan ended, 1)
	p.now, p.past = nil, append(p.past, ch)
	go func() {
		_, server, err := f.end()
		ch <- ended{server, err}
	}()
}

// tell waits for the flows of all legs and adds up what they carried.
func (p *player) tell(r *outcome) (err error) {
	for _, ch := range p.past {
		e := <-ch
		err = errors.Join(err, e.err)
		r.report = append(r.report, e.report)
	}
	if err != nil {
		return err
	}
	for i := range r.from {
		rate := 8 * stream.Throughput(r.report[p.of[i]], r.from[i], r.to[i])
		r.rates = append(r.rates, rate)
		r.total += rate * (r.to[i] - r.from[i]).Seconds()
	}
	return nil
}

func (p *player) disperse() {
	for _, f := range p.crowd {
		_ = f.abandon()
	}
	p.crowd = nil
}

func (p *player) leave() {
	p.disperse()
	if p.now != nil {
		_ = p.now.abandon()
	}
}

func (l leg) args() []string {
	args := []string{"--duration", "0", "--connections", strconv.Itoa(l.connections), "--patience", "1s"}
	if l.offered > 0 {
		args = append(args, "--rate", strconv.Itoa(int(l.offered)/l.connections))
	}
	return args
}

// gather lets other pods send on networks, by the networks' own addresses. On
// the default network these are stable addresses: there it is pods that are on
// no other, which agents do not steer.
func (g *ground) gather(ctx context.Context, l leg) (out []*flow, err error) {
	// As many connections as the application's: shares go by connections.
	connections := max(l.connections, 4)
	for network, rate := range l.crowd {
		from, to := g.pod("c"), g.pod("d")
		if network == g.nets[0] {
			from, to = g.pod("e"), g.pod("f")
		}
		at, _ := to.On(network)
		f, err := g.begin(ctx, traffic{kind: stream.TCP, from: from, to: to, at: at.Addr,
			args: []string{"--duration", "0", "--connections", strconv.Itoa(connections), "--rate",
				strconv.Itoa(int(rate) / connections)}})
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
	return out, nil
}

// stage is the lab of courses: pods e and f are on the default network alone.
func (s *session) stage(name string, networks []string) plan {
	p := s.pair(name)
	p.networks = networks
	p.pods = append(p.pods, lab.PodSpec{Name: "e", Host: 1, Networks: networks[:1]},
		lab.PodSpec{Name: "f", Host: 2, Networks: networks[:1]})
	return p
}

// steered plays a course with agents under a policy, beginning on the default network.
func (s *session) steered(ctx context.Context, networks []string, all []leg, policy, evidence string,
	begun func(*ground, leg, int)) (outcome, []agent.Event, error) {
	p := s.stage("course", networks)
	g, err := s.ground(ctx, p)
	if err != nil {
		return outcome{}, nil, err
	}
	if err := g.uplink(ctx, all[0].rates, all[0].credits); err != nil {
		return outcome{}, nil, err
	}
	g.stopAgents()
	for _, h := range g.lab.Hosts() {
		args := []string{"--policy", policy}
		if evidence != "" && h.Name == "h1" {
			args = append(args, "--record", evidence)
		}
		if _, err := g.startAgent(ctx, h.Name, args...); err != nil {
			return outcome{}, nil, err
		}
	}
	since, err := g.home(ctx, g.pod("a"), g.pod("b"))
	if err != nil {
		return outcome{}, nil, err
	}
	var tell func(leg, int)
	if begun != nil {
		tell = func(l leg, i int) { begun(g, l, i) }
	}
	r, err := g.run(ctx, all, tell)
	if err != nil {
		return r, nil, err
	}
	events, err := g.agents["h1"].events(ctx, since)
	return r, events, err
}

// home undoes what the course before has left, under a little traffic: all flows of a pair are
// on the default network. It returns the number of its agent's latest event.
func (g *ground) home(ctx context.Context, local, remote topo.Pod) (since int, err error) {
	f, err := g.begin(ctx,
		traffic{kind: stream.RR, from: local, to: remote, args: []string{"--duration", "0", "--think", "5ms"}})
	if err != nil {
		return 0, err
	}
	host := g.hostOf(local)
	err = pause(ctx, 1200*time.Millisecond)
	err = errors.Join(err,
		g.order(ctx, host, agent.Order{Local: local.Name, Remote: remote.Name, Network: g.nets[0], Force: true}))
	if err := errors.Join(err, f.abandon()); err != nil {
		return 0, err
	}
	return g.agents[host].lastEvent(ctx)
}

// hostOf names a pod's host.
func (g *ground) hostOf(pod topo.Pod) string { return g.lab.Hosts()[pod.Host-1].Name }

// kept plays a course with all flows on one network, whatever happens to it.
func (s *session) kept(ctx context.Context, networks []string, all []leg, network string,
	begun func(*ground, leg, int)) (outcome, error) {
	p := s.stage("kept", networks)
	g, err := s.ground(ctx, p)
	if err != nil {
		return outcome{}, err
	}
	if err := g.keepOn(network); err != nil {
		return outcome{}, err
	}
	var tell func(leg, int)
	if begun != nil {
		tell = func(l leg, i int) { begun(g, l, i) }
	}
	return g.run(ctx, all, tell)
}

// hindsight is what the best network of each leg gave, in bits, and single
// what the best single network gave; which names it.
func hindsight(all []leg, kept map[string]outcome) (sum, single float64, which string) {
	for i, l := range all {
		top, _ := best(i, kept)
		sum += top * l.span.Seconds()
	}
	for _, network := range sortedNames(kept) {
		total := 0.0
		for i, l := range all {
			total += kept[network].rates[i] * l.span.Seconds()
		}
		if total > single {
			single, which = total, network
		}
	}
	return sum, single, which
}

// best is the network that gave most in leg i, and how much.
func best(i int, kept map[string]outcome) (top float64, which string) {
	for _, network := range sortedNames(kept) {
		if r := kept[network].rates[i]; r > top {
			top, which = r, network
		}
	}
	return top, which
}

// achieved is an outcome's bits over the legs' nominal times, as hindsight counts.
func achieved(all []leg, r outcome) (sum float64) {
	for i, l := range all {
		sum += r.rates[i] * l.span.Seconds()
	}
	return sum
}

func sortedNames[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }
