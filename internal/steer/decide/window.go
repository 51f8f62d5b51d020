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
	if v.bits == nil || p.Pause || p.Load.Connections != w.connections {
		v.bits, v.room = map[string]float64{}, map[string]int{}
		for _, n := range w.s.Networks {
			if after.Share(n.Name) > 0 {
				v.bits[n.Name] = w.full(p, n, after.Share(n.Name))
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

// full is the window of connections, a share of all, that fill a network and its queue.
func (w *world) full(p Phase, n SimNetwork, share float64) float64 {
	n = p.held(n)
	o := p.offers(n)
	rtt := n.rtt(o.others)
	if o.carries <= 0 {
		return 0
	}
	if o.lost > 0 {
		return min(o.carries, share*float64(p.Load.Connections)*lossy(o.lost, rtt)) * rtt
	}
	return o.carries * (rtt + n.wait(p.Load.Connections, o.carries))
}

// growWindows has windows grow by a period, where there is room.
func (w *world) growWindows(p Phase, at Assignment) {
	v := &w.windows
	for _, n := range w.s.Networks {
		share := at.Share(n.Name)
		flows := share * float64(p.Load.Connections)
		if most := w.full(p, n, share); flows < 0.5 || v.bits[n.Name] >= most {
			v.bits[n.Name], v.room[n.Name] = min(v.bits[n.Name], most), 0
			continue
		}
		v.room[n.Name]++
		const reno, cubic = 0.53, 0.4
		held := p.held(n)
		seconds := Period.Seconds()
		t := float64(v.room[n.Name]) * seconds
		byReno := reno * seconds / held.rtt(p.offers(held).others)
		v.bits[n.Name] += flows * segmentBits * max(byReno, cubic*(math.Pow(t, 3)-math.Pow(t-seconds, 3)))
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
		held := p.held(n)
		o := p.offers(held)
		if share := at.Share(n.Name); share > 0 && o.carries > 0 {
			out[n.Name] = min(1, w.bound(held, o.others)/(share*o.carries))
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
