package agent

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/stamp"
)

// Pace of regular probes. On a path that carries traffic they measure; that
// it fails is found by suspicion, within milliseconds.
const (
	probeActive  = 100 * time.Millisecond
	probeStandby = 200 * time.Millisecond
	probeIdle    = 10 * time.Second
	// probeFollower is that of paths whose flows the other host's agent decides
	// about: it measures them, by probes that both directions show in.
	probeFollower = 5 * time.Second
	// probeShare is each busy path's part of the time, and probeIdleShare each
	// other one's: regular probes come to 50 and 5 a second for each end, and no more,
	// however many paths there are.
	probeShare     = 20 * time.Millisecond
	probeIdleShare = 200 * time.Millisecond
	// probesAtOnce bounds those of one period, as when many paths become busy at once,
	// and leisurely the other questions of that period that can wait: the loop must
	// not be late for what cannot.
	probesAtOnce, leisurely = 6, 10
	// firstProbes of a path go faster: it is to be known before it is needed.
	firstProbes = 4
	// fullEvery is how many small probes go with one of the path's full size.
	fullEvery = 8
	// busyFor is how long after its last packet a pair of hosts counts as busy, and
	// warmFor how long its paths are probed after that. Hosts that have had no
	// traffic with each other do not probe each other at all: of many hosts most
	// pairs never have any, and even one packet in ten seconds between all of them
	// would be most of what there is to do, and fill their neighbour tables.
	busyFor = 5 * time.Second
	warmFor = 10 * time.Minute
)

// busy reports whether pairs with that host had traffic of late.
func (h *remoteHost) busy(now time.Time) bool { return now.Sub(h.used) < busyFor }

// cold reports whether no path of the host's is to be probed, as there has been no traffic with it for long: of
// nearly all hosts of a large cluster that is all that is asked, ten times a second. down is looked at each second.
func (h *remoteHost) cold(now time.Time) bool { return !h.down && now.Sub(h.used) >= warmFor }

// every is how often one of the host's paths is to be probed, if it had all the
// time for itself; 0 is never.
func (h *remoteHost) every(hp *hostPath, now time.Time) time.Duration {
	failed := hp.Down()
	switch {
	case h.chased(hp, now):
		return 0
	case h.busy(now) && failed:
		return probeActive
	case h.busy(now) && now.Sub(h.owned) >= busyFor && hp.sent >= firstProbes:
		return probeFollower
	case h.busy(now) && now.Sub(hp.busy) < quiet:
		return probeActive
	case h.busy(now):
		return probeStandby
	case failedLately(&hp.Path, now):
		return probeStandby // it may be well again in a moment
	case failed, now.Sub(h.used) < warmFor:
		return probeIdle
	}
	return 0
}

// due is a regular probe that is to go out, and when the path's next one is.
type due struct {
	hp   *hostPath
	next time.Time
}

// warm are the hosts of which paths are to be probed.
func warm(remote map[string]*remoteHost, now time.Time) (out []*remoteHost) {
	for _, h := range remote {
		if !h.cold(now) {
			out = append(out, h)
		}
	}
	return out
}

// dueProbes are the regular probes to be sent now: those that have waited longest,
// where there are many.
func dueProbes(warm []*remoteHost, now time.Time) []due {
	var busy, idle time.Duration // how many paths, as parts of the time
	for _, h := range warm {
		for _, hp := range h.paths {
			switch {
			case h.busy(now):
				busy += probeShare
			case h.every(hp, now) > 0:
				idle += probeIdleShare
			}
		}
	}
	var all []due
	for _, h := range warm {
		least := idle
		if h.busy(now) {
			least = busy
		}
		for _, hp := range h.paths {
			every := h.every(hp, now)
			if every == 0 {
				continue
			}
			next := now.Add(max(every, least))
			// Due by the pace of now: a path that was idle until now waits no ten seconds.
			if !now.Before(hp.next) || hp.next.After(next) {
				all = append(all, due{hp, next})
			}
		}
	}
	slices.SortFunc(all, func(x, y due) int { return x.hp.next.Compare(y.hp.next) })
	return all[:min(len(all), probesAtOnce)]
}

// leisure counts the questions of this period that could have waited.
type leisure struct{ taken int }

// take reports whether another one may be asked.
func (b *leisure) take() bool {
	b.taken++
	return b.taken <= leisurely
}

// prober measures the paths to other hosts.
type prober struct {
	*journal
	members  *members
	wires    *wires
	turnover *turnover
	params   *detect.Params
	// warm are the hosts of which paths are probed, since warmed: nearly none of a large cluster's.
	warm   []*remoteHost
	warmed time.Time
	// chased are the paths that failed of late, of hosts with traffic.
	chased []*hostPath
	// pending are the hosts of which some probes are not summed up yet.
	pending []*remoteHost
	// synced is of what the hosts were last made: the description, and how often the wires had changed.
	synced struct {
		description *description
		links       int
	}
}

// probeAll sends the regular probes that are due.
func (pr *prober) probeAll(now time.Time) {
	if m := pr.members; m.woken || now.Sub(pr.warmed) >= time.Second {
		m.woken, pr.warmed, pr.warm = false, now, warm(m.remote, now)
	}
	for _, d := range dueProbes(pr.warm, now) {
		pr.probe(d, now)
	}
	pr.findChased(now)
}

