package walk

import (
	"net/netip"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Translate rewrites a packet to the first address and port that nat names, as
// ofproto/trace does: which a tracker would take is not known. It says whether nat names
// any.
func Translate(nat string, p *Packet) bool {
	m := Translation(nat)
	if len(m) == 0 {
		return false
	}
	switch eth := p.fields[pipeline.EthType].Lo; m[0].Base {
	case pipeline.NWSrc, pipeline.NWDst:
		if eth != ethIPv4 {
			return false
		}
	default:
		if eth != ethIPv6 {
			return false
		}
	}
	for i, t := range m {
		if i == 0 || p.ported() {
			p.fields[t.Base] = t.Value
		}
	}
	return true
}

// Translation is the first address that nat names, and the port, if there is one.
func Translation(nat string) (m pipeline.Match) {
	in, ok := strings.CutPrefix(nat, "nat(")
	side, list, named := strings.Cut(strings.TrimSuffix(in, ")"), "=")
	if !ok || !named {
		return nil
	}
	list, _, _ = strings.Cut(list, ",")
	addr, port := list, ""
	if i := strings.LastIndexByte(list, ']'); i >= 0 {
		addr, port = list[:i+1], strings.TrimPrefix(list[i+1:], ":")
	} else if strings.Count(list, ":") == 1 {
		addr, port, _ = strings.Cut(list, ":")
	}
	addr, _, _ = strings.Cut(addr, "-")
	a, err := netip.ParseAddr(strings.Trim(addr, "[]"))
	if err != nil {
		return nil
	}
	src := side == "src"
	at, mask := pick(src, pipeline.NWSrc, pipeline.NWDst), pipeline.Value{Lo: 1<<32 - 1}
	if a.Is6() {
		at, mask = pick(src, pipeline.IPv6Src, pipeline.IPv6Dst), pipeline.Value{Hi: ^uint64(0), Lo: ^uint64(0)}
	}
	m = pipeline.Match{{Base: at, Value: bytesValue(a.AsSlice()), Mask: mask}}
	port, _, _ = strings.Cut(port, "-")
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		m = append(m, pipeline.Term{Base: pick(src, pipeline.TPSrc, pipeline.TPDst), Value: pipeline.Value{Lo: n},
			Mask: pipeline.Value{Lo: 1<<16 - 1}})
	}
	return m
}

func pick(src bool, a, b pipeline.Base) pipeline.Base {
	if src {
		return a
	}
	return b
}

func bytesValue(b []byte) (v pipeline.Value) {
	for _, x := range b {
		v = v.Left(8).Or(pipeline.Value{Lo: uint64(x)})
	}
	return v
}

// ported reports whether the packet is of a protocol with ports.
func (p *Packet) ported() bool { return p.isIP() && Ported(p.fields[pipeline.NWProto].Lo) }

// Ported reports whether a protocol of IP has ports.
func Ported(proto uint64) bool { return proto == protoTCP || proto == protoUDP || proto == protoSCTP }
