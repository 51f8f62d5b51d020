package walk

import (
	"fmt"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// actionSetTracked: recirc_alloc_id__ of ofproto/ofproto-dpif-rid.c asserts that there is
// no such packet.
const actionSetTracked = "ovs-vswitchd (3.1) comes to its end when a packet with an action set is tracked"

// twoTags: a trace goes on with what the packet was, a datapath reads it again (parse_vlan of lib/flow.c).
const twoTags = "in its next pass, of a packet with two VLAN tags a switch sees what its vlan-limit says: by default, " +
	"of the second no more than that it is one"

// track carries out ct(): a question to the tracker, the answer to which a copy of the
// packet has in the table that is named; the original goes on without (compose_conntrack_action
// of ofproto/ofproto-dpif-xlate.c).
func (w *walker) track(a pipeline.Action) {
	t := a.Track
	zone := t.Zone
	if t.From.Field != nil {
		zone = uint16(w.packet.read(t.From).Lo)
	}
	if !w.packet.isIP() {
		w.say("the tracker takes packets of IP only")
	}
	marks := w.marks(a.Nested)
	if !w.walk.Understood() {
		return
	}
	if t.Table != pipeline.NoTable && len(w.packet.below) > 0 {
		w.unknown(w.text(a), twoTags)
		return
	}
	if t.Table != pipeline.NoTable && len(w.packet.actions) > 0 {
		w.unknown(w.text(a), actionSetTracked)
		return
	}
	kind := Lookup
	if t.Commit {
		kind = Commit
	}
	w.event(kind, w.trackText(a, zone, marks))
	if t.Table != pipeline.NoTable && w.aside == 0 {
		w.fork(a, zone, marks)
	}
	w.packet.untrack()
	w.tracked = false
}

// fork has a copy of the packet go on in another pass, with the answer, and with the mark
// and the label that the connection was given just now.
func (w *walker) fork(a pipeline.Action, zone uint16, marks pipeline.Match) {
	t := a.Track
	n := len(w.walk.Passes) + len(w.waiting) + 1
	if n > maxPasses {
		w.fail("over %d passes", maxPasses)
		return
	}
	w.spend(workOfPass)
	p := w.packet.clone()
	p.fields[pipeline.CTZone] = pipeline.Value{Lo: uint64(zone)}
	w.oracle.Track(Ask{Zone: zone, Commit: t.Commit, Force: t.Force, NAT: t.NAT, Pass: n}, p)
	for _, m := range marks {
		p.fields[m.Base] = p.fields[m.Base].Without(m.Mask).Or(m.Value)
	}
	from := 0
	for i, q := range w.walk.Passes {
		if q == w.at {
			from = i + 1
		}
	}
	w.waiting = append(w.waiting, &Pass{From: from, By: w.flow, Zone: zone, Table: t.Table, Start: p})
}

// trackText is the action with its zone, and with the mark and the label that its exec
// gives the connection.
func (w *walker) trackText(a pipeline.Action, zone uint16, marks pipeline.Match) string {
	t := a.Track
	var out []string
	add := func(when bool, s string) {
		if when {
			out = append(out, s)
		}
	}
	add(t.Commit, "commit")
	add(t.Force, "force")
	add(true, fmt.Sprintf("zone=%d", zone))
	for _, m := range marks {
		add(true, strings.TrimPrefix(w.PrintTerms(pipeline.Match{m}), "ct_"))
	}
	add(t.NAT != "", t.NAT)
	add(t.ALG != "", "alg="+t.ALG)
	return "ct(" + strings.Join(out, ",") + ")"
}

// marks is what the actions of exec write into the connection's mark and label.
func (w *walker) marks(list []pipeline.Action) (out pipeline.Match) {
	p := w.packet.clone()
	var mask [2]pipeline.Value
	at := map[pipeline.Base]int{pipeline.CTMark: 0, pipeline.CTLabel: 1}
	saved := w.packet
	w.packet = p
	for _, a := range list {
		i, ok := 0, false
		if a.Dst.Field != nil {
			i, ok = at[a.Dst.Field.Base]
		}
		if !ok || !w.assign(a) {
			w.packet = saved
			w.unknown(w.text(a), "in exec, only what writes ct_mark or ct_label is known")
			return nil
		}
		bits := a.Dst.Mask()
		if a.Kind == pipeline.SetField {
			bits = bits.And(a.Mask.Left(a.Dst.Shift()))
		}
		mask[i] = mask[i].Or(bits)
	}
	w.packet = saved
	for i, b := range []pipeline.Base{pipeline.CTMark, pipeline.CTLabel} {
		if !mask[i].IsZero() {
			out = append(out, pipeline.Term{Base: b, Value: p.fields[b].And(mask[i]), Mask: mask[i]})
		}
	}
	return out
}
