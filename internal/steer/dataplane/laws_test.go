package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// What must hold of each packet whatever the model says, by an independent sum.

// residue is what a checksum is off by, over all that it is of; 0 and 0xffff are one.
func residue(parts ...[]byte) uint16 {
	s := sum16(bytes.Join(parts, nil))
	if s == 0xffff {
		return 0
	}
	return s
}

// residues are those of the IP header and of the transport, of a frame that h describes.
func residues(b []byte, h *headers) (ip, l4 uint16) {
	if !h.v6 {
		ip = residue(b[14:min(h.l4, len(b))])
	}
	if len(b) < h.l4 {
		return ip, 0
	}
	switch {
	case h.fragment:
		return ip, 0
	case h.proto == 1 && !h.v6:
		return ip, residue(b[h.l4:])
	case sumAt(h.proto, h.v6) != 0:
		n := len(b) - h.l4
		return ip, residue(h.src.AsSlice(), h.dst.AsSlice(), []byte{0, h.proto, byte(n >> 8), byte(n)}, b[h.l4:])
	}
	return ip, 0
}

// broken says which law a program has broken, for a frame and what it made of it.
func (w *world) broken(prog int, in, out []byte, verdict uint32) string {
	if verdict == verdictDrop {
		return ""
	}
	h := readFrame(in)
	switch n := len(out) - len(in); {
	case prog == progPathIn && verdict == verdictRedirect && w.recalled(in, out):
		return ""
	case n == 0:
		return w.translated(prog, in, out)
	case prog == progOut && n == EncapOverhead:
		o := readFrame(out)
		if ip, _ := residues(out, &o); ip != 0 || !bytes.Equal(out[14+EncapOverhead:], in[14:]) || out[15]>>2 != 0 {
			return "what was wrapped is not the packet in a right header"
		}
		return ""
	case prog == progPathIn && n < 0 && h.failure:
		return w.shortened(in, out, &h)
	case prog != progPathIn || n != -EncapOverhead:
		return "its length has changed"
	}
	tag, encap := wrappedIn(in, &h)
	i, want := readFrame(out), bytes.Clone(in[14+EncapOverhead:])
	if in[15]&3 == 3 && i.ok && !i.v6 { // congestion may have been told
		copy(want[:12], out[14:26])
	}
	if !encap || !bytes.Equal(out[14:], want) || !w.taggedBy(&i, tag) {
		return "what was taken out was not to be"
	}
	return w.notAdmitted(&i)
}

// recalled is whether a packet was turned into a note to its sender that its flow is not
// known: from our stable address to a peer's, with nothing of what it carried, all sums right.
func (w *world) recalled(in, out []byte) bool {
	h := readFrame(out)
	p := w.peer(h.dst)
	if p == nil || h.src != p.stable.Local || !h.whole || h.opens && h.proto != 17 {
		return false
	}
	ip, l4 := residues(out, &h)
	bare := len(out) == h.l4+map[uint8]int{6: 20}[h.proto] || h.proto != 6 && len(out) == h.l4+8
	none := h.proto == 17 && be16(out[h.l4+6:]) == 0
	if was := readFrame(in); bare && ip == 0 && l4 == 0 && !none && marked(h.dscp) {
		q, _, _ := w.on(was.src)
		f := bpfFlow{Peer: p.id, Generation: p.gen, Local: h.sport, Remote: h.dport, Proto: h.proto}
		return q != nil && q.id == p.id && !admitted(w.flows[f].role)
	}
	return false
}

// shortened is for an error about a wrapped packet.
func (w *world) shortened(in, out []byte, was *headers) string {
	h := readFrame(out)
	if !h.failure || w.peerTo(&h) == nil || h.src != was.src {
		return "an error was shortened that should not be"
	}
	before, _ := residues(in, was)
	if ip, l4 := residues(out, &h); ip != before || l4 != 0 {
		return "the sums of an error that was shortened are wrong"
	}
	return ""
}

// peerTo is the peer whose pair has this end's address as the destination.
func (w *world) peerTo(h *headers) *peerOf {
	for _, p := range w.peers {
		if p.stable.Local == h.dst {
			return p
		}
	}
	return nil
}

// taggedBy is whether the tag of a wrapped packet was made with a path's key.
func (w *world) taggedBy(h *headers, tag uint64) bool {
	p := w.peer(h.src)
	if p == nil {
		return false
	}
	for _, pa := range p.paths {
		for _, k := range pa.keys.Accept {
			if pa.encap && pa.exists && tag == h.tag(k, sayData, !p.lower()) {
				return true
			}
		}
	}
	return false
}

