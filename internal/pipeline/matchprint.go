package pipeline

import (
	"fmt"
	"strings"
)

// printer writes flows and actions as ovs-ofctl does.
type printer struct {
	strings.Builder
	*Pipeline
	version Version
}

// match writes a match in the order of Open vSwitch (match_format of lib/match.c).
func (w *printer) match(m Match, priority int) {
	from := w.Len()
	if priority != DefaultPriority {
		fmt.Fprintf(w, "priority=%d,", priority)
	}
	w.state(m)
	eth, proto := m.Get(EthType), m.Get(NWProto)
	dl := eth.Value.Lo
	if pt := m.Get(PacketType); !pt.Mask.IsZero() && (pt.Value.Lo != 0) {
		fmt.Fprintf(w, "packet_type=(%d,%#x),", pt.Value.Lo>>16, pt.Value.Lo&0xffff)
		if pt.Value.Lo>>16 == 1 {
			dl = pt.Value.Lo & 0xffff
		}
	}
	word, typed, whole := typeWord(dl, proto, !eth.Mask.IsZero())
	if typed {
		w.WriteString(word + ",")
	}
	for i := range 16 {
		t := m.Get(Reg0 + Base(i/4))
		s := 96 - 32*(i%4)
		w.hexed(fmt.Sprintf("reg%d", i), t.Value.Right(s).And(ones(32)), t.Mask.Right(s).And(ones(32)), 32)
	}
	w.tunnel(m)
	w.hex(m, "metadata", Metadata)
	if t := m.Get(InPort); !t.Mask.IsZero() {
		fmt.Fprintf(w, "in_port=%s,", w.Names.FormatPort(Port(t.Value.Lo)))
	}
	w.vlan(m.Get(VLAN))
	w.formed(m, "dl_src", EthSrc, MAC)
	w.formed(m, "dl_dst", EthDst, MAC)
	if !typed && !eth.Mask.IsZero() {
		fmt.Fprintf(w, "dl_type=0x%04x,", dl)
	}
	w.network(m, dl, !whole)
	w.transport(m, dl, proto.Value.Lo)
	if w.Len() > from {
		s := strings.TrimSuffix(w.String(), ",")
		w.Reset()
		w.WriteString(s)
	}
}

// typeWord is the word for a packet's type, if there is one, and whether it says the
// protocol too.
func typeWord(dl uint64, proto Term, given bool) (word string, typed, whole bool) {
	if !given {
		return "", false, false
	}
	words := map[uint64]string{ethIPv4: "ip", ethIPv6: "ipv6", ethARP: "arp", ethRARP: "rarp", ethMPLS: "mpls",
		ethMPLSM: "mplsm"}
	word, typed = words[dl]
	if dl != ethIPv4 && dl != ethIPv6 || proto.Mask.IsZero() {
		return word, typed, false
	}
	over := map[uint64]string{protoTCP: "tcp", protoUDP: "udp", protoSCTP: "sctp"}
	if dl == ethIPv4 {
		over[protoICMP] = "icmp"
	} else {
		over[protoICMP6] = "icmp"
	}
	if s, ok := over[proto.Value.Lo]; ok {
		if dl == ethIPv6 {
			s += "6"
		}
		return s, true, true
	}
	return word, true, false
}

