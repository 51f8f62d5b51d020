package walk_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes pipelines and packets that meet each other often.
type generator struct {
	*rand.Rand
	cookie int
	groups int
	// larger says that flows may ask for the packet's size, exits that they may exit: then
	// none is tracked, as a switch resumes some packets in odd places after that.
	larger, exits bool
	// learning says that flows have the switch learn others: then none chooses by a hash, as it is not asked twice
	// about a packet.
	learning bool
	// push is the action that pushes a label, the same in all flows: Open vSwitch 3.1 sends
	// what is pushed after a clone with the type that was pushed in the clone
	// (commit_mpls_action compares labels alone).
	push string
}

const tables = 6

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) reg() string { return fmt.Sprintf("NXM_NX_REG%d", g.IntN(3)) }

// kind draws what flows of the next pipeline do.
func (g *generator) kind() {
	g.larger, g.exits, g.push = g.chance(10), g.chance(25), "push_mpls:0x8847"
	if g.chance(10) {
		g.push = "push_mpls:0x8848"
	}
	g.learning = !g.larger && g.chance(40)
}

// pipeline is the flows of six tables.
func (g *generator) pipeline() (out []string) {
	g.cookie = 0
	for t := range tables {
		n := 3 + g.IntN(6)
		if t == 0 {
			n = 5 + g.IntN(4)
		}
		for i := range n {
			match := g.match()
			if i == 0 && g.chance(85) {
				match = ""
			}
			out = append(out, g.flow(t, 10*i+10, match, g.actions(t, match)))
		}
		if g.chance(25) {
			out = append(out, g.conjunction(t)...)
		}
	}
	return out
}

func (g *generator) flow(table, priority int, match, actions string) string {
	g.cookie++
	if match != "" {
		match += ","
	}
	return fmt.Sprintf("cookie=%#x,table=%d,priority=%d,%sactions=%s", g.cookie, table, priority, match, actions)
}

// conjunction is a flow for it and parts of its dimensions.
func (g *generator) conjunction(t int) (out []string) {
	id, priority := 1+g.IntN(3), 5+10*g.IntN(8)
	out = append(out, g.flow(t, priority, fmt.Sprintf("conj_id=%d,ip", id), g.actions(t, "ip")))
	for k := 1; k <= 2; k++ {
		for range 1 + g.IntN(2) {
			match := map[int]string{1: g.one("ip,nw_src=10.0.0.0/30", "ip,nw_src=10.0.0.1", "ip,in_port=1", "ip,in_port=2"),
				2: g.one("ip,nw_dst=10.0.0.2", "tcp,tp_dst=80", "ip,nw_dst=10.0.0.0/24", "ip,reg0=1")}[k]
			out = append(out, g.flow(t, priority, match, fmt.Sprintf("conjunction(%d,%d/2)", id, k)))
		}
	}
	return out
}