// notAdmitted is for a packet that was delivered as from a stable address.
func (w *world) notAdmitted(h *headers) string {
	p := w.peer(h.src)
	if p == nil || h.dst != p.stable.Local {
		return "it was delivered as from none of the peers"
	}
	if part := w.flows[bpfFlow{Peer: p.id, Generation: p.gen, Local: h.dport, Remote: h.sport,
		Proto: h.proto}]; !h.whole || !admitted(part.role) && !w.says(p, choiceTakes) {
		return "it was delivered though its flow was not admitted"
	}
	if h.proto == 6 && h.opens && !w.says(p, choiceTakes) {
		return "a SYN was delivered from a path"
	}
	return ""
}

// translated is for a packet that is as long as it was.
func (w *world) translated(prog int, in, out []byte) string {
	if bytes.Equal(in, out) {
		return ""
	}
	a, b := readFrame(in), readFrame(out)
	if !a.ok || !b.ok {
		return "what is no packet has changed"
	}
	ip, l4 := residues(in, &a)
	ipNow, l4Now := residues(out, &b)
	if ip != ipNow {
		return fmt.Sprintf("the header's sum was off by %#x, is by %#x", ip, ipNow)
	}
	none := a.proto == 17 && a.whole && be16(in[a.l4+6:]) == 0
	if none != (b.proto == 17 && b.whole && be16(out[b.l4+6:]) == 0) {
		return "the datagram's sum has come or gone"
	}
	if l4 != l4Now && !none {
		return fmt.Sprintf("the transport's sum was off by %#x, is by %#x", l4, l4Now)
	}
	if a.failure && prog == progPathIn {
		return requoted(in, out, a.l4+8, &a)
	}
	kept := a.l4
	if off := sumAt(a.proto, a.v6); off != 0 && a.whole {
		if !bytes.Equal(in[a.l4:a.l4+off], out[a.l4:a.l4+off]) {
			return "the transport's header has changed"
		}
		kept += off + 2
	}
	switch {
	case !bytes.Equal(in[min(kept, len(in)):], out[min(kept, len(out)):]):
		return "the payload has changed"
	case ecn(in) != ecn(out):
		return "ECN has changed"
	case prog != progOut && marked(b.dscp):
		return "the application sees the mark"
	case prog != progOut && (!marked(a.dscp) || classOf(b.dscp) != a.dscp):
		return "the application's DSCP was not restored"
	case prog == progOut && classOf(a.dscp) != b.dscp:
		return "the mark does not tell the application's DSCP"
	case prog != progPathIn:
		return ""
	}
	if why := w.notAdmitted(&b); why != "" {
		return why
	}
	p, pa, _ := w.on(a.src)
	if p == nil || !pa.onDev || pa.encap || a.dst != pa.pair.Local {
		return "it came from no path of the peer"
	}
	if found, _, _ := a.genuine(pa.keys, sayData, !p.lower()); !found {
		return "its tag was not right"
	}
	return ""
}

// requoted is for an error: the quote's sums are off by as much as they were.
func requoted(in, out []byte, at int, h *headers) string {
	a, b := readIP(in[at:], h.v6), readIP(out[at:], h.v6)
	if !a.ok || !b.ok || marked(b.dscp) || marked(out[15]>>2) && !h.v6 {
		return "the quote's mark shows"
	}
	if end := min(at+max(a.l4, 20), len(in)); !h.v6 && residue(in[at:end]) != residue(out[at:end]) {
		return "the quoted header's sum is off"
	}
	off := sumAt(a.proto, a.v6)
	if at+a.l4 > len(in) {
		return ""
	}
	was, now := in[at+a.l4:], out[at+a.l4:]
	if off == 0 || len(was) < off+2 {
		if !bytes.Equal(was, now) {
			return "the quoted payload has changed"
		}
		return ""
	}
	none := a.proto == 17 && binary.BigEndian.Uint16(was[off:]) == 0
	if none != (a.proto == 17 && binary.BigEndian.Uint16(now[off:]) == 0) {
		return "the quoted datagram's sum has come or gone"
	}
	if !none && residue(a.src.AsSlice(), a.dst.AsSlice(), was) != residue(b.src.AsSlice(), b.dst.AsSlice(), now) {
		return "the quoted transport's sum is off"
	}
	if !bytes.Equal(was[:off], now[:off]) || !bytes.Equal(was[off+2:], now[off+2:]) {
		return "the quoted payload has changed"
	}
	return ""
}

func ecn(b []byte) uint8 {
	if be16(b[12:]) == 0x86dd {
		return uint8(be16(b[14:]) >> 4 & 3)
	}
	return b[15] & 3
}
