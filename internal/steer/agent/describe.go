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
	agents map[int]*topo.Pod
	local  []topo.Pod // those that are steered
	elsewhere
}

// describer reads what the agent is told. It is of one goroutine at a time.
type describer struct {
	*journal
	// described is the latest description, listed its pods as the source listed them, and vetted
	// what is steered of them; conflicts are the addresses that several of them have, as listed.
	described      *description
	listed, vetted []topo.Pod
	listedHosts    []topo.Host
	conflicts      map[netip.Addr]string
	register       register
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
	d := &description{Cluster: c, names: c.names(), hosts: make(map[int]string, len(c.Hosts)),
		agents: make(map[int]*topo.Pod, len(c.Hosts))}
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
		if p := &c.Pods[i]; p.Agent {
			if _, ok := d.agents[p.Host]; !ok {
				d.agents[p.Host] = p
			}
		}
	}
	d.local = c.steerable(d.host.Index)
	if was := r.described; was == nil || was.host.Index != d.host.Index {
		d.elsewhere = newElsewhere(c.Pods, d.host.Index)
	} else {
		d.elsewhere = was.next(c.Pods, d.host.Index, r.register.between(was.Pods, c.Pods))
	}
	r.register.forget()
	r.described = d
	return nil
}

// has tells whether there is a pod of the UID.
func (d *description) has(uid string) bool {
	return slices.ContainsFunc(d.Pods, func(p topo.Pod) bool { return p.UID == uid })
}

// same reports whether the cluster is the description's, and not only equal to it.
func (d *description) same(c Cluster) bool {
	return oneMemory(c.Pods, d.Pods) && slices.Equal(c.Hosts, d.Hosts) &&
		slices.Equal(c.Equal, d.Equal) && slices.Equal(c.Encapsulated, d.Encapsulated) &&
		c.OpenElsewhere == d.OpenElsewhere
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

// distinct returns the cluster with every pod that is in a conflict on its default
// network alone, which makes it native for all agents alike, and the conflicts.
// Pods with one network are native anyway, and may share an address, such as that of
// their host. Of the addresses for which several says no there is one alone.
func (c Cluster) distinct(several func(netip.Addr) bool) (Cluster, []conflict) {
	by := map[netip.Addr][]claim{}
	for i := range c.Pods {
		eachAddr(&c.Pods[i], func(n int, a netip.Addr) {
			if several(a) {
				by[a] = append(by[a], claim{i, c.Pods[i].Attachments[n].Network, n == 0})
			}
		})
	}
	var out []conflict
	native := map[int]bool{}
	for addr, claims := range by {
		further := func(cl claim) bool { return len(c.Pods[cl.pod].Attachments) > 1 }
		if len(claims) < 2 || !slices.ContainsFunc(claims, further) {
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
	if len(c.Pods) > 0 && oneMemory(r.listed, c.Pods) && slices.Equal(r.listedHosts, c.Hosts) {
		c.Pods = r.vetted
		return c, nil
	}
	if err := r.register.vet(c); err != nil {
		return c, fmt.Errorf("read cluster: %w", err)
	}
	out, found := c, []conflict(nil)
	if r.register.addrs.several > 0 {
		out, found = c.distinct(r.register.addrs.many)
	}
	r.listed, r.listedHosts, r.vetted = c.Pods, slices.Clone(c.Hosts), out.Pods
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
