package openshift

import (
	"fmt"
	"net/netip"
)

// Pipeline says which tables packets pass. Those alongside Whole, but for
// Shortened, are what Busch and Kammerer (2021, sections 5.2 to 5.4) cut from it to see what
// its parts cost.
// They cut the way of IP packets between pods; ARP keeps its way, and so does what
// the node sends and receives itself, without which no pod would be reached.
type Pipeline int

// Pipelines.
const (
	// Whole is OpenShift's.
	Whole Pipeline = iota
	// Shortcut1 has packets tracked on their way from table 0 to the next one, where
	// Whole has them pass table 0 once more. It forwards what Whole forwards, and asks the
	// tracker nothing about packets that table 0 drops (TestProof).
	Shortcut1
	// Shortcut2 leaves out table 20 too. That would have checked a pod's address and
	// loaded its tenant's number: without it all pods are of tenant 0, which speaks to all.
	Shortcut2
	// Shortcut3 leaves out tables 10, 21 and 30 too, and so the commitment of
	// connections: table 0 is followed by 70, or by 90 for pods of other nodes.
	Shortcut3
	// Untracked is Whole without connection tracking. Tenants are kept apart all the
	// same, as table 80 knows them by their numbers.
	Untracked
	// Shortcut3Untracked is Shortcut3 without connection tracking.
	Shortcut3Untracked
	// Shortened is what package reduction makes of Whole, with proof, once the pods' rules have
	// come to a node's.
	Shortened
)

// Isolates reports whether pods of one tenant are kept from those of another.
func (p Pipeline) Isolates() bool {
	return p == Whole || p == Shortcut1 || p == Untracked || p == Shortened
}

// tracks reports whether connections are tracked.
func (p Pipeline) tracks() bool { return p != Untracked && p != Shortcut3Untracked }

// routes reports whether packets between pods pass the routing table, 30.
func (p Pipeline) routes() bool { return p != Shortcut3 && p != Shortcut3Untracked }

// name of the network; Whole has OpenShift's.
func (p Pipeline) name() string {
	return [...]string{"", "openshift-shortcut-1", "openshift-shortcut-2", "openshift-shortcut-3", "openshift-untracked",
		"openshift-shortcut-3-untracked", "openshift-shortened"}[p]
}

func (p Pipeline) summary() string {
	return [...]string{"",
		"openshift-sdn, packets tracked on their way out of table 0, which they pass once (shortcut #1)",
		"openshift-sdn, from table 0 to 21: no check of addresses, no tenants (shortcut #2)",
		"openshift-sdn, from table 0 to 70 or 90: no routing table either (shortcut #3)",
		"openshift-sdn without connection tracking",
		"openshift-shortcut-3 without connection tracking",
		"openshift-sdn, its pipeline shortened with proof, as by \"pathwise ovs shorten\""}[p]
}

// onward is the action by which a packet leaves table 0.
func (p Pipeline) onward(table int) string {
	if p == Whole || p == Shortened || !p.tracks() {
		return fmt.Sprintf("goto_table:%d", table)
	}
	return fmt.Sprintf("ct(table=%d)", table)
}

// entryRules are those of table 0.
func (p Pipeline) entryRules(cluster, local netip.Prefix, gw netip.Addr) []string {
	arrive := p.onward(10)
	if !p.routes() {
		arrive = p.onward(70)
	}
	out := []string{
		fmt.Sprintf("table=0,priority=280,in_port=%d,ip,nw_src=%v,actions=%s", nodePort, gw, p.onward(30)),
		fmt.Sprintf("table=0,priority=270,in_port=%d,ip,nw_src=%v,nw_dst=%v,actions=%s", nodePort, local, cluster, p.onward(25)),
		fmt.Sprintf("table=0,priority=200,in_port=%d,ip,actions=%s", nodePort, p.onward(30)),
		fmt.Sprintf("table=0,priority=200,in_port=%d,arp,nw_src=%v,nw_dst=%v,actions=goto_table:30", nodePort, gw, cluster),
		fmt.Sprintf("table=0,priority=150,in_port=%d,actions=drop", nodePort),
		fmt.Sprintf("table=0,priority=200,in_port=%d,arp,nw_src=%v,nw_dst=%v,actions=%s,goto_table:10", vxlanPort, cluster, local, fromTunnel),
		fmt.Sprintf("table=0,priority=200,in_port=%d,ip,nw_src=%v,actions=%s,%s", vxlanPort, cluster, fromTunnel, arrive),
		fmt.Sprintf("table=0,priority=150,in_port=%d,actions=drop", vxlanPort),
		"table=0,priority=100,arp,actions=goto_table:20",
		"table=0,priority=0,actions=drop",
	}
	ip := func(priority int, match string, table int) {
		out = append(out, fmt.Sprintf("table=0,priority=%d,ip%s,actions=%s", priority, match, p.onward(table)))
	}
	switch p {
	case Whole, Shortened:
		// Rule 1 comes before all others of its table, so that each packet is tracked.
		out = append(out, "table=0,priority=300,ct_state=-trk,ip,actions=ct(table=0)")
		ip(100, "", 20) // rule 2
	case Shortcut1, Untracked:
		ip(100, "", 20)
	case Shortcut2:
		ip(100, "", 21)
	case Shortcut3, Shortcut3Untracked:
		ip(120, fmt.Sprintf(",nw_dst=%v", gw), 30)
		ip(110, fmt.Sprintf(",nw_dst=%v", local), 70)
		ip(105, fmt.Sprintf(",nw_dst=%v", cluster), 90)
		ip(100, "", 30) // to services and outside
	}
	return out
}
