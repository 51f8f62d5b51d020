package explain

import (
	"cmp"
	"slices"
	"strings"
)

// Limits is what the counters of possible limits counted while a window lasted.
// Each limit is told by its own counter, which other programs do not move.
type Limits struct {
	Queues    []Queue    `json:"queues,omitempty"`
	Policers  []Policer  `json:"policers,omitempty"`
	Drops     []Drop     `json:"drops,omitempty"`
	Flows     []Flow     `json:"flows,omitempty"`
	Datagrams []Datagram `json:"datagrams,omitempty"`
	// Others is the CPU time of programs outside the lab, in CPU-seconds, by
	// /proc/PID/stat: what is known of them where there are no samples.
	Others float64 `json:"others_cpu"`
	// Host is what the machine under a guest did meanwhile; nil where there is no guest.
	Host *Host `json:"host,omitempty"`
	// Unread says which counters could not be read.
	Unread []string `json:"unread,omitempty"`
}

// Host is how the machine that a guest ran on spent the time of a trial.
type Host struct {
	// Others is the share of programs other than the guest, Idle what was left.
	Others float64 `json:"others_share"`
	Idle   float64 `json:"idle_share"`
}

// Queue is a queueing discipline, or a class of one, that holds packets back.
type Queue struct {
	// Kind is the discipline's name, such as htb, and Handle its number in tc's form.
	Kind   string `json:"kind"`
	Handle string `json:"handle"`
	Place  Place  `json:"place"`
	Dev    string `json:"dev"`
	// Rate is what it lets through at most, in bit/s; 0 where that is not known.
	Rate float64 `json:"rate,omitempty"`
	// FlowRate is what it lets through of each flow, in bit/s; 0 for all.
	FlowRate float64 `json:"flow_rate,omitempty"`
	// Seconds that it was watched.
	Seconds float64 `json:"seconds"`
	Bytes   uint64  `json:"bytes"`
	Packets uint64  `json:"packets"`
	// Over counts how often it held packets back (overlimits), Dropped packets.
	Over    uint64 `json:"overlimits"`
	Dropped uint64 `json:"dropped"`
	// Backlog is what waited in it at the end, in bytes.
	Backlog uint64 `json:"backlog,omitempty"`
}

// Use is the part of its rate that it let through; 0 where that is not known.
func (q Queue) Use() float64 { return per(8*float64(q.Bytes), q.Rate*q.Seconds) }

// Policer is an action of tc that drops what is over its rate.
type Policer struct {
	Index   uint32  `json:"index"`
	Place   Place   `json:"place"`
	Rate    float64 `json:"rate,omitempty"` // bit/s
	Packets uint64  `json:"packets"`
	Over    uint64  `json:"overlimits"`
	Dropped uint64  `json:"dropped"`
}

// Drop is how many packets the kernel threw away for one reason, by the name that
// it gives it (include/net/dropreason-core.h), in small letters.
type Drop struct {
	Reason  string `json:"reason"`
	Place   Place  `json:"place"`
	Packets uint64 `json:"packets"`
}

// Datagram is what a pod's UDP did.
type Datagram struct {
	Place    Place  `json:"place"`
	Received uint64 `json:"received"`
	// NoRoom are datagrams for which the receiving socket's buffer had no room.
	NoRoom uint64 `json:"no_room"`
}

// Flow is one end of a TCP connection between pods, as a sender.
type Flow struct {
	Place Place `json:"place"`
	// Seconds that it was watched; Bytes that were acknowledged in them.
	Seconds float64 `json:"seconds"`
	Bytes   uint64  `json:"bytes"`
	// Busy is how long it had data to send or under way, ByWindow of it how long the
	// peer's window kept it from sending, ByBuffer how long its own buffer did, in
	// seconds (RFC 4898; struct tcp_info since Linux 4.10).
	Busy     float64 `json:"busy"`
	ByWindow float64 `json:"by_window"`
	ByBuffer float64 `json:"by_buffer"`
	// Segments sent, and Again those sent again.
	Segments uint64 `json:"segments"`
	Again    uint64 `json:"again"`
	// RTT and its least so far, in seconds.
	RTT    float64 `json:"rtt"`
	MinRTT float64 `json:"min_rtt"`
	// Send and Receive are the sizes of its own and the peer's buffer in bytes, and
	// SendMost and ReceiveMost what they may grow to.
	Send        float64 `json:"send_buffer"`
	SendMost    float64 `json:"send_buffer_most"`
	Receive     float64 `json:"receive_buffer"`
	ReceiveMost float64 `json:"receive_buffer_most"`
	// Congestion is what its congestion window allows under way, in bytes.
	Congestion float64 `json:"congestion_window"`
	// Pacing is the most that the sender asked to send, in bit/s; 0 without such.
	Pacing float64 `json:"pacing,omitempty"`
}

