package decide

import (
	"math/rand/v2"
	"testing"
	"time"
)

// looks of 250 ms, as agents take them.
const quarter = 250 * time.Millisecond

func TestClassByWhatFlowsDo(t *testing.T) {
	upload := Look{For: quarter, Sent: 1e6, SegmentsOut: 690, Waits: true}
	for name, c := range map[string]struct {
		look Look
		want Class
	}{
		"upload":                 {upload, Bulk},
		"download":               {Look{For: quarter, Received: 1e6, SegmentsIn: 690}, Bulk},
		"one of 128 downloads":   {Look{For: quarter, Received: 17e3, SegmentsIn: 12}, Bulk},
		"objects of a megabyte":  {Look{quarter, 200, 1e6, 1, 690, false}, Bulk},
		"upload with answers":    {Look{quarter, 4e6, 400, 2700, 8, true}, Bulk},
		"dialogue":               {Look{quarter, 1e5, 1e5, 1000, 1000, false}, Interactive},
		"slow dialogue":          {Look{quarter, 100, 100, 1, 1, false}, Interactive},
		"pages of ten kilobytes": {Look{quarter, 4e3, 2e5, 20, 140, false}, Interactive},
		"limited stream":         {Look{For: quarter, Sent: 1e6, SegmentsOut: 690}, Unknown},
		"trickle":                {Look{For: quarter, Sent: 1000, SegmentsOut: 1}, Unknown},
		"nothing":                {Look{For: quarter}, Unknown},
	} {
		by := DefaultClasses()
		var l Learner
		for range 40 {
			l = l.Learn(c.look, &by)
		}
		if got := l.Class(); got != c.want {
			t.Errorf("%s: %s, not %s: %+v", name, got, c.want, l)
		}
	}
}

// A class is known within half a second where there is enough to see, outlasts a pause and a
// few looks of the other kind, and changes with what the flow does.
func TestClassChangesWithTheFlow(t *testing.T) {
	by := DefaultClasses()
	bulk := Look{For: quarter, Sent: 1e6, SegmentsOut: 690, Waits: true}
	dialogue := Look{For: quarter, Sent: 1e5, SegmentsOut: 1000, Received: 1e5, SegmentsIn: 1000}
	l := Learner{}.Learn(bulk, &by)
	if l.Class() != Unknown {
		t.Errorf("known by one look: %+v", l)
	}
	if l = l.Learn(bulk, &by); l.Class() != Bulk {
		t.Errorf("not known by two: %+v", l)
	}
	for range 10 {
		l = l.Learn(bulk, &by)
	}
	for range 100 {
		l = l.Learn(Look{For: quarter}, &by)
	}
	for range 3 {
		l = l.Learn(dialogue, &by)
	}
	if l.Class() != Bulk {
		t.Errorf("given up too soon: %+v", l)
	}
	for range 3 {
		l = l.Learn(dialogue, &by)
	}
	if l.Class() != Interactive {
		t.Errorf("kept for too long: %+v", l)
	}
}

// Whatever flows do, a class changes at most once in the looks that it takes to be sure of
// another one, and the score is bounded.
func TestClassIsSteady(t *testing.T) {
	by, r := DefaultClasses(), rand.New(rand.NewPCG(1, 2))
	var l Learner
	last := -by.Shown
	for n := range 20000 {
		bytes := func() float64 { return 4e6 * r.Float64() * float64(r.IntN(2)) }
		k := Look{quarter, bytes(), bytes(), float64(r.IntN(300)), float64(r.IntN(300)), r.IntN(2) == 0}
		next := l.Learn(k, &by)
		if next.Score > by.Sure || next.Score < -by.Sure {
			t.Fatalf("score %d", next.Score)
		}
		if next.Known != l.Known {
			if n-last < by.Shown {
				t.Fatalf("look %d: %s after %d looks of %s", n, next.Known, n-last, l.Known)
			}
			last = n
		}
		l = next
	}
}
