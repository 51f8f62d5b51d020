package walk

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// writeActions adds to the action set. Of its output a table sees nothing once there was a
// group in a set of this pass, be it that of a copy (xlate_write_actions__ and
// action_set_has_group, which no copy restores).
func (w *walker) writeActions(list []pipeline.Action) {
	p := w.packet
	w.spend(len(p.actions) + len(list))
	for _, a := range list {
		if w.grouped {
			break
		}
		switch a.Kind {
		case pipeline.Output:
			p.fields[pipeline.ActsetOutput] = pipeline.Value{Lo: uint64(a.Port)}
		case pipeline.GroupAction:
			p.fields[pipeline.ActsetOutput], w.grouped = pipeline.Value{Lo: uint64(pipeline.PortUnset)}, true
		}
	}
	p.actions = append(slices.Clone(p.actions), list...)
}

// actionSet carries out the action set, which is empty afterwards: after an exit too.
func (w *walker) actionSet() {
	list := ordered(w.packet.actions)
	w.packet.actions = nil
	if len(list) > 0 && !w.exit {
		w.say("the action set:")
		w.shown++
		w.actions(list)
		w.shown--
	}
}

// firsts are the kinds that an action set begins with, lasts those of which one ends it, in
// the order of Open vSwitch (ofpacts_execute_action_set of lib/ofp-actions.c).
func firsts() []pipeline.Kind {
	return []pipeline.Kind{pipeline.PopVLAN, pipeline.PopMPLS, pipeline.Decap, pipeline.Encap, pipeline.PushMPLS,
		pipeline.PushVLAN, pipeline.DecTTL, pipeline.DecMPLSTTL}
}

func lasts() []pipeline.Kind {
	return []pipeline.Kind{pipeline.GroupAction, pipeline.Output, pipeline.Resubmit, pipeline.CT}
}

// ordered is an action set in the order in which it is carried out. Without an action that
// sends the packet somewhere there is nothing to do.
func ordered(set []pipeline.Action) (out []pipeline.Action) {
	last := func(k pipeline.Kind) bool {
		for i := len(set) - 1; i >= 0; i-- {
			kind := set[i].Kind
			if kind == pipeline.StripVLAN {
				kind = pipeline.PopVLAN
			}
			if kind == pipeline.Controller {
				kind = pipeline.Output
			}
			if kind == k {
				out = append(out, set[i])
				return true
			}
		}
		return false
	}
	for _, k := range firsts() {
		last(k)
	}
	for _, a := range set {
		if sets(a.Kind) {
			out = append(out, a)
		}
	}
	last(pipeline.SetQueue)
	if slices.ContainsFunc(lasts(), last) {
		return out
	}
	return nil
}

// sets reports whether actions of the kind keep their order in a set.
func sets(k pipeline.Kind) bool {
	switch k {
	case pipeline.Load, pipeline.SetField, pipeline.Move, pipeline.SetTunnel, "set_tunnel64", "set_mpls_label",
		"set_mpls_tc", "set_mpls_ttl", pipeline.ModVLANVID, pipeline.ModVLANPCP, pipeline.SetVLANVID, pipeline.SetVLANPCP,
		"mod_dl_src", "mod_dl_dst", "mod_nw_src", "mod_nw_dst", "mod_nw_tos", "mod_nw_ecn", "mod_nw_ttl", "mod_tp_src",
		"mod_tp_dst":
		return true
	}
	return false
}
