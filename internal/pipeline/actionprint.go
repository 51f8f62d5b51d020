package pipeline

import (
	"fmt"
	"strings"
)

// Version is what a dump was asked for in (ovs-ofctl -O): some actions are written
// otherwise in one than in another.
type Version int

// Versions.
const (
	// AsGiven writes each action as the kind that it was given as.
	AsGiven Version = iota
	// OpenFlow10 is what ovs-ofctl asks for unless told otherwise.
	OpenFlow10
)

// list writes actions.
func (w *printer) actions(list []Action) {
	if w.version == OpenFlow10 {
		list = legacy(list)
	}
	if len(list) == 0 {
		w.WriteString("drop")
	}
	for i, a := range list {
		if i > 0 {
			w.WriteString(",")
		}
		w.action(a)
	}
}

func (w *printer) action(a Action) {
	if a.Bridge != "" {
		w.WriteString(a.Bridge + ":")
	}
	if a.Patch {
		fmt.Fprintf(w, "output:%s(to port %s of %s)", w.Names.FormatPort(a.Port), w.Names.FormatPort(a.Peer),
			w.Names.bridge(a.Peer.Bridge()))
		return
	}
	switch a.Kind {
	case Output:
		w.output(a)
	case OutputTrunc:
		fmt.Fprintf(w, "output(port=%s,max_len=%d)", w.Names.FormatPort(a.Port), a.N)
	case Controller:
		if a.Text != "" {
			w.WriteString(a.Text)
			return
		}
		fmt.Fprintf(w, "CONTROLLER:%d", a.N)
	case Enqueue:
		fmt.Fprintf(w, "enqueue:%s:%d", w.Names.FormatPort(a.Port), a.N)
	case Resubmit:
		w.resubmit(a)
	case Goto:
		fmt.Fprintf(w, "goto_table:%s", w.Names.FormatTable(a.Table))
	case CT:
		w.ct(a)
	case Clone, WriteActions:
		fmt.Fprintf(w, "%s(", a.Kind)
		w.actions(a.Nested)
		w.WriteString(")")
	case Load:
		w.load(a)
	case SetField:
		w.WriteString("set_field:")
		w.fieldValue(a.Dst.Field, a.Value, a.Mask)
		fmt.Fprintf(w, "->%s", a.Dst.Field.Name)
	case WriteMeta:
		fmt.Fprintf(w, "write_metadata:%s", a.Value.hex())
		if a.Mask != ones(64) {
			fmt.Fprintf(w, "/%s", a.Mask.hex())
		}
	case Move:
		fmt.Fprintf(w, "move:%s->%s", a.Src.text(), a.Dst.text())
	case Push, Pop:
		fmt.Fprintf(w, "%s:%s", a.Kind, a.Dst.text())
	case CheckLarger:
		fmt.Fprintf(w, "check_pkt_larger(%d)->%s", a.N, a.Dst.text())
	case Conjunction:
		fmt.Fprintf(w, "conjunction(%d,%d/%d)", a.N, a.Clause, a.Clauses)
	case DeleteField:
		fmt.Fprintf(w, "delete_field:%s", a.Dst.Field.Name)
	case Encap, Decap, DecTTL, Learn, Multipath, Bundle, BundleLoad, Sample, NoteAction, FinTimeout, Unknown, NAT:
		w.WriteString(a.Text)
	default:
		w.small(a)
	}
}

// small writes kinds of a number or of nothing.
func (w *printer) small(a Action) {
	switch a.Kind {
	case "mod_dl_src", "mod_dl_dst":
		fmt.Fprintf(w, "%s:%s", a.Kind, formatMAC(num(a.N)))
	case "mod_nw_src", "mod_nw_dst":
		fmt.Fprintf(w, "%s:%s", a.Kind, formatIP(num(a.N), 32))
	case "set_mpls_label", "set_mpls_tc", "set_mpls_ttl":
		fmt.Fprintf(w, "%s(%d)", a.Kind, a.N)
	case PushVLAN:
		fmt.Fprintf(w, "%s:%s", a.Kind, num(a.N).hex())
	case PushMPLS, PopMPLS:
		fmt.Fprintf(w, "%s:0x%04x", a.Kind, a.N)
	case SetTunnel, "set_tunnel64":
		k := a.Kind
		if a.N > 0xffffffff {
			k = "set_tunnel64"
		}
		fmt.Fprintf(w, "%s:%s", k, num(a.N).hex())
	default:
		if _, _, ok := plainNumber(string(a.Kind)); ok {
			fmt.Fprintf(w, "%s:%d", a.Kind, a.N)
			return
		}
		w.WriteString(string(a.Kind))
	}
}

func (w *printer) output(a Action) {
	if a.Src.Field != nil {
		fmt.Fprintf(w, "output:%s", a.Src.text())
		return
	}
	if own := a.Port.own(); own < PortMax || own >= unnumbered {
		w.WriteString("output:")
	}
	w.WriteString(w.Names.FormatPort(a.Port))
}

func (w *printer) resubmit(a Action) {
	port, table := "", ""
	if a.Port != PortIn {
		port = w.Names.FormatPort(a.Port)
	}
	if a.Table != NoTable {
		table = w.Names.FormatTable(a.Table)
	} else if !a.Original {
		w.WriteString("resubmit:" + port)
		return
	}
	w.WriteString("resubmit(" + port + "," + table)
	if a.Original {
		w.WriteString(",ct")
	}
	w.WriteString(")")
}

