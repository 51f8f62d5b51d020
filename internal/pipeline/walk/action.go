package walk

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// actions carries out a list, in order (do_xlate_actions of
// ofproto/ofproto-dpif-xlate.c).
func (w *walker) actions(list []pipeline.Action) {
	for i, a := range list {
		w.spend(1)
		if w.last(&list[i]) {
			w.shown--
			defer func() { w.shown++ }()
		}
		switch {
		case w.exit:
			return
		case a.Kind == pipeline.CheckLarger:
			w.byLength(a, list[i+1:])
			return
		case !w.action(a):
			return
		}
	}
}

// last reports whether an action is the last of a flow's and leads to a table. That table is shown next to the
// flow's and not within it, as by ofproto/trace: pipelines are long.
func (w *walker) last(a *pipeline.Action) bool {
	if w.flow == nil || a.Kind != pipeline.Resubmit && a.Kind != pipeline.Goto {
		return false
	}
	own := w.flow.Actions
	return a == &own[len(own)-1]
}

// lengthWithSet: xlate_check_pkt_larger does not restore the set for the other branch.
const lengthWithSet = "ovs-vswitchd (3.1) carries out the action set for longer packets only"

// byLength carries out the rest of a list on a copy that has the answer, and the action set
// with it: what called the list goes on without. A switch does so for longer packets, and
// then for others, whatever the packet: what one branch leaves on the stack is there in the
// other, an exit in the first ends what called the list for both, and so do its limits
// (xlate_check_pkt_larger).
func (w *walker) byLength(a pipeline.Action, rest []pipeline.Action) {
	if len(w.packet.actions) > 0 {
		w.unknown(w.text(a), lengthWithSet)
		return
	}
	larger := w.oracle.Larger(a.N)
	saved, tracked, bared := w.packet, w.tracked, w.bared
	stack, exit := saved.stack, false
	for _, longer := range []bool{true, false} {
		w.packet, w.tracked, w.bared = saved, tracked, bared
		w.packet = w.copied()
		w.packet.stack = slices.Clone(stack)
		bit := pipeline.Value{}
		if longer {
			bit.Lo = 1
		}
		w.packet.put(a.Dst, bit)
		w.branch(rest, longer == larger)
		if len(w.packet.actions) > 0 { // by a group of the set: it begins the other branch's
			w.unknown(w.text(a), lengthWithSet)
		}
		stack = w.packet.stack
		exit = exit || longer && w.exit
		w.resume()
	}
	w.packet, w.tracked, w.bared = saved, tracked, bared
	w.exit = w.exit || exit
}

// branch carries out a list and the action set: for this packet, or only as a switch must
// for packets of another length.
func (w *walker) branch(list []pipeline.Action, own bool) {
	if !own {
		w.aside++
		defer func() { w.aside-- }()
	}
	w.actions(list)
	w.actionSet()
}

// action carries out one, and says whether the list goes on.
func (w *walker) action(a pipeline.Action) bool {
	p := w.packet
	if w.again(a) {
		w.unknown(w.text(a), afterPop)
		return false
	}
	switch a.Kind {
	case pipeline.Output:
		w.output(a)
	case pipeline.OutputTrunc:
		w.trunc(a)
	case pipeline.Controller:
		w.event(Controller, w.text(a))
	case pipeline.Enqueue:
		queue, queued := p.queue, p.queued
		p.queue, p.queued = a.N, true
		w.leave(a.Port)
		p.queue, p.queued = queue, queued
	case pipeline.SetQueue:
		p.queue, p.queued = a.N, true
	case pipeline.PopQueue:
		p.queue, p.queued = 0, false
	case pipeline.Resubmit, pipeline.Goto:
		w.jump(a)
	case pipeline.GroupAction:
		w.group(a)
	case pipeline.CT:
		w.track(a)
	case pipeline.CTClear:
		if w.tracked { // once for all copies that are no copies to the datapath (see clone)
			p.untrack()
			w.tracked = false
		}
	case pipeline.Clone:
		if a.Patch {
			w.leave(a.Port)
			break
		}
		w.clone(a.Nested)
	case pipeline.WriteActions:
		w.writeActions(a.Nested)
	case pipeline.ClearActions:
		p.actions, w.grouped = nil, false
		p.fields[pipeline.ActsetOutput] = pipeline.Value{Lo: uint64(pipeline.PortUnset)}
	case pipeline.DecTTL:
		return w.decTTL(a)
	case pipeline.Exit:
		w.exit = true
	default:
		return w.other(a)
	}
	return true
}

