package telemetry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/lab/program"
)

// chunk is how many flows one system call reads; it must exceed the longest
// chain of the kernel's hash table.
const chunk = 1024

// table is all flows at a moment: keys, and their values at the same places.
type table struct {
	keys   []telemetryFlowKey
	values []telemetryFlowValue
}

// counters are what was read last of each flow. It is updated in place, so that
// flows that are silent or known cost no memory traffic.
type counters map[telemetryFlowKey]*telemetryFlowValue

// baseline takes the state of adopted maps as known: what happened while no agent
// ran has no interval that it could be assigned to.
func (c *Collector) baseline() (err error) {
	var s telemetrySettings
	if err := c.maps[telemetryMapPwTcpSettings].Lookup(uint32(0), &s); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	c.reading, c.onlyPeers = s.Window, s.OnlyPeers != 0
	c.before = counters{}
	c.last = program.Kernel()
	if err := c.collect(); err != nil {
		return err
	}
	c.before.take(c.now)
	return c.turn()
}

// turn makes the program begin RTT extremes again.
func (c *Collector) turn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading++
	return c.putSettings()
}

// Read tells what happened since the last Read, or since Attach. A round trip
// that ends while it reads is counted once, but may be missing in the extremes. It
// takes as long as there are connections: a microsecond for one that carries traffic.
func (c *Collector) Read() (Reading, error) {
	c.walking.Lock()
	defer c.walking.Unlock()
	to := program.Kernel()
	if err := c.collect(); err != nil {
		return Reading{}, err
	}
	r := Reading{From: c.last, To: to, Flows: diff(c.before, c.now, c.reading)}
	c.evicted += c.before.take(c.now)
	c.last = to
	return r, c.turn()
}

// collect counts what the watched connections have done, and reads all flows into c.now.
func (c *Collector) collect() error {
	if err := c.surveyed(); err != nil {
		return err
	}
	return c.list()
}

// list reads all flows into c.now.
func (c *Collector) list() error {
	var cursor ebpf.MapBatchCursor
	for n := 0; ; {
		c.now.keys = slices.Grow(c.now.keys[:n], chunk)[:n+chunk]
		c.now.values = slices.Grow(c.now.values[:n], chunk)[:n+chunk]
		got, err := c.maps[telemetryMapPwTcpFlows].BatchLookup(&cursor, c.now.keys[n:], c.now.values[n:], nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read flows: %w", err)
		}
		n += got
		if err != nil { // the end
			c.now.keys, c.now.values = c.now.keys[:n], c.now.values[:n]
			return nil
		}
	}
}

// changed tells whether anything was reported of a flow since.
func (c counters) changed(key telemetryFlowKey, v *telemetryFlowValue) bool {
	old := c[key]
	return old == nil || old.Born != v.Born || old.LastActive != v.LastActive
}

// take makes now the past, and forgets the flows that are not in it. It returns how
// many the kernel has forgotten, whether or not it has begun them again.
func (c counters) take(now table) (evicted uint64) {
	for i, key := range now.keys {
		v := &now.values[i]
		if old := c[key]; old == nil {
			fresh := *v
			c[key] = &fresh
		} else if c.changed(key, v) {
			if old.Born != v.Born {
				evicted++
			}
			*old = *v
		}
	}
	if len(c) == len(now.keys) {
		return evicted
	}
	here := make(map[telemetryFlowKey]bool, len(now.keys))
	for _, key := range now.keys {
		here[key] = true
	}
	for key := range c {
		if !here[key] {
			delete(c, key)
			evicted++
		}
	}
	return evicted
}

// diff is what happened to each flow between two collections of counters, in
// order of key; window is the reading that extremes of RTT belong to.
func diff(before counters, now table, window uint32) []Flow {
	var active []int
	for i, key := range now.keys {
		if before.changed(key, &now.values[i]) {
			active = append(active, i)
		}
	}
	slices.SortFunc(active, func(i, j int) int {
		a, b := &now.keys[i], &now.keys[j]
		return cmp.Or(cmp.Compare(a.Netns, b.Netns), bytes.Compare(a.Remote[:], b.Remote[:]), cmp.Compare(a.Bucket, b.Bucket))
	})
	// The kernel may give an entry twice, when its table changes under the reader.
	active = slices.CompactFunc(active, func(i, j int) bool { return now.keys[i] == now.keys[j] })
	flows := make([]Flow, len(active))
	for n, i := range active {
		key, v := now.keys[i], &now.values[i]
		old := before[key]
		if old == nil || old.Born != v.Born {
			old = &telemetryFlowValue{} // new, or evicted meanwhile and new again
		}
		flows[n] = Flow{Key: key.key(), Figures: since(old, v, window)}
	}
	return flows
}

func (k telemetryFlowKey) key() Key {
	return keyOf(k.Netns, k.Remote, uint8(k.Bucket))
}

// since subtracts counters. The kernel only adds to them, but a CPU may be
// between two additions while they are read, so none is trusted to be in step
// with another.
func since(old, v *telemetryFlowValue, window uint32) Figures {
	f := Figures{
		Retransmits:   v.Retransmits - old.Retransmits,
		TailProbes:    v.TailProbes - old.TailProbes,
		Timeouts:      v.Timeouts - old.Timeouts,
		Spurious:      v.Spurious - old.Spurious,
		Reordered:     v.Reordered - old.Reordered,
		BytesSent:     v.BytesSent - old.BytesSent,
		BytesAcked:    v.BytesAcked - old.BytesAcked,
		BytesReceived: v.BytesReceived - old.BytesReceived,
		SegmentsOut:   v.SegmentsOut - old.SegmentsOut,
		LastTimeout:   time.Duration(v.LastTimeout),
		LastActive:    time.Duration(v.LastActive),
		SRTT:          us(uint64(v.Srtt)),
		Window:        v.Cwnd,
		Lost:          v.Lost,
		AppLimited:    v.AppLimited != 0,
	}
	if v.RateInterval > 0 {
		f.DeliveryRate = uint64(v.RateDelivered) * uint64(v.Mss) * 1e6 / uint64(v.RateInterval)
	}
	f.RTT.Sum = us(v.RttSum - old.RttSum)
	for i := range f.RTT.Hist {
		n := uint64(v.Hist[i] - old.Hist[i]) // wraps in 32 bits, as it should
		f.RTT.Hist[i] = n
		f.RTT.Count += n
	}
	if f.RTT.Count > 0 {
		f.RTT.Min, f.RTT.Max = extremes(&f.RTT.Hist, v, window)
	}
	return f
}

// extremes are the program's where they belong to this reading; else, by the
// histogram, the bounds of its octaves.
func extremes(hist *[classes]uint64, v *telemetryFlowValue, window uint32) (low, high time.Duration) {
	if v.Window == window {
		return us(uint64(v.RttMin)), us(uint64(v.RttMax))
	}
	first := true
	for i, n := range hist {
		if n == 0 {
			continue
		}
		if first && i > 0 {
			low = us(1 << i)
		}
		first, high = false, us(2<<i-1)
	}
	return low, high
}

func us(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
