package pipeline

import (
	"fmt"
	"strings"
)

// Base is a part of a packet, or of what a switch keeps with it, as Open vSwitch
// stores it (struct flow): several fields may be views of one.
type Base uint8

// Bases. The registers are four of 128 bits: xxreg0 is reg0 to reg3.
const (
	PktMark Base = iota
	RecircID
	DPHash
	ConjID
	SKBPriority
	ActsetOutput
	CTState
	CTZone
	CTMark
	CTLabel
	CTNWSrc
	CTNWDst
	CTIPv6Src
	CTIPv6Dst
	CTNWProto
	CTTPSrc
	CTTPDst
	PacketType
	Reg0
	Reg4
	Reg8
	Reg12
	TunID
	TunSrc
	TunDst
	TunIPv6Src
	TunIPv6Dst
	TunGBPID
	TunGBPFlags
	TunTOS
	TunTTL
	TunErspanVer
	TunErspanIdx
	TunErspanDir
	TunErspanHwid
	TunGTPUFlags
	TunGTPUMsgtype
	TunFlags
	Metadata
	InPort
	VLAN
	EthSrc
	EthDst
	EthType
	IPv6Src
	IPv6Dst
	IPv6Label
	NWSrc // ARP's too
	NWDst
	NWProto // ARP's operation too
	ARPSha  // the link-layer address in neighbour discovery too
	ARPTha
	NWTOS
	NWTTL
	MPLS
	NWFrag
	TPSrc // ICMP's type too
	TPDst // ICMP's code too
	NDTarget
	NDReserved
	NDOptions
	TCPFlags
	NSHFlags
	NSHTTL
	NSHMDType
	NSHNP
	NSHSPI
	NSHSI
	NSHC1
	NSHC2
	NSHC3
	NSHC4
	TunMetadata0 // and 63 more
)

// Bases is how many there are.
const Bases = int(TunMetadata0) + 64

// Form is how a field is written.
type Form uint8

// Forms.
const (
	Hex Form = iota
	Dec
	MAC
	IPv4
	IPv6
	PortForm
	StateForm
	FragForm
	TCPForm
	TunForm
	TypeForm
)

// Field is a view of a base, by the names that Open vSwitch has for it.
type Field struct {
	// Name is how set_field writes it, Header how move and load do.
	Name, Header string
	Base         Base
	// Shift is where in the base it begins, Bits how long it is.
	Shift, Bits int
	Form        Form
	// ReadOnly is of fields that actions may not write.
	ReadOnly bool
	// Ethernet types that a packet must have to have it, and protocols of IP.
	needs needs
}

// stored is the bits of the bytes that hold the field.
func (f *Field) stored() Value {
	for _, n := range []int{8, 16, 32, 48, 64} {
		if f.Bits <= n {
			return ones(n)
		}
	}
	return ones(128)
}

// standard reports whether actions of OpenFlow 1.0 can name the field.
func (f *Field) standard() bool {
	return !strings.HasPrefix(f.Header, "NXOXM_") && !strings.HasPrefix(f.Header, "ERICOXM_") && f.Base < TunMetadata0
}

// needs is what a packet must be to have a field.
type needs uint8

const (
	always needs = iota
	needVLAN
	needMPLS
	needIPv4
	needIPv6
	needIP
	needARP
	needTCP
	needUDP
	needSCTP
	needICMP
	needICMP6
	needND
	needNSH
)

// Vocabulary is the fields by all their names. It does not change once it is made.
type Vocabulary struct {
	fields []*Field
	named  map[string]*Field
	// bases are the names and widths of bases.
	bases [Bases]struct {
		name string
		bits int
	}
}

// row makes a field of "name header alias,alias base shift bits form flags".
type row struct {
	names  string // name, and aliases after commas
	header string // the one that is printed, and others after commas
	base   Base
	shift  int
	bits   int
	form   Form
	needs  needs
	ro     bool
}

