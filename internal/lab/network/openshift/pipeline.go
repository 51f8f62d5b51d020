package openshift

import (
	"fmt"
	"net/netip"
)

// The OpenFlow pipeline. Its tables are OpenShift's:
//
//	 0  by the port that the packet came from: VXLAN, the node, a pod
//	10  from VXLAN: only of nodes of the cluster
//	20  from a pod: its own address, then its tenant into register 0
//	21  from a pod: remember the connection
//	25  from a pod, back from the node's service addresses: its tenant again
//	30  routing: the node, pods here, pods elsewhere, services, outside
//	40  ARP for pods here        50  ARP for pods elsewhere
//	60  services                 70  pods here: tenant and port into registers 1 and 2
//	80  policy: may tenant 0 speak to tenant 1?
//	90  pods elsewhere           100 outside
//
// Numbers in comments are the rules that Busch and Kammerer (2021, section 4.3)
// list as those which a packet between two pods of a node meets.

// Ports by their OpenFlow numbers; pods' come after them.
const (
	vxlanPort = 1
	nodePort  = 2
)

// node is a host as the pipeline sees it.
type node struct {
	// addr is its tunnels' address.
	addr netip.Addr
	// pods is its subnet, of which gateway is the node's own address.
	pods    netip.Prefix
	gateway netip.Addr
}

// nodeRules are those that do not depend on pods. Cluster holds the pods of all
// nodes.
func (p Pipeline) nodeRules(cluster, services netip.Prefix, self node, peers []node) []string {
	c, local, gw := cluster.Masked(), self.pods.Masked(), self.gateway
	out := append(p.entryRules(c, local, gw),
		"table=10,priority=0,actions=drop",
		"table=20,priority=0,actions=drop",
		"table=21,priority=0,actions=goto_table:30",
		"table=25,priority=0,actions=drop",

		fmt.Sprintf("table=30,priority=300,arp,nw_dst=%v,actions=output:%d", gw, nodePort),
		fmt.Sprintf("table=30,priority=200,arp,nw_dst=%v,actions=goto_table:40", local),
		fmt.Sprintf("table=30,priority=100,arp,nw_dst=%v,actions=goto_table:50", c),
		"table=30,priority=0,arp,actions=drop",
		fmt.Sprintf("table=30,priority=400,ip,nw_dst=%v,actions=output:%d", gw, nodePort),
		fmt.Sprintf("table=30,priority=200,ip,nw_dst=%v,actions=goto_table:70", local), // rule 7
		fmt.Sprintf("table=30,priority=100,ip,nw_dst=%v,actions=goto_table:60", services),
		fmt.Sprintf("table=30,priority=100,ip,nw_dst=%v,actions=goto_table:90", c),
		"table=30,priority=50,ip,nw_dst=224.0.0.0/4,actions=drop", // multicast is off by default
		"table=30,priority=0,ip,actions=goto_table:100",

		"table=40,priority=0,actions=drop",
		"table=50,priority=0,actions=drop",
		fmt.Sprintf("table=60,priority=200,actions=output:%d", nodePort),
		"table=70,priority=0,actions=drop",

		// Rule 10 is for the listing's client what this one is for the node:
		// a source that may speak to any pod here.
		fmt.Sprintf("table=80,priority=300,ip,nw_src=%v,actions=output:NXM_NX_REG2[]", gw),
		// Number 0 is the tenant that speaks to all and that all speak to; the nodes are of it.
		"table=80,priority=150,ip,reg0=0,actions=output:NXM_NX_REG2[]",
		"table=80,priority=150,ip,reg1=0,actions=output:NXM_NX_REG2[]",
		"table=80,priority=0,actions=drop",
		"table=90,priority=0,actions=drop",
		fmt.Sprintf("table=100,priority=0,actions=output:%d", nodePort),
	)
	if p.tracks() {
		out = append(out,
			fmt.Sprintf("table=21,priority=200,ip,nw_dst=%v,actions=ct(commit,table=30)", c),                // rule 5
			fmt.Sprintf("table=30,priority=300,ct_state=+rpl,ip,nw_dst=%v,actions=ct(table=70,nat)", local), // rule 6
			"table=80,priority=200,ct_state=+rpl,ip,actions=output:NXM_NX_REG2[]")                           // rule 9
	}
	for _, peer := range peers {
		out = append(out, peerRules(peer)...)
	}
	return out
}

// A packet carries its tenant's number in VXLAN's header (VNI).
const (
	fromTunnel = "move:NXM_NX_TUN_ID[0..31]->NXM_NX_REG0[]"
	intoTunnel = "move:NXM_NX_REG0[]->NXM_NX_TUN_ID[0..31]"
)

// peerRules are those for another node.
func peerRules(p node) []string {
	send := fmt.Sprintf("actions=%s,set_field:%v->tun_dst,output:%d", intoTunnel, p.addr, vxlanPort)
	return []string{
		fmt.Sprintf("table=10,priority=100,tun_src=%v,actions=goto_table:30", p.addr),
		fmt.Sprintf("table=50,priority=100,arp,nw_dst=%v,%s", p.pods.Masked(), send),
		fmt.Sprintf("table=90,priority=100,ip,nw_dst=%v,%s", p.pods.Masked(), send),
	}
}

// endpoint is a pod on its node.
type endpoint struct {
	addr   netip.Addr
	mac    string
	port   string
	tenant uint32
}

// podRules are those that its node has for a pod.
func podRules(e endpoint) []string {
	return []string{
		fmt.Sprintf("table=20,priority=100,in_port=%s,arp,nw_src=%v,arp_sha=%s,actions=load:%d->NXM_NX_REG0[],goto_table:21", e.port, e.addr, e.mac, e.tenant),
		fmt.Sprintf("table=20,priority=100,in_port=%s,ip,nw_src=%v,actions=load:%d->NXM_NX_REG0[],goto_table:21", e.port, e.addr, e.tenant), // rules 3 and 4
		fmt.Sprintf("table=25,priority=100,ip,nw_src=%v,actions=load:%d->NXM_NX_REG0[],goto_table:30", e.addr, e.tenant),
		fmt.Sprintf("table=40,priority=100,arp,nw_dst=%v,actions=output:%s", e.addr, e.port),
		fmt.Sprintf("table=70,priority=100,ip,nw_dst=%v,actions=load:%d->NXM_NX_REG1[],load:%s->NXM_NX_REG2[],goto_table:80", e.addr, e.tenant, e.port), // rule 8
		fmt.Sprintf("table=80,priority=100,ip,reg0=%d,reg1=%d,actions=output:NXM_NX_REG2[]", e.tenant, e.tenant),
	}
}