// Held are the parts of the time that connections had data to send in which the peer's
// window and their own buffer kept them from it.
func (s Streams) Held() (window, buffer float64) {
	return per(s.ByWindow, s.Busy), per(s.ByBuffer, s.Busy)
}

// Resent is the part of the segments that was sent again.
func (s Streams) Resent() float64 { return per(float64(s.Again), float64(s.Segments)) }

// Streams is what the flows of all trials tell together.
type Streams struct {
	Connections int `json:"connections"`
	// Time that they were watched, by connection, and parts of it.
	Seconds  float64 `json:"seconds"`
	Busy     float64 `json:"busy"`
	ByWindow float64 `json:"by_window"`
	ByBuffer float64 `json:"by_buffer"`
	Segments uint64  `json:"segments"`
	Again    uint64  `json:"again"`
	// RTT is the mean by bytes, MinRTT the least.
	RTT    float64 `json:"rtt"`
	MinRTT float64 `json:"min_rtt"`
	// Send and Receive are means of the buffers, Congestion of congestion windows.
	Send       float64 `json:"send_buffer"`
	Receive    float64 `json:"receive_buffer"`
	Congestion float64 `json:"congestion_window"`
	// Fill is which part of a window's worth for each least round trip came
	// through: 1 is all that the window allows. MostFill is the same by what the
	// window may grow to. The next two are of the sender's buffer.
	Fill       float64 `json:"window_use"`
	MostFill   float64 `json:"window_use_most"`
	BufferFill float64 `json:"buffer_use"`
	MostBuffer float64 `json:"buffer_use_most"`
	// Rate is what came through in a trial, in bit/s, and Pacing what they asked to send
	// at most; 0 where one did not ask.
	Rate   float64 `json:"rate"`
	Pacing float64 `json:"pacing,omitempty"`
}

// negligible: a flow with less of a trial's bytes is the generator's talk.
const negligible = 0.01

// streams sums up the flows of trials that carry the payload.
func streams(trials []*Limits) *Streams {
	var s Streams
	var bytes, window, windowMost, buffer, bufferMost, rates float64
	paced := true
	var n float64
	for _, l := range trials {
		if len(l.Flows) > 0 {
			n++
		}
		var all uint64
		for _, f := range l.Flows {
			all += f.Bytes
		}
		for _, f := range l.Flows {
			if float64(f.Bytes) < negligible*float64(all) || f.Seconds <= 0 {
				continue
			}
			b, rate := float64(f.Bytes), per(8*float64(f.Bytes), f.Seconds)
			s.Connections++
			s.Seconds += f.Seconds
			s.Busy, s.ByWindow, s.ByBuffer = s.Busy+f.Busy, s.ByWindow+f.ByWindow, s.ByBuffer+f.ByBuffer
			s.Segments, s.Again = s.Segments+f.Segments, s.Again+f.Again
			s.RTT += f.RTT * b
			if s.MinRTT == 0 || f.MinRTT > 0 && f.MinRTT < s.MinRTT {
				s.MinRTT = f.MinRTT
			}
			s.Send, s.Receive, s.Congestion = s.Send+f.Send*b, s.Receive+f.Receive*b, s.Congestion+f.Congestion*b
			bytes += b
			rates += rate
			window += per(8*f.Receive, f.MinRTT)
			windowMost += per(8*f.ReceiveMost, f.MinRTT)
			buffer += per(8*f.Send, f.MinRTT)
			bufferMost += per(8*f.SendMost, f.MinRTT)
			s.Pacing += f.Pacing
			paced = paced && f.Pacing > 0
		}
	}
	if s.Connections == 0 {
		return nil
	}
	s.RTT, s.Send, s.Receive, s.Congestion = per(s.RTT, bytes), per(s.Send, bytes), per(s.Receive, bytes),
		per(s.Congestion, bytes)
	s.Fill, s.MostFill = per(rates, window), per(rates, windowMost)
	s.BufferFill, s.MostBuffer = per(rates, buffer), per(rates, bufferMost)
	s.Rate, s.Pacing = rates/n, s.Pacing/n
	if !paced {
		s.Pacing = 0
	}
	return &s
}

// gather sums up the limits of a cell's trials. limits stay apart: devices of
// two trials are not the same.
func (a *Account) gather(profiles []Profile) {
	var all []*Limits
	for _, p := range profiles {
		a.Bytes += p.Bytes
		if p.Limits == nil {
			continue
		}
		all = append(all, p.Limits)
		a.Limits.Queues = append(a.Limits.Queues, p.Limits.Queues...)
		a.Limits.Policers = append(a.Limits.Policers, p.Limits.Policers...)
		a.Limits.Drops = addDrops(a.Limits.Drops, p.Limits.Drops)
		a.Limits.Datagrams = append(a.Limits.Datagrams, p.Limits.Datagrams...)
		a.Limits.Others += p.Limits.Others
		if h := p.Limits.Host; h != nil && (a.Limits.Host == nil || h.Others > a.Limits.Host.Others) {
			a.Limits.Host = h // the trial that was disturbed most
		}
		for _, why := range p.Limits.Unread {
			if !slices.Contains(a.Limits.Unread, why) {
				a.Limits.Unread = append(a.Limits.Unread, why)
			}
		}
	}
	a.Watched = len(all) > 0 && len(all) == len(profiles)
	a.Streams = streams(all)
}

