package decide

import (
	"slices"
	"testing"
)

// A path that only probes have seen gets a few flows first.
func TestCanaryBeforeGain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		carries float64
		want    Kind
	}{
		{"it carries", 1.5e9, Switch},
		{"it carries less than promised", 0.5e9, Stay},
		{"it carries nothing", 0, Stay},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFeed(Throughput)
			f.path("b").Prior = 1.5e9
			if f.carry("b", tt.carries); tt.carries == 0 {
				f.path("b").Data = Data{Tx: 1000, RTOs: 1}
			}
			d, n := f.run(CostAware{}, 100, Switch, Canary)
			if d.Kind != Canary || d.Buckets != 16 || n == 0 {
				t.Fatalf("got %s of %d buckets, want a canary of 16, a quarter of many bulk flows: %s", d.Kind, d.Buckets, d.Reason)
			}
			if d, _ = f.run(CostAware{}, 20, Switch, Stay); d.Kind != tt.want {
				t.Errorf("got %s, want %s: %s", d.Kind, tt.want, d.Reason)
			}
			if got := f.state.memory("b").Fruitless; (got > 0) != (tt.want == Stay) {
				t.Errorf("%d fruitless canaries", got)
			}
		})
	}
}

// Canaries whose flows get all they want are made larger before they are believed.
func TestCanaryGrows(t *testing.T) {
	f := newFeed(Throughput)
	f.path("b").Prior = 1.3e9
	f.carry("b", 20e6)
	f.path("b").Data.AppLimited = true
	var shares []int
	for range 100 {
		d := f.step(CostAware{})
		if d.Kind == Canary && !slices.Contains(shares, d.Buckets) {
			shares = append(shares, d.Buckets)
		}
		if d.Kind == Switch {
			break
		}
	}
	if !slices.Equal(shares, []int{16, 64}) || f.at.Active != "b" {
		t.Errorf("shares %v, active %s; want 16, 64 and then b", shares, f.at.Active)
	}
}

// A canary that held no flow is made larger.
func TestEmptyCanaryGrows(t *testing.T) {
	f := newFeed(Robust)
	f.path("b").Prior = 1.5e9
	var shares []int
	for range 100 {
		if d := f.step(CostAware{}); d.Kind == Canary && !slices.Contains(shares, d.Buckets) {
			shares = append(shares, d.Buckets)
		}
	}
	if !slices.Equal(shares, []int{2, 8, 32}) {
		t.Errorf("shares %v, want 2, 8, 32", shares)
	}
}

// Exploring costs at most a tenth of what it may gain.
func TestCanariesAreRationed(t *testing.T) {
	for _, connections := range []int{1, 8, 64} {
		f := newFeed(Throughput)
		f.ev.Load.Connections = connections
		f.path("b").Prior = 1.3e9
		f.carry("b", 0.3e9)
		tried := 0.0
		const steps = 6000
		for range steps {
			f.step(CostAware{})
			tried += f.at.Share("b")
		}
		if part := tried / steps; part > exploring*0.3*1.2 || part == 0 {
			t.Errorf("%d connections: %.2f %% of the traffic was on canaries", connections, 100*part)
		}
	}
}
