package drill

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// planes are the data planes of two pods, held by this process in place of
// agents: a drill that needs a switch every few milliseconds writes the maps
// itself, through package dataplane, as an agent does.
type planes struct {
	from, to *dataplane.Plane
	a, b     topo.Pod
	routes   []route.Route // from a to b
	direct   bool
	stop     chan struct{}
	beating  sync.WaitGroup
}

// steerer opens the data planes of two pods that know each other. They beat
// until closed.
func (g *ground) steerer(a, b topo.Pod) (*planes, error) {
	p := &planes{a: a, b: b, routes: g.routes(a, b), stop: make(chan struct{})}
	var err error
	if p.from, err = g.plane(a, b); err != nil {
		return nil, err
	}
	if p.to, err = g.plane(b, a); err != nil {
		return nil, errors.Join(err, p.from.Remove())
	}
	p.beating.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			p.from.RenewLease()
			p.to.RenewLease()
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
		}
	})
	g.planes = p
	return p, nil
}

func (g *ground) plane(a, b topo.Pod) (*dataplane.Plane, error) {
	return openPlane(a, b, g.routes(a, b), g.pinsOf(a))
}

// routes are the paths between two pods, as the drill has packets cross them.
func (g *ground) routes(a, b topo.Pod) []route.Route {
	rs := route.Between(a, b)
	for i := range rs {
		rs[i].Encap = i > 0 && g.s.options().Encapsulate
	}
	return rs
}

// pinsOf is the directory of the pod's data plane.
func (g *ground) pinsOf(pod topo.Pod) string { return filepath.Join(g.pins, "drill-"+pod.UID) }

// openPlane opens a's data plane, or adopts it, and has it know b.
func openPlane(a, b topo.Pod, rs []route.Route, pins string) (*dataplane.Plane, error) {
	cfg := dataplane.Config{Netns: a.Netns, Dev: a.Attachments[0].Dev, PinDir: pins}
	for _, r := range rs[1:] {
		cfg.PathDevs = append(cfg.PathDevs, r.Local.Dev)
	}
	hops, err := nextHops(a, rs)
	if err != nil {
		return nil, err
	}
	p, err := dataplane.Open(cfg)
	if err != nil {
		return nil, err
	}
	return p, p.SetPeer(route.Peer(b, rs, true, hops, nil))
}

// nextHops has the kernel find the neighbours of every path first, as the probes
// of an agent do.
func nextHops(pod topo.Pod, rs []route.Route) (hops map[int]net.HardwareAddr, err error) {
	for range 20 {
		if hops, err = route.NextHops(pod.Netns, rs); err != nil || len(hops) == len(rs)-1 {
			return hops, err
		}
		if err := netns.Do(pod.Netns, func() error { return greet(rs[1:]) }); err != nil {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return hops, nil // the kernel looks them up for each packet: slower, not wrong
}

// greet sends a datagram to the discard port (RFC 863) over each path.
func greet(rs []route.Route) error {
	for _, r := range rs {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: r.Local.Addr.AsSlice()},
			&net.UDPAddr{IP: r.Remote.Addr.AsSlice(), Port: 9})
		if err != nil {
			return fmt.Errorf("greet over %s: %w", r.Network, err)
		}
		_, err = c.Write([]byte{0})
		if err := errors.Join(err, c.Close()); err != nil {
			return fmt.Errorf("greet over %s: %w", r.Network, err)
		}
	}
	return nil
}

// index of a network in the data plane of a.
func (p *planes) index(network string) int {
	for _, r := range p.routes {
		if r.Network == network {
			return r.Index
		}
	}
	return 0
}

// move puts all flows between the pods, whichever opened them, on a path.
func (p *planes) move(path int) error {
	_, err := p.from.Switch(p.b.UID, dataplane.All, path)
	_, toErr := p.to.Switch(p.a.UID, dataplane.All, path)
	return errors.Join(err, toErr, p.tell(), follows(p.to, p.from, p.b.UID, p.a.UID))
}

// lead puts all flows that a has opened on a path.
func (p *planes) lead(path int) error {
	_, err := p.from.Switch(p.b.UID, dataplane.All, path)
	return errors.Join(err, p.tell())
}

// tell tells b's data plane where a's flows are, as agents do.
func (p *planes) tell() error { return follows(p.from, p.to, p.a.UID, p.b.UID) }

// follows tells the data plane of the pod with the UID b where the flows of a are, whose own
// is from.
func follows(from, to *dataplane.Plane, a, b string) error {
	choices, err := from.Choices(b)
	if err != nil {
		return err
	}
	number, err := from.Number(b)
	if err != nil {
		return err
	}
	_, err = to.Follow(a, number, dataplane.Tells(choices))
	return err
}

// close takes the data planes out of the pods.
func (p *planes) close() error {
	close(p.stop)
	p.beating.Wait()
	var err error
	if p.direct {
		err = p.fit() // before the programs that serve direct routes
	}
	return errors.Join(err, p.from.Remove(), p.to.Remove())
}

// drop is close for the ground's planes.
func (g *ground) drop() error {
	if g.planes == nil {
		return nil
	}
	p := g.planes
	g.planes = nil
	return p.close()
}

// byHand opens the data planes of pods a and b unless they are open, with packets that all paths carry.
func (g *ground) byHand() error {
	if g.planes != nil {
		return nil
	}
	p, err := g.steerer(g.pod("a"), g.pod("b"))
	if err != nil {
		return err
	}
	return p.fit()
}

// keepOn has all flows between pods a and b stay on a network, without agents.
func (g *ground) keepOn(network string) error {
	if err := g.byHand(); err != nil {
		return err
	}
	return g.planes.move(g.planes.index(network))
}

// fit bounds the packets between the pods to what the paths on these networks carry,
// or all paths where none is named, as agents do before a planned move: larger ones
// would stay on the default network.
func (p *planes) fit(networks ...string) error {
	p.direct = false
	form := route.Form{MTU: p.mtu(networks...)}
	return errors.Join(route.Shape(p.a.Netns, p.b.Addr(), form), route.Shape(p.b.Netns, p.a.Addr(), form))
}

// mtu is the least of the default network's and of those that are named, or of all.
func (p *planes) mtu(networks ...string) int {
	mtu := math.MaxInt
	for i, r := range p.routes {
		if i == 0 || len(networks) == 0 || slices.Contains(networks, r.Network) {
			mtu = min(mtu, r.MTU())
		}
	}
	return mtu
}

// routeDirectly makes direct routes to a path, as agents do where traffic has stayed for
// a second.
func (p *planes) routeDirectly(network string) error {
	p.direct = true
	var errs []error
	for _, end := range []struct {
		plane     *dataplane.Plane
		pod, peer topo.Pod
	}{{p.from, p.a, p.b}, {p.to, p.b, p.a}} {
		at, _ := end.pod.On(network)
		err := end.plane.Direct(at.Dev, true)
		if err == nil {
			err = route.Shape(end.pod.Netns, end.peer.Addr(), route.Form{MTU: p.mtu(network), Direct: at.Dev})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
