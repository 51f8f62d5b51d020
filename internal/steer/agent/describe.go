package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/topo"
)

// description is what an agent is told, sorted by what it is asked for by. It is made
// apart from the loop, as that takes longer than the loop may be held where there are
// tens of thousands of pods, and is never changed.
type description struct {
	Cluster
	host  topo.Host
	self  topo.Pod // the agent's own
	names []string
	// hosts are the names of hosts, and agents their agents' pods, by the host's index.
	hosts  map[int]string
	agents map[int]topo.Pod
	local  []topo.Pod // those that are steered
	elsewhere
}

// elsewhere are the pods of other hosts that could be peers. Nothing else is kept of them
// until there is traffic.
type elsewhere struct {
	pods   []topo.Pod
	peers  []candidate
	byUID  index[string]
	byID   index[podID]
	byAddr index[netip.Addr]
	filter dataplane.Candidates
}

// candidate is a pod that could be a peer, as pairs of one family know it: the pod's place in
// the description, and whether those are pairs of IPv6 of a pod that has both families.
type candidate struct {
	at   int32
	in6  bool
	uid  string
	id   podID
	addr netip.Addr
}

// newElsewhere finds the pods of other hosts among all. was is what it found before: the
// identities of the pods in it are known.
func newElsewhere(pods []topo.Pod, host int, was elsewhere) elsewhere {
	e := elsewhere{pods: pods, peers: make([]candidate, 0, max(len(was.peers), len(pods)/2))}
	for i := range pods {
		p := &pods[i]
		if p.Host == host || p.Agent || p.UID == "" {
			continue
		}
		e.add(int32(i), false, p, was)
		if dual(*p) {
			p := in6(*p)
			e.add(int32(i), true, &p, was)
		}
	}
	peers, addrs := e.peers, make([]netip.Addr, len(e.peers))
	e.byUID = newIndex(len(peers), func(at int32) string { return peers[at].uid })
	e.byID = newIndex(len(peers), func(at int32) podID { return peers[at].id })
	e.byAddr = newIndex(len(peers), func(at int32) netip.Addr { return peers[at].addr })
	for at := range peers {
		e.byUID.add(int32(at))
		e.byID.add(int32(at))
		e.byAddr.add(int32(at))
		addrs[at] = peers[at].addr
	}
	e.filter = dataplane.NewCandidates(addrs)
	return e
}

// add enters a pod of several networks.
func (e *elsewhere) add(at int32, in6 bool, p *topo.Pod, was elsewhere) {
	if len(p.Attachments) < 2 {
		return
	}
	c := candidate{at: at, in6: in6, uid: p.UID, addr: p.Addr()}
	if known, ok := was.byUID.find(p.UID); ok {
		c.id = was.peers[known].id
	} else {
		c.id = idOf(*p)
	}
	e.peers = append(e.peers, c)
}

// named, identified and addressed find a pod that could be a peer.
func (e elsewhere) named(uid string) (topo.Pod, bool)          { return e.found(e.byUID.find(uid)) }
func (e elsewhere) identified(id podID) (topo.Pod, bool)       { return e.found(e.byID.find(id)) }
func (e elsewhere) addressed(addr netip.Addr) (topo.Pod, bool) { return e.found(e.byAddr.find(addr)) }

// found is the pod of a candidate.
func (e elsewhere) found(at int32, ok bool) (topo.Pod, bool) {
	switch {
	case !ok:
		return topo.Pod{}, false
	case e.peers[at].in6:
		return in6(e.pods[e.peers[at].at]), true
	default:
		return e.pods[e.peers[at].at], true
	}
}

// describer reads what the agent is told. It is of one goroutine at a time.
type describer struct {
	*journal
	// described is the latest description, told its pods as they were told, and vetted what
	// is steered of them; conflicts are the addresses that several of them have, as told.
	described    *description
	told, vetted []topo.Pod
	toldHosts    []topo.Host
	conflicts    map[netip.Addr]string
}

