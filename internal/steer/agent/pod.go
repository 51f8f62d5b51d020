package agent

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// pod is a local pod on several networks.
type pod struct {
	topo.Pod
	// told is what is said of it by now; replugging is since when its flows have been home
	// as it is to be taken up with other networks.
	told       topo.Pod
	replugging time.Time
	plane      *dataplane.Plane
	cookie     uint64
	// mayDirect: nothing forbade direct routes when that was asked. asks: it is to be.
	mayDirect, asks bool
	asked           time.Time
	pairs           map[string]*pair // by the remote pod's UID
	// census is of the flows, when they were swept; full counts those without room;
	// former are the data planes of other versions that are still there.
	census dataplane.Census
	swept  time.Time
	full   uint64
	former int
	// wanted are peers that the pod has begun to speak with, to be entered.
	wanted []netip.Addr
	// leaving are the addresses of peers that are about to be left: no other pod is entered
	// by them until then.
	leaving map[netip.Addr]bool
	// withdrawing: pairs were taken home to be left at the next look at the cluster.
	withdrawing bool
	// narrow is when room for more peers could not be made.
	narrow time.Time
	// hops are the next hops of the paths to peers that a predecessor has left, by address.
	hops map[netip.Addr]map[int]net.HardwareAddr
	// inode identifies the namespace that the pod was taken up in. keeper keeps what
	// leads out of it, nil where nothing is to be changed.
	inode  uint64
	keeper *route.Keeper
	// echoer asks peers from the pod's own addresses; nil where there can be none.
	// echoes are by sequence number whose they are.
	echoer *probe.Echoer
	echoes [probe.EchoesKept]asked
}

// sync brings data planes and pairs in step with the cluster. What it cannot do now it
// tries again the next time.
func (a *Agent) sync(d *description) error {
	other := a.members.description != d
	if other {
		a.members.description, a.wires.self = d, idOf(d.self)
		for _, l := range a.members.pods {
			l.plane.SetCandidates(d.filter)
		}
	}
	a.syncHosts(d)
	err := a.syncPods(d, other)
	a.rewatch(a.cfg.Now()) // pairs may have gone
	return err
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

func (a *Agent) syncHosts(d *description) {
	for _, h := range d.Hosts {
		other, ok := d.agents[h.Index]
		if h.Name == a.cfg.Host || !ok {
			continue
		}
		r := a.members.remote[h.Name]
		if r == nil {
			r = &remoteHost{name: h.Name, paths: map[string]*hostPath{}}
			a.members.remote[h.Name] = r
		}
		r.pod = idOf(other)
		for _, at := range other.Attachments {
			to := netip.AddrPortFrom(at.Addr, stampPort)
			hp, w := r.paths[at.Network], a.wires.links[at.Network]
			if (hp == nil || hp.to != to) && w != nil {
				r.paths[at.Network] = &hostPath{Path: detect.New(&a.hostParams), host: r, wire: w, network: at.Network, to: to,
					mtu: at.MTU, track: probe.NewTrack(min(at.MTU, w.mtu)-28, false)}
			}
		}
	}
}

func (a *Agent) syncPods(d *description, other bool) error {
	var errs []error
	here := map[string]bool{}
	for _, p := range d.local {
		here[p.UID] = true
		if l := a.members.pods[p.UID]; l != nil {
			l.told = p
		}
		if a.members.pods[p.UID] == nil {
			if !a.turned.IsZero() || !netns.Exists(p.Netns) {
				continue // on its way, or just gone; while the loop runs, takeIn's
			}
			a.sustain()
			l, faults, err := a.adopt(p, a.members.elsewhere)
			for _, f := range faults {
				a.warn("pod %s: %v", p.Name, f)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
				continue
			}
			a.members.pods[p.UID] = l
			errs = append(errs, a.rejoin(l))
		}
		if other || a.members.pods[p.UID].withdrawing {
			errs = append(errs, a.syncPairs(a.members.pods[p.UID], d.Cluster))
		}
	}
	for uid, p := range a.members.pods {
		if !here[uid] {
			a.dismiss(p, a.drop)
		}
	}
	maps.DeleteFunc(a.pins, func(uid string, _ map[string]string) bool { return !here[uid] })
	a.observe()
	return errors.Join(errs...)
}

// observe limits telemetry to connections with peers.
func (a *Agent) observe() {
	if a.survey.passive == nil {
		return
	}
	var peers []netip.Addr
	for p := range a.members.pairs() {
		peers = append(peers, p.telemetryPair().Remote)
	}
	slices.SortFunc(peers, netip.Addr.Compare)
	peers = slices.Compact(peers)
	a.survey.limit(peers)
}

// netnsOf is the namespace of a pod, "" if none has that cookie.
func (a *Agent) netnsOf(cookie uint64) string {
	a.members.Lock()
	defer a.members.Unlock()
	for _, l := range a.members.pods {
		if l.cookie == cookie {
			return l.Netns
		}
	}
	return ""
}

// errMoved is returned for a pod whose sandbox is made again as it is taken up.
var errMoved = errors.New("its namespace has just been made again")

// adopt attaches the data plane to a pod, or takes over the one that is there. It needs
// no lock. Without what faults tell of it works less well.
func (a *Agent) adopt(p topo.Pod, others elsewhere) (l *pod, faults []error, err error) {
	l = &pod{Pod: p, told: p, pairs: map[string]*pair{}}
	if l.inode, err = netns.Inode(p.Netns); err != nil {
		return nil, nil, err
	}
	// First: what is missing may be what keeps the rest from being found.
	if err := a.openKeeper(l); err != nil {
		faults = append(faults, fmt.Errorf("its routes are not looked after: %w", err))
	}
	cfg := dataplane.Config{Netns: p.Netns, Dev: p.Attachments[0].Dev, PinDir: pinsOf(a.cfg.PinDir, p.UID),
		Former: formerPins(a.cfg.PinDir, p.UID), Now: a.cfg.Now, Peers: a.cfg.peers}
	for _, at := range p.Attachments[1:] {
		cfg.PathDevs = append(cfg.PathDevs, at.Dev)
	}
	if l.plane, err = dataplane.Open(cfg); err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	if err := unlead(l, others); err != nil {
		faults = append(faults, err)
	}
	if err := l.findHops(others); err != nil {
		faults = append(faults, err)
	}
	if l.echoer, err = openEchoer(l, a.cfg.Now); err != nil {
		// Without it failures are still found, by the hosts' probes and by timeouts.
		faults = append(faults, fmt.Errorf("its own paths cannot be asked: %w", err))
	}
	if a.survey.passive != nil {
		if l.cookie, err = a.survey.passive.Watch(p.Netns); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("watch connections: %w", err), l.close())
		}
	}
	if !l.sandboxed() {
		return nil, nil, errors.Join(errMoved, l.close())
	}
	return l, faults, nil
}