// NewVocabulary is that of Open vSwitch 3.1 (include/openvswitch/meta-flow.h).
func NewVocabulary() *Vocabulary {
	v := &Vocabulary{named: map[string]*Field{}}
	for _, r := range append(metadataRows(), packetRows()...) {
		v.add(r)
	}
	for i := range 16 {
		v.add(row{fmt.Sprintf("reg%d", i), fmt.Sprintf("NXM_NX_REG%d", i), Reg0 + Base(i/4), 96 - 32*(i%4), 32, Hex, always,
			false})
	}
	for i := range 8 {
		v.add(row{fmt.Sprintf("xreg%d", i), fmt.Sprintf("OXM_OF_PKT_REG%d", i), Reg0 + Base(i/2), 64 - 64*(i%2), 64, Hex,
			always, false})
	}
	for i := range 4 {
		v.add(row{fmt.Sprintf("xxreg%d", i), fmt.Sprintf("NXM_NX_XXREG%d", i), Reg0 + Base(i), 0, 128, Hex, always, false})
	}
	for i := range 64 {
		v.add(row{fmt.Sprintf("tun_metadata%d", i), fmt.Sprintf("NXM_NX_TUN_METADATA%d", i), TunMetadata0 + Base(i), 0, 128,
			Hex, always, false})
	}
	for _, f := range v.fields {
		b := &v.bases[f.Base]
		if f.Shift+f.Bits > b.bits {
			b.bits = f.Shift + f.Bits
			b.name = f.Name
		}
	}
	return v
}

func (v *Vocabulary) add(r row) {
	names, headers := strings.Split(r.names, ","), strings.Split(r.header, ",")
	f := &Field{Name: names[0], Header: headers[0], Base: r.base, Shift: r.shift, Bits: r.bits,
		Form: r.form, needs: r.needs, ReadOnly: r.ro}
	if f.Header == "" {
		f.Header = f.Name
	}
	v.fields = append(v.fields, f)
	for _, n := range append(names, headers...) {
		if n != "" && v.named[n] == nil {
			v.named[n] = f
		}
	}
}

// Field is the one of that name, or nil.
func (v *Vocabulary) Field(name string) *Field {
	if f := v.named[name]; f != nil {
		return f
	}
	return v.named[strings.ToLower(name)]
}

// Name of a base is that of its widest field.
func (v *Vocabulary) Name(b Base) string { return v.bases[b].name }

// width of a base in bits.
func (v *Vocabulary) width(b Base) int { return v.bases[b].bits }

// Full is the bits that a base has.
func (v *Vocabulary) Full(b Base) Value { return ones(v.width(b)) }