// other carries out actions that lead nowhere.
func (w *walker) other(a pipeline.Action) bool {
	switch a.Kind {
	case pipeline.Learn:
		w.learn(a)
	case pipeline.Meter:
		w.event(Meter, w.text(a))
	case pipeline.Sample:
		w.event(Sample, w.text(a))
	case pipeline.Bundle, pipeline.BundleLoad:
		w.bundle(a)
	case pipeline.Multipath:
		i := w.oracle.Choose(w.text(a), int(a.N), w.packet)
		w.event(Choice, fmt.Sprintf("multipath link %d of %d", i, a.N))
		w.packet.put(a.Dst, pipeline.Value{Lo: uint64(i)})
	case pipeline.NoteAction, pipeline.FinTimeout, pipeline.Conjunction, "debug_slow":
	default:
		if goOn, ok := w.mpls(a); ok {
			return goOn
		}
		if !w.assign(a) {
			w.unknown(w.text(a), "no walk through this action is known")
		}
	}
	return true
}

// text is an action as it is written.
func (w *walker) text(a pipeline.Action) string { return w.PrintActions([]pipeline.Action{a}) }

// jump looks up the table that the action names.
func (w *walker) jump(a pipeline.Action) {
	if p := w.packet; a.Original && (!p.isIP() || p.fields[pipeline.CTNWProto].IsZero()) {
		w.say("not looked up by a connection's original direction: the packet has none")
		return
	}
	port := w.packet.inPort()
	if a.Kind == pipeline.Resubmit && a.Port != pipeline.PortIn {
		port = a.Port
	}
	to := a.Table
	if to == pipeline.NoTable && a.Kind == pipeline.Resubmit {
		to = w.table
	}
	w.resubmit(to, port, a.Original)
}

func (w *walker) output(a pipeline.Action) {
	if a.Src.Field == nil {
		w.leave(a.Port)
		return
	}
	const ports = 0xffff
	if v := w.packet.read(a.Src); v.Hi == 0 && v.Lo <= ports {
		w.leave(pipeline.Port(v.Lo).Of(a.Port.Bridge()))
	} else {
		w.say("there is no port of the number in %s", a.Src.Field.Name)
	}
}

// trunc sends the first bytes of the packet out of a port (xlate_output_trunc_action).
func (w *walker) trunc(a pipeline.Action) {
	switch in := w.packet.inPort(); a.Port {
	case pipeline.PortIn:
		a.Port = in
	case in:
		w.say("not to the port that it came from")
		return
	}
	w.event(Output, w.text(a))
}

// leave sends the packet out of a port (xlate_output_action).
func (w *walker) leave(port pipeline.Port) {
	switch port {
	case pipeline.PortNone, pipeline.PortUnset:
		return
	case pipeline.PortIn:
		port = w.packet.inPort()
		if a, ok := w.Patched(port); ok {
			w.patch(a)
			return
		}
	case pipeline.PortTable:
		w.resubmit(w.Entry(), w.packet.inPort(), false)
		return
	case pipeline.PortController:
		w.event(Controller, w.text(pipeline.Action{Kind: pipeline.Controller, N: 0xffff}))
		return
	default:
		if w.special(port) {
			return
		}
		if port.Of(0) == 0 {
			w.say("no switch has a port 0")
			return
		}
		if port == w.packet.inPort() {
			w.say("not to the port that it came from")
			return
		}
	}
	if a, ok := w.Patched(port); ok {
		w.patch(a)
		return
	}
	text := w.Names.At(port, "output:"+w.Names.FormatPort(port))
	if w.packet.queued {
		text = fmt.Sprintf("set_queue:%d,", w.packet.queue) + text
	}
	w.event(Output, text)
}

// special sends the packet to several ports, or to one that a switch has learned, if the port says so.
func (w *walker) special(port pipeline.Port) bool {
	own := port.Of(0)
	switch own {
	case pipeline.PortNormal, pipeline.PortFlood, pipeline.PortAll:
	default:
		return false
	}
	name := w.Names.At(port, w.Names.FormatPort(port))
	if own == pipeline.PortNormal && w.aside == 0 {
		w.walk.Opaque = append(w.walk.Opaque, name)
	}
	w.event(Output, name)
	return true
}

