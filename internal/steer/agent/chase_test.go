package agent

import (
	"testing"
	"time"
)

// TestChase: paths that have failed of late are probed so often that ten answers take 0.3 s, and of many each less, so
// that it comes to a hundred a second.
func TestChase(t *testing.T) {
	for _, tc := range []struct {
		hosts, paths int
		since        time.Duration // they failed
		want         float64       // probes a second of each
	}{
		{1, 1, 0, 1 / probeFailed.Seconds()},
		{1, 3, 0, 1 / probeFailed.Seconds()},
		{40, 1, 0, 100. / 40},
		{1, 1, chasedFor, 0},
	} {
		a, _ := twoHosts(t)
		pr, zero := a.prober, time.Unix(1000, 0)
		always := zero.Add(time.Hour)
		remote := someHosts(tc.hosts, zero, func(h *remoteHost) { h.used, h.owned = always, always })
		var failed []*hostPath
		for _, h := range remote {
			for _, network := range []string{"m", "x", "z"}[:tc.paths] {
				h.paths[network].Signaled(zero.Add(-tc.since))
				h.paths[network].next = zero.Add(probeFollower)
				failed = append(failed, h.paths[network])
			}
		}
		pr.warm = warm(remote, zero)
		pr.findChased(zero)
		for now := zero; now.Before(zero.Add(10 * time.Second)); {
			before := 0
			for _, hp := range failed {
				before -= hp.sent
			}
			now = now.Add(max(pr.chase(now), suspectTick))
			for _, hp := range failed {
				before += hp.sent
			}
			if before > probesAtOnce {
				t.Fatalf("%d at once", before)
			}
		}
		for _, hp := range failed {
			if got := float64(hp.sent) / 10; got < 0.9*tc.want || got > 1.1*tc.want {
				t.Errorf("%d hosts, %d failed paths of each for %v: %.2f probes a second, want %.2f", tc.hosts, tc.paths, tc.since,
					got, tc.want)
			}
		}
	}
}