// enter makes the data plane know the peer. Where a predecessor had opened the
// pair, it stays so.
func (a *Agent) enter(p *pair) error {
	p.joined = a.cfg.Now()
	p.marks = a.ring.marks(&p.host.keys, nil, p.joined)
	known, err := p.local.plane.Known(route.Peer(p.remote, p.routes, true, nil, nil))
	if err != nil {
		return err
	}
	if known {
		p.hops = p.local.hops[p.remote.Addr()]
	}
	if err := a.setPeer(p, known); err != nil {
		return err
	}
	if p.assigned, err = p.found(); err != nil {
		return err
	}
	if known {
		p.opened = a.cfg.Now()
		if at := p.on(); at.Index != 0 {
			// It has prepared the pod for that, which is to be undone one day.
			if !a.cfg.DryRun {
				a.stacks.fitter.Adopt(p, p.end(), route.Fit{Hold: true})
			}
			p.unsettled = true // what became of it meanwhile is not known
			a.untracked.add(p)
			a.note(Event{Kind: EventAdopted, Pair: p.name, To: at.Network,
				Reason: fmt.Sprintf("%s is on %s, as a predecessor left it", p.name, at.Network)})
		}
		a.tidy(p)
	}
	for i := range p.lines {
		ln := &p.lines[i]
		if ln.sent, ln.received, err = p.local.plane.Tallies(p.remote.UID, p.routes[i].Index); err != nil {
			return err
		}
		// What passed before is no evidence of now.
		ln.epochTx, ln.epochRx = ln.sent.Bytes, ln.received.Bytes
	}
	return nil
}

// tidy has all of an adopted pair's own flows be on one path, also those of a canary or a
// detour of the predecessor's, and the pod's stack be fit for where flows are.
func (a *Agent) tidy(p *pair) {
	if a.cfg.DryRun {
		return
	}
	if !p.placed() {
		p.unsettled = true
		if _, _, err := a.mover.place(p); err != nil {
			a.warn("%s: %v", p.name, err)
		}
	}
	a.stacks.refit(p)
}

// findHops finds the next hops of the paths to the peers that a predecessor has left.
func (l *pod) findHops(others elsewhere) error {
	l.hops = map[netip.Addr]map[int]net.HardwareAddr{}
	for _, addr := range l.plane.Entered() {
		remote, _ := others.addressed(addr)
		rs := route.Between(l.Pod, remote)
		if len(rs) < 2 {
			continue
		}
		var err error
		if l.hops[addr], err = route.NextHops(l.Netns, rs); err != nil {
			return err
		}
	}
	return nil
}

// hopsFresh is how long next hops are believed, which change rarely, and hopsMissing where
// the kernel did not know them all.
const hopsFresh, hopsMissing = 30 * time.Second, 4 * time.Second

// setPeer enters the peer in the data plane, with its paths once it is open. Both
// agents ask every few seconds: what is fresh stays, unless the pair's packets were found
// not to pass.
func (a *Agent) setPeer(p *pair, open bool) error {
	now := a.cfg.Now()
	if open && now.Before(p.stale) {
		return nil
	}
	if err := a.enterPaths(p, open); err != nil {
		return err
	}
	if p.taken = open; open {
		p.stale = now.Add(hopsFresh)
		a.stacks.fitter.Find(p, p.end())
	}
	return nil
}

// enterPaths tells the data plane of the peer, with its paths and their next hops if it is
// open.
func (a *Agent) enterPaths(p *pair, open bool) error {
	keys := func(network string) dataplane.Keys { return a.ring.tags(p, network) }
	peer := route.Peer(p.remote, p.routes, open, p.hops, keys)
	peer.DSCP = p.takesDSCP
	return p.local.plane.SetPeer(peer)
}

// eligible drops the paths whose policy is not known to equal the default's, and
// says of the others whether packets are encapsulated there.
func (a *Agent) eligible(rs []route.Route, c Cluster) []route.Route {
	if len(rs) == 0 {
		return nil
	}
	out := rs[:1:1]
	for _, r := range rs[1:] {
		if indexOf(c.Equal, r.Network) >= 0 {
			r.Encap = c.encapsulates(r.Network)
			out = append(out, r)
		}
	}
	return out
}