// describe asks what there is, and sorts it if that is another than it was.
func (r *describer) describe() error {
	c, err := r.cfg.Source()
	if err != nil {
		return fmt.Errorf("read cluster: %w", err)
	}
	if c, err = r.vet(c); err != nil {
		return err
	}
	if was := r.described; was != nil && was.same(c) {
		return nil
	}
	d := &description{Cluster: c, names: c.names(), hosts: map[int]string{}, agents: map[int]topo.Pod{}}
	var ok bool
	if d.host, ok = c.host(r.cfg.Host); !ok {
		return fmt.Errorf("host %q is not in the cluster", r.cfg.Host)
	}
	if d.self, ok = c.agentPod(d.host.Index); !ok {
		return waitError{fmt.Sprintf("its own pod: host %s has no agent pod yet", d.host.Name)}
	}
	for _, h := range c.Hosts {
		d.hosts[h.Index] = h.Name
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		if _, ok := d.agents[p.Host]; p.Agent && !ok {
			d.agents[p.Host] = *p
		}
	}
	var was elsewhere
	if r.described != nil {
		was = r.described.elsewhere
	}
	d.local, d.elsewhere = c.steerable(d.host.Index), newElsewhere(c.Pods, d.host.Index, was)
	r.described = d
	return nil
}

// has tells whether there is a pod of the UID.
func (d *description) has(uid string) bool {
	return slices.ContainsFunc(d.Pods, func(p topo.Pod) bool { return p.UID == uid })
}

// same reports whether the cluster is the description's, and not only equal to it.
func (d *description) same(c Cluster) bool {
	return len(c.Pods) == len(d.Pods) && (len(c.Pods) == 0 || &c.Pods[0] == &d.Pods[0]) &&
		slices.Equal(c.Hosts, d.Hosts) &&
		slices.Equal(c.Equal, d.Equal) && slices.Equal(c.Encapsulated, d.Encapsulated)
}

// describeAll looks at the cluster, the keys and the agent's own pod until ctx ends, and has
// the loop take up what it finds.
func (a *Agent) describeAll(ctx context.Context) error {
	return eachOr(ctx, refresh, a.cfg.News, func() {
		err := a.describer.describe()
		keys, keyless := a.cfg.Keys()
		failed := a.syncWires(a.describer.described)
		a.members.Lock()
		if a.news, a.unread = a.describer.described, err; keyless != nil {
			a.warn("the keys stay as they are: %v", keyless)
		} else if !reflect.DeepEqual(keys, a.turnover.offered) {
			a.turnover.offered, a.turnover.due = keys, true
		}
		w := waitError{}
		errors.As(failed, &w)
		if a.waits(w.what); w.what == "" && failed != nil {
			a.warn("%v", failed)
		}
		a.members.Unlock()
	})
}

// claim is an address that a pod of the description has on a network.
type claim struct {
	pod     int // by index in Cluster.Pods
	network string
	stable  bool
}

// conflict is an address of which a pod would steer what is another's: several pods
// have it. On which network is no matter, as the data plane knows packets by addresses
// alone.
type conflict struct {
	addr   netip.Addr
	claims []claim
}

// held is an address that a pod has, by the pod's place in the cluster and the attachment's.
type held struct {
	pod int32
	at  int16
	v6  bool // the attachment's second address
}

// of is the address itself.
func (h held) of(c Cluster) netip.Addr {
	at := &c.Pods[h.pod].Attachments[h.at]
	if h.v6 {
		return at.Addr6
	}
	return at.Addr.Unmap()
}

// claim tells of it as conflicts do.
func (h held) claim(c Cluster) claim {
	return claim{int(h.pod), c.Pods[h.pod].Attachments[h.at].Network, h.at == 0}
}

