package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Ethernet types and protocols that fields depend on.
const (
	ethIPv4  = 0x0800
	ethARP   = 0x0806
	ethRARP  = 0x8035
	ethIPv6  = 0x86dd
	ethMPLS  = 0x8847
	ethMPLSM = 0x8848
	ethNSH   = 0x894f

	protoICMP  = 1
	protoTCP   = 6
	protoUDP   = 17
	protoICMP6 = 58
	protoSCTP  = 132
)

// Bits of nw_frag and of a VLAN's tag.
const (
	fragAny, fragLater = 1, 2
	vlanCFI            = 0x1000
)

// protocol is what a word such as tcp6 means.
func protocol(word string) (eth, proto uint64, ok bool) {
	switch word {
	case "ip", "ipv4", "ip4":
		return ethIPv4, 0, true
	case "arp":
		return ethARP, 0, true
	case "icmp":
		return ethIPv4, protoICMP, true
	case "tcp":
		return ethIPv4, protoTCP, true
	case "udp":
		return ethIPv4, protoUDP, true
	case "sctp":
		return ethIPv4, protoSCTP, true
	case "ipv6", "ip6":
		return ethIPv6, 0, true
	case "icmp6":
		return ethIPv6, protoICMP6, true
	case "tcp6":
		return ethIPv6, protoTCP, true
	case "udp6":
		return ethIPv6, protoUDP, true
	case "sctp6":
		return ethIPv6, protoSCTP, true
	case "rarp":
		return ethRARP, 0, true
	case "mpls":
		return ethMPLS, 0, true
	case "mplsm":
		return ethMPLSM, 0, true
	}
	return 0, 0, false
}

// CTBits are the names of ct_state's bits, from the lowest.
func CTBits() []string { return []string{"new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"} }

func tcpBits() []string {
	return []string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"}
}

func tunBits() []string { return []string{"oam"} }

// flagBits are the names of a form's bits.
func (f Form) flagBits() []string {
	switch f {
	case StateForm:
		return CTBits()
	case TCPForm:
		return tcpBits()
	}
	return tunBits()
}

// flags reads "+trk-new", "trk|est", or a number with or without a mask.
func flags(s string, names []string) (v, mask Value, err error) {
	all := ones(len(names))
	if n, m, ok := strings.Cut(s, "/"); ok {
		if v, err = number(n, 32); err != nil {
			return v, mask, err
		}
		mask, err = number(m, 32)
		return v, mask, err
	}
	bit := func(name string) (Value, bool) {
		for i, n := range names {
			if n == name {
				return num(1).Left(i), true
			}
		}
		return Value{}, false
	}
	if s != "" && (s[0] == '+' || s[0] == '-') {
		for s != "" {
			sign := s[0]
			if sign != '+' && sign != '-' {
				return v, mask, errors.New("expected + or - before each flag")
			}
			n := strings.IndexAny(s[1:], "+-")
			name := s[1:]
			if n >= 0 {
				name = s[1 : n+1]
			}
			b, ok := bit(name)
			if !ok {
				return v, mask, fmt.Errorf("no flag %q: expected some of %s", clip(name), strings.Join(names, ", "))
			}
			mask = mask.Or(b)
			if sign == '+' {
				v = v.Or(b)
			}
			s = s[1+len(name):]
		}
		return v, mask, nil
	}
	for _, name := range strings.Split(s, "|") {
		if b, ok := bit(name); ok {
			v = v.Or(b)
		} else if n, err := number(name, len(names)); err == nil {
			v = v.Or(n)
		} else {
			return v, mask, fmt.Errorf("no flag %q: expected some of %s", clip(name), strings.Join(names, ", "))
		}
	}
	return v, all, nil
}

// fragment reads nw_frag's words.
func fragment(s string) (v, mask Value, err error) {
	switch s {
	case "no":
		return num(0), num(fragAny | fragLater), nil
	case "yes":
		return num(fragAny), num(fragAny), nil
	case "first":
		return num(fragAny), num(fragAny | fragLater), nil
	case "later":
		return num(fragAny | fragLater), num(fragAny | fragLater), nil
	case "not_later":
		return num(0), num(fragLater), nil
	}
	return v, mask, fmt.Errorf("%s: expected no, yes, first, later or not_later", clip(s))
}

