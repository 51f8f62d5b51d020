package detect

import (
	"testing"
	"time"
)

// TestDeepQueues: a failure is found as soon as the rule can know it, however long answers take: the third probe is
// overdue by then, and the other path's answer to one that was sent with it has come for as long.
func TestDeepQueues(t *testing.T) {
	const ms = time.Millisecond
	for name, params := range map[string]Params{"hosts": Hosts(), "pairs": Pairs()} {
		for _, rtt := range []time.Duration{ms / 2, 5 * ms, 10 * ms, 15 * ms, 20 * ms, 25 * ms, 30 * ms, 40 * ms, 50 * ms} {
			start := time.Unix(1000, 0)
			p, w := New(&params), New(&params)
			type probe struct {
				at  time.Time
				seq uint32
			}
			var flying []probe
			seq := uint32(0)
			do := p.Suspect(start, start)
			now := start
			for ; p.State() == Suspect && now.Sub(start) < time.Second; now = now.Add(ms) {
				for len(flying) > 0 && !flying[0].at.Add(rtt).After(now) {
					w.Answer(Shot{Seq: flying[0].seq, Sent: flying[0].at, Answered: flying[0].at.Add(rtt)}, false)
					flying = flying[1:]
				}
				if now != start {
					do = p.Tick(now, Evidence{Until: now, Expected: rtt, Witnesses: []Witness{w.Testimony("w", rtt, rtt)}})
				}
				seq++
				if do.Has(Ask) {
					p.Sent(seq, now)
				}
				if do.Has(AskOthers) {
					w.Sent(seq, now)
					flying = append(flying, probe{now, seq})
				}
			}
			third := 2 * params.Every
			best := third + rtt + max(2*rtt, params.DeadlineLeast)
			if took := now.Sub(start); p.State() == Suspect || took > best+2*ms {
				t.Errorf("%s, round trips of %v: %v after %v, at best %v", name, rtt, p.State(), took, best)
			}
		}
	}
}
