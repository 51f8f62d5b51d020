package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/path/decide"
	"pathwise.dev/pathwise/internal/path/route"
	"pathwise.dev/pathwise/internal/path/steer"
	"pathwise.dev/pathwise/internal/topo"
)

// roster is what an agent looks up in the description: made once for each, as a cluster
// may have tens of thousands of pods. Of those of other hosts that could be peers nothing
// else is kept until there is traffic.
type roster struct {
	pods  []topo.Pod // of the description
	hosts []topo.Host
	names []string
	// agents are the agents' own pods by host, and local this host's that are steered.
	agents map[int]topo.Pod
	local  []topo.Pod
	// Of those elsewhere, where in pods they are.
	byUID  map[string]int
	byID   map[podID]int
	byAddr map[netip.Addr]int
	addrs  []netip.Addr
}

// enroll takes the description, if it is another than before.
func (a *Agent) enroll(c Cluster, host topo.Host) {
	was := a.roster
	if was.byUID != nil && len(was.pods) == len(c.Pods) && len(was.pods) > fewPods && &was.pods[0] == &c.Pods[0] &&
		slices.Equal(was.hosts, c.Hosts) {
		return
	}
	r := roster{pods: c.Pods, hosts: slices.Clone(c.Hosts), names: c.names(), agents: map[int]topo.Pod{}, local: c.steerable(host.Index),
		byUID: map[string]int{}, byID: map[podID]int{}, byAddr: map[netip.Addr]int{}}
	for i, p := range c.Pods {
		switch _, known := r.agents[p.Host]; {
		case p.Agent && !known:
			r.agents[p.Host] = p
		case p.Agent || p.Host == host.Index || p.UID == "" || len(p.Attachments) < 2:
		default:
			r.byUID[p.UID], r.byID[idOf(p)], r.byAddr[p.Addr()] = i, i, i
			r.addrs = append(r.addrs, p.Addr())
		}
	}
	a.roster = r
	for _, l := range a.pods {
		l.plane.SetElsewhere(r.addrs)
	}
}

// elsewhere is the pod of another host that is found under a key.
func elsewhere[K comparable](r roster, by map[K]int, key K) (topo.Pod, bool) {
	i, ok := by[key]
	if !ok {
		return topo.Pod{}, false
	}
	return r.pods[i], true
}

// fewPods is how many are listed again each time, whether they are others or not.
const fewPods = 256

// rejoin enters the peers that a predecessor has left in the pod's data plane, and
// forgets those that are none any more.
func (a *Agent) rejoin(l *pod) error {
	l.plane.SetElsewhere(a.roster.addrs)
	var errs []error
	for _, addr := range l.plane.Entered() {
		if remote, ok := elsewhere(a.roster, a.roster.byAddr, addr); ok {
			_, err := a.join(l, remote)
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, l.plane.Forget())...)
}

// admitWanted enters the peers with which the host's pods have begun to speak.
func (a *Agent) admitWanted() {
	for _, l := range a.pods {
		for _, addr := range l.plane.Wanted() {
			remote, ok := elsewhere(a.roster, a.roster.byAddr, addr)
			if !ok || l.pairs[remote.UID] != nil {
				continue
			}
			if _, err := a.join(l, remote); errors.Is(err, steer.ErrTooMany) {
				a.warnOf("room "+l.UID, "pod %s speaks with more pods than there is room for (%d): traffic with further ones is native", l.Name, steer.DefaultPeers)
			} else if err != nil && !errors.Is(err, errNative) {
				a.warn("%s>%s: %v", l.Name, remote.Name, err)
			}
		}
	}
}

// errNative is returned for two pods between which there is nothing to choose.
var errNative = errors.New("there is one path")

