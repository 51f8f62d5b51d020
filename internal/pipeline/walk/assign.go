package walk

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// assign carries out actions that write bits, and says whether it is one of those.
func (w *walker) assign(a pipeline.Action) bool {
	p := w.packet
	switch a.Kind {
	case pipeline.Load:
		if a.Dst.Field.Held(p.Get) {
			p.put(a.Dst, a.Value)
		}
	case pipeline.SetField, pipeline.WriteMeta:
		if a.Dst.Field.Held(p.Get) {
			p.write(a.Dst.Field, a.Value, a.Mask)
		}
	case pipeline.Move:
		if a.Src.Field.Held(p.Get) && a.Dst.Field.Held(p.Get) {
			p.put(a.Dst, p.read(a.Src))
		}
	case pipeline.Push:
		p.stack = append(p.stack, pushed{p.read(a.Dst), a.Dst.Bits})
	case pipeline.Pop:
		if n := len(p.stack); n > 0 {
			p.put(a.Dst, p.stack[n-1].value)
			p.stack = p.stack[:n-1]
		} else {
			w.say("pop of an empty stack")
		}
	case pipeline.DeleteField:
		p.fields[a.Dst.Field.Base] = pipeline.Value{}
	case pipeline.SetTunnel, "set_tunnel64":
		p.fields[pipeline.TunID] = pipeline.Value{Lo: a.N}
	case pipeline.PushVLAN:
		p.pushTag(uint16(a.N))
	case pipeline.PopVLAN, pipeline.StripVLAN:
		p.popTag()
	case pipeline.ModVLANVID, pipeline.SetVLANVID:
		p.setTag(a.Kind == pipeline.ModVLANVID, 0xfff, a.N)
	case pipeline.ModVLANPCP, pipeline.SetVLANPCP:
		p.setTag(a.Kind == pipeline.ModVLANPCP, 0xe000, a.N<<13)
	default:
		return p.modify(a)
	}
	return true
}

// setTag writes bits of the outermost VLAN tag; make says that one is made where there is
// none.
func (p *Packet) setTag(make bool, mask, v uint64) {
	tci := p.fields[pipeline.VLAN].Lo
	if tci&vlanPresent == 0 && !make {
		return
	}
	p.fields[pipeline.VLAN] = pipeline.Value{Lo: tci&^mask | v&mask | vlanPresent}
	p.fixTag()
}

// modify carries out actions of OpenFlow 1.0 that write a header.
func (p *Packet) modify(a pipeline.Action) bool {
	ipv4 := p.fields[pipeline.EthType].Lo == ethIPv4
	whole := p.fields[pipeline.NWFrag].Lo&fragLater == 0
	set := func(when bool, b pipeline.Base, v uint64) bool {
		if when {
			p.fields[b] = pipeline.Value{Lo: v}
		}
		return true
	}
	tos := p.fields[pipeline.NWTOS].Lo
	switch a.Kind {
	case "mod_dl_src":
		return set(true, pipeline.EthSrc, a.N)
	case "mod_dl_dst":
		return set(true, pipeline.EthDst, a.N)
	case "mod_nw_src":
		return set(ipv4, pipeline.NWSrc, a.N)
	case "mod_nw_dst":
		return set(ipv4, pipeline.NWDst, a.N)
	case "mod_nw_tos":
		return set(p.isIP(), pipeline.NWTOS, tos&3|a.N&0xfc)
	case "mod_nw_ecn":
		return set(p.isIP(), pipeline.NWTOS, tos&0xfc|a.N&3)
	case "mod_nw_ttl":
		return set(p.isIP(), pipeline.NWTTL, a.N)
	case "mod_tp_src":
		return set(p.isIP() && whole, pipeline.TPSrc, a.N)
	case "mod_tp_dst":
		return set(p.isIP() && whole, pipeline.TPDst, a.N)
	}
	return false
}