// addDrops adds more to sum by reason and place.
func addDrops(sum, more []Drop) []Drop {
	for _, d := range more {
		i := slices.IndexFunc(sum, func(o Drop) bool { return o.Reason == d.Reason && o.Place == d.Place })
		if i < 0 {
			sum = append(sum, d)
			continue
		}
		sum[i].Packets += d.Packets
	}
	return sum
}

// remover is what throws packets away on purpose.
type remover string

const (
	filtering remover = "a rule of netfilter (nftables, iptables)"
	program   remover = "a filter or eBPF program of tc or XDP"
	queueing  remover = "a queue"
	receiving remover = "a full socket buffer"
	backlog   remover = "a full queue of a CPU"
	tidying   remover = "" // the stack's own: what came twice, or for nobody
)

// removerOf tells who drops packets for the kernel's reason.
func removerOf(reason string) remover {
	switch {
	case reason == "netfilter_drop":
		return filtering
	case slices.Contains([]string{"tc_ingress", "tc_egress", "tc_drop", "xdp", "bpf_cgroup_egress"}, reason):
		return program
	case strings.HasPrefix(reason, "qdisc_"):
		return queueing
	case slices.Contains([]string{"socket_rcvbuff", "socket_backlog", "proto_mem"}, reason):
		return receiving
	case reason == "cpu_backlog":
		return backlog
	}
	return tidying
}

// worst is the remover of the kind that dropped most, where, and the number.
func (a Account) worst(kinds ...remover) (by remover, at Place, n uint64) {
	for _, d := range a.Limits.Drops {
		if r := removerOf(d.Reason); d.Packets > n && slices.Contains(kinds, r) && d.Place != Outside {
			by, at, n = r, d.Place, d.Packets
		}
	}
	return by, at, n
}

// dropped is n's share of the packets that came through and those that did not. GSO
// packets count once on both sides.
func (a Account) dropped(n uint64) float64 {
	if a.Passed == 0 {
		return 0 // not known
	}
	return per(float64(n), float64(n)+a.Passed)
}

// noRoom is the share of datagrams for which receiving sockets had no room.
func (a Account) noRoom() (share float64, n uint64) {
	var got uint64
	for _, d := range a.Limits.Datagrams {
		n, got = n+d.NoRoom, got+d.Received
	}
	return per(float64(n), float64(n+got)), n
}

// atRate are the queues that let through at least the part of their rate and held
// packets back meanwhile, the one with most bytes first, and their bytes.
func (a Account) atRate(part float64) (out []Queue, bytes uint64) {
	for _, q := range a.Limits.Queues {
		// netem counts no packets that it holds back.
		if q.Rate > 0 && q.Use() >= part && (q.Over+q.Dropped > 0 || q.Kind == "netem") {
			out = append(out, q)
			bytes += q.Bytes
		}
	}
	slices.SortStableFunc(out, func(x, y Queue) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return out, bytes
}

// flowRate is the queue whose rate for each flow connections had; nil where there is none.
func (a Account) flowRate() *Queue {
	for i, q := range a.Limits.Queues {
		if q.FlowRate > 0 && a.Streams != nil && a.Streams.each(a.Trials) >= atFull*q.FlowRate {
			return &a.Limits.Queues[i]
		}
	}
	return nil
}

// each is the rate of a connection, in bit/s.
func (s Streams) each(trials int) float64 {
	return per(s.Rate*float64(trials), float64(s.Connections))
}

// dropper is the queue that dropped most, and what all dropped.
func (a Account) dropper() (worst Queue, n uint64) {
	for _, q := range a.Limits.Queues {
		if n += q.Dropped; q.Dropped > worst.Dropped {
			worst = q
		}
	}
	return worst, n
}

// policed is the policer that dropped most, and what all dropped.
func (a Account) policed() (worst Policer, n uint64) {
	for _, p := range a.Limits.Policers {
		if n += p.Dropped; p.Dropped > worst.Dropped {
			worst = p
		}
	}
	return worst, n
}

// words say where a place is.
func (p Place) words() string {
	switch p {
	case Client:
		return "the client pod"
	case Server:
		return "the server pod"
	case ClientHost:
		return "the client's host"
	case ServerHost:
		return "the server's host"
	case Shared:
		return "the host"
	case Underlay:
		return "the underlay"
	}
	return "another namespace"
}
