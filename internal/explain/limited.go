package explain

import (
	"fmt"
	"strings"
)

// Thresholds of the limits that have counters.
const (
	// atFull of a queue's rate is all of it: TCP gives way to its drops, and takes a
	// while to come back.
	atFull = 0.8
	// partly of a queue's rate is worth a word.
	partly = 0.3
	// most of the payload must have met a limit that explains the whole.
	most = 0.5
	// dropping packets on purpose, as a share of them, limits the sender; under
	// losing TCP hardly notices on the short round trips of a lab.
	dropping, losing = 0.01, 0.001
	// kept from sending for more of its busy time, a connection is bound by that.
	kept = 0.5
	// filled: a window or buffer of which less comes through in each least round
	// trip is not what bounds; the rest of the round trip is waiting for a CPU.
	filled = 0.05
	// filledBuffer is the same of a send buffer that holds less than the congestion
	// window: the kernel makes it twice that where it may (tcp_sndbuf_expand).
	filledBuffer = 0.1
	// overfilled: of what came through there was more under way than the buffer holds.
	overfilled = 2.5
	// always is nearly all of the time, or of a core.
	always = 0.9
	// hostBusy: with less of a guest's host idle, what others took the guest may have wanted.
	hostBusy = 0.2
	// some packets, not a stray one.
	some = 3
	// pausing: connections that had something to send for less of the time were
	// not asked for more.
	pausing = 0.5
)

// disturbance is the share of the machine that other programs took, or other guests.
func (s Situation) disturbance() float64 { return s.Others + s.taken() }

// taken is what the guest or virtual machine that all this ran in did not get.
func (s Situation) taken() float64 {
	if h := s.Limits.Host; h != nil && h.Idle < hostBusy {
		return s.Machine.Steal + h.Others
	}
	return s.Machine.Steal
}

// contended: what the lab ran on others ran on too, so that what its programs did
// late need not be a limit of theirs.
func (s Situation) contended() bool {
	return s.Contended+s.taken() >= otherWork || s.Machine.Idle < saturated && s.disturbance() >= otherWork
}

// byRate: the load asks for no more.
func (s Situation) byRate() (Bound, string) {
	if s.Offered > 0 && s.Got >= deliveredAll*s.Offered {
		return ByRate, fmt.Sprintf("bound by the rate offered, not by the network: %s of %s came through, with %s of the machine idle",
			s.amount(s.Got), s.amount(s.Offered), percent(s.Machine.Idle))
	}
	if p := s.Streams; p != nil && p.Pacing > 0 && p.Rate >= atFull*p.Pacing {
		return ByRate, fmt.Sprintf("bound by the rate offered, not by the network: %s of the %s that its sockets are paced at came through", rate(p.Rate), rate(p.Pacing))
	}
	return "", ""
}

// byShaper: the payload passed queues that let through all of their rate and held
// back the rest.
func (s Situation) byShaper() (Bound, string) {
	if each := s.flowRate(); each != nil {
		return ByShaper, fmt.Sprintf("bound by the rate of a queue for each flow: %s %s on %s of %s lets %s through, and connections had %s",
			each.Kind, each.Handle, each.Dev, each.Place.words(), rate(each.FlowRate), rate(s.Streams.each(s.Trials)))
	}
	full, bytes := s.atRate(atFull)
	if len(full) == 0 || float64(bytes) < most*s.Bytes {
		return "", ""
	}
	return ByShaper, "bound by the rate of a queue: " + full[0].text(s.other(full))
}

// other counts further queues like the first.
func (s Situation) other(like []Queue) int { return len(like)/max(s.Trials, 1) - 1 }

// text says what a queue did; more queues did the same.
func (q Queue) text(more int) string {
	text := fmt.Sprintf("%s %s on %s of %s let through %s of its %s", q.Kind, q.Handle, q.Dev, q.Place.words(),
		percent(q.Use()), rate(q.Rate))
	if q.Rate == 0 {
		text = fmt.Sprintf("%s %s on %s of %s", q.Kind, q.Handle, q.Dev, q.Place.words())
	}
	if q.Over > 0 { // netem does not count them
		text += fmt.Sprintf(", held packets back %d times", q.Over)
	}
	text += fmt.Sprintf(" and dropped %d", q.Dropped)
	if more > 0 {
		text += fmt.Sprintf(", and so did %d more", more)
	}
	return text
}

// byPolicer: packets were dropped on purpose, more than load alone makes a network
// drop.
func (s Situation) byPolicer() (Bound, string) {
	if p, n := s.policed(); s.dropped(n) >= losing {
		return ByPolicer, fmt.Sprintf("bound by a policer: tc's action police %d in %s dropped %s of its packets (%d), those over %s",
			p.Index, p.Place.words(), percent(per(float64(p.Dropped), float64(p.Packets))), p.Dropped, rate(p.Rate))
	}
	by, at, n := s.worst(filtering, program)
	if _, more := s.noRoom(); s.dropped(n) < dropping || n < some || n < more {
		return "", ""
	}
	return ByPolicer, fmt.Sprintf("bound by a policer: %s dropped %s of the packets (%d) in %s", by, percent(s.dropped(n)),
		n, at.words())
}

