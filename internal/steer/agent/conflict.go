package agent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/topo"
)

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
// their host.
func (c Cluster) distinct() (Cluster, []conflict) {
	// Nearly all addresses are one pod's: a list is made of the others' alone.
	first, by := make(map[netip.Addr]claim, 2*len(c.Pods)), map[netip.Addr][]claim{}
	for i, p := range c.Pods {
		for n, at := range p.Attachments {
			if !at.Addr.IsValid() {
				continue
			}
			addr, cl := at.Addr.Unmap(), claim{i, at.Network, n == 0}
			other, known := first[addr]
			switch {
			case !known:
				first[addr] = cl
			case by[addr] == nil:
				by[addr] = []claim{other, cl}
			default:
				by[addr] = append(by[addr], cl)
			}
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
	if err := c.check(); err != nil {
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