// state writes what a switch knows of a packet beyond its header.
func (w *printer) state(m Match) {
	w.hex(m, "pkt_mark", PktMark)
	w.hex(m, "recirc_id", RecircID)
	w.hex(m, "dp_hash", DPHash)
	if t := m.Get(ConjID); !t.Mask.IsZero() {
		fmt.Fprintf(w, "conj_id=%d,", t.Value.Lo)
	}
	w.hex(m, "skb_priority", SKBPriority)
	if t := m.Get(ActsetOutput); !t.Mask.IsZero() {
		fmt.Fprintf(w, "actset_output=%s,", w.Names.FormatPort(Port(t.Value.Lo)))
	}
	if t := m.Get(CTState); !t.Mask.IsZero() {
		w.WriteString("ct_state=")
		w.flags(t.Value, t.Mask, CTBits())
		w.WriteString(",")
	}
	w.decimal(m, "ct_zone", CTZone, 16)
	w.hex(m, "ct_mark", CTMark)
	w.hex(m, "ct_label", CTLabel)
	w.formed(m, "ct_nw_src", CTNWSrc, IPv4)
	w.formed(m, "ct_ipv6_src", CTIPv6Src, IPv6)
	w.formed(m, "ct_nw_dst", CTNWDst, IPv4)
	w.formed(m, "ct_ipv6_dst", CTIPv6Dst, IPv6)
	if t := m.Get(CTNWProto); !t.Mask.IsZero() {
		fmt.Fprintf(w, "ct_nw_proto=%d,", t.Value.Lo)
		w.decimal(m, "ct_tp_src", CTTPSrc, 16)
		w.decimal(m, "ct_tp_dst", CTTPDst, 16)
	}
}

func (w *printer) tunnel(m Match) {
	w.hex(m, "tun_id", TunID)
	w.formed(m, "tun_src", TunSrc, IPv4)
	w.formed(m, "tun_dst", TunDst, IPv4)
	w.formed(m, "tun_ipv6_src", TunIPv6Src, IPv6)
	w.formed(m, "tun_ipv6_dst", TunIPv6Dst, IPv6)
	w.decimal(m, "tun_gbp_id", TunGBPID, 16)
	for _, f := range []struct {
		name string
		base Base
		verb string
	}{
		{"tun_gbp_flags", TunGBPFlags, "%#x"}, {"tun_tos", TunTOS, "%x"}, {"tun_ttl", TunTTL, "%d"},
		{"tun_erspan_ver", TunErspanVer, "%d"}, {"tun_erspan_idx", TunErspanIdx, "%#x"},
		{"tun_erspan_dir", TunErspanDir, "%d"}, {"tun_erspan_hwid", TunErspanHwid, "%#x"},
		{"gtpu_flags", TunGTPUFlags, "%#x"}, {"gtpu_msgtype", TunGTPUMsgtype, "%d"},
	} {
		t := m.Get(f.base)
		if t.Mask.IsZero() {
			continue
		}
		s := fmt.Sprintf(f.verb, t.Value.Lo)
		if s == "0x0" {
			s = "0" // as C's %#x
		}
		fmt.Fprintf(w, "%s=%s,", f.name, s)
	}
	if t := m.Get(TunFlags); !t.Mask.IsZero() {
		w.WriteString("tun_flags=")
		w.masked(t.Value, t.Mask, tunBits())
		w.WriteString(",")
	}
	for _, t := range m {
		if t.Base >= TunMetadata0 {
			w.hex(m, fmt.Sprintf("tun_metadata%d", t.Base-TunMetadata0), t.Base)
		}
	}
}

func (w *printer) vlan(t Term) {
	if t.Mask.IsZero() {
		return
	}
	vid, pcp, cfi := t.Mask.Lo&0xfff, t.Mask.Lo&0xe000, t.Mask.Lo&vlanCFI
	tci := t.Value.Lo
	switch {
	case cfi != 0 && tci&vlanCFI != 0 && (vid == 0 || vid == 0xfff) && (pcp == 0 || pcp == 0xe000) && vid|pcp != 0:
		if vid != 0 {
			fmt.Fprintf(w, "dl_vlan=%d,", tci&0xfff)
		}
		if pcp != 0 {
			fmt.Fprintf(w, "dl_vlan_pcp=%d,", tci>>13)
		}
	case t.Mask.Lo == 0xffff:
		fmt.Fprintf(w, "vlan_tci=0x%04x,", tci)
	default:
		fmt.Fprintf(w, "vlan_tci=0x%04x/0x%04x,", tci, t.Mask.Lo)
	}
}

