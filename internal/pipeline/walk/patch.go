package walk

import "pathwise.dev/pathwise/internal/pipeline"

// patch has a copy of the packet go through the bridge on the other side of a patch port. It comes
// there as from a wire but for its mark: without registers, metadata, tunnel, answers of the tracker, action
// set and stack. Whatever becomes of it, the original goes on as it was (patch_port_output of
// ofproto/ofproto-dpif-xlate.c).
func (w *walker) patch(a pipeline.Action) {
	saved, tracked, bared, grouped := w.packet, w.tracked, w.bared, w.grouped
	p := w.copied()
	p.untrack()
	p.stack, p.actions = nil, nil
	for b := range p.fields {
		if pipeline.PatchClears(pipeline.Base(b)) {
			p.fields[b] = pipeline.Value{}
		}
	}
	p.fields[pipeline.ActsetOutput] = pipeline.Value{Lo: uint64(pipeline.PortUnset)}
	p.fields[pipeline.InPort] = pipeline.Value{Lo: uint64(a.Peer)}
	w.packet, w.tracked, w.grouped = p, false, false
	w.say("%s", w.text(a))
	table := w.table
	w.table = pipeline.Last // whatever the table there, it is one lookup deeper
	w.beyond++
	w.shown++
	w.resubmit(a.Table, a.Peer, false)
	w.actionSet()
	w.shown--
	w.beyond--
	w.packet, w.tracked, w.bared, w.grouped, w.table = saved, tracked, bared, grouped, table
	w.resume()
}
