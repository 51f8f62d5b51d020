package decide

import "math"

// windows are what the connections of a schedule of which Windows is set have under way on each network,
// in bits. A connection that is moved keeps its window: a network of a longer round trip is filled only as
// that grows, as CUBIC has it grow after a loss (RFC 9438, sections 4.2 and 4.3). New connections, and those
// that go on after a pause, fill theirs at once, by slow start.
type windows struct {
	bits map[string]float64
	// room counts the periods since connections came to a network, or it was full.
	room map[string]int
}

// moveWindows has connections that an assignment moves take their windows along.
func (w *world) moveWindows(p Phase, before, after Assignment) {
	v := &w.windows
	if w.fresh(p) {
		v.bits, v.room = map[string]float64{}, map[string]int{}
		for _, n := range w.s.Networks {
			if after.Share(n.Name) > 0 {
				v.bits[n.Name] = p.pipe(n, after.Share(n.Name)).full
			}
		}
		return
	}
	moved, come := 0.0, 0.0
	for _, n := range w.s.Networks {
		if b, a := before.Share(n.Name), after.Share(n.Name); a < b {
			part := v.bits[n.Name] * (b - a) / b
			v.bits[n.Name] -= part
			moved += part
		} else {
			come += a - b
		}
	}
	for _, n := range w.s.Networks {
		if more := after.Share(n.Name) - before.Share(n.Name); more > 0 {
			v.bits[n.Name] += moved * more / come
			v.room[n.Name] = 0
		}
	}
}

// fresh tells whether connections begin, or go on after a pause.
func (w *world) fresh(p Phase) bool {
	return w.windows.bits == nil || p.Pause || p.Load.Connections != w.connections
}

// pipe is what the windows of a share of the connections have to fill on a network in a phase.
type pipe struct {
	// full fills the network and its queue, in bits.
	full float64
	// carries is the share of the rate in bit/s, rtt the round trip without the queue in seconds, and flows the
	// connections.
	carries, rtt, flows float64
}

// pipe is that of a share of the connections.
func (p Phase) pipe(n SimNetwork, share float64) pipe {
	n = p.held(n)
	o := p.offers(n)
	out := pipe{carries: share * o.carries, rtt: n.rtt(o.others), flows: share * float64(p.Load.Connections)}
	switch {
	case o.carries <= 0:
	case o.lost > 0:
		out.full = min(o.carries, out.flows*lossy(o.lost, out.rtt)) * out.rtt
	default:
		out.full = o.carries * (out.rtt + n.wait(p.Load.Connections, o.carries))
	}
	return out
}

// pipes are those of all connections on each network.
func (p Phase) pipes(networks []SimNetwork) map[string]pipe {
	out := map[string]pipe{}
	for _, n := range networks {
		out[n.Name] = p.pipe(n, 1)
	}
	return out
}

// part is how much of the rate a window lets through.
func (p pipe) part(window float64) float64 {
	if p.carries <= 0 {
		return 0
	}
	return min(1, window/p.rtt/p.carries)
}

// grow is the window a period later, that has had room for so many before.
func (p pipe) grow(window float64, room int) (float64, int) {
	if p.flows < 0.5 || window >= p.full {
		return min(window, p.full), 0
	}
	room++
	const reno, cubic = 0.53, 0.4
	seconds := Period.Seconds()
	t := float64(room) * seconds
	return window + p.flows*segmentBits*max(reno*seconds/p.rtt, cubic*(math.Pow(t, 3)-math.Pow(t-seconds, 3))), room
}

// growWindows has windows grow by a period, where there is room.
func (w *world) growWindows(p Phase, at Assignment) {
	v := &w.windows
	for _, n := range w.s.Networks {
		v.bits[n.Name], v.room[n.Name] = p.pipe(n, at.Share(n.Name)).grow(v.bits[n.Name], v.room[n.Name])
	}
}

// bound is the most that the windows on a network carry, in bit/s.
func (w *world) bound(n SimNetwork, others float64) float64 {
	if !w.s.Windows {
		return math.Inf(1)
	}
	return w.windows.bits[n.Name] / n.rtt(others)
}

// filled is the part of their share of a network that the connections on it get, by network.
func (w *world) filled(p Phase, at Assignment) rates {
	out := rates{}
	for _, n := range w.s.Networks {
		if pipe := p.pipe(n, at.Share(n.Name)); pipe.carries > 0 {
			out[n.Name] = pipe.part(w.windows.bits[n.Name])
		}
	}
	return out
}

// segmentBits are the data in a full segment over Ethernet.
const segmentBits = 8 * 1448

// lossy is what TCP makes of loss: the rate of one connection in bit/s that loses so many
// of its packets at random, at a round trip in seconds. It is CUBIC's response function,
// or Reno's where that is more, as CUBIC does (RFC 9438, sections 4.3 and 5.1; Mathis
// 1997), with segments of 1448 bytes. Timeouts are left out: with SACK, RACK and tail loss
// probes (RFC 8985) bulk flows have few up to a loss of a tenth.
func lossy(lost, rtt float64) float64 {
	window := max(math.Sqrt(1.5/lost), 1.054*math.Pow(rtt/lost, 0.75))
	return max(window, 1) * segmentBits / rtt
}
