package decide

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func intervals(n int, bytes float64) (out []Interval) {
	for range n {
		out = append(out, Interval{For: 10 * time.Millisecond, Bytes: bytes, Operations: bytes / 100})
	}
	return out
}

func TestLossOf(t *testing.T) {
	before, after := intervals(20, 1000), intervals(20, 2000)
	around := []Interval{{For: 10 * time.Millisecond, Bytes: 0}, {For: 10 * time.Millisecond, Bytes: 500}}
	l, ok := LossOf(before, around, after)
	// 2000 bytes were due at the lesser rate, 500 came.
	if !ok || math.Abs(l.Bytes-1500) > 1e-9 || math.Abs(l.Operations-20) > 1e-9 || math.Abs(l.Seconds-0.015) > 1e-12 {
		t.Errorf("got %+v, %v", l, ok)
	}
	if _, ok := LossOf(nil, around, after); ok {
		t.Error("a loss without anything before it")
	}
	if _, ok := LossOf(intervals(5, 0), around, after); ok {
		t.Error("a loss of a pair that carried nothing")
	}
	if _, ok := LossOf(intervals(20, 1), around, after); ok {
		t.Error("a loss of a flow that had just begun")
	}
	// Between two calm times a burst: no switch gains more than all the time there was.
	if l, ok := LossOf(before, intervals(5, 90000), after); !ok || l.Seconds != -0.05 {
		t.Errorf("a burst: %+v, %v", l, ok)
	}
}

func TestSwitchLoss(t *testing.T) {
	var s SwitchLoss
	if e := s.Estimate(); e.Upper != PaperLoss || e.N != 0 {
		t.Errorf("nothing measured: %+v", e)
	}
	if got := s.Add(Failover, Loss{Seconds: 9}); got != s {
		t.Errorf("a failover was counted: %+v", got)
	}
	if got := s.Add(Switch, Loss{Seconds: math.NaN()}); got != s {
		t.Errorf("NaN was counted: %+v", got)
	}
	for _, v := range []float64{0.001, 0.002, 0.003} {
		s = s.Add(Switch, Loss{Seconds: v})
	}
	// mean 0.002, deviation 0.001, t(0.95, 2) = 2.920.
	if e := s.Estimate(); math.Abs(e.Mean-0.002) > 1e-12 || math.Abs(e.Upper-(0.002+2.92*0.001/math.Sqrt(3))) > 1e-5 ||
		e.N != 3 {
		t.Errorf("got %+v", e)
	}
}

// The estimate follows a cost that changes, and its bound is one.
func TestSwitchLossFollows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s SwitchLoss
	for range 500 {
		s = s.Add(Switch, Loss{Seconds: 0.02 + 0.001*r.NormFloat64()})
	}
	for range 300 {
		s = s.Add(Switch, Loss{Seconds: 0.002 + 0.001*r.NormFloat64()})
	}
	if e := s.Estimate(); math.Abs(e.Mean-0.002) > 0.0006 || e.Upper < e.Mean || e.Upper > 0.004 {
		t.Errorf("got %+v, want 0.002", e)
	}
	covered := 0
	for range 1000 {
		var s SwitchLoss
		for range 10 {
			s = s.Add(Switch, Loss{Seconds: 0.01 * r.ExpFloat64()})
		}
		if s.Estimate().Upper >= 0.01 {
			covered++
		}
	}
	// The bound is for normal losses; for exponential ones it may cover less.
	if covered < 850 {
		t.Errorf("the bound covers the mean in %d of 1000", covered)
	}
}