func (w *printer) ct(a Action) {
	t := a.Track
	var out []string
	if t.Commit {
		out = append(out, "commit")
	}
	if t.Force {
		out = append(out, "force")
	}
	if t.Table != NoTable {
		out = append(out, "table="+w.Names.FormatTable(t.Table))
	}
	if t.From.Field != nil {
		out = append(out, "zone="+t.From.text())
	} else if t.Zone != 0 {
		out = append(out, fmt.Sprintf("zone=%d", t.Zone))
	}
	if t.NAT != "" {
		out = append(out, t.NAT)
	}
	if len(a.Nested) > 0 {
		in := printer{Pipeline: w.Pipeline, version: w.version}
		in.actions(a.Nested)
		out = append(out, "exec("+in.String()+")")
	}
	if t.ALG != "" {
		out = append(out, "alg="+t.ALG)
	}
	w.WriteString("ct(" + strings.Join(out, ",") + ")")
}

// load writes a piece of at most 64 bits at a time.
func (w *printer) load(a Action) {
	for at := 0; at < a.Dst.Bits; at += 64 {
		n := min(64, a.Dst.Bits-at)
		if at > 0 {
			w.WriteString(",")
		}
		part := Subfield{a.Dst.Field, a.Dst.Start + at, n}
		fmt.Fprintf(w, "load:%s->%s", a.Value.Right(at).And(ones(n)).hex(), part.text())
	}
}

// fieldValue writes a value in the field's form.
func (w *printer) fieldValue(f *Field, v, mask Value) {
	full := mask.And(f.stored()) == f.stored()
	if mask.IsZero() {
		w.WriteString("ANY")
		return
	}
	switch f.Form {
	case PortForm:
		w.WriteString(w.Names.FormatPort(Port(v.Lo)))
		return
	case MAC, IPv4, IPv6:
		w.WriteString(formatAddress(v, mask.And(ones(f.Bits)), f.Form))
		return
	case StateForm, TCPForm, TunForm:
		w.flags(v, mask, f.Form.flagBits())
		return
	case FragForm:
		w.WriteString(formatFragment(v.Lo, mask.Lo&3))
		return
	case TypeForm:
		fmt.Fprintf(w, "(%d,%#x)", v.Lo>>16, v.Lo&0xffff)
		return
	case Dec:
		fmt.Fprintf(w, "%d", v.Lo)
	case Hex:
		w.WriteString(v.hex())
	}
	if !full {
		w.WriteString("/" + mask.hex())
	}
}

// legacy writes actions that OpenFlow 1.0 lacks by those that it has
// (set_field_to_legacy_openflow of lib/ofp-actions.c).
func legacy(list []Action) (out []Action) {
	for _, a := range list {
		switch a.Kind {
		case SetField:
			out = append(out, legacySet(a)...)
		case Load:
			if a.Dst.Field.Base >= TunMetadata0 && a.Dst.whole() {
				a = Action{Kind: SetField, Dst: a.Dst, Value: a.Value, Mask: ones(128)}
			}
			out = append(out, a)
		case Goto:
			out = append(out, Action{Kind: Resubmit, Port: PortIn, Table: a.Table})
		case PopVLAN:
			out = append(out, Action{Kind: StripVLAN})
		case SetVLANVID:
			out = append(out, Action{Kind: ModVLANVID, N: a.N})
		case SetVLANPCP:
			out = append(out, Action{Kind: ModVLANPCP, N: a.N})
		case "mod_nw_ecn", "mod_nw_ttl":
			out = append(out, Action{Kind: Load, Dst: a.Dst, Value: num(a.N), Mask: ones(a.Dst.Bits)})
		case PushVLAN, WriteActions, ClearActions, Meter:
			// OpenFlow 1.0 has none.
		default:
			out = append(out, a)
		}
	}
	return out
}

func legacySet(a Action) []Action {
	n := func(k Kind, v uint64) []Action { return []Action{{Kind: k, N: v}} }
	v := a.Value.Lo
	switch a.Dst.Field.Name {
	case "vlan_tci":
		if v&vlanCFI == 0 {
			return n(StripVLAN, 0)
		}
		return append(n(ModVLANVID, v&0xfff), n(ModVLANPCP, v>>13)...)
	case "vlan_vid":
		return n(ModVLANVID, v&0xfff)
	case "vlan_pcp":
		return n(ModVLANPCP, v)
	case "eth_src":
		return n("mod_dl_src", v)
	case "eth_dst":
		return n("mod_dl_dst", v)
	case "ip_src":
		return n("mod_nw_src", v)
	case "ip_dst":
		return n("mod_nw_dst", v)
	case "nw_tos":
		return n("mod_nw_tos", v)
	case "ip_dscp":
		return n("mod_nw_tos", v<<2)
	case "tcp_src", "udp_src":
		return n("mod_tp_src", v)
	case "tcp_dst", "udp_dst":
		return n("mod_tp_dst", v)
	}
	if !a.Dst.Field.standard() {
		return []Action{a}
	}
	return loads(a)
}

// loads is a set_field as loads of the pieces that its mask has.
func loads(a Action) (out []Action) {
	for at := 0; at < a.Dst.Field.Bits; {
		if !a.Mask.Bit(at) {
			at++
			continue
		}
		end := at
		for end < a.Dst.Field.Bits && end < at+64 && a.Mask.Bit(end) {
			end++
		}
		part := ones(end - at)
		out = append(out, Action{Kind: Load, Dst: Subfield{a.Dst.Field, at, end - at},
			Value: a.Value.Right(at).And(part), Mask: part})
		at = end
	}
	return out
}
