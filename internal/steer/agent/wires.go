package agent

import (
	"errors"
	"fmt"

	"pathwise.dev/pathwise/stamp"
)

// wires are the agent's own attachments to the networks, by which it probes other hosts and
// tells their agents.
type wires struct {
	*journal
	ring    *ring
	self    podID              // the agent's own pod
	links   map[string]*wire   // by network
	replays *stamp.ReplayCache // of all of them
	// refusals are those of other hosts' probes.
	refusals *refusals
	notices  uint64 // sent
}

func newWires(j *journal, r *ring) *wires {
	return &wires{journal: j, ring: r, links: map[string]*wire{}, replays: stamp.NewReplayCache(0),
		refusals: newRefusals()}
}

// send probes the path, if the agent is on its network. Small probes are kept for judging.
func (ws *wires) send(hp *hostPath, full bool, tlvs ...stamp.TLV) {
	w := hp.wire
	if w == nil {
		return
	}
	o := stamp.SendOptions{DSCP: mark, ClassOfService: true, ReplyDSCP: mark, TLVs: tlvs}
	if full {
		o.Size = min(hp.mtu, w.mtu) - 28 // IPv4 and UDP header
	}
	now, k := ws.cfg.Now(), &hp.host.keys
	o.Key = ws.ring.signBy(k, now)
	k.ask(now)
	if !full {
		o.TLVs = ws.ring.listed(k, ws.self, o.TLVs)
	}
	sent, err := w.sender.Send(hp.to, o)
	if err != nil {
		// The path may be down: that is what a probe without answer says.
		ws.cfg.Log.Debug("probe not sent", "network", w.network, "to", hp.to, "error", err)
		sent.At = ws.cfg.Now()
	}
	if !full {
		hp.Sent(sent.Seq, sent.At)
	}
}

// tell sends a notice to the other host's agent, on every path but one: those
// that do not arrive cost nothing, and the first acknowledgment counts.
func (ws *wires) tell(h *remoteHost, n notice, but string) {
	for name, hp := range h.paths {
		if name == but && len(h.paths) > 1 || hp.Down() && len(h.paths) > 1 {
			continue
		}
		ws.tellOver(hp, n)
	}
}

// tellOver sends a notice on one path. It measures as any probe does, so the
// regular one is due later.
func (ws *wires) tellOver(hp *hostPath, n notice) {
	if hp.wire == nil {
		return
	}
	ws.notices++
	ws.send(hp, false, stamp.TLV{Type: noticeType, Value: n.encode()})
	if hp.pace > 0 {
		hp.next = ws.cfg.Now().Add(hp.pace)
	}
}

// drain reads the replies that have come: those to probes in time, and at long
// intervals those that were not.
func (ws *wires) drain(late bool) error {
	for _, w := range ws.links {
		if !late && !w.sender.Waiting() {
			continue
		}
		at, err := w.sender.Drain()
		if err != nil {
			return fmt.Errorf("hear probes on %s: %w", w.network, err)
		}
		w.sender.Expire(at)
	}
	return nil
}

// setKeys gives all that signs and checks the keys that are accepted now.
func (ws *wires) setKeys() {
	keys := ws.ring.Keys()
	for _, w := range ws.links {
		if err := errors.Join(w.sender.SetKeys(keys), w.reflector.SetKeys(keys)); err != nil {
			ws.warn("%s: %v", w.network, err)
		}
	}
}
