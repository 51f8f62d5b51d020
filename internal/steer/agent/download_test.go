package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestDownloadsFindMore: a pod that opens connections and receives all that they carry is
// moved to where they get more, as one that sends is. The other end alone knows that its
// senders have more, and its agent tells.
func TestDownloadsFindMore(t *testing.T) {
	b := newBed(t, "t-agt-down", "vxlan", "macvlan")
	b.impair("vxlan", impair.Impairment{Rate: 70e6}, "b")
	b.impair("macvlan", impair.Impairment{Rate: 280e6}, "b")
	b.impair("macvlan", impair.Impairment{Delay: 10 * time.Millisecond}, "agent-h2") // where a dialogue would not go
	for _, host := range []string{"h1", "h2"} {
		b.start(host, func(c *Config) { c.Policy = decide.CostAware{} })
	}
	down := b.traffic("a", "b", stream.Client{Kind: stream.TCP, Connections: 4, Reverse: true})
	b.await("the download to be on the faster network", func() bool {
		for _, p := range b.agents["h1"].Paths() {
			if p.Pair == "a>b" && p.Network == "macvlan" && p.Active {
				return true
			}
		}
		return false
	})
	b.flows("macvlan")
	if r := down.stop(); r.Counts.Connections.Lost+r.Counts.Corrupt > 0 {
		t.Errorf("the download: %+v", r.Counts)
	}
}
