package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSequentialError: over all looks, and one at any number of blocks at which time is over,
// a difference that is none is claimed in 5 of 100 runs at the most.
func TestSequentialError(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, prior := range []bool{false, true} {
		const runs = 4000
		wrong := 0
		for range runs {
			over := 2 + r.IntN(39)
			num, den := Blocks{}, Blocks{}
			p := Prior{}
			if prior { // of comparisons with the same spread
				p = Prior{Var: 2 * 0.05 * 0.05, DF: 4}
			}
			for n := 1; n <= over; n++ {
				block := math.Exp(0.3 * r.NormFloat64())
				num[n], den[n] = block*math.Exp(0.05*r.NormFloat64()), block*math.Exp(0.05*r.NormFloat64())
				if n != over && NextLook(n-1) != n {
					continue
				}
				if !p.RatioT(num, den, p.Sequential(0.95)).Contains(1) {
					wrong++
					break
				}
			}
		}
		share := float64(wrong) / runs
		t.Logf("prior %v: %.4f", prior, share)
		if share > 0.05+3*math.Sqrt(0.05*0.95/runs) {
			t.Errorf("prior %v: %.3f of runs without a difference claim one", prior, share)
		}
	}
}

// TestPriorCoverage: intervals of three blocks that borrow of 20 others cover as often as
// their level says, where spreads are alike, differ two- and tenfold, and where values flip
// between two speeds; and are narrower than those that do not borrow.
func TestPriorCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	flip := func() float64 { return 0.3 * math.Copysign(1, r.Float64()-0.3) }
	for _, tt := range []struct {
		name  string
		value func(scale float64) float64
		scale func() float64
		floor float64
	}{
		{"alike", func(s float64) float64 { return s * r.NormFloat64() }, func() float64 { return 0.1 }, 0.945},
		{"twofold", func(s float64) float64 { return s * r.NormFloat64() },
			func() float64 { return 0.1 * math.Exp2(r.NormFloat64()) }, 0.935},
		{"tenfold", func(s float64) float64 { return s * r.NormFloat64() },
			func() float64 { return 0.1 * math.Pow(10, r.NormFloat64()) }, 0.93},
		{"two speeds", func(s float64) float64 { return s*r.NormFloat64() + flip() - 0.12 },
			func() float64 { return 0.05 }, 0.93},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var covered, all int
			var own, borrowed float64
			for range 300 {
				var nums, dens []Blocks
				var spreads []Spread
				for range 20 {
					num, den := Blocks{}, Blocks{}
					s := tt.scale()
					for b := range 3 {
						num[b], den[b] = math.Exp(tt.value(s)), math.Exp(tt.value(s))
					}
					nums, dens = append(nums, num), append(dens, den)
					if spread, ok := RatioT(num, den, 0.95).Spread(); ok {
						spreads = append(spreads, spread)
					}
				}
				p := Pool(spreads)
				for i := range nums {
					with, without := p.RatioT(nums[i], dens[i], 0.95), RatioT(nums[i], dens[i], 0.95)
					own += min(math.Log(without.High)-math.Log(without.Low), 1e3)
					borrowed += min(math.Log(with.High)-math.Log(with.Low), 1e3)
					all++
					if with.Contains(1) {
						covered++
					}
				}
			}
			share := float64(covered) / float64(all)
			t.Logf("covers %.3f, width %.2f of its own", share, borrowed/own)
			if share < tt.floor {
				t.Errorf("covers %.3f, expected at least %.3f", share, tt.floor)
			}
			if tt.name != "tenfold" && borrowed >= 0.7*own { // where they differ so much nothing is to be gained
				t.Errorf("is %.2f as wide as what borrows nothing", borrowed/own)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	i := MeanT([]float64{9, 10, 11}, 0.95) // half 24.8 %
	for _, tt := range []struct {
		half float64
		want int
	}{{0.25, 3}, {0.1, 7}, {0.05, 18}, {0.001, 40}} {
		if got := i.Blocks(tt.half, 40); got != tt.want {
			t.Errorf("to %g: %d blocks, want %d", tt.half, got, tt.want)
		}
	}
	if got := MeanT([]float64{1}, 0.95).Blocks(0.1, 40); got != 2 {
		t.Errorf("of one value: %d", got)
	}
	if got := []int{NextLook(0), NextLook(3), NextLook(4), NextLook(39), NextLook(40)}; got[0] != 2 || got[1] != 5 ||
		got[2] != 5 || got[3] != 40 || got[4] != 41 {
		t.Errorf("looks %v", got)
	}
}
