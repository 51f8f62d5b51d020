package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// Print is a flow as ovs-ofctl --no-stats dump-flows writes it.
func (p *Pipeline) Print(f *Flow, v Version) string {
	w := printer{Pipeline: p, version: v}
	if f.Cookie != 0 {
		fmt.Fprintf(&w, "cookie=%#x, ", f.Cookie)
	}
	if f.Table != 0 {
		fmt.Fprintf(&w, "table=%s, ", p.Names.FormatTable(f.Table))
	}
	if f.IdleTimeout != 0 {
		fmt.Fprintf(&w, "idle_timeout=%d, ", f.IdleTimeout)
	}
	if f.HardTimeout != 0 {
		fmt.Fprintf(&w, "hard_timeout=%d, ", f.HardTimeout)
	}
	for _, flag := range []string{"send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"} {
		if slices.Contains(f.Flags, flag) && v != OpenFlow10 {
			w.WriteString(flag + " ")
		}
	}
	if f.Importance != 0 && v != OpenFlow10 {
		fmt.Fprintf(&w, "importance=%d, ", f.Importance)
	}
	m := p.PrintMatch(f)
	w.WriteString(m)
	if m != "" {
		w.WriteString(" ")
	}
	w.WriteString("actions=")
	w.actions(f.Actions)
	return w.String()
}

// PrintMatch is a flow's priority and match.
func (p *Pipeline) PrintMatch(f *Flow) string {
	w := printer{Pipeline: p}
	w.match(f.Match, f.Priority)
	if len(f.Carried) > 0 {
		if w.Len() > 0 {
			w.WriteString(",")
		}
		w.WriteString(strings.Join(f.Carried, ","))
	}
	return w.String()
}

// PrintActions is a list of actions.
func (p *Pipeline) PrintActions(list []Action) string {
	w := printer{Pipeline: p}
	w.actions(list)
	return w.String()
}

// PrintTerms is a match, or a packet, without a priority.
func (p *Pipeline) PrintTerms(m Match) string {
	w := printer{Pipeline: p}
	w.match(m, DefaultPriority)
	return w.String()
}

// PrintPacket is a packet as ofproto/trace takes it: ports of UDP and SCTP, and types of ICMPv6, have
// names of their own there, unlike in a flow.
func (p *Pipeline) PrintPacket(m Match) string {
	names := map[uint64]*strings.Replacer{
		protoUDP:   strings.NewReplacer(",tp_src=", ",udp_src=", ",tp_dst=", ",udp_dst="),
		protoSCTP:  strings.NewReplacer(",tp_src=", ",sctp_src=", ",tp_dst=", ",sctp_dst="),
		protoICMP6: strings.NewReplacer(",icmp_type=", ",icmpv6_type=", ",icmp_code=", ",icmpv6_code="),
	}
	s, proto := p.PrintTerms(m), m.Get(NWProto).Value.Lo
	if r := names[proto]; r != nil && (proto != protoICMP6 || m.Get(EthType).Value.Lo == ethIPv6) {
		return r.Replace(s)
	}
	return s
}