func metadataRows() []row {
	const ro = true
	return []row{
		{"dp_hash", "NXM_NX_DP_HASH,NXOXM_ET_DP_HASH", DPHash, 0, 32, Hex, always, ro},
		{"recirc_id", "NXM_NX_RECIRC_ID", RecircID, 0, 32, Hex, always, ro},
		{"packet_type", "OXM_OF_PACKET_TYPE", PacketType, 0, 32, TypeForm, always, ro},
		{"conj_id", "NXM_NX_CONJ_ID", ConjID, 0, 32, Dec, always, ro},
		{"tun_id,tunnel_id", "NXM_NX_TUN_ID,OXM_OF_TUNNEL_ID", TunID, 0, 64, Hex, always, false},
		{"tun_src", "NXM_NX_TUN_IPV4_SRC", TunSrc, 0, 32, IPv4, always, false},
		{"tun_dst", "NXM_NX_TUN_IPV4_DST", TunDst, 0, 32, IPv4, always, false},
		{"tun_ipv6_src", "NXM_NX_TUN_IPV6_SRC", TunIPv6Src, 0, 128, IPv6, always, false},
		{"tun_ipv6_dst", "NXM_NX_TUN_IPV6_DST", TunIPv6Dst, 0, 128, IPv6, always, false},
		{"tun_flags", "NXM_NX_TUN_FLAGS", TunFlags, 0, 1, TunForm, always, false},
		{"tun_ttl", "", TunTTL, 0, 8, Dec, always, ro},
		{"tun_tos", "", TunTOS, 0, 8, Dec, always, ro},
		{"tun_gbp_id", "NXM_NX_TUN_GBP_ID", TunGBPID, 0, 16, Dec, always, false},
		{"tun_gbp_flags", "NXM_NX_TUN_GBP_FLAGS", TunGBPFlags, 0, 8, Hex, always, false},
		{"tun_erspan_idx", "NXOXM_ET_ERSPAN_IDX", TunErspanIdx, 0, 20, Hex, always, false},
		{"tun_erspan_ver", "NXOXM_ET_ERSPAN_VER", TunErspanVer, 0, 4, Dec, always, false},
		{"tun_erspan_dir", "NXOXM_ET_ERSPAN_DIR", TunErspanDir, 0, 1, Dec, always, false},
		{"tun_erspan_hwid", "NXOXM_ET_ERSPAN_HWID", TunErspanHwid, 0, 6, Hex, always, false},
		{"tun_gtpu_flags,gtpu_flags", "NXOXM_ET_GTPU_FLAGS", TunGTPUFlags, 0, 8, Hex, always, ro},
		{"tun_gtpu_msgtype,gtpu_msgtype", "NXOXM_ET_GTPU_MSGTYPE", TunGTPUMsgtype, 0, 8, Dec, always, ro},
		{"metadata", "OXM_OF_METADATA", Metadata, 0, 64, Hex, always, false},
		{"in_port", "NXM_OF_IN_PORT", InPort, 0, 16, PortForm, always, false},
		{"in_port_oxm", "OXM_OF_IN_PORT", InPort, 0, 32, PortForm, always, false},
		{"actset_output", "ONFOXM_ET_ACTSET_OUTPUT,OXM_OF_ACTSET_OUTPUT,OXM_ET_ACTSET_OUTPUT", ActsetOutput, 0, 32, PortForm, always,
			ro},
		{"skb_priority", "", SKBPriority, 0, 32, Hex, always, ro},
		{"pkt_mark,skb_mark", "NXM_NX_PKT_MARK", PktMark, 0, 32, Hex, always, false},
		{"ct_state", "NXM_NX_CT_STATE", CTState, 0, 32, StateForm, always, ro},
		{"ct_zone", "NXM_NX_CT_ZONE", CTZone, 0, 16, Hex, always, ro},
		{"ct_mark", "NXM_NX_CT_MARK", CTMark, 0, 32, Hex, always, false},
		{"ct_label", "NXM_NX_CT_LABEL", CTLabel, 0, 128, Hex, always, false},
		{"ct_nw_proto", "NXM_NX_CT_NW_PROTO", CTNWProto, 0, 8, Dec, always, ro},
		{"ct_nw_src", "NXM_NX_CT_NW_SRC", CTNWSrc, 0, 32, IPv4, always, ro},
		{"ct_nw_dst", "NXM_NX_CT_NW_DST", CTNWDst, 0, 32, IPv4, always, ro},
		{"ct_ipv6_src", "NXM_NX_CT_IPV6_SRC", CTIPv6Src, 0, 128, IPv6, always, ro},
		{"ct_ipv6_dst", "NXM_NX_CT_IPV6_DST", CTIPv6Dst, 0, 128, IPv6, always, ro},
		{"ct_tp_src", "NXM_NX_CT_TP_SRC", CTTPSrc, 0, 16, Dec, always, ro},
		{"ct_tp_dst", "NXM_NX_CT_TP_DST", CTTPDst, 0, 16, Dec, always, ro},
	}
}

