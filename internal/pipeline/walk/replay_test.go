package walk_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// traced is one pass as ofproto/trace tells it.
type traced struct {
	cookies []uint64
	lessons []string
	final   string
	actions string
}

// passes takes a trace apart, line by line: expressions take longer than the trace.
func passes(t *testing.T, text string) (out []traced) {
	t.Helper()
	var p traced
	start, began := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch value := func(head string) string { return strings.TrimPrefix(line, head) }; {
		case strings.HasPrefix(line, "Flow: "):
			p, start, began = traced{}, value("Flow: "), true
		case strings.HasPrefix(line, "Final flow: "):
			if p.final = value("Final flow: "); p.final == "unchanged" {
				p.final = start
			}
		case strings.HasPrefix(line, "Datapath actions: "):
			p.actions = value("Datapath actions: ")
			if !began || p.final == "" {
				t.Fatalf("a trace that is not understood: %s", text)
			}
			out, began = append(out, p), false
		case strings.HasPrefix(strings.TrimSpace(line), "-> table="):
			p.lessons = append(p.lessons, strings.TrimSpace(line)[len("-> "):])
		default:
			if n, ok := cookieOf(line); ok {
				p.cookies = append(p.cookies, n)
			}
		}
	}
	if began || len(out) == 0 {
		t.Fatalf("a trace that is not understood: %s", text)
	}
	return out
}

// cookieOf is that of the flow that takes a packet, if a trace's line is about one (" 1. ip, priority 9, cookie 0x5").
func cookieOf(line string) (uint64, bool) {
	table, flow, _ := strings.Cut(strings.TrimSpace(line), ". ")
	_, cookie, has := strings.Cut(flow, "cookie ")
	if _, err := strconv.ParseUint(table, 10, 16); err != nil || !has {
		return 0, false
	}
	n, err := strconv.ParseUint(cookie, 0, 64)
	return n, err == nil
}

// split cuts a list at the commas that are in no parentheses.
func split(s string) (out []string) {
	level, from := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			level++
		case c == ')':
			level--
		case c == ',' && level == 0:
			out, from = append(out, s[from:i]), i+1
		}
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

// inside cuts "name(inside)".
func inside(s string) (name, in string) {
	name, in, _ = strings.Cut(s, "(")
	return name, strings.TrimSuffix(in, ")")
}

// replay carries out actions of the datapath, and lists what is observed.
type replay struct {
	t      *testing.T
	p      *pipeline.Pipeline
	packet *walk.Packet
	larger bool
	trunc  string
	// unknown says that the packet has lost a label which came with it.
	unknown bool
	out     []string
	// sets are actions that were read before.
	sets map[string]pipeline.Action
}

func (r *replay) run(list string) {
	for _, a := range split(list) {
		name, in := inside(a)
		switch name {
		case "drop", "ct_clear", "recirc", "hash":
		case "clone":
			r.apart(in)
		case "set":
			r.set(in)
		case "push_vlan":
			r.vlan(in)
		case "pop_vlan":
			r.packet.PopTag()
		case "push_mpls":
			eth, lse := labelled(in)
			r.packet.PushLabel(eth, lse, r.unknown)
		case "pop_mpls":
			eth, _ := labelled(in)
			r.unknown = r.packet.PopLabel(eth)
		case "trunc":
			r.trunc = in
		case "ct":
			r.ct(in)
		case "meter":
			r.seen("meter:" + in)
		case "sample":
			r.seen("sample")
		case "userspace":
			r.userspace(in)
		case "check_pkt_len":
			r.branch(in)
		default:
			port, err := strconv.Atoi(name)
			if err != nil {
				r.t.Fatalf("action of the datapath: %s", a)
			}
			if port == 100 {
				name = "LOCAL"
			}
			if r.trunc != "" {
				name += " of " + r.trunc
				r.trunc = ""
			}
			r.seen("output:" + name)
		}
	}
}

// apart carries out a list on a copy.
func (r *replay) apart(list string) {
	saved, unknown := r.packet, r.unknown
	r.packet = saved.Clone()
	r.run(list)
	r.packet, r.unknown = saved, unknown
}

func (r *replay) seen(what string) { r.out = append(r.out, what+" "+leaves(r.p, r.packet)) }

// leaves is the packet as it leaves.
func leaves(p *pipeline.Pipeline, packet *walk.Packet) string {
	packet = packet.Bare()
	var m pipeline.Match
	for _, t := range packet.Terms(p.Words) {
		tunnel := t.Base >= pipeline.TunID && t.Base < pipeline.Metadata || t.Base >= pipeline.TunMetadata0
		if walk.Leaves(t.Base) && !tunnel {
			m = append(m, t)
		}
	}
	return p.PrintTerms(m) + packet.Tags()
}

func (r *replay) userspace(in string) {
	for _, part := range split(in) {
		name, args := inside(part)
		if name != "controller" {
			continue
		}
		reason := regexp.MustCompile(`reason=(\d+)`).FindStringSubmatch(args)
		switch {
		case reason != nil && reason[1] == "2":
			r.seen("ttl")
		default:
			r.seen("controller")
		}
	}
}

func (r *replay) branch(in string) {
	for _, part := range split(in) {
		name, list := inside(part)
		if name == "gt" && r.larger || name == "le" && !r.larger {
			r.apart(list)
		}
	}
}

