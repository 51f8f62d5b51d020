package pipeline

import (
	"errors"
	"fmt"
)

// ReadPacket reads a packet as ofproto/trace takes it: "tcp,in_port=1,nw_src=10.0.0.1".
// Fields that it does not name are zero.
func (p *Pipeline) ReadPacket(s string) (Match, error) {
	q := parser{Pipeline: p}
	var m Match
	for _, w := range pairs(s) {
		var one Match
		if err := q.condition(&one, w); err != nil {
			return nil, fmt.Errorf("packet: %s: %w", clip(w.text), err)
		}
		for _, t := range one {
			m.set(t.Base, t.Value, t.Mask)
		}
		if f := p.Words.Field(w.key); f != nil && f.Form < PortForm {
			if full := f.full(); !full.Without(one.Get(f.Base).Mask).IsZero() {
				return nil, fmt.Errorf("packet: %s: expected a value without a mask", clip(w.text))
			}
		}
	}
	if len(m) == 0 {
		return nil, errors.New("packet: it is empty: expected fields, such as tcp,in_port=1,nw_src=10.0.0.1")
	}
	wanted := append(Match{}, m...)
	for _, b := range normalize(&wanted) {
		return nil, fmt.Errorf("packet: %s: a packet of this type has no such field", p.Words.Name(b))
	}
	return m, nil
}

// full is the bits of the base that a match on the whole field wants.
func (f *Field) full() Value {
	if f.Name == "nw_tos" {
		return num(0xfc) // the two lowest are nw_ecn's
	}
	return ones(f.Bits).Left(f.Shift)
}

// Held reports whether a packet whose bases get tells has the field (mf_are_prereqs_ok of
// lib/meta-flow.c).
func (f *Field) Held(get func(Base) Value) bool {
	eth, proto := get(EthType).Lo, get(NWProto).Lo
	isIP := eth == ethIPv4 || eth == ethIPv6
	carries := func(n uint64) bool { return isIP && proto == n && get(NWFrag).Lo&fragLater == 0 }
	switch f.needs {
	case needVLAN:
		return get(VLAN).Lo&vlanCFI != 0
	case needMPLS:
		return eth == ethMPLS || eth == ethMPLSM
	case needIPv4:
		return eth == ethIPv4
	case needIPv6:
		return eth == ethIPv6
	case needIP:
		return isIP
	case needARP:
		return eth == ethARP || eth == ethRARP
	case needTCP:
		return carries(protoTCP)
	case needUDP:
		return carries(protoUDP)
	case needSCTP:
		return carries(protoSCTP)
	case needICMP:
		return eth == ethIPv4 && carries(protoICMP)
	case needICMP6:
		return eth == ethIPv6 && carries(protoICMP6)
	case needND:
		return eth == ethIPv6 && carries(protoICMP6) && get(TPDst).IsZero() && f.discovers(get(TPSrc).Lo)
	case needNSH:
		return eth == ethNSH
	}
	return true
}

// discovers reports whether neighbour discovery's message of that type has the field.
func (f *Field) discovers(kind uint64) bool {
	const solicit, advert = 135, 136
	switch f.Base {
	case ARPSha:
		return kind == solicit
	case ARPTha:
		return kind == advert
	}
	return kind == solicit || kind == advert
}

// Sound is a packet without what one of its type does not have.
func Sound(m Match) Match {
	out := append(Match{}, m...)
	normalize(&out)
	return out
}