// addresses lists those of all pods.
func (c Cluster) addresses() []held {
	out := make([]held, 0, 3*len(c.Pods))
	for i := range c.Pods {
		for n := range c.Pods[i].Attachments {
			at := &c.Pods[i].Attachments[n]
			if at.Addr.IsValid() {
				out = append(out, held{int32(i), int16(n), false})
			}
			if at.Addr6.IsValid() && at.Addr6 != at.Addr {
				out = append(out, held{int32(i), int16(n), true})
			}
		}
	}
	return out
}

// distinct returns the cluster with every pod that is in a conflict on its default
// network alone, which makes it native for all agents alike, and the conflicts.
// Pods with one network are native anyway, and may share an address, such as that of
// their host.
func (c Cluster) distinct() (Cluster, []conflict) {
	// Nearly all addresses are one pod's: a list is made of the others' alone.
	first, by := c.addresses(), map[netip.Addr][]claim{}
	seen := newIndex(len(first), func(at int32) netip.Addr { return first[at].of(c) })
	for i, h := range first {
		other, known := seen.add(int32(i))
		if addr := h.of(c); known && by[addr] == nil {
			by[addr] = []claim{first[other].claim(c), h.claim(c)}
		} else if known {
			by[addr] = append(by[addr], h.claim(c))
		}
	}
	var out []conflict
	native := map[int]bool{}
	for addr, claims := range by {
		if !slices.ContainsFunc(claims, func(cl claim) bool { return len(c.Pods[cl.pod].Attachments) > 1 }) {
			continue
		}
		out = append(out, conflict{addr, claims})
		for _, cl := range claims {
			native[cl.pod] = true
		}
	}
	if len(out) == 0 {
		return c, nil
	}
	slices.SortFunc(out, func(a, b conflict) int { return a.addr.Compare(b.addr) })
	c.Pods = slices.Clone(c.Pods)
	for i := range native {
		// An agent's own pod carries probes, no one's flows.
		if p := &c.Pods[i]; !p.Agent && len(p.Attachments) > 1 {
			p.Attachments = p.Attachments[:1:1]
		}
	}
	return c, out
}

// describe says whose the address is said to be.
func (x conflict) describe(pods []topo.Pod) string {
	const most = 4
	var who []string
	for _, cl := range x.claims[:min(len(x.claims), most)] {
		what := "on " + cl.network
		if cl.stable {
			what = "its stable address, " + what
		}
		who = append(who, fmt.Sprintf("pod %s (%s; UID %s)", pods[cl.pod].Name, what, cmp.Or(pods[cl.pod].UID, "none")))
	}
	if more := len(x.claims) - most; more > 0 {
		who = append(who, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("address %s is said to be of %s: these pods are not steered", x.addr, strings.Join(who, " and of "))
}

// vet checks what the agent is told, and takes the pods in a conflict out of what is
// steered. It says so when that begins, and when it has ended. A description that is
// the same memory as the last one has been looked at already.
func (r *describer) vet(c Cluster) (Cluster, error) {
	if len(c.Pods) > 0 && len(r.told) == len(c.Pods) && &r.told[0] == &c.Pods[0] && slices.Equal(r.toldHosts, c.Hosts) {
		c.Pods = r.vetted
		return c, nil
	}
	if err := c.check(r.told); err != nil {
		return c, fmt.Errorf("read cluster: %w", err)
	}
	out, found := c.distinct()
	r.told, r.toldHosts, r.vetted = c.Pods, slices.Clone(c.Hosts), out.Pods
	now := map[netip.Addr]string{}
	for _, x := range found {
		now[x.addr] = x.describe(c.Pods)
		if r.conflicts[x.addr] != now[x.addr] {
			r.note(Event{Kind: EventConflict, Reason: now[x.addr]})
		}
	}
	for _, addr := range slices.SortedFunc(maps.Keys(r.conflicts), netip.Addr.Compare) {
		if now[addr] == "" {
			r.note(Event{Kind: EventCleared, Reason: fmt.Sprintf("address %s is said to be of one pod, or none, again", addr)})
		}
	}
	r.conflicts = now
	return out, nil
}
