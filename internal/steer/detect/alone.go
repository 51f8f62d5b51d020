package detect

import "time"

// Alone reports whether the path of a pair fails alone: its probes are lost where those between the hosts pass, more
// than chance would have it (Fisher's exact test, 1922). A queue that is full, or just was, loses both. Compared is
// what went since the pair's row began. Where some were lost between the hosts it is what went after the first that
// passed there: what was lost before may have been lost to all. usual is the round trip that may be expected of either.
func (p *Path) Alone(hosts *Path, usual time.Duration, now time.Time) bool {
	from, deadline := p.verdict.Since, p.params.deadline(usual)
	passed, lost := hosts.fates(from, deadline, now)
	if lost > 0 && passed > 0 {
		from = hosts.firstPassed(from).Add(1)
		passed, lost = hosts.fates(from, deadline, now)
	}
	answered, overdue := p.fates(from, deadline, now)
	chance := 1.0 // that of all that were lost so many are the pair's
	for i := 1; i <= overdue; i++ {
		chance *= float64(lost+i) / float64(passed+lost+i)
	}
	return answered == 0 && chance <= p.params.AloneBy
}

// Compares reports whether the hosts' path is to be asked next to the pair's, twice as often: in the burst of a
// suspicion whose first probe should have been answered by now, and in each later round. usual is the round trip that
// may be expected.
func (p *Path) Compares(usual time.Duration, now time.Time) bool {
	return p.Suspected() && now.Sub(p.suspected) >= max(usual, p.params.Every/2) &&
		(p.rounds < p.params.Burst || p.roundAt.Equal(now))
}

// fates counts the probes sent at t or later that were answered, and those that were not within the deadline.
func (p *Path) fates(t time.Time, deadline time.Duration, now time.Time) (passed, lost int) {
	for _, x := range p.shots {
		switch {
		case x.Sent.Before(t):
		case !x.Answered.IsZero():
			passed++
		case now.Sub(x.Sent) >= deadline:
			lost++
		}
	}
	return passed, lost
}
