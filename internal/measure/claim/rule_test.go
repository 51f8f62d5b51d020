package claim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestKindsHaveTheirOwnSpread: ten comparisons of a workload that varies by 2 % and differ by
// 15 %, together with ten of one that varies by 15 % and do not differ. After three blocks the first
// are told, and the second claim no difference that is not there: what the noisy ones
// know of their spread is not taken for that of the quiet ones, nor the other way round.
func TestKindsHaveTheirOwnSpread(t *testing.T) {
	const runs, each, blocks = 40, 10, 3
	noise := map[string]float64{"tcp-stream": 0.02, "udp-stream": 0.15}
	differ := map[string]float64{"tcp-stream": 0.15, "udp-stream": 0}
	told, asked := map[string]int{}, map[string]int{}
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 17))
		var claims []claim.Claim
		var trials []sample.Trial
		for _, w := range []string{"tcp-stream", "udp-stream"} {
			for i := range each {
				a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
				claims = append(claims, claim.Claim{ID: w + a, Metric: sample.Throughput, Where: claim.Where{Workload: w},
					Test: claim.Test{Order: claim.Order{{a}, {b}}}})
				for block := range blocks {
					for k, n := range []string{a, b} {
						level := differ[w] * float64(1-k)
						trials = append(trials, sample.Trial{Repetition: block + 1, Status: sample.OK,
							Cell: sample.Cell{Network: n, Workload: w,
								Scenario: topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500}},
							Metrics: map[string]float64{sample.Throughput: math.Exp(20 + level + noise[w]*r.NormFloat64())}})
					}
				}
			}
		}
		for _, j := range claim.Judge(claims, trials, claim.Rule{Level: 0.95, Raced: true}, nil) {
			asked[j.Where.Workload]++
			if v := j.Verdict(); v == claim.Holds || v == claim.Fails {
				told[j.Where.Workload]++
			}
		}
	}
	t.Logf("told %v of %v", told, asked)
	if got := told["tcp-stream"]; got < asked["tcp-stream"]*9/10 {
		t.Errorf("%d of %d differences of a quiet workload are told", got, asked["tcp-stream"])
	}
	if got := told["udp-stream"]; got > asked["udp-stream"]/20 {
		t.Errorf("%d of %d comparisons of a noisy workload claim a difference that is not there", got, asked["udp-stream"])
	}
}