// clone carries out a list on a copy, and the action set with it. An exit there ends the
// original too (clone_xlate_actions leaves ctx->exit as it is).
func (w *walker) clone(list []pipeline.Action) {
	saved, tracked, bared := w.packet, w.tracked, w.bared
	w.packet = w.copied()
	w.actions(list)
	w.actionSet()
	w.packet = saved
	if !slices.ContainsFunc(list, lasting) {
		return // a switch undoes what it did, but does not know that the packet was tracked, or lost its labels
	}
	w.tracked, w.bared = tracked, bared
}

// lasting reports whether an action has a switch make a copy, as it could not undo it
// (reversible_actions of ofproto/ofproto-dpif-xlate.c).
func lasting(a pipeline.Action) bool {
	switch a.Kind {
	case pipeline.CT, pipeline.Meter, pipeline.NAT, pipeline.OutputTrunc, pipeline.Encap, pipeline.Decap,
		pipeline.CheckLarger, pipeline.DeleteField:
		return true
	}
	return false
}

// resume goes on after a group's bucket, whether or not that met an exit.
func (w *walker) resume() { w.exit = w.at.Failed != "" || !w.walk.Understood() }

// decTTL says whether the list goes on: a packet whose TTL runs out goes to the
// controller, and the list ends (compose_dec_ttl).
func (w *walker) decTTL(a pipeline.Action) bool {
	p := w.packet
	if !p.isIP() {
		return true
	}
	if ttl := p.fields[pipeline.NWTTL].Lo; ttl > 1 {
		p.fields[pipeline.NWTTL] = pipeline.Value{Lo: ttl - 1}
		return true
	}
	if a.Text == "dec_ttl()" {
		w.say("its TTL runs out, and no controller is told")
		return false
	}
	w.event(TTL, "dec_ttl")
	return false
}

// group carries out a group: each bucket on a copy, or the one that is chosen.
func (w *walker) group(a pipeline.Action) {
	g := w.Group(uint32(a.N))
	switch {
	case g == nil:
		w.unknown(w.text(a), "the group is not in the input: expected the output of \"ovs-ofctl dump-groups\" too")
		return
	case w.nested >= MaxDepth:
		w.fail("over %d groups in each other", MaxDepth)
		return
	case len(g.Buckets) == 0:
		return
	}
	list := g.Buckets
	switch g.Type {
	case "all", "indirect":
	case "select", "fast_failover", "ff":
		if w.bared && g.Type == "select" {
			w.unknown(w.text(a), afterPop)
			return
		}
		i := w.oracle.Choose(fmt.Sprintf("group %d", g.ID), len(list), w.packet)
		w.event(Choice, fmt.Sprintf("group:%d bucket %d of %d", g.ID, i+1, len(list)))
		list = list[i : i+1]
		if g.Type == "select" && !strings.Contains(g.Text, "selection_method") {
			w.hashes(a)
		}
	default:
		w.unknown(g.Text, "no group of this type is known")
		return
	}
	for _, b := range list {
		if w.exit {
			return
		}
		saved, bared := w.copied(), w.bared
		w.nested++
		w.actions(ordered(b.Actions))
		w.nested--
		// What a bucket pushes or adds to the action set stays (xlate_group_bucket).
		saved.stack, saved.actions = w.packet.stack, w.packet.actions
		w.packet, w.bared = saved, bared
		w.resume()
	}
}

// hashes notes that the datapath begins again with the packet, to choose by a hash.
func (w *walker) hashes(a pipeline.Action) {
	switch {
	case len(w.packet.below) > 0:
		w.unknown(w.text(a), twoTags)
	case w.aside == 0:
		w.at.Hashed++
	}
}

// bundle sends the packet to one of several ports, or holds that one's number.
func (w *walker) bundle(a pipeline.Action) {
	if len(a.Ports) == 0 {
		return
	}
	i := w.oracle.Choose(w.text(a), len(a.Ports), w.packet)
	w.event(Choice, fmt.Sprintf("%s member %d of %d", a.Kind, i+1, len(a.Ports)))
	if a.Kind == pipeline.BundleLoad {
		w.packet.put(a.Dst, pipeline.Value{Lo: uint64(a.Ports[i])})
		return
	}
	w.leave(a.Ports[i])
}
