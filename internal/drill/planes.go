package drill

import (
	"fmt"
	"net"
	"net/netip"

	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/path/steer"
	"pathwise.dev/pathwise/internal/topo"
)

// planes are the data planes of two pods, held by this process in place of
// agents: a drill that needs a switch every few milliseconds writes the maps
// itself, through package steer, as an agent does.
type planes struct {
	from, to *steer.Plane
	a, b     topo.Pod
	stop     chan struct{}
	beating  sync.WaitGroup
}

// steerer opens the data planes of two pods that know each other. They beat
// until closed.
func (g *ground) steerer(a, b topo.Pod) (*planes, error) {
	p := &planes{a: a, b: b, stop: make(chan struct{})}
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
			p.from.Beat()
			p.to.Beat()
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

func (g *ground) plane(a, b topo.Pod) (*steer.Plane, error) {
	cfg := steer.Config{Netns: a.Netns, Dev: a.Attachments[0].Dev, PinDir: filepath.Join(g.pins, "drill-"+a.UID)}
	for _, at := range a.Attachments[1:] {
		cfg.PathDevs = append(cfg.PathDevs, at.Dev)
	}
	p, err := steer.Open(cfg)
	if err != nil {
		return nil, err
	}
	return p, p.SetPeer(peer(a, b))
}

// peer is b as a's data plane is told of it: paths by the order of a's networks.
func peer(a, b topo.Pod) steer.Peer {
	out := steer.Peer{UID: b.UID, Pairs: []steer.Pair{{Local: a.Addr(), Remote: b.Addr()}}}
	for i, at := range a.Attachments[1:] {
		if other, ok := b.On(at.Network); ok {
			out.Paths = append(out.Paths, steer.Path{Index: i + 1, Dev: at.Dev, MTU: min(at.MTU, other.MTU),
				Pairs: []steer.Pair{{Local: at.Addr, Remote: other.Addr}}})
		}
	}
	return out
}

// index of a network in the data plane of a.
func (p *planes) index(network string) int {
	for i, at := range p.a.Attachments {
		if at.Network == network {
			return i
		}
	}
	return 0
}

// move puts all flows between the pods, whichever opened them, on a path.
func (p *planes) move(path int) error {
	_, err := p.from.Switch(p.b.UID, steer.All, path)
	_, err2 := p.to.Switch(p.a.UID, steer.All, path)
	return errors.Join(err, err2)
}

// close takes the data planes out of the pods.
func (p *planes) close() error {
	close(p.stop)
	p.beating.Wait()
	return errors.Join(p.from.Remove(), p.to.Remove())
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

// fit bounds the packets between the pods to what every path carries, as agents
// do before a planned move: larger ones would stay on the default network.
func (p *planes) fit() error {
	mtu := 0
	for _, at := range p.a.Attachments {
		if other, ok := p.b.On(at.Network); ok && (mtu == 0 || min(at.MTU, other.MTU) < mtu) {
			mtu = min(at.MTU, other.MTU)
		}
	}
	return errors.Join(clamp(p.a, p.b.Addr(), mtu), clamp(p.b, p.a.Addr(), mtu))
}

// clamp gives the pod a route to a peer like the one it has, with an MTU.
func clamp(pod topo.Pod, to netip.Addr, mtu int) error {
	nl, err := netns.Netlink(pod.Netns)
	if err != nil {
		return err
	}
	defer nl.Close()
	now, err := nl.RouteGet(to.AsSlice())
	if err != nil || len(now) == 0 {
		return fmt.Errorf("look up route to %s: %w", to, err)
	}
	r := &netlink.Route{Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())},
		LinkIndex: now[0].LinkIndex, Gw: now[0].Gw, Src: now[0].Src, MTU: mtu}
	if r.Gw == nil {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := nl.RouteReplace(r); err != nil {
		return fmt.Errorf("set MTU %d towards %s: %w", mtu, to, err)
	}
	return nil
}