// value reads what a field is to be, with its mask, counted from the field's lowest bit.
func (p *parser) value(f *Field, s string) (v, mask Value, err error) {
	if s == "" || s == "*" || s == "ANY" && f.Form != PortForm { // of ports, it is the number of none
		if s == "" {
			err = errors.New("a value is missing")
		}
		return v, mask, err
	}
	full := ones(f.Bits)
	switch f.Form {
	case PortForm:
		port, err := p.Names.port(s)
		return num(uint64(port)), ones(32), err
	case StateForm, TCPForm, TunForm:
		v, mask, err = flags(s, f.Form.flagBits())
		return v, mask, err
	case FragForm:
		return fragment(s)
	case TypeForm:
		return packetType(s)
	}
	plain, m, masked := strings.Cut(s, "/")
	one := func(s string) (Value, error) {
		switch f.Form {
		case MAC:
			return mac(s)
		case IPv4:
			return ip(s, 32)
		case IPv6:
			return ip(s, 128)
		}
		return number(s, f.Bits)
	}
	if v, err = one(plain); err != nil || !masked {
		return v, full, err
	}
	if n, err := strconv.Atoi(m); err == nil && (f.Form == IPv4 || f.Form == IPv6) {
		if n < 0 || n > f.Bits {
			return v, mask, fmt.Errorf("prefix /%d: expected 0 to %d", n, f.Bits)
		}
		return v, full.Without(ones(f.Bits - n)), nil
	}
	if mask, err = one(m); errors.Is(err, errWide) {
		// A mask may be wider than the field, as -1 is.
		mask, err = number(m, 128)
		mask = mask.And(full)
	}
	return v, mask, err
}

// packetType reads "(namespace,type)".
func packetType(s string) (v, mask Value, err error) {
	in, ok := strings.CutPrefix(s, "(")
	in, ok2 := strings.CutSuffix(in, ")")
	a, b, ok3 := strings.Cut(in, ",")
	if !ok || !ok2 || !ok3 {
		return v, mask, errors.New("expected (namespace,type)")
	}
	ns, err := number(a, 16)
	if err != nil {
		return v, mask, err
	}
	t, err := number(b, 16)
	return ns.Left(16).Or(t), ones(32), err
}

// match adds one field's condition to the flow's match.
func (p *parser) match(m *Match, f *Field, s string) error {
	if f.Name == "dl_vlan" {
		return dlVLAN(m, s)
	}
	v, mask, err := p.value(f, s)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	switch f.Name {
	case "dl_vlan_pcp", "vlan_pcp":
		m.set(VLAN, v.Left(13).Or(num(vlanCFI)), num(0xe000|vlanCFI))
		return nil
	case "nw_tos":
		m.set(NWTOS, v, mask.And(num(0xfc)))
		return nil
	case "icmp_type", "icmp_code", "icmpv6_type", "icmpv6_code":
		m.set(f.Base, v, ones(16))
		return nil
	case "nw_proto":
		m.set(NWProto, v, ones(16))
		return nil
	case "packet_type":
		if v.Lo>>16 == 1 {
			m.set(EthType, num(v.Lo&0xffff), Value{})
		}
	}
	m.set(f.Base, v.Left(f.Shift), mask.Left(f.Shift))
	return nil
}

// dlVLAN is dl_vlan, where 0xffff means that there is no tag.
func dlVLAN(m *Match, s string) error {
	v, err := number(s, 16)
	switch {
	case err != nil:
		return fmt.Errorf("dl_vlan: %w", err)
	case v == num(0xffff):
		m.set(VLAN, Value{}, ones(16))
	default:
		m.set(VLAN, v.And(num(0xfff)).Or(num(vlanCFI)), num(0xfff|vlanCFI))
	}
	return nil
}