func packetRows() []row {
	const ro = true
	return []row{
		{"eth_src,dl_src", "NXM_OF_ETH_SRC,OXM_OF_ETH_SRC", EthSrc, 0, 48, MAC, always, false},
		{"eth_dst,dl_dst", "NXM_OF_ETH_DST,OXM_OF_ETH_DST", EthDst, 0, 48, MAC, always, false},
		{"eth_type,dl_type", "NXM_OF_ETH_TYPE,OXM_OF_ETH_TYPE", EthType, 0, 16, Hex, always, ro},
		{"vlan_tci", "NXM_OF_VLAN_TCI", VLAN, 0, 16, Hex, always, false},
		{"dl_vlan", "", VLAN, 0, 12, Dec, always, false},
		{"vlan_vid", "OXM_OF_VLAN_VID", VLAN, 0, 12, Dec, always, false},
		{"dl_vlan_pcp", "", VLAN, 13, 3, Dec, always, false},
		{"vlan_pcp", "OXM_OF_VLAN_PCP", VLAN, 13, 3, Dec, needVLAN, false},
		{"mpls_label", "OXM_OF_MPLS_LABEL", MPLS, 12, 20, Dec, needMPLS, false},
		{"mpls_tc", "OXM_OF_MPLS_TC", MPLS, 9, 3, Dec, needMPLS, false},
		{"mpls_bos", "OXM_OF_MPLS_BOS", MPLS, 8, 1, Dec, needMPLS, ro},
		{"mpls_ttl", "NXM_NX_MPLS_TTL", MPLS, 0, 8, Dec, needMPLS, false},
		{"ip_src,nw_src", "NXM_OF_IP_SRC,OXM_OF_IPV4_SRC", NWSrc, 0, 32, IPv4, needIPv4, false},
		{"ip_dst,nw_dst", "NXM_OF_IP_DST,OXM_OF_IPV4_DST", NWDst, 0, 32, IPv4, needIPv4, false},
		{"ipv6_src", "NXM_NX_IPV6_SRC,OXM_OF_IPV6_SRC", IPv6Src, 0, 128, IPv6, needIPv6, false},
		{"ipv6_dst", "NXM_NX_IPV6_DST,OXM_OF_IPV6_DST", IPv6Dst, 0, 128, IPv6, needIPv6, false},
		{"ipv6_label", "NXM_NX_IPV6_LABEL,OXM_OF_IPV6_FLABEL", IPv6Label, 0, 20, Hex, needIPv6, false},
		{"nw_proto,ip_proto", "NXM_OF_IP_PROTO,OXM_OF_IP_PROTO", NWProto, 0, 8, Dec, needIP, ro},
		{"nw_tos", "NXM_OF_IP_TOS", NWTOS, 0, 8, Dec, needIP, false},
		{"ip_dscp", "OXM_OF_IP_DSCP", NWTOS, 2, 6, Dec, needIP, false},
		{"nw_ecn,ip_ecn", "NXM_NX_IP_ECN,OXM_OF_IP_ECN", NWTOS, 0, 2, Dec, needIP, false},
		{"nw_ttl", "NXM_NX_IP_TTL", NWTTL, 0, 8, Dec, needIP, false},
		{"ip_frag,nw_frag", "NXM_NX_IP_FRAG", NWFrag, 0, 2, FragForm, needIP, ro},
		{"arp_op", "NXM_OF_ARP_OP,OXM_OF_ARP_OP", NWProto, 0, 16, Dec, needARP, false},
		{"arp_spa", "NXM_OF_ARP_SPA,OXM_OF_ARP_SPA", NWSrc, 0, 32, IPv4, needARP, false},
		{"arp_tpa", "NXM_OF_ARP_TPA,OXM_OF_ARP_TPA", NWDst, 0, 32, IPv4, needARP, false},
		{"arp_sha", "NXM_NX_ARP_SHA,OXM_OF_ARP_SHA", ARPSha, 0, 48, MAC, needARP, false},
		{"arp_tha", "NXM_NX_ARP_THA,OXM_OF_ARP_THA", ARPTha, 0, 48, MAC, needARP, false},
		{"tcp_src,tp_src", "NXM_OF_TCP_SRC,OXM_OF_TCP_SRC", TPSrc, 0, 16, Dec, needTCP, false},
		{"tcp_dst,tp_dst", "NXM_OF_TCP_DST,OXM_OF_TCP_DST", TPDst, 0, 16, Dec, needTCP, false},
		{"tcp_flags", "NXM_NX_TCP_FLAGS,OXM_OF_TCP_FLAGS,OXM_ET_TCP_FLAGS", TCPFlags, 0, 12, TCPForm, needTCP, ro},
		{"udp_src", "NXM_OF_UDP_SRC,OXM_OF_UDP_SRC", TPSrc, 0, 16, Dec, needUDP, false},
		{"udp_dst", "NXM_OF_UDP_DST,OXM_OF_UDP_DST", TPDst, 0, 16, Dec, needUDP, false},
		{"sctp_src", "OXM_OF_SCTP_SRC", TPSrc, 0, 16, Dec, needSCTP, false},
		{"sctp_dst", "OXM_OF_SCTP_DST", TPDst, 0, 16, Dec, needSCTP, false},
		{"icmp_type", "NXM_OF_ICMP_TYPE,OXM_OF_ICMPV4_TYPE", TPSrc, 0, 8, Dec, needICMP, false},
		{"icmp_code", "NXM_OF_ICMP_CODE,OXM_OF_ICMPV4_CODE", TPDst, 0, 8, Dec, needICMP, false},
		{"icmpv6_type", "NXM_NX_ICMPV6_TYPE,OXM_OF_ICMPV6_TYPE", TPSrc, 0, 8, Dec, needICMP6, false},
		{"icmpv6_code", "NXM_NX_ICMPV6_CODE,OXM_OF_ICMPV6_CODE", TPDst, 0, 8, Dec, needICMP6, false},
		{"nd_target", "NXM_NX_ND_TARGET,OXM_OF_IPV6_ND_TARGET", NDTarget, 0, 128, IPv6, needND, false},
		{"nd_sll", "NXM_NX_ND_SLL,OXM_OF_IPV6_ND_SLL", ARPSha, 0, 48, MAC, needND, false},
		{"nd_tll", "NXM_NX_ND_TLL,OXM_OF_IPV6_ND_TLL", ARPTha, 0, 48, MAC, needND, false},
		{"nd_reserved", "ERICOXM_OF_ICMPV6_ND_RESERVED", NDReserved, 0, 32, Dec, needND, false},
		{"nd_options_type", "ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE", NDOptions, 0, 8, Dec, needND, false},
		{"nsh_flags", "NXOXM_NSH_FLAGS", NSHFlags, 0, 8, Dec, needNSH, false},
		{"nsh_mdtype", "NXOXM_NSH_MDTYPE", NSHMDType, 0, 8, Dec, needNSH, ro},
		{"nsh_np", "NXOXM_NSH_NP", NSHNP, 0, 8, Dec, needNSH, ro},
		{"nsh_spi,nsp", "NXOXM_NSH_SPI", NSHSPI, 0, 24, Hex, needNSH, false},
		{"nsh_si,nsi", "NXOXM_NSH_SI", NSHSI, 0, 8, Dec, needNSH, false},
		{"nsh_c1,nshc1", "NXOXM_NSH_C1", NSHC1, 0, 32, Hex, needNSH, false},
		{"nsh_c2,nshc2", "NXOXM_NSH_C2", NSHC2, 0, 32, Hex, needNSH, false},
		{"nsh_c3,nshc3", "NXOXM_NSH_C3", NSHC3, 0, 32, Hex, needNSH, false},
		{"nsh_c4,nshc4", "NXOXM_NSH_C4", NSHC4, 0, 32, Hex, needNSH, false},
		{"nsh_ttl", "NXOXM_NSH_TTL", NSHTTL, 0, 8, Dec, needNSH, false},
	}
}

// Parts names the pieces of a base that a mask touches: its registers, or the narrowest
// fields that hold what is touched.
func (v *Vocabulary) Parts(b Base, mask Value) []string {
	if b >= Reg0 && b <= Reg12 {
		var out []string
		for i := range 4 {
			if !mask.Right(96 - 32*i).And(ones(32)).IsZero() {
				out = append(out, fmt.Sprintf("reg%d", 4*int(b-Reg0)+i))
			}
		}
		return out
	}
	if b == NWProto { // of ARP it is the operation
		return []string{"nw_proto"}
	}
	best := ""
	for _, f := range v.fields {
		m := ones(f.Bits).Left(f.Shift)
		if f.Base == b && mask.Without(m).IsZero() {
			if best == "" || f.Bits < v.named[best].Bits {
				best = f.Name
			}
		}
	}
	if best == "" {
		best = v.Name(b)
	}
	return []string{strings.TrimSuffix(best, "_oxm")} // in_port, whichever version of OpenFlow
}
