package telemetry

import (
	"errors"
	"math/bits"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestCgroupRoot(t *testing.T) {
	for _, c := range []struct{ mounts, want string }{
		{"proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "/sys/fs/cgroup"},
		{"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "/sys/fs/cgroup/unified"},
		{`none /mnt/my\040groups cgroup2 rw 0 0`, "/mnt/my groups"},
		{"cgroup2 /not/it tmpfs rw 0 0\n\nshort line\n", ""},
		{"", ""},
	} {
		got, err := cgroupRoot(strings.NewReader(c.mounts))
		if got != c.want || (c.want == "") != errors.Is(err, ErrNoCgroup) {
			t.Errorf("%q: %q, %v", c.mounts, got, err)
		}
	}
}

// class is the octave of a round trip, as the eBPF program computes it.
func class(us uint32) int { return max(0, bits.Len32(us)-1) }

func TestDiff(t *testing.T) {
	key := telemetryFlowKey{Netns: 7, Remote: netip.MustParseAddr("10.0.0.2").As16(), Bucket: 5}
	want := Key{Netns: 7, Remote: netip.MustParseAddr("10.0.0.2"), Bucket: 5}
	type state = map[telemetryFlowKey]telemetryFlowValue
	value := func(edit func(*telemetryFlowValue)) telemetryFlowValue {
		v := telemetryFlowValue{Born: 1000, LastActive: 2000, RttSum: 300, Retransmits: 4, BytesAcked: 1 << 40,
			SegmentsOut: 10, Window: 3, RttMin: 90, RttMax: 210, Srtt: 120, Mss: 1448, RateDelivered: 10, RateInterval: 1000}
		v.Hist[6], v.Hist[7] = 1, 1
		if edit != nil {
			edit(&v)
		}
		return v
	}
	hist := func(at ...int) (h [classes]uint64) {
		for _, i := range at {
			h[i]++
		}
		return h
	}
	whole := Figures{
		RTT: RTT{Count: 2, Sum: 300 * time.Microsecond, Min: 90 * time.Microsecond, Max: 210 * time.Microsecond,
			Hist: hist(6, 7)},
		Retransmits: 4, BytesAcked: 1 << 40, SegmentsOut: 10, LastActive: 2000, SRTT: 120 * time.Microsecond,
		DeliveryRate: 14480000,
	}
	later := whole
	later.RTT = RTT{Count: 1, Sum: 500 * time.Microsecond, Min: 500 * time.Microsecond, Max: 500 * time.Microsecond,
		Hist: hist(8)}
	later.Retransmits, later.Timeouts, later.BytesAcked, later.SegmentsOut, later.LastActive, later.LastTimeout = 1, 2, 50,
		0, 3000, 2500
	octave := whole
	octave.RTT.Min, octave.RTT.Max = 64*time.Microsecond, 255*time.Microsecond
	grown := value(func(v *telemetryFlowValue) {
		v.LastActive, v.LastTimeout, v.Timeouts, v.Window = 3000, 2500, 2, 4
		v.RttSum, v.RttMin, v.RttMax, v.Hist[8] = 800, 500, 500, 1
		v.Retransmits, v.BytesAcked = 5, 1<<40+50
	})
	full := value(func(v *telemetryFlowValue) { v.Hist[8] = 1<<32 - 1 })
	wrapped := value(func(v *telemetryFlowValue) { v.LastActive, v.Hist[8] = 3000, 1 })
	for _, c := range []struct {
		name        string
		before, now state
		window      uint32
		flows       []Flow
	}{
		{"nothing", nil, nil, 3, nil},
		{"a new flow counts whole", nil, state{key: value(nil)}, 3, []Flow{{want, whole}}},
		{"extremes of another reading give way to octaves", nil, state{key: value(nil)}, 9, []Flow{{want, octave}}},
		{"a silent flow is left out", state{key: value(nil)}, state{key: value(nil)}, 3, nil},
		{"a flow that is gone is left out", state{key: value(nil)}, nil, 3, nil},
		{"differences", state{key: value(nil)}, state{key: grown}, 4, []Flow{{want, later}}},
		{"evicted and made again", state{key: grown}, state{key: value(func(v *telemetryFlowValue) { v.Born = 1500 })}, 3,
			[]Flow{{want, whole}}},
	} {
		if got := diff(past(c.before), present(c.now), c.window); len(got)+len(c.flows) > 0 &&
			!reflect.DeepEqual(got, c.flows) {
			t.Errorf("%s:\n%+v, not\n%+v", c.name, got, c.flows)
		}
	}
	if got := diff(past(state{key: full}), present(state{key: wrapped}), 3); len(got) != 1 || got[0].RTT.Count != 2 ||
		got[0].RTT.Hist[8] != 2 {
		t.Errorf("a histogram that wraps: %+v", got)
	}
}

// TestCountersFollow: what is taken is the past, and no more than that.
func TestCountersFollow(t *testing.T) {
	value := func(active uint64) telemetryFlowValue { return telemetryFlowValue{Born: 1, LastActive: active} }
	one, two, three := telemetryFlowKey{Netns: 1}, telemetryFlowKey{Netns: 2}, telemetryFlowKey{Netns: 3}
	c := counters{}
	again := value(9)
	again.Born = 8
	for i, step := range []struct {
		now     map[telemetryFlowKey]telemetryFlowValue
		evicted uint64
	}{
		{map[telemetryFlowKey]telemetryFlowValue{one: value(1), two: value(1)}, 0},
		{map[telemetryFlowKey]telemetryFlowValue{one: value(2), two: value(1)}, 0},
		// one is gone, another new: as many as before
		{map[telemetryFlowKey]telemetryFlowValue{two: value(5), three: value(1)}, 1},
		{nil, 2},
		{map[telemetryFlowKey]telemetryFlowValue{one: value(1)}, 0},
		{map[telemetryFlowKey]telemetryFlowValue{one: again}, 1},
	} {
		now := step.now
		if evicted := c.take(present(now)); evicted != step.evicted {
			t.Errorf("step %d: %d evicted", i, evicted)
		}
		if len(diff(c, present(now), 0)) != 0 || !reflect.DeepEqual(c, past(now)) {
			t.Errorf("step %d: %v", i, c)
		}
	}
}

func TestDiffGivesAFlowOnce(t *testing.T) {
	now := present(map[telemetryFlowKey]telemetryFlowValue{{Netns: 1}: {Born: 1, LastActive: 1},
		{Netns: 2}: {Born: 1, LastActive: 1}})
	now.keys, now.values = append(now.keys, now.keys...), append(now.values, now.values...)
	c := counters{}
	if got := diff(c, now, 0); len(got) != 2 {
		t.Errorf("%d flows", len(got))
	}
	c.take(now)
	if len(c) != 2 {
		t.Errorf("%d remembered", len(c))
	}
}

func past(m map[telemetryFlowKey]telemetryFlowValue) counters {
	c := counters{}
	for k, v := range m {
		c[k] = &v
	}
	return c
}

func present(m map[telemetryFlowKey]telemetryFlowValue) (t table) {
	for k, v := range m {
		t.keys, t.values = append(t.keys, k), append(t.values, v)
	}
	return t
}

func TestDiffIsInOrder(t *testing.T) {
	now := map[telemetryFlowKey]telemetryFlowValue{}
	for _, k := range []telemetryFlowKey{{Netns: 2, Bucket: 1}, {Netns: 1, Bucket: 9}, {Netns: 1, Bucket: 3},
		{Netns: 1, Remote: [16]byte{1}, Bucket: 0}} {
		now[k] = telemetryFlowValue{Born: 1, LastActive: 1}
	}
	var got []uint8
	for _, f := range diff(nil, present(now), 0) {
		got = append(got, f.Bucket)
	}
	if !reflect.DeepEqual(got, []uint8{3, 9, 0, 1}) {
		t.Errorf("buckets in order %v", got)
	}
}

func TestRTT(t *testing.T) {
	var r RTT
	if r.Mean() != 0 || r.Quantile(.5) != 0 {
		t.Error("an empty distribution has values")
	}
	for _, us := range []uint32{100, 110, 120, 2000} {
		d := time.Duration(us) * time.Microsecond
		one := RTT{Count: 1, Sum: d, Min: d, Max: d}
		one.Hist[class(us)] = 1
		r.add(one)
	}
	r.add(RTT{})
	if r.Count != 4 || r.Min != 100*time.Microsecond || r.Max != 2*ms || r.Mean() != 582500*time.Nanosecond {
		t.Errorf("%+v", r)
	}
	for q, want := range map[float64][2]time.Duration{
		0:    {100 * time.Microsecond, 100 * time.Microsecond}, // not below the least
		.5:   {100 * time.Microsecond, 128 * time.Microsecond},
		.75:  {100 * time.Microsecond, 128 * time.Microsecond},
		.999: {1024 * time.Microsecond, 2 * ms},
		1:    {2 * ms, 2 * ms}, // not above the greatest
	} {
		if got := r.Quantile(q); got < want[0] || got > want[1] {
			t.Errorf("quantile %v: %v, not in %v", q, got, want)
		}
	}
}

func TestFiguresKeepTheLatestState(t *testing.T) {
	f := Figures{LastActive: 5, SRTT: 1, AppLimited: true, Retransmits: 1}
	f.add(Figures{LastActive: 4, SRTT: 2, Retransmits: 1})
	if f.SRTT != 1 || !f.AppLimited || f.Retransmits != 2 {
		t.Errorf("an earlier state won: %+v", f)
	}
	f.add(Figures{LastActive: 6, SRTT: 3, LastTimeout: 6})
	if f.SRTT != 3 || f.AppLimited || f.LastTimeout != 6 || f.LastActive != 6 {
		t.Errorf("the latest state lost: %+v", f)
	}
}
