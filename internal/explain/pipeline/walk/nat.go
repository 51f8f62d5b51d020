package walk

import (
	"net/netip"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/explain/pipeline"
)

// Translate rewrites a packet to the first address and port that nat names, as
// ofproto/trace does: which a tracker would take is not known. It says whether nat names
// any.
func Translate(nat string, p *Packet) bool {
	in, ok := strings.CutPrefix(nat, "nat(")
	side, list, named := strings.Cut(strings.TrimSuffix(in, ")"), "=")
	if !ok || !named {
		return false
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
		return false
	}
	src := side == "src"
	eth := p.fields[pipeline.EthType].Lo
	switch {
	case a.Is4() && eth == ethIPv4:
		p.fields[pick(src, pipeline.NWSrc, pipeline.NWDst)] = bytesValue(a.AsSlice())
	case a.Is6() && eth == ethIPv6:
		p.fields[pick(src, pipeline.IPv6Src, pipeline.IPv6Dst)] = bytesValue(a.AsSlice())
	default:
		return false
	}
	port, _, _ = strings.Cut(port, "-")
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && p.ported() {
		p.fields[pick(src, pipeline.TPSrc, pipeline.TPDst)] = pipeline.Value{Lo: n}
	}
	return true
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
func (p *Packet) ported() bool {
	switch p.fields[pipeline.NWProto].Lo {
	case protoTCP, protoUDP, protoSCTP:
		return p.isIP()
	}
	return false
}
