package walk

import (
	"fmt"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Answer is what the tracker says of a packet.
type Answer struct {
	// State has bits as ct_state, Mark and Label are the connection's.
	State uint64
	Mark  uint64
	Label pipeline.Value
	// Whole says that the tracker has made one packet of a first fragment and the others, as the kernel's
	// does.
	Whole bool
}

// Bits of ct_state.
const (
	New, Established, Related, Reply, Invalid, Tracked = 1, 2, 4, 8, 16, 32
)

// Fill writes the answer into a packet. The connection's original direction is the packet's
// own, or the other one for a reply.
func (a Answer) Fill(p *Packet) {
	p.fields[pipeline.CTState] = pipeline.Value{Lo: a.State | Tracked}
	p.fields[pipeline.CTMark] = pipeline.Value{Lo: a.Mark}
	p.fields[pipeline.CTLabel] = a.Label
	p.whole = p.whole || a.Whole && p.fields[pipeline.NWFrag].Lo == fragAny
	if a.State&Invalid != 0 {
		return
	}
	pairs := [][3]pipeline.Base{{pipeline.CTNWSrc, pipeline.NWSrc, pipeline.NWDst},
		{pipeline.CTNWDst, pipeline.NWDst, pipeline.NWSrc}, {pipeline.CTIPv6Src, pipeline.IPv6Src, pipeline.IPv6Dst},
		{pipeline.CTIPv6Dst, pipeline.IPv6Dst, pipeline.IPv6Src}, {pipeline.CTTPSrc, pipeline.TPSrc, pipeline.TPDst},
		{pipeline.CTTPDst, pipeline.TPDst, pipeline.TPSrc}}
	for _, b := range pairs {
		from := b[1]
		if a.State&Reply != 0 {
			from = b[2]
		}
		p.fields[b[0]] = p.fields[from]
	}
	p.fields[pipeline.CTNWProto] = p.fields[pipeline.NWProto]
}

// swap has a packet be of its connection's original direction (tuple_swap_flow of
// ofproto/ofproto-dpif-xlate.c).
func (p *Packet) swap() {
	pairs := [][2]pipeline.Base{{pipeline.NWProto, pipeline.CTNWProto}, {pipeline.TPSrc, pipeline.CTTPSrc},
		{pipeline.TPDst, pipeline.CTTPDst}}
	if p.fields[pipeline.EthType].Lo == ethIPv4 {
		pairs = append(pairs, [2]pipeline.Base{pipeline.NWSrc, pipeline.CTNWSrc},
			[2]pipeline.Base{pipeline.NWDst, pipeline.CTNWDst})
	} else {
		pairs = append(pairs, [2]pipeline.Base{pipeline.IPv6Src, pipeline.CTIPv6Src},
			[2]pipeline.Base{pipeline.IPv6Dst, pipeline.CTIPv6Dst})
	}
	for _, b := range pairs {
		p.fields[b[0]], p.fields[b[1]] = p.fields[b[1]], p.fields[b[0]]
	}
}

// Tracking is the answer that a packet has.
func Tracking(p *Packet) Answer {
	return Answer{p.fields[pipeline.CTState].Lo, p.fields[pipeline.CTMark].Lo, p.fields[pipeline.CTLabel], p.whole}
}

// String is the answer's bits, and its mark and label where there are some.
func (a Answer) String() string {
	var out []string
	for i, n := range pipeline.CTBits() {
		if (a.State|Tracked)>>i&1 == 1 {
			out = append(out, n)
		}
	}
	s := strings.Join(out, "|")
	if a.Mark != 0 {
		s += fmt.Sprintf(",mark=%#x", a.Mark)
	}
	if !a.Label.IsZero() {
		s += fmt.Sprintf(",label=0x%x%016x", a.Label.Hi, a.Label.Lo)
	}
	if a.Whole {
		s += ",whole=1"
	}
	return s
}

// Given is an oracle whose answers the reader gives: for a zone, or for all.
type Given struct {
	Zones map[uint16]Answer
	// All is for zones that are not named.
	All Answer
	// Long says that the packet is larger than any size that is asked about.
	Long bool
}

// Of is the answer for a zone.
func (g Given) Of(zone uint16) Answer {
	if a, ok := g.Zones[zone]; ok {
		return a
	}
	return g.All
}

// Track implements Oracle.
func (g Given) Track(ask Ask, p *Packet) {
	g.Of(ask.Zone).Fill(p)
	Translate(ask.NAT, p)
}

// Larger implements Oracle.
func (g Given) Larger(uint64) bool { return g.Long }

// Choose implements Oracle: it is the first.
func (g Given) Choose(string, int, *Packet) int { return 0 }

// Read adds an answer as it is written: "zone=5,state=est|rpl,mark=0x1,label=0x2". Without
// zone it is for all that are not named.
func (g *Given) Read(s string) error {
	a, zone := Answer{}, -1
	for _, part := range strings.Split(s, ",") {
		k, v, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q: expected zone=, state=, mark=, label= or whole=, such as zone=0,state=est|rpl", part)
		}
		var err error
		switch k {
		case "zone":
			var n uint64
			if n, err = strconv.ParseUint(v, 0, 16); err != nil {
				return fmt.Errorf("zone=%s: expected a number from 0 to 65535", v)
			}
			zone = int(n)
		case "state":
			a.State, err = readState(v)
		case "mark":
			if a.Mark, err = strconv.ParseUint(v, 0, 32); err != nil {
				return fmt.Errorf("mark=%s: expected a number of 32 bits", v)
			}
		case "label":
			if a.Label.Lo, err = strconv.ParseUint(v, 0, 64); err != nil {
				return fmt.Errorf("label=%s: expected a number of 64 bits", v)
			}
		case "whole":
			if a.Whole, err = strconv.ParseBool(v); err != nil {
				return fmt.Errorf("whole=%s: expected 0 or 1", v)
			}
		default:
			return fmt.Errorf("%q: expected zone=, state=, mark=, label= or whole=, such as zone=0,state=est|rpl", part)
		}
		if err != nil {
			return err
		}
	}
	if zone < 0 {
		g.All = a
		return nil
	}
	if g.Zones == nil {
		g.Zones = map[uint16]Answer{}
	}
	g.Zones[uint16(zone)] = a
	return nil
}

// readState reads "new|trk", "est+rpl" or "+est+rpl".
func readState(s string) (v uint64, err error) {
	names := pipeline.CTBits()
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == '|' || r == '+' }) {
		bit := 0
		for bit < len(names) && names[bit] != word {
			bit++
		}
		if bit == len(names) {
			return 0, fmt.Errorf("state=%s: expected some of %s", s, strings.Join(names, "|"))
		}
		v |= 1 << bit
	}
	if v&^Tracked == 0 {
		return 0, fmt.Errorf("state=%s: expected some of %s", s, strings.Join(names, "|"))
	}
	if v&New != 0 && v&(Established|Reply) != 0 || v&Invalid != 0 && v&(New|Established|Related|Reply) != 0 {
		return 0, fmt.Errorf("state=%s: new, est and inv do not go together", s)
	}
	return v, nil
}
