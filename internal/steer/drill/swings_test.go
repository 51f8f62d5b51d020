package drill

import (
	"math/rand/v2"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/agent"
)

// TestSwing: each network has a rate of its own, from 30 to 170 Mbit/s, for half a second to five.
func TestSwing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	least, most := 1e12, 0.0
	for range 1000 {
		rates, hold := swing(r, []string{"x", "y", "z"}, 200e6)
		if len(rates) != 3 || rates["x"] == rates["y"] || hold < 500*time.Millisecond || hold > 5*time.Second {
			t.Fatalf("%v for %v", rates, hold)
		}
		for _, v := range rates {
			least, most = min(least, v), max(most, v)
		}
	}
	if least < 30e6 || least > 31e6 || most > 170e6 || most < 169e6 {
		t.Errorf("from %v to %v", least, most)
	}
}

// TestMistaken: what agents took for a failure is counted, and nothing else.
func TestMistaken(t *testing.T) {
	out := Sample{Values: map[string]float64{}, Text: map[string]string{}}
	mistaken(&out, []agent.Event{{Kind: "switch"},
		{Kind: agent.EventSuspect, Reason: "the connection from port 1 to 2 does not get through on x"},
		{Kind: agent.EventPeer, Reason: "a>b can use 3 paths"}})
	if n, ok := out.Values["failures"]; n != 0 || !ok {
		t.Errorf("%v", out.Values)
	}
	mistaken(&out, []agent.Event{{Kind: "failover", Pair: "a>b"},
		{Kind: agent.EventSuspect, Reason: "this pair's packets do not pass over x: silent"},
		{Kind: agent.EventPeer, Reason: "x to h2 has failed: silent"}})
	if out.Values["failures"] != 3 || out.Text["failure"] == "" {
		t.Errorf("%v, %v", out.Values, out.Text)
	}
}