// bySurelyWindow: a socket's buffer that may not grow kept senders waiting, and so
// much of it came through for each round trip that no CPU explains it.
func (s Situation) bySurelyWindow() (Bound, string) {
	p := s.Streams
	switch {
	case p == nil:
	case p.heldByWindow() && p.MostFill >= filled:
		return ByWindow, p.window()
	case p.heldByBuffer() && p.MostBuffer >= filled:
		return ByBuffer, p.buffer()
	case p.Send < p.Congestion && p.MostBuffer >= filledBuffer && p.MostBuffer <= overfilled:
		return ByBuffer, p.short(p.MostBuffer)
	}
	return "", ""
}

func (p Streams) heldByWindow() bool { window, _ := p.Held(); return window >= kept }
func (p Streams) heldByBuffer() bool { _, buffer := p.Held(); return buffer >= kept }

func (p Streams) window() string {
	window, _ := p.Held()
	return fmt.Sprintf("bound by the receiver's window: for %s of the time that connections had data to send, a receive buffer of %s kept them from it (least round trip %s)",
		percent(window), size(p.Receive), duration(p.MinRTT))
}

func (p Streams) buffer() string {
	_, buffer := p.Held()
	return fmt.Sprintf("bound by the sender's socket buffer: for %s of the time that connections had data to send, a send buffer of %s kept them from it (least round trip %s)",
		percent(buffer), size(p.Send), duration(p.MinRTT))
}

func (p Streams) short(fill float64) string {
	return fmt.Sprintf("bound by the sender's socket buffer: it holds %s, less than the congestion window of %s, and %s of it came through in each least round trip (%s)",
		size(p.Send), size(p.Congestion), percent(fill), duration(p.MinRTT))
}

// byWindow is bySurelyWindow by the buffers' present sizes, which may be what the
// CPU allowed: so only where no other program had it.
func (s Situation) byWindow() (Bound, string) {
	p := s.Streams
	switch {
	case p == nil || s.contended():
	case p.heldByWindow() && p.Fill >= filled:
		return ByWindow, p.window()
	case p.heldByBuffer() && p.BufferFill >= filled:
		return ByBuffer, p.buffer()
	case p.Send < p.Congestion && p.BufferFill >= filled && p.BufferFill <= overfilled:
		return ByBuffer, p.short(p.BufferFill)
	}
	return "", ""
}

// byOverflow: datagrams came faster than a program took them.
func (s Situation) byOverflow() (Bound, string) {
	share, n := s.noRoom()
	if share < dropping || s.contended() {
		return "", ""
	}
	return ByOverflow, fmt.Sprintf("bound by the receiving sockets: their buffers had no room for %s of the datagrams that came (%d)", percent(share), n)
}

// byOthers: others had the cores that the lab ran on, and no counter shows a limit.
func (s Situation) byOthers() (Bound, string) {
	if !s.contended() {
		return "", ""
	}
	return s.busy()
}

func (s Situation) busy() (Bound, string) {
	var took []string
	if s.Machine.Steal >= 0.01 {
		took = append(took, fmt.Sprintf("its hypervisor gave %s of it to others", percent(s.Machine.Steal)))
	}
	if h := s.Limits.Host; h != nil && h.Idle < hostBusy {
		took = append(took, fmt.Sprintf("programs alongside the guest took %s of its host", percent(h.Others)))
	}
	if s.Others >= 0.001 || len(took) == 0 {
		took = append(took, fmt.Sprintf("programs outside the lab took %s of it", percent(s.Others)))
	}
	if s.Samples > 0 {
		took = append(took, "the lab "+percent(s.LabShare))
	}
	text := "cannot be told on this busy machine: " + strings.Join(took, ", ")
	if s.Watched {
		text += ", and no counter of a limit explains the figure"
	}
	if seen := s.seenToo(); seen != "" {
		text += " (seen: " + seen + ")"
	}
	return ByOthers, text + "; measure again while it is idle"
}

// seenToo is what counters show that does not decide.
func (s Situation) seenToo() string {
	var out []string
	if s.Offered > 0 {
		out = append(out, fmt.Sprintf("%s of the %s offered came through", s.amount(s.Got), s.amount(s.Offered)))
	}
	if q, _ := s.atRate(partly); len(q) > 0 {
		out = append(out, q[0].text(0))
	}
	if text := s.lost(); text != "" {
		out = append(out, text)
	}
	if share, _ := s.noRoom(); share >= losing {
		out = append(out, fmt.Sprintf("receiving sockets had no room for %s of the datagrams", percent(share)))
	}
	if p := s.Streams; p != nil {
		window, buffer := p.Held()
		if window >= kept {
			out = append(out, fmt.Sprintf("receivers' windows kept connections from sending for %s of the time", percent(window)))
		}
		if buffer >= kept {
			out = append(out, fmt.Sprintf("send buffers kept connections from sending for %s of the time", percent(buffer)))
		}
	}
	return strings.Join(out, ", ")
}