func (r *replay) ct(in string) {
	var out []string
	for _, part := range split(in) {
		if part != "force_commit" && !strings.HasPrefix(part, "nat") && !strings.HasPrefix(part, "mark") &&
			!strings.HasPrefix(part, "label") && !strings.HasPrefix(part, "zone") && part != "commit" {
			continue
		}
		out = append(out, part)
	}
	if !strings.Contains(in, "zone=") {
		out = append(out, "zone=0")
	}
	r.seen(trackKey(strings.Join(out, ",")))
}

// trackKey is ct's arguments in one form.
func trackKey(in string) string {
	key := map[string]string{}
	for _, part := range split(in) {
		k, v, _ := strings.Cut(part, "=")
		if strings.HasPrefix(part, "nat") {
			k, v = "nat", part
		}
		if k == "force_commit" {
			key["commit"], k = "", "force"
		}
		if v == "0xffffffff" { // as in mark=0x1/0xffffffff
			v = ""
		}
		key[k] = strings.TrimSuffix(strings.TrimSuffix(v, "/0xffffffff"), "/0xffffffffffffffffffffffffffffffff")
	}
	return fmt.Sprint("ct", key)
}

// labelled reads "label=7,tc=0,ttl=64,bos=1,eth_type=0x8847".
func labelled(in string) (eth, lse uint64) {
	for _, kv := range split(in) {
		k, v, _ := strings.Cut(kv, "=")
		n, _ := strconv.ParseUint(v, 0, 32)
		switch k {
		case "eth_type":
			eth = n
		case "label":
			lse |= n << 12
		case "tc":
			lse |= n << 9
		case "bos":
			lse |= n << 8
		case "ttl":
			lse |= n
		}
	}
	return eth, lse
}

// set writes into the header what "ipv4(src=10.0.0.1,ttl=63)" says.
func (r *replay) set(in string) {
	name, args := inside(in)
	if name == "skb_mark" || name == "skb_priority" {
		if name == "skb_mark" {
			r.field("pkt_mark", args)
		}
		return
	}
	for _, kv := range split(args) {
		k, v, _ := strings.Cut(kv, "=")
		field := map[string]string{"eth.src": "eth_src", "eth.dst": "eth_dst", "ipv4.src": "ip_src", "ipv4.dst": "ip_dst",
			"ipv4.tos": "tos", "ipv4.ttl": "nw_ttl", "ipv6.src": "ipv6_src", "ipv6.dst": "ipv6_dst", "ipv6.label": "ipv6_label",
			"ipv6.tclass": "tos", "ipv6.hlimit": "nw_ttl", "tcp.src": "tcp_src", "tcp.dst": "tcp_dst", "udp.src": "udp_src",
			"udp.dst": "udp_dst", "sctp.src": "sctp_src", "sctp.dst": "sctp_dst", "icmp.type": "icmp_type",
			"icmp.code": "icmp_code", "icmpv6.type": "icmpv6_type", "icmpv6.code": "icmpv6_code",
			"arp.sip": "arp_spa", "arp.tip": "arp_tpa", "arp.op": "arp_op",
			"mpls.label": "mpls_label", "mpls.tc": "mpls_tc", "mpls.ttl": "mpls_ttl", "mpls.bos": "-",
			"arp.sha": "arp_sha", "arp.tha": "arp_tha", "nd.target": "nd_target", "nd.sll": "nd_sll",
			"nd.tll": "nd_tll"}[name+"."+k]
		if field == "-" {
			continue // no action writes it
		}
		if field == "" {
			r.t.Fatalf("set of the datapath: %s of %s", k, in)
		}
		r.field(field, v)
	}
}

func (r *replay) field(name, text string) {
	if name == "tos" {
		v, m, masked := strings.Cut(text, "/")
		value, _ := strconv.ParseUint(v, 0, 8)
		mask := uint64(0xff)
		if masked {
			mask, _ = strconv.ParseUint(m, 0, 8)
		}
		old := r.packet.Get(pipeline.NWTOS).Lo
		r.packet.Set(pipeline.NWTOS, pipeline.Value{Lo: old&^mask | value&mask})
		return
	}
	k := text + "->" + name
	a, known := r.sets[k]
	if !known {
		q := pipeline.New(nil)
		q.ReadLine(1, "actions=set_field:"+k)
		if len(q.Flows) != 1 || !q.Flows[0].Understood() {
			r.t.Fatalf("set of the datapath: %s: %v", k, q.Lost)
		}
		a = q.Flows[0].Actions[0]
		r.sets[k] = a
	}
	r.packet.Assign(a)
}

func (r *replay) vlan(in string) {
	tpid, tci := uint64(0x8100), uint64(0x1000)
	for _, kv := range split(in) {
		k, v, _ := strings.Cut(kv, "=")
		n, err := strconv.ParseUint(v, 0, 16)
		if err != nil {
			r.t.Fatal(err)
		}
		switch k {
		case "vid":
			tci |= n
		case "pcp":
			tci |= n << 13
		case "tpid":
			tpid = n
		case "cfi":
			tci &^= 0x1000
		}
	}
	r.packet.PushTag(uint16(tpid))
	r.packet.Set(pipeline.VLAN, pipeline.Value{Lo: tci})
}
