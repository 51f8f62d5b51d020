package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// ground is a lab on which a drill runs, with what runs in it.
type ground struct {
	s      *session
	lab    *lab.Lab
	name   string
	nets   []string
	pins   string
	planes *planes
	*crew
	*faults
	*shaper
	*generators
}

// plan says what lab a ground is.
type plan struct {
	name     string
	networks []string
	hosts    int
	pods     []lab.PodSpec
	agents   bool // agents' pods; the programs are started apart
}

// pair is the lab of most drills: pods a and c on h1, b and d on h2.
func (s *session) pair(name string) plan {
	return plan{name: name, networks: s.File.Networks, hosts: 2, agents: true,
		pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}, {Name: "c", Host: 1}, {Name: "d", Host: 2}}}
}

// ground returns the session's lab of that name; the first call builds it.
func (s *session) ground(ctx context.Context, p plan) (*ground, error) {
	if g := s.grounds[p.name]; g != nil {
		return g, nil
	}
	var nets []network.Network
	for _, n := range p.networks {
		found, err := s.Find(n)
		if err != nil {
			return nil, err
		}
		nets = append(nets, found)
	}
	spec := lab.Spec{Name: cmp.Or(s.Prefix, "drill") + "-" + p.name, Hosts: p.hosts, Networks: p.networks,
		Agents: p.agents, Pods: p.pods, Family: s.File.Family}.Fill()
	opts := s.Lab
	opts.Owned, opts.Self = true, s.Self
	opts.Timeout = 20*time.Second + time.Duration(p.hosts)*3*time.Second // daemons of many hosts share two cores
	l, err := s.Store.UpAll(ctx, spec, nets, opts)
	if err != nil {
		return nil, err
	}
	mark := s.Store.Mark(spec.Name)
	g := &ground{s: s, lab: l, name: spec.Name, nets: p.networks,
		crew: &crew{s: s, lab: l, name: spec.Name, agents: map[string]*agentProcess{}},
		faults: &faults{lab: l, bad: map[string]impair.Port{},
			impairer: impair.Impairer{Line: []string{s.Self, impair.LineArgument}, Mark: mark}},
		shaper: &shaper{lab: l, nets: p.networks}, generators: &generators{self: s.Self, mark: mark, port: 6000}}
	s.grounds[p.name] = g
	if g.pins, err = s.Store.MountBPF(spec.Name); err != nil {
		return nil, err
	}
	g.faults.impairer.Pins = g.pins
	if s.congestion, err = s.File.congest(l); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *ground) close(ctx context.Context) error {
	var errs []error
	g.stopAgents()
	if g.planes != nil {
		errs = append(errs, g.planes.close())
	}
	return errors.Join(append(errs, g.lab.Down(ctx))...)
}

// pod finds a pod; the drill's own code names only pods that its plan has.
func (g *ground) pod(name string) topo.Pod { return podOf(g.lab, name) }

func podOf(l *lab.Lab, name string) topo.Pod {
	for _, p := range l.Pods() {
		if p.Name == name {
			return p
		}
	}
	return topo.Pod{}
}

// agentPod is the pod that the host's agent keeps for its probes.
func (g *ground) agentPod(host string) topo.Pod {
	for _, p := range g.lab.Pods() {
		if p.Agent && g.lab.Hosts()[p.Host-1].Name == host {
			return p
		}
	}
	return topo.Pod{}
}

// sentOn returns the bytes that the pod has sent on each of its networks, as
// its interfaces count them: the kernel's word, not that of what steers.
func sentOn(pod topo.Pod) (map[string]uint64, error) {
	return interfaces(pod, func(s *netlink.LinkStatistics) uint64 { return s.TxBytes })
}

// receivedOn is the same of what came in.
func receivedOn(pod topo.Pod) (map[string]uint64, error) {
	return interfaces(pod, func(s *netlink.LinkStatistics) uint64 { return s.RxBytes })
}

func interfaces(pod topo.Pod, count func(*netlink.LinkStatistics) uint64) (map[string]uint64, error) {
	nl, err := netns.Netlink(pod.Netns)
	if err != nil {
		return nil, err
	}
	defer nl.Close()
	out := map[string]uint64{}
	for _, at := range pod.Attachments {
		link, err := nl.LinkByName(at.Dev)
		if err != nil {
			return nil, fmt.Errorf("find %s of pod %s: %w", at.Dev, pod.Name, err)
		}
		if st := link.Attrs().Statistics; st != nil {
			out[at.Network] = count(st)
		}
	}
	return out, nil
}

// carrier is the network on which most bytes went out between two readings, and
// its part; "" where there were none.
func carrier(before, after map[string]uint64) (network string, part float64) {
	var most, all uint64
	for n, v := range after {
		d := v - before[n]
		all += d
		if d > most {
			most, network = d, n
		}
	}
	if all == 0 {
		return "", 0
	}
	return network, float64(most) / float64(all)
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// until polls a condition.
func until(ctx context.Context, limit, every time.Duration, what string, met func() (bool, error)) error {
	end := time.Now().Add(limit)
	for {
		ok, err := met()
		if ok {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("%s: %w within %v", what, errNotYet, limit), err)
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

var errNotYet = errors.New("it did not happen")

// file makes a file for the result, in a directory of it.
func (s *session) file(dir, name string) (*os.File, error) {
	path := filepath.Join(s.Out, dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := os.Create(filepath.Join(path, name))
	if err != nil {
		return nil, fmt.Errorf("make file: %w", err)
	}
	return f, nil
}