// vlanVID is vlan_vid, which has a bit for "there is a tag" above those of the field.
func (p *parser) vlanVID(m *Match, s string) error {
	plain, mk, masked := strings.Cut(s, "/")
	v, err := number(plain, 13)
	if err != nil {
		return fmt.Errorf("vlan_vid: %w", err)
	}
	mask := num(0xfff | vlanCFI)
	if masked {
		if mask, err = number(mk, 16); err != nil {
			return fmt.Errorf("vlan_vid: mask: %w", err)
		}
		mask = mask.And(num(0xfff | vlanCFI))
	}
	m.set(VLAN, v, mask)
	return nil
}

// condition reads one word of a match.
func (p *parser) condition(m *Match, w pair) error {
	if eth, proto, ok := protocol(w.key); ok {
		m.set(EthType, num(eth), ones(16))
		if proto != 0 {
			m.set(NWProto, num(proto), ones(16))
		}
		return nil
	}
	if w.key == "eth" {
		m.set(PacketType, Value{}, ones(32))
		return nil
	}
	if w.key == "vlan_vid" {
		return p.vlanVID(m, w.value)
	}
	if f := p.Words.Field(w.key); f != nil {
		if f.Base >= TunMetadata0 && w.value == "" {
			return errors.New("that a tunnel option is there, whatever it is")
		}
		return p.match(m, f, w.value)
	}
	if strings.ContainsRune(w.key, '[') {
		s, err := p.subfield(w.key)
		if err != nil {
			return err
		}
		v, err := number(w.value, s.Bits)
		if err != nil {
			return fmt.Errorf("%s: %w", w.key, err)
		}
		m.set(s.Field.Base, v.Left(s.Shift()), s.Mask())
		return nil
	}
	return errors.New("no such field")
}

// normalize takes out what a packet of the match's type does not have: a switch
// ignores it (ofputil_normalize_match of lib/ofp-match.c).
func normalize(m *Match) (dropped []Base) {
	eth, proto := m.Get(EthType), m.Get(NWProto)
	dl, nw := eth.Value.Lo, proto.Value.Lo
	if pt := m.Get(PacketType); !pt.Mask.IsZero() && pt.Value.Lo>>16 == 1 {
		dl = pt.Value.Lo & 0xffff
	}
	may := map[Base]bool{}
	allow := func(bases ...Base) {
		for _, b := range bases {
			may[b] = true
		}
	}
	switch {
	case dl == ethIPv4 || dl == ethIPv6:
		allow(NWProto, NWTOS, NWTTL, NWFrag)
		if dl == ethIPv4 {
			allow(NWSrc, NWDst)
		} else {
			allow(IPv6Src, IPv6Dst, IPv6Label)
		}
		if nw == protoTCP || nw == protoUDP || nw == protoSCTP || nw == protoICMP && dl == ethIPv4 {
			allow(TPSrc, TPDst)
		}
		if nw == protoTCP {
			allow(TCPFlags)
		}
		if nw == protoICMP6 && dl == ethIPv6 {
			allow(TPSrc, TPDst)
			const solicit, advert = 135, 136
			switch m.Get(TPSrc).Value.Lo {
			case solicit:
				allow(NDTarget, ARPSha, NDReserved, NDOptions)
			case advert:
				allow(NDTarget, ARPTha, NDReserved, NDOptions)
			}
		}
	case dl == ethARP || dl == ethRARP:
		allow(NWProto, NWSrc, NWDst, ARPSha, ARPTha)
	case dl == ethMPLS || dl == ethMPLSM:
		allow(MPLS)
	}
	for _, b := range []Base{NWProto, NWTOS, NWTTL, NWFrag, NWSrc, NWDst, IPv6Src, IPv6Dst, IPv6Label, TPSrc, TPDst,
		TCPFlags, NDTarget, NDReserved, NDOptions, ARPSha, ARPTha, MPLS} {
		if !may[b] && m.drop(b) {
			dropped = append(dropped, b)
		}
	}
	return dropped
}
