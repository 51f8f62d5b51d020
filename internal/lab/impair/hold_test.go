package impair

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestLaw(t *testing.T) {
	const sent = 10_000
	for _, tc := range []struct {
		name        string
		hold        Hold
		least, most time.Duration // of the times held
		early       [2]int        // fewest and most that are not held at all
	}{
		{"nothing", Hold{}, 0, 0, [2]int{sent, sent}},
		{"delay", Hold{Delay: 10 * ms}, 10 * ms, 10 * ms, [2]int{}},
		{"jitter", Hold{Delay: 10 * ms, Jitter: 4 * ms}, 6 * ms, 14 * ms, [2]int{}},
		{"as much jitter as delay", Hold{Delay: 10 * ms, Jitter: 10 * ms}, 0, 20 * ms, [2]int{0, 10}},
		// Six standard deviations of the binomial distribution.
		{"reordering", Hold{Delay: 10 * ms, Reorder: 0.1}, 0, 10 * ms, [2]int{820, 1180}},
		{"all early", Hold{Delay: 10 * ms, Reorder: 1}, 0, 0, [2]int{sent, sent}},
	} {
		l := law{Hold: tc.hold, rnd: rand.New(rand.NewPCG(1, 2))}
		var waits []time.Duration
		early := 0
		for i := range sent {
			now := time.Duration(i) * ms
			due, ok := l.due(now, 1500)
			if !ok {
				t.Fatalf("%s: lost", tc.name)
			}
			if due == now {
				early++
			}
			waits = append(waits, due-now)
		}
		if slices.Min(waits) < tc.least || slices.Max(waits) > tc.most {
			t.Errorf("%s: held %v to %v, want %v to %v", tc.name, slices.Min(waits), slices.Max(waits), tc.least, tc.most)
		}
		if early < tc.early[0] || early > tc.early[1] {
			t.Errorf("%s: %d were early, want %v", tc.name, early, tc.early)
		}
	}
}

// TestLawRate: at 12 Mbit/s a frame of 1500 bytes takes 1 ms, and a frame that finds
// more than queueTime before it is lost.
func TestLawRate(t *testing.T) {
	l := law{Hold: Hold{Rate: 12e6, Delay: 10 * ms}}
	for i := range 26 {
		due, ok := l.due(0, 1500)
		if want := time.Duration(i+1)*ms + 10*ms; !ok || due != want {
			t.Fatalf("frame %d: due %v %v, want %v", i, due, ok, want)
		}
	}
	if _, ok := l.due(0, 1500); ok {
		t.Error("the queue has no end")
	}
	if due, ok := l.due(time.Second, 1500); !ok || due != time.Second+11*ms {
		t.Errorf("after a pause: %v %v", due, ok)
	}
}

// TestHolding compares the heap with sorting.
func TestHolding(t *testing.T) {
	var q holding
	type packet struct {
		due time.Duration
		nth int
	}
	var want []packet
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 5000 {
		p := packet{time.Duration(rnd.IntN(100)), i}
		want = append(want, p)
		q.add(p.due, []byte{byte(i), byte(i >> 8)})
	}
	if q.bytes != 10_000 {
		t.Errorf("%d bytes", q.bytes)
	}
	slices.SortFunc(want, func(a, b packet) int {
		if a.due != b.due {
			return int(a.due - b.due)
		}
		return a.nth - b.nth
	})
	for _, p := range want {
		due, ok := q.next()
		frame := q.take()
		if nth := int(frame[0]) | int(frame[1])<<8; !ok || due != p.due || nth != p.nth {
			t.Fatalf("got %v %d, want %v", due, nth, p)
		}
	}
	if _, ok := q.next(); ok || q.bytes != 0 {
		t.Errorf("left: %d bytes", q.bytes)
	}
}

func TestShelf(t *testing.T) {
	var s shelf
	for _, size := range []int{0, 60, smallFrame, smallFrame + 1, jumboFrame, largeFrame} {
		frame := make([]byte, size)
		for i := range frame {
			frame[i] = byte(i)
		}
		one, two := s.copyOf(frame), s.copyOf(frame)
		clear(two)
		if !slices.Equal(one, frame) {
			t.Errorf("%d bytes: not a copy of its own", size)
		}
		s.back(one)
		s.back(two)
		if again := s.copyOf(frame); !slices.Equal(again, frame) {
			t.Errorf("%d bytes: second use", size)
		}
	}
}

func TestPlan(t *testing.T) {
	veth, child := wire{}, wire{mac: []byte{2, 0, 0, 0, 0, 1}}
	hold := Hold{Delay: 10 * ms, Jitter: ms, Reorder: 0.01}
	for name, tc := range map[string]struct {
		i       Impairment
		w       wire
		in, out course // without netem
		alone   bool
	}{
		"delay out": {Impairment{Delay: 10 * ms, Jitter: ms, Reorder: 0.01, Rate: 1e6}, veth, course{},
			course{shaper: 1e6, line: &hold}, false},
		"delay in": {Impairment{Delay: 10 * ms, Jitter: ms, Reorder: 0.01, Direction: In, Rate: 1e6}, veth,
			course{shaper: 1e6, line: &hold}, course{}, false},
		"delay in, macvlan": {Impairment{Delay: 10 * ms, Direction: In, Rate: 1e6}, child,
			course{line: &Hold{Delay: 10 * ms, Rate: 1e6}}, course{}, true},
		"rate, macvlan": {Impairment{Direction: Both, Rate: 1e6}, child, course{line: &Hold{Rate: 1e6}},
			course{shaper: 1e6}, true},
		"rate out, macvlan": {Impairment{Rate: 1e6}, child, course{}, course{shaper: 1e6}, false},
	} {
		p, err := Impairer{}.plan(tc.w, tc.i)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.lineAlone(tc.w); got != tc.alone {
			t.Errorf("%s: only a line will do: %v", name, got)
		}
		if p, err = p.withoutNetem(tc.w); err != nil {
			t.Fatal(err)
		}
		for dir, want := range map[way]course{intoPod: tc.in, outOfPod: tc.out} {
			got := p[dir]
			if (got.line == nil) != (want.line == nil) || got.line != nil && *got.line != *want.line {
				t.Errorf("%s, %s: line %v, want %v", name, dir, got.line, want.line)
			}
			if got.line, want.line = nil, nil; got != want {
				t.Errorf("%s, %s: got %+v, want %+v", name, dir, got, want)
			}
		}
	}
}