// byReader: the window was shut though it is large: what it holds was not taken.
func (s Situation) byReader() (Bound, string) {
	p := s.Streams
	if p == nil || !p.heldByWindow() {
		return "", ""
	}
	window, _ := p.Held()
	return ByReader, fmt.Sprintf("bound by the receiving program, which took what came too slowly: for %s of the time that connections had data to send its full buffer of %s kept them from it, while %s of the machine was idle",
		percent(window), size(p.Receive), percent(s.Machine.Idle))
}

// byPartly: a queue that let through less than its rate all the same held back much,
// or one whose rate is not known did.
func (s Situation) byPartly() (Bound, string) {
	if q, bytes := s.atRate(partly); len(q) > 0 && float64(bytes) >= most*s.Bytes {
		return ByShaper, "bound by the rate of a queue, whose drops TCP gives way to: " + q[0].text(s.other(q))
	}
	for _, q := range s.Limits.Queues {
		if q.Rate == 0 && float64(q.Over) >= heldBack*q.Seconds &&
			float64(q.Bytes)*float64(max(s.Trials, 1)) >= most*s.Bytes {
			return ByShaper, "bound by a queue: " + q.text(0)
		}
	}
	return "", ""
}

// heldBack times a second is often.
const heldBack = 10

// byLoss: TCP sends again, and gives way.
func (s Situation) byLoss() (Bound, string) {
	if text := s.lost(); text != "" {
		return ByLoss, "bound by loss: " + text
	}
	p := s.Streams
	if p == nil || p.Resent() < losing {
		return "", ""
	}
	return ByLoss, fmt.Sprintf("bound by loss: TCP sent %s of its segments again (%d), and no counter of this kernel shows who dropped them", percent(p.Resent()), p.Again)
}

// lost says who dropped packets, the queue where one has counted them; "" where hardly any were.
func (s Situation) lost() string {
	if q, n := s.dropper(); s.dropped(n) >= losing && n >= some {
		return fmt.Sprintf("%s %s on %s of %s dropped %s of the packets (%d)", q.Kind, q.Handle, q.Dev, q.Place.words(),
			percent(s.dropped(q.Dropped)), q.Dropped)
	}
	by, at, n := s.worst(filtering, program, queueing, backlog)
	if s.dropped(n) < losing || n < some {
		return ""
	}
	return fmt.Sprintf("%s dropped %s of the packets (%d) in %s", by, percent(s.dropped(n)), n, at.words())
}

// byPauses: a stream that had nothing to send.
func (s Situation) byPauses() (Bound, string) {
	p := s.Streams
	if p == nil || s.Unit != PerGB || p.Busy >= pausing*p.Seconds {
		return "", ""
	}
	return ByPauses, fmt.Sprintf("not bound by the network: its connections had nothing to send for %s of the time, with %s of the machine idle",
		percent(1-per(p.Busy, p.Seconds)), percent(s.Machine.Idle))
}

// bySerial: there was always something to do and a core's worth of the lab's work, on
// changing cores. A connection's packets are handled one after the other: a
// softirq runs where the sender or the one before it did.
func (s Situation) bySerial() (Bound, string) {
	var cores float64
	for _, c := range s.LabCores {
		cores += c
	}
	p := s.Streams
	sending := s.Unit == PerGB && p != nil && p.Busy >= always*p.Seconds
	if cores < always || !sending && !s.oneUnderWay() {
		return "", ""
	}
	return BySerial, fmt.Sprintf("bound by the CPU, step after step: the lab kept %s cores of %d busy, now one and now another (%s of the machine was idle)",
		figure(cores), len(s.Cores), percent(s.Machine.Idle))
}

// oneUnderWay: each operation waits for the one before, and for nothing else.
func (s Situation) oneUnderWay() bool {
	return s.Unit == PerKop && s.Offered == 0 && max(s.Load.Connections, 1)*max(s.Scenario.Pairs, 1) == 1
}

// amount shows what was offered or came through.
func (s Situation) amount(v float64) string {
	if s.PerSecond {
		return figure(v) + " operations/s"
	}
	return rate(v)
}

// disturbed is what other programs took, where the bound does not say it.
func (s Situation) disturbed(b Bound) string {
	if s.Others < otherWork || b == ByOthers {
		return ""
	}
	return fmt.Sprintf("programs outside the lab took %s of the machine", percent(s.Others))
}
