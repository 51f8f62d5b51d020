package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

// wire is the agent's own attachment to one network: probes go out and are
// answered there, from the agent's pod.
type wire struct {
	network   string
	addr      netip.Addr
	inode     uint64 // of the namespace
	mtu       int
	sender    *stamp.Sender
	reflector *stamp.Reflector
	in        *net.UDPConn
	closed    atomic.Bool // to be opened elsewhere
	// replies and losses are what became of probes until the loop takes it.
	replies []stamp.Reply
	losses  []stamp.Lost
}

// openWire opens the sockets in the agent's pod and begins to answer.
func (a *Agent) openWire(self topo.Pod, at topo.Attachment, inode uint64) error {
	w := &wire{network: at.Network, addr: at.Addr, inode: inode, mtu: at.MTU}
	var out *net.UDPConn
	err := netns.Do(self.Netns, func() (err error) {
		if out, err = net.ListenUDP("udp", &net.UDPAddr{IP: at.Addr.AsSlice()}); err != nil {
			return err
		}
		w.in, err = net.ListenUDP("udp", &net.UDPAddr{IP: at.Addr.AsSlice(), Port: stamp.Port})
		return err
	})
	if err != nil {
		if out != nil {
			err = errors.Join(err, out.Close())
		}
		return fmt.Errorf("open probe sockets on %s: %w", at.Network, err)
	}
	a.members.Lock() // so that no keys come between
	defer a.members.Unlock()
	// Polled, as replies can wait for the loop's next turn: what is urgent drains it.
	w.sender, err = stamp.NewSender(out,
		stamp.SenderConfig{Keys: a.turnover.ring.Keys(), Network: at.Network, Deadline: time.Second, Now: a.cfg.Now,
			Polled: true, OnReply: func(r stamp.Reply) { w.replies = append(w.replies, r) },
			OnLost: func(l stamp.Lost) { w.losses = append(w.losses, l) }})
	if err != nil {
		return errors.Join(fmt.Errorf("probe on %s: %w", at.Network, err), out.Close(), w.close())
	}
	w.reflector, err = stamp.NewReflector(w.in, stamp.ReflectorConfig{Keys: a.turnover.ring.Keys(), Network: at.Network,
		Replays: a.wires.replays, Now: a.cfg.Now,
		OnRefused: func(r stamp.Refusal) { a.wires.refusals.add(at.Network, r, a.cfg.Now()) },
		OnTLV: func(_ netip.AddrPort, _ uint16, t stamp.TLV) []byte {
			if t.Type == keysType {
				return a.turnover.handleKeys(t.Value)
			}
			return a.respondent.handleNotice(t)
		}})
	if err != nil {
		return errors.Join(fmt.Errorf("reflect on %s: %w", at.Network, err), w.close())
	}
	a.wires.links[at.Network] = w
	a.wires.changes++
	a.running(w.serve)
	return nil
}

func (w *wire) close() error {
	var errs []error
	if w.sender != nil {
		errs = append(errs, w.sender.Close())
	}
	if w.in != nil {
		errs = append(errs, w.in.Close())
	}
	return errors.Join(errs...)
}

// remoteHost is another host, and the paths to it.
type remoteHost struct {
	name string
	// pod is its agent's.
	pod   podID
	paths map[string]*hostPath // by network
	// used is when a pair with that host last had traffic, and owned when it last
	// had some of flows that a pod of this host has opened: those are decided here.
	used, owned time.Time
	// down: some path had failed when that was last looked at; pending: probes on some path are not summed up yet.
	down, pending bool
	keys          peerKeys
}

// hostPath is one network to another host. Its small probes are those that judge it.
type hostPath struct {
	detect.Path
	host    *remoteHost
	wire    *wire // nil in tests alone
	network string
	to      netip.AddrPort
	mtu     int
	track   *probe.Track
	// summary is of summed; pending says that more has become of probes since.
	summary probe.Summary
	summed  time.Time
	pending bool
	// last is when the latest answer came.
	last time.Time
	// rtts are those of the latest small probes: their median tells a path's delay,
	// where a mean would tell the last time a CPU was busy.
	rtts [9]time.Duration
	nRTT int
	// next is when the next regular probe is due, pace the latest distance of two, and
	// sent counts them.
	next time.Time
	pace time.Duration
	sent int
	// unfit says why the path must not be used whatever it measures.
	unfit string
	// busy is when a pair's packets last took it.
	busy time.Time
}

// expected is the round trip that a judgement may expect of the path while it is suspected.
func (hp *hostPath) expected(now time.Time) time.Duration {
	return hp.Expected(now, hp.summary.P99, hp.rtt())
}

// rtt is the median of the latest round trips; 0 where there is none.
func (hp *hostPath) rtt() time.Duration {
	n := min(hp.nRTT, len(hp.rtts))
	if n == 0 {
		return 0
	}
	v := hp.rtts
	slices.Sort(v[:n])
	return v[n/2]
}

// lastProbe is when a probe of the other agent's last came over the path.
func (hp *hostPath) lastProbe() time.Time {
	if hp.wire == nil {
		return time.Time{}
	}
	return hp.wire.reflector.LastProbe(hp.to.Addr())
}

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
	notices  uint64    // sent
	changes  int       // counts links that came or went
	warned   time.Time // when it was last looked whose probes are refused
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
	o := stamp.SendOptions{DSCP: dataplane.Mark, ClassOfService: true, ReplyDSCP: dataplane.Mark, TLVs: tlvs}
	if full {
		o.Size = min(hp.mtu, w.mtu) - headersTo(hp.to.Addr())
	}
	now, k := ws.cfg.Now(), &hp.host.keys
	o.Key = ws.ring.signBy(k, now)
	k.probed(now)
	if !full {
		o.TLVs = ws.ring.listed(k, ws.self, o.TLVs)
	}
	sent, err := w.sender.Send(hp.to, o)
	if err != nil {
		// The path may be down: that is what a probe without answer says.
		ws.cfg.Log.Debug("probe not sent", "network", w.network, "to", hp.to, "error", err)
		sent.At = ws.cfg.Now()
	}
	if full {
		hp.SentFull(sent.Seq, sent.At)
	} else {
		hp.Sent(sent.Seq, sent.At)
	}
}

// headersTo is the length of the headers of IP and UDP to the address, in bytes.
func headersTo(a netip.Addr) int {
	if a.Is4() {
		return 20 + 8
	}
	return 40 + 8
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
			return fmt.Errorf("read replies on %s: %w", w.network, err)
		}
		w.sender.Expire(at)
	}
	return nil
}

// setKeys gives all that signs and checks the keys that are accepted now.
func (ws *wires) setKeys() {
	keys := ws.ring.Keys()
	for _, w := range ws.links {
		ws.fault(w.network, errors.Join(w.sender.SetKeys(keys), w.reflector.SetKeys(keys)))
	}
}