// probe sends a regular probe.
func (pr *prober) probe(d due, now time.Time) {
	d.hp.next, d.hp.pace = d.next, d.next.Sub(now)
	d.hp.sent++
	pr.wires.send(d.hp, d.hp.sent%fullEvery == 0)
}

// ack is an answer to a notice of ours.
type ack struct {
	from  *remoteHost
	value []byte
}

// receive takes what became of probes since it was last called, and returns what was
// answered to notices.
func (pr *prober) receive() (acks []ack) {
	for name, w := range pr.wires.links {
		replies, losses := w.replies, w.losses
		w.replies, w.losses = nil, nil
		for _, r := range replies {
			acks = append(acks, pr.answered(name, r)...)
		}
		for _, l := range losses {
			if h, hp := pr.members.path(name, l.To.Addr()); hp != nil {
				hp.track.Lost(l)
				hp.Lost(l.SentAt)
				pr.unsummed(h, hp)
			}
		}
	}
	return acks
}

func (pr *prober) answered(network string, r stamp.Reply) (acks []ack) {
	h, hp := pr.members.path(network, r.From.Addr())
	if hp == nil {
		return nil
	}
	pr.turnover.keyed(h, r)
	pr.wires.clockOf(h, (r.ForwardDelay-r.BackwardDelay)/2)
	hp.track.Reply(r)
	hp.last = r.At
	pr.unsummed(h, hp)
	if r.Size < hp.mtu/2 {
		hp.rtts[hp.nRTT%len(hp.rtts)] = r.RTT
		hp.nRTT++
	}
	switch {
	case pr.members.Cluster.encapsulates(network):
		hp.unfit = "" // the mark is inside
	case r.DSCPSeen >= 0 && r.DSCPSeen != mark || r.ReplyDSCP >= 0 && r.ReplyDSCP != mark:
		seen := r.DSCPSeen
		if seen < 0 || seen == mark {
			seen = r.ReplyDSCP // it was lost on the way back
		}
		hp.unfit = fmt.Sprintf("it does not carry the mark: DSCP %d arrived as %d; encapsulated it could be used", mark, seen)
	default:
		hp.unfit = ""
	}
	since := hp.Since()
	if hp.Answer(detect.Shot{Seq: r.Seq, Sent: r.SentAt, Answered: r.At}, r.Late).Has(detect.Recover) {
		pr.note(Event{Kind: EventCleared, To: hp.network, Reason: fmt.Sprintf("%s to %s answers again, after %v", hp.network,
			h.name, pr.cfg.Now().Sub(since).Round(time.Millisecond))})
	}
	for _, t := range r.TLVs {
		if t.Type == noticeType {
			acks = append(acks, ack{h, t.Value})
		}
	}
	return acks
}

func (pr *prober) syncHosts(d *description, now time.Time) {
	if pr.synced.description == d && pr.synced.links == pr.wires.changes {
		for _, h := range pr.members.remote {
			if !h.cold(now) {
				h.down = h.failing()
			}
		}
		return
	}
	pr.synced.description, pr.synced.links, pr.members.woken = d, pr.wires.changes, true
	there := map[string]bool{}
	for _, h := range d.Hosts {
		there[h.Name] = true
		other, ok := d.agents[h.Index]
		if h.Name == pr.cfg.Host || !ok {
			continue
		}
		r := pr.members.remote[h.Name]
		if r == nil {
			r = &remoteHost{name: h.Name, paths: map[string]*hostPath{}}
			pr.members.remote[h.Name] = r
		}
		r.pod = idOf(*other)
		for _, at := range other.Attachments {
			to := netip.AddrPortFrom(at.Addr, stamp.Port)
			hp, w := r.paths[at.Network], pr.wires.links[at.Network]
			if (hp == nil || hp.to != to || hp.mtu != at.MTU) && w != nil {
				r.paths[at.Network] = &hostPath{Path: detect.New(pr.params), host: r, wire: w, network: at.Network, to: to,
					mtu: at.MTU, track: probe.NewTrack(min(at.MTU, w.mtu)-28, false)}
			}
		}
		r.down = r.failing()
	}
	// Another host may have the addresses of one that has gone, whose answers would be taken for its.
	maps.DeleteFunc(pr.members.remote, func(name string, _ *remoteHost) bool { return !there[name] })
}

// failing reports whether some path has failed.
func (h *remoteHost) failing() bool {
	for _, hp := range h.paths {
		if hp.Down() {
			return true
		}
	}
	return false
}

// unsummed notes that what has become of a probe on the path is to be summed up.
func (pr *prober) unsummed(h *remoteHost, hp *hostPath) {
	if hp.pending = true; !h.pending {
		h.pending, pr.pending = true, append(pr.pending, h)
	}
}

// summarise sums up what has become of probes, where something has. A summary sorts a
// few hundred figures: once a second is often enough, as failures are not found by it.
func (pr *prober) summarise(now time.Time) {
	pr.pending = slices.DeleteFunc(pr.pending, func(h *remoteHost) bool {
		h.pending = false
		for _, hp := range h.paths {
			if hp.pending && (now.Sub(hp.summed) >= time.Second || hp.summary.Answered == 0) {
				hp.summary, hp.summed, hp.pending = hp.track.Summary(), now, false
			}
			h.pending = h.pending || hp.pending
		}
		return !h.pending
	})
}
