package walk

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Labels of MPLS: a switch keeps the outermost three of a packet, and takes no more.
const (
	ethMPLS, ethMPLSM = 0x8847, 0x8848

	mostLabels  = 3
	mplsBottom  = 0x100
	explicitIP6 = 2
)

// Why walks end at labels.
const (
	manyLabels = "a switch drops a packet that has more than 3 labels, and what it has done before in the pass"
	noLabel    = "the packet is of another type once it has lost the label"
	afterPop   = "after the last label is popped, the datapath begins again with a packet of which only the label was known"
)

func isMPLS(eth uint64) bool { return eth == ethMPLS || eth == ethMPLSM }

// labels is how many the packet has (flow_count_mpls_labels of lib/flow.c).
func (p *Packet) labels() int {
	if !isMPLS(p.fields[pipeline.EthType].Lo) {
		return 0
	}
	n := 0
	for _, l := range append([]uint64{p.fields[pipeline.MPLS].Lo}, p.under...) {
		if l&mplsBottom != 0 {
			return n + 1
		}
		if l != 0 {
			n++
		}
	}
	return n
}

// mpls carries out actions on labels, and says whether it is one of those, and whether the
// list goes on (compose_mpls_push_action and others of ofproto/ofproto-dpif-xlate.c).
func (w *walker) mpls(a pipeline.Action) (goOn, ok bool) {
	p := w.packet
	lse := p.fields[pipeline.MPLS].Lo
	write := func(mask, v uint64) {
		if isMPLS(p.fields[pipeline.EthType].Lo) {
			p.fields[pipeline.MPLS] = pipeline.Value{Lo: lse&^mask | v&mask}
		}
	}
	switch a.Kind {
	case pipeline.PushMPLS:
		return w.pushLabel(a), true
	case pipeline.PopMPLS:
		return w.popLabel(a), true
	case "set_mpls_label":
		write(0xfffff000, a.N<<12)
	case "set_mpls_tc":
		write(0xe00, a.N<<9)
	case "set_mpls_ttl":
		write(0xff, a.N)
	case pipeline.DecMPLSTTL:
		switch ttl := lse & 0xff; {
		case !isMPLS(p.fields[pipeline.EthType].Lo):
			return false, true
		case ttl > 1:
			write(0xff, ttl-1)
		default:
			w.event(TTL, "dec_mpls_ttl")
			return false, true
		}
	default:
		return true, false
	}
	return true, true
}

// pushLabel puts a label on top; below the first, the switch sees nothing of the packet
// (flow_push_mpls of lib/flow.c).
func (w *walker) pushLabel(a pipeline.Action) bool {
	p := w.packet
	switch n := p.labels(); {
	case n >= mostLabels:
		w.unknown(w.text(a), manyLabels)
		return false
	case n > 0:
		lse := p.fields[pipeline.MPLS].Lo
		p.under = append([]uint64{lse}, p.under...)
		p.fields[pipeline.MPLS] = pipeline.Value{Lo: lse &^ mplsBottom}
	default:
		label, tc, ttl := uint64(0), uint64(0), uint64(64)
		if p.fields[pipeline.EthType].Lo == ethIPv6 {
			label = explicitIP6
		}
		if p.isIP() {
			tc = p.fields[pipeline.NWTOS].Lo >> 2 & 7
			if t := p.fields[pipeline.NWTTL].Lo; t > 0 {
				ttl = t
			}
		}
		p.cover()
		p.fields[pipeline.MPLS] = pipeline.Value{Lo: label<<12 | tc<<9 | mplsBottom | ttl}
	}
	p.fields[pipeline.EthType] = pipeline.Value{Lo: a.N}
	return true
}

// covered reports whether a label hides a base.
func covered(b pipeline.Base) bool {
	return b >= pipeline.IPv6Src && b <= pipeline.TCPFlags && b != pipeline.MPLS
}

// cover hides what a label is put on, which leaves the switch as it was.
func (p *Packet) cover() {
	inner := p.fields
	p.inner = &inner
	for b := range pipeline.Base(pipeline.Bases) {
		if covered(b) {
			p.fields[b] = pipeline.Value{}
		}
	}
	for _, b := range []pipeline.Base{pipeline.CTNWSrc, pipeline.CTNWDst, pipeline.CTIPv6Src, pipeline.CTIPv6Dst,
		pipeline.CTTPSrc, pipeline.CTTPDst} {
		p.fields[b] = pipeline.Value{}
	}
}

// bare is the packet as it leaves: where it has no label any more, what was under it.
func (p *Packet) bare() *Packet {
	if p.inner == nil || p.inner[pipeline.EthType] != p.fields[pipeline.EthType] {
		return p
	}
	q := p.clone()
	for b := range pipeline.Base(pipeline.Bases) {
		if covered(b) {
			q.fields[b] = p.inner[b]
		}
	}
	q.inner = nil
	return q
}

// labelled is what the header's fields do not show of labels.
func (p *Packet) labelled() string {
	if p.inner == nil && len(p.under) == 0 {
		return ""
	}
	s := fmt.Sprintf(" labels %#x", p.under)
	if p.inner != nil {
		s += fmt.Sprintf(" on %#x", p.inner[pipeline.EthType].Lo)
		for b, v := range p.inner {
			if covered(pipeline.Base(b)) && !v.IsZero() {
				s += fmt.Sprintf(" %d=%x.%x", b, v.Hi, v.Lo)
			}
		}
	}
	return s
}

// popLabel takes the outermost label off (flow_pop_mpls of lib/flow.c).
func (w *walker) popLabel(a pipeline.Action) bool {
	p := w.packet
	n := p.labels()
	if n == 0 {
		return true
	}
	if n == mostLabels && len(p.under) == mostLabels-1 && p.under[mostLabels-2]&mplsBottom == 0 {
		w.unknown(w.text(a), manyLabels)
		return false
	}
	if isMPLS(a.N) != (n > 1) || n == 1 && p.inner != nil && p.inner[pipeline.EthType].Lo != a.N {
		w.unknown(w.text(a), noLabel)
		return false
	}
	p.pop(a.N)
	w.bared = w.bared || !isMPLS(a.N)
	return true
}

// pop takes a label off, and gives the packet another type.
func (p *Packet) pop(eth uint64) {
	p.fields[pipeline.MPLS] = pipeline.Value{}
	if len(p.under) > 0 {
		p.fields[pipeline.MPLS] = pipeline.Value{Lo: p.under[0]}
		p.under = slices.Clone(p.under[1:])
	}
	p.fields[pipeline.EthType] = pipeline.Value{Lo: eth}
}

// again reports whether a datapath begins again before the action, as a packet has lost its
// last label (recirc_for_mpls of ofproto/ofproto-dpif-xlate.c).
func (w *walker) again(a pipeline.Action) bool {
	if !w.bared {
		return false
	}
	switch a.Kind {
	case pipeline.Output, pipeline.OutputTrunc, pipeline.Enqueue, pipeline.SetVLANVID, pipeline.SetVLANPCP,
		pipeline.ModVLANVID, pipeline.ModVLANPCP, "mod_dl_src", "mod_dl_dst", pipeline.SetTunnel, "set_tunnel64",
		pipeline.SetQueue, pipeline.GroupAction:
		return false
	case pipeline.SetField, pipeline.Load:
		return a.Dst.Field.Base >= pipeline.IPv6Src
	}
	return true
}