func (g *generator) match() string {
	var out []string
	for range g.IntN(3) {
		out = append(out, g.one(
			"in_port=1", "in_port=2", fmt.Sprintf("reg%d=%d", g.IntN(3), g.IntN(3)), "reg0=0x1/0x1", "reg1=0/0x2",
			fmt.Sprintf("metadata=%d", g.IntN(2)), "xreg0=0x100000000/0x100000000", "xxreg0=0/0x3", "tun_id=0", "tun_id=5",
			"pkt_mark=0", "pkt_mark=1/1", "dl_src=00:00:00:00:00:01", "dl_dst=00:00:00:00:00:00/01:00:00:00:00:00",
			"vlan_tci=0", "dl_vlan=5", "vlan_tci=0x1000/0x1000", "ct_state=+trk", "ct_state=-trk", "ct_state=+trk+new",
			"ct_state=+est-rpl+trk", "ct_state=-new", "ct_state=+inv+trk", "ct_mark=0", "ct_mark=5", "ct_zone=1", "ct_label=0/1",
			"actset_output=3", "reg2[0..1]=1"))
	}
	out = append(out, g.one("", "", "", "ip", "ip,nw_src=10.0.0.1", "ip,nw_dst=10.0.0.0/31", "tcp", "tcp,tp_dst=80",
		"tcp,tp_src=0x0/0x1", "udp", "udp,tp_dst=53", "icmp,icmp_type=8", "arp", "arp,arp_op=1",
		"arp,arp_spa=10.0.0.1", "ipv6",
		"tcp6,tp_dst=80", "ip,nw_frag=no", "ip,nw_frag=yes", "ip,nw_frag=later", "tcp,tcp_flags=+syn-ack", "ip,nw_ttl=1",
		"mpls", "mpls,mpls_label=7",
		"mpls,mpls_bos=1,mpls_tc=0", "ip,nw_tos=0", "ip,nw_ecn=1", "ip,nw_proto=6", "ipv6,ipv6_src=fc00::/16",
		"icmp6,icmp_type=135,icmp_code=0"))
	seen := map[string]bool{}
	var kept []string
	for _, s := range out {
		k, _, _ := strings.Cut(s, "=")
		if strings.Contains(k, "reg") {
			k = "reg" // Open vSwitch takes the last of those that share bits, whole
		}
		if strings.Contains(k, "vlan") {
			k = "vlan"
		}
		if s != "" && !seen[k] {
			seen[k] = true
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, ",")
}

// actions is a list that ends in a way on, most often.
func (g *generator) actions(t int, match string) string {
	var out []string
	for range g.IntN(4) {
		out = append(out, g.action(t, match))
	}
	if g.chance(12) {
		out = append(out, g.one(g.exit(), "pop:"+g.reg()+"[]"))
	}
	out = append(out, g.labels(match)...)
	labelled := slices.ContainsFunc(out, func(a string) bool { return strings.Contains(a, "_mpls:0x") })
	var tail []string
	if g.chance(10) {
		tail = append(tail, "clear_actions")
	}
	if g.chance(15) && !labelled { // the set's actions may not fit any more
		tail = append(tail, "write_actions("+g.set(match)+")")
	}
	if g.chance(6) {
		tail = append(tail, g.one("write_metadata:1", "write_metadata:0x1/0x3"))
	}
	switch {
	case t < tables-1 && g.chance(45):
		tail = append(tail, fmt.Sprintf("goto_table:%d", g.later(t)))
	case t < tables-1 && g.chance(60):
		out = append(out, fmt.Sprintf("resubmit(,%d)", g.later(t)))
	case g.chance(60):
		out = append(out, g.out())
	}
	popped := false
	out = slices.DeleteFunc(out, func(a string) bool {
		pop := strings.Contains(a, "p_vlan") || strings.Contains(a, "vlan_vid") || strings.Contains(a, "vlan_pcp")
		again := pop && popped // a switch takes nothing of a tag after one that takes the tag away
		popped = popped || pop
		return again
	})
	all := append(out, tail...)
	if len(all) == 0 {
		return "drop"
	}
	text := strings.Join(all, ",")
	if i := strings.Index(text, "push_vlan:0x8100"); i >= 0 { // a switch takes no third tag
		i += len("push_vlan:0x8100")
		text = text[:i] + strings.ReplaceAll(text[i:], "push_vlan:0x8100", "set_field:0x3->pkt_mark")
	}
	return text
}

// labels are actions on labels of MPLS, or none.
func (g *generator) labels(match string) []string {
	switch {
	case has(match, "mpls") && g.chance(30):
		return []string{g.one(g.push, "pop_mpls:0x8847", "pop_mpls:0x0800,output:2", g.push,
			"pop_mpls:0x86dd,set_field:00:00:00:00:00:05->eth_src,output:3")}
	case !has(match, "mpls") && g.chance(5):
		return []string{g.one(g.push, g.push+",set_mpls_label:7",
			g.push+",set_field:7->mpls_label,"+g.push+",set_mpls_tc:2,dec_mpls_ttl")}
	}
	return nil
}

// exit is that, or another action that ends nothing.
func (g *generator) exit() string {
	if g.exits {
		return "exit"
	}
	return "load:3->NXM_NX_REG2[]"
}

func (g *generator) later(t int) int { return t + 1 + g.IntN(min(2, tables-1-t)) }

func (g *generator) out() string {
	return g.one(fmt.Sprintf("output:%d", 1+g.IntN(5)), "IN_PORT", "LOCAL", "output:"+g.reg()+"[]", "CONTROLLER:128",
		"output(port=3,max_len=100)", "output:"+g.reg()+"[0..1]")
}

// set is what an action set may hold.
func (g *generator) set(match string) string {
	var out []string
	for range 1 + g.IntN(3) {
		out = append(out, g.one("output:3", "output:4", "set_field:00:00:00:00:00:09->eth_src", "load:7->NXM_NX_REG0[]",
			"push_vlan:0x8100", "load:9->NXM_NX_REG1[]", fmt.Sprintf("group:%d", 1+g.IntN(g.groups)),
			"set_field:0x1->pkt_mark"))
	}
	if strings.Contains(match, "tcp") && g.chance(30) {
		out = append(out, "dec_ttl")
	}
	return strings.Join(out, ",")
}

func (g *generator) action(t int, match string) string {
	trackable := !g.larger && !g.exits && !strings.Contains(match, "+inv")
	if trackable && g.chance(30) && has(match, "ip", "tcp", "udp", "icmp") {
		return g.track(t)
	}
	if t < tables-1 && g.chance(18) {
		return g.one(fmt.Sprintf("resubmit(,%d)", g.later(t)),
			fmt.Sprintf("resubmit(%d,%d)", 1+g.IntN(3), g.later(t)),
			fmt.Sprintf("clone(%s,resubmit(,%d))", g.write(match), g.later(t)), fmt.Sprintf("group:%d", 1+g.IntN(g.groups)),
			fmt.Sprintf("clone(%s,%s)", g.write(match), g.out()), fmt.Sprintf("clone(resubmit(,%d),%s)", g.later(t), g.exit()))
	}
	if g.learning && g.chance(20) {
		return g.learn(match)
	}
	if g.chance(15) {
		return g.out()
	}
	if !g.larger && !g.learning && g.chance(4) {
		return g.one("multipath(eth_src,50,modulo_n,2,0,NXM_NX_REG0[0..1])",
			"multipath(symmetric_l4,0,hrw,3,0,NXM_NX_REG1[])",
			"bundle(eth_src,7,hrw,ofport,members:2,5)", "bundle(symmetric_l4,7,active_backup,ofport,members:4,3)",
			"bundle_load(eth_src,7,hrw,ofport,NXM_NX_REG2[0..15],members:1,2)",
			"multipath(symmetric_l3,9,hash_threshold,2,0,NXM_NX_REG2[3])", "multipath(eth_src,1,iter_hash,2,1,NXM_NX_REG1[0])")
	}
	if g.larger && g.chance(30) {
		return "check_pkt_larger(1000)->" + g.reg() + "[0]"
	}
	return g.write(match)
}

func (g *generator) track(t int) string {
	zone := g.one("", ",zone=1", ",zone=2", ",zone="+g.reg()+"[0..15]")
	exec := g.one("", "", ",exec(load:0x5->NXM_NX_CT_MARK[])", ",exec(load:0x1->NXM_NX_CT_MARK[3])",
		",exec(move:"+g.reg()+"[]->NXM_NX_CT_LABEL[32..63])", ",exec(set_field:0x1/0x3->ct_label,load:2->NXM_NX_CT_MARK[])")
	to := ""
	if t < tables-1 {
		to = fmt.Sprintf(",table=%d", g.later(t))
	}
	return g.one("ct_clear", "ct(commit"+zone+exec+")", "ct(force,commit"+zone+")", "ct(commit"+to+zone+exec+")",
		"ct("+strings.TrimPrefix(to+zone+",nat", ",")+")", "ct("+strings.TrimPrefix(to+zone, ",")+")",
		"ct(commit"+to+zone+",nat(src=10.0.0.9))")
}

// has reports whether a match has one of the words.
func has(match string, words ...string) bool {
	for _, part := range strings.Split(match, ",") {
		if slices.Contains(words, part) {
			return true
		}
	}
	return false
}

// write is an action that writes something that packets of the match have.
func (g *generator) write(match string) string {
	r := g.reg
	out := []string{fmt.Sprintf("load:%d->%s[]", g.IntN(5), r()), fmt.Sprintf("load:%d->%s[%d..%d]", g.IntN(2), r(), 1, 4),
		"set_field:0x1/0x3->reg1", "set_field:0x300000002->xreg0", "set_field:0x1->metadata",
		"load:0x1->NXM_NX_XXREG0[64..95]",
		fmt.Sprintf("move:%s[]->%s[]", r(), r()), fmt.Sprintf("move:%s[0..7]->%s[4..11]", "NXM_NX_REG0", "NXM_NX_REG0"),
		"move:NXM_NX_REG0[0..15]->NXM_NX_TUN_ID[8..23]", "move:NXM_OF_IN_PORT[]->" + r() + "[0..15]",
		"move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]", "move:NXM_NX_XXREG0[0..63]->OXM_OF_PKT_REG1[]",
		"load:0->NXM_OF_IN_PORT[]", "load:0x5->NXM_NX_TUN_ID[]", "set_tunnel:0x7", "set_field:0x1->pkt_mark",
		"load:0x3->NXM_NX_PKT_MARK[4..7]", "mod_dl_src:00:00:00:00:00:02", "set_field:00:00:00:00:00:03->eth_dst",
		"push_vlan:0x8100", "push:" + r() + "[]", "push:NXM_OF_ETH_SRC[]", "pop:" + r() + "[]", "pop:" + r() + "[0..15]",
		"push:" + r() + "[4..11]", "note:00.01",
		"load:1->NXM_NX_REG0[],load:2->NXM_NX_REG0[16..31]"}
	is := func(words ...string) bool { return has(match, words...) }
	var own []string
	if is("ip", "tcp", "udp", "icmp") {
		own = append(own, "move:NXM_OF_IP_SRC[]->"+r()+"[]", "mod_nw_src:10.0.0.2", "set_field:10.0.0.7->ip_dst",
			"load:0xa->NXM_OF_IP_SRC[24..31]")
	}
	if is("ip", "tcp", "udp", "icmp", "ipv6", "tcp6", "icmp6") {
		own = append(own, "mod_nw_tos:8", "set_field:1->nw_ecn", "set_field:2->nw_ttl", "dec_ttl")
	}
	if is("tcp", "tcp6") {
		own = append(own, "set_field:8080->tcp_src", "mod_tp_dst:81", "move:NXM_OF_TCP_DST[]->"+r()+"[0..15]")
	}
	if is("mpls") {
		own = append(own, "set_mpls_label:7", "set_mpls_tc:3", "set_mpls_ttl:9", "dec_mpls_ttl", "set_field:6->mpls_label",
			"set_field:1->mpls_tc")
	}
	if is("udp") {
		own = append(own, "set_field:54->udp_dst")
	}
	if is("icmp") {
		own = append(own, "load:0->NXM_OF_ICMP_TYPE[]")
	}
	if is("ipv6", "tcp6", "icmp6") {
		own = append(own, "set_field:fc00::9->ipv6_dst", "set_field:0x12345->ipv6_label")
	}
	if is("icmp_type=135") {
		own = append(own, "set_field:fc00::5->nd_target", "set_field:00:00:00:00:00:05->nd_sll")
	}
	if is("arp") {
		own = append(own, "set_field:10.0.0.3->arp_tpa", "set_field:2->arp_op", "load:0x2->NXM_OF_ARP_OP[]",
			"set_field:00:00:00:00:00:07->arp_sha")
	}
	if is("dl_vlan=5", "vlan_tci=0x1000/0x1000") {
		// A switch of OpenFlow 1.5 is told these for mod_vlan_vid and mod_vlan_pcp: see TestModVLANAddsATag.
		own = append(own, "set_field:0x1005->vlan_vid", "set_field:3->vlan_pcp", "pop_vlan", "strip_vlan",
			"set_field:0x1006->vlan_vid")
	}
	if len(own) > 0 && g.chance(50) {
		return g.one(own...)
	}
	return g.one(out...)
}

// allGroups draws as many groups as flows may name.
func (g *generator) allGroups() (out []string) {
	for i := range g.groups {
		out = append(out, g.group(i+1))
	}
	return out
}

// group is one bucket or several, by its number.
func (g *generator) group(id int) string {
	bucket := func() string {
		var out []string
		for range g.IntN(3) {
			out = append(out, g.one("load:3->NXM_NX_REG0[]", "set_field:00:00:00:00:00:0a->eth_src", "push_vlan:0x8100",
				"set_field:0x2->pkt_mark", "load:4->NXM_NX_REG2[]",
				"learn(table=5,priority=95,NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])"))
		}
		out = append(out, g.one("output:2", "output:5", "IN_PORT", "resubmit(,5)", "resubmit(,4)"))
		return "bucket=actions=" + strings.Join(out, ",")
	}
	kind := g.one("all", "indirect", "all", "ff")
	text := fmt.Sprintf("group_id=%d,type=%s,%s", id, kind, bucket())
	if kind == "ff" { // all ports live: it is the first
		text = strings.Replace(text, "bucket=", "bucket=watch_port:1,", 1) + "," +
			strings.Replace(bucket(), "bucket=", "bucket=watch_port:2,", 1)
	}
	if kind == "all" {
		for range g.IntN(3) {
			text += "," + bucket()
		}
	}
	return text
}

// packet in the syntax of ofproto/trace.
func (g *generator) packet() string {
	mac := "dl_src=00:00:00:00:00:0" + g.one("1", "2") + ",dl_dst=" + g.one("00:00:00:00:00:08", "01:00:00:00:00:08")
	ip := "nw_src=10.0.0." + g.one("1", "2", "5") + ",nw_dst=10.0.0." + g.one("1", "2", "9") +
		",nw_ttl=" + g.one("64", "64", "1", "2") +
		g.one("", ",nw_tos=4", ",nw_ecn=1")
	ip6 := "ipv6_src=" + g.one("fc00::1", "fd00::1") + ",ipv6_dst=fc00::2,nw_ttl=64"
	l4 := "tp_src=" + g.one("1000", "1001") + ",tp_dst=" + g.one("80", "53", "81")
	udp := strings.ReplaceAll(l4, "tp_", "udp_")
	out := []string{"in_port=" + g.one("1", "2", "3"), mac, g.one(
		"tcp,"+ip+","+l4, "tcp,"+ip+","+l4+",tcp_flags="+g.one("syn", "ack"), "udp,"+ip+","+udp,
		"icmp,"+ip+",icmp_type=8,icmp_code=0", "tcp,"+ip+",nw_frag=later", "tcp,"+ip+","+l4+",nw_frag=first",
		"arp,arp_op="+g.one("1", "2")+",arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_sha=00:00:00:00:00:01",
		"tcp6,"+ip6+","+l4, "udp6,"+ip6+","+udp,
		"icmp6,"+ip6+",icmpv6_type=135,icmpv6_code=0,nd_target=fc00::7,nd_sll=00:00:00:00:00:01", "dl_type=0x88cc",
		"mpls,mpls_label="+g.one("5", "7")+",mpls_tc="+g.one("0", "1")+",mpls_bos=1,mpls_ttl="+g.one("64", "1"))}
	if g.chance(25) {
		out = append(out, "dl_vlan="+g.one("5", "6")+",dl_vlan_pcp=2")
	}
	if g.chance(10) {
		out = append(out, g.one("pkt_mark=1", "tun_id=5", "metadata=1"))
	}
	return strings.Join(out, ",")
}

// states are answers of the tracker, one for each time that it is asked.
func (g *generator) states(n int) (out []string) {
	for range n {
		out = append(out, g.one("trk,new", "trk,est", "trk,est,rpl", "trk,inv", "trk,new,rel", "trk,est,dnat"))
	}
	return out
}