// join enters a pair of pods. Pods of the same host stay on their default network, on
// which they are one hop apart.
func (a *Agent) join(l *pod, remote topo.Pod) (*pair, error) {
	if p := l.pairs[remote.UID]; p != nil {
		return p, nil
	}
	rs, h := a.eligible(route.Between(l.Pod, remote), a.cluster), a.remote[hostName(a.cluster, remote.Host)]
	if len(rs) < 2 || h == nil {
		return nil, errNative
	}
	p := &pair{name: l.Name + ">" + remote.Name, local: l, remote: remote, host: h, routes: rs, lines: make([]line, len(rs)), limited: 1}
	if err := a.enter(p); err != nil {
		return nil, err
	}
	l.pairs[remote.UID] = p
	a.observing = true
	return p, nil
}

// syncPairs drops the pairs that are none any more, or have other paths than before:
// these are entered again, and do not use until then what they must not. They go home
// first, and take what comes over their paths for another look at the cluster: the other
// agent may have looked at another moment.
func (a *Agent) syncPairs(l *pod, c Cluster) error {
	var errs []error
	for uid, p := range l.pairs {
		remote, ok := elsewhere(a.roster, a.roster.byUID, uid)
		if ok && slices.Equal(p.routes, a.eligible(route.Between(l.Pod, remote), c)) && a.remote[hostName(c, remote.Host)] == p.host {
			continue
		}
		if ok && a.withdraw(p) {
			continue
		}
		errs = append(errs, a.part(p))
		if ok {
			if _, err := a.join(l, remote); err != nil && !errors.Is(err, errNative) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// withdraw takes all flows of a pair home, and reports whether it has just done so.
func (a *Agent) withdraw(p *pair) bool {
	if p.withdrawn || p.home() || a.cfg.DryRun {
		return false
	}
	p.withdrawn = true
	p.assigned, p.outcome, p.state.Trial = decide.Assignment{Active: p.routes[0].Network}, nil, decide.Trial{}
	if _, _, err := a.place(p, true); err != nil {
		a.warn("%s: move to %s: %v", p.name, p.routes[0].Network, err)
	}
	if _, err := p.local.plane.Unfollow(p.remote.UID); err != nil {
		a.warn("%s: %v", p.name, err)
	}
	p.unsettled = true
	a.announce(p)
	a.wakeSoon(p, steer.All, a.cfg.Now())
	return true
}

// part forgets a pair: its traffic is native.
func (a *Agent) part(p *pair) error {
	delete(p.local.pairs, p.remote.UID)
	a.ledger.Forget(p.telemetryPair())
	a.observing = true
	return errors.Join(a.restore(p), p.local.plane.RemovePeer(p.remote.UID))
}

// leaveAfter is how long a pair without traffic stays entered.
const leaveAfter = time.Minute

// partIdle forgets the pairs whose traffic has ended. Both ends must be home first: what
// one of them still steered would find nobody who puts it back.
func (a *Agent) partIdle(now time.Time) error {
	var errs []error
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if now.Sub(p.active) < leaveAfter || now.Sub(p.joined) < leaveAfter || p.pinned != "" {
				continue
			}
			if p.unsettled && now.Sub(p.active) < 2*leaveAfter {
				if now.Sub(p.noticed) >= time.Second {
					a.announce(p)
				}
				continue
			}
			if p.home() {
				errs = append(errs, a.part(p))
			}
		}
	}
	return errors.Join(errs...)
}

// home reports whether all flows of the pair are on the default network.
func (p *pair) home() bool {
	own, err := p.local.plane.Choices(p.remote.UID)
	followed, err2 := p.local.plane.Followed(p.remote.UID)
	away := func(c steer.Choice) bool { return c.Path != 0 }
	return err == nil && err2 == nil && p.assigned == decide.Assignment{Active: p.routes[0].Network} &&
		!slices.ContainsFunc(own[:], away) && !slices.ContainsFunc(followed[:], away)
}

// sayFull tells once a minute of flows that cannot be told apart any more.
func (a *Agent) sayFull(l *pod) {
	if n := l.plane.Events().Full; n != l.full {
		l.full = n
		a.warnOf("flows "+l.UID, "pod %s has more flows at a time than are told apart (%s): further ones stay on the default network", l.Name,
			fmt.Sprint(steer.DefaultFlows))
	}
}