func (w *printer) network(m Match, dl uint64, proto bool) {
	arp := dl == ethARP || dl == ethRARP
	switch {
	case dl == ethIPv6:
		w.formed(m, "ipv6_src", IPv6Src, IPv6)
		w.formed(m, "ipv6_dst", IPv6Dst, IPv6)
		if t := m.Get(IPv6Label); t.Mask == ones(20) {
			fmt.Fprintf(w, "ipv6_label=0x%05x,", t.Value.Lo)
		} else if !t.Mask.IsZero() {
			fmt.Fprintf(w, "ipv6_label=0x%05x/0x%05x,", t.Value.Lo, t.Mask.Lo)
		}
	case arp:
		w.formed(m, "arp_spa", NWSrc, IPv4)
		w.formed(m, "arp_tpa", NWDst, IPv4)
	case dl == ethNSH:
		w.nsh(m)
	default:
		w.formed(m, "nw_src", NWSrc, IPv4)
		w.formed(m, "nw_dst", NWDst, IPv4)
	}
	if t := m.Get(NWProto); proto && !t.Mask.IsZero() {
		fmt.Fprintf(w, "%s=%d,", map[bool]string{true: "arp_op", false: "nw_proto"}[arp], t.Value.Lo)
	}
	if arp {
		w.formed(m, "arp_sha", ARPSha, MAC)
		w.formed(m, "arp_tha", ARPTha, MAC)
	}
	t := m.Get(NWTOS)
	if t.Mask.Lo&0xfc != 0 {
		fmt.Fprintf(w, "nw_tos=%d,", t.Value.Lo&0xfc)
	}
	if t.Mask.Lo&3 != 0 {
		fmt.Fprintf(w, "nw_ecn=%d,", t.Value.Lo&3)
	}
	w.decimal(m, "nw_ttl", NWTTL, 8)
	t = m.Get(MPLS)
	for _, f := range []struct {
		name        string
		shift, bits int
	}{{"mpls_label", 12, 20}, {"mpls_tc", 9, 3}, {"mpls_ttl", 0, 8}, {"mpls_bos", 8, 1}} {
		if !t.Mask.Right(f.shift).And(ones(f.bits)).IsZero() {
			fmt.Fprintf(w, "%s=%d,", f.name, t.Value.Right(f.shift).And(ones(f.bits)).Lo)
		}
	}
	if t := m.Get(NWFrag); !t.Mask.IsZero() {
		fmt.Fprintf(w, "nw_frag=%s,", formatFragment(t.Value.Lo, t.Mask.Lo))
	}
}

func (w *printer) nsh(m Match) {
	w.decimal(m, "nsh_flags", NSHFlags, 8)
	w.decimal(m, "nsh_ttl", NSHTTL, 8)
	w.decimal(m, "nsh_mdtype", NSHMDType, 8)
	w.decimal(m, "nsh_np", NSHNP, 8)
	w.hexed("nsh_spi", m.Get(NSHSPI).Value, m.Get(NSHSPI).Mask, 24)
	w.decimal(m, "nsh_si", NSHSI, 8)
	if t := m.Get(NSHMDType); !t.Mask.IsZero() && t.Value.Lo == 1 {
		for i, b := range []Base{NSHC1, NSHC2, NSHC3, NSHC4} {
			w.hex(m, fmt.Sprintf("nsh_c%d", i+1), b)
		}
	}
}

func formatFragment(v, mask uint64) string {
	switch mask {
	case fragAny | fragLater:
		return [...]string{"no", "first", "<error>", "later"}[v&3]
	case fragAny:
		return [...]string{"no", "yes"}[v&1]
	}
	return [...]string{"not_later", "later"}[v>>1&1]
}

func (w *printer) transport(m Match, dl, proto uint64) {
	icmp6 := dl == ethIPv6 && proto == protoICMP6
	if dl == ethIPv4 && proto == protoICMP || icmp6 {
		w.decimal(m, "icmp_type", TPSrc, 16)
		w.decimal(m, "icmp_code", TPDst, 16)
	} else {
		w.decimal(m, "tp_src", TPSrc, 16)
		w.decimal(m, "tp_dst", TPDst, 16)
	}
	if icmp6 {
		w.formed(m, "nd_target", NDTarget, IPv6)
		w.formed(m, "nd_sll", ARPSha, MAC)
		w.formed(m, "nd_tll", ARPTha, MAC)
		w.decimal(m, "nd_reserved", NDReserved, 32)
		w.decimal(m, "nd_options_type", NDOptions, 8)
	}
	if t := m.Get(TCPFlags); !t.Mask.IsZero() {
		w.WriteString("tcp_flags=")
		w.masked(t.Value, t.Mask, tcpBits())
		w.WriteString(",")
	}
}

// hex writes a base as a number in hexadecimal.
func (w *printer) hex(m Match, name string, b Base) {
	t := m.Get(b)
	w.hexed(name, t.Value, t.Mask, w.Words.width(b))
}

func (w *printer) hexed(name string, v, mask Value, bits int) {
	switch {
	case mask.IsZero():
	case mask == ones(bits):
		fmt.Fprintf(w, "%s=%s,", name, v.hex())
	default:
		fmt.Fprintf(w, "%s=%s/%s,", name, v.hex(), mask.hex())
	}
}

// decimal writes a base in decimals, and in hexadecimals where it has a mask.
func (w *printer) decimal(m Match, name string, b Base, bits int) {
	t := m.Get(b)
	switch {
	case t.Mask.IsZero():
	case t.Mask == ones(bits):
		fmt.Fprintf(w, "%s=%d,", name, t.Value.Lo)
	default:
		fmt.Fprintf(w, "%s=0x%x/0x%x,", name, t.Value.Lo, t.Mask.Lo)
	}
}

// formed writes addresses.
func (w *printer) formed(m Match, name string, b Base, form Form) {
	if t := m.Get(b); !t.Mask.IsZero() {
		fmt.Fprintf(w, "%s=%s,", name, formatAddress(t.Value, t.Mask, form))
	}
}

func formatAddress(v, mask Value, form Form) string {
	switch form {
	case MAC:
		if mask == ones(48) {
			return formatMAC(v)
		}
		return formatMAC(v) + "/" + formatMAC(mask)
	case IPv6:
		return withPrefix(v, mask, 128)
	}
	return withPrefix(v, mask, 32)
}

func withPrefix(v, mask Value, n int) string {
	s := formatIP(v, n)
	switch p := prefix(mask, n); p {
	case n:
		return s
	case -1:
		return s + "/" + formatIP(mask, n)
	default:
		return fmt.Sprintf("%s/%d", s, p)
	}
}

// flags writes ct_state: all bits wanted are a list, some are each with their sign.
func (w *printer) flags(v, mask Value, names []string) {
	if mask.And(ones(len(names))) != ones(len(names)) {
		w.signs(v, mask, names)
		return
	}
	w.list(v, names)
}

// masked writes tcp_flags and tun_flags, by the same rule.
func (w *printer) masked(v, mask Value, names []string) { w.flags(v, mask, names) }

func (w *printer) signs(v, mask Value, names []string) {
	for i, n := range names {
		if mask.Bit(i) {
			w.WriteString(map[bool]string{true: "+", false: "-"}[v.Bit(i)] + n)
		}
	}
}

func (w *printer) list(v Value, names []string) {
	var set []string
	var rest Value
	for i := range 32 {
		switch {
		case !v.Bit(i):
		case i < len(names) && !strings.HasPrefix(names[i], "["):
			set = append(set, names[i])
		default:
			rest = rest.Or(num(1).Left(i))
		}
	}
	if !rest.IsZero() {
		set = append(set, rest.hex())
	}
	if len(set) == 0 {
		set = []string{"0"}
	}
	w.WriteString(strings.Join(set, "|"))
}
