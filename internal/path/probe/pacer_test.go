package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// paced runs a pacer for a span as its user would and returns what it let go.
type shot struct {
	Due[int]
	at time.Duration
}

func paced(p *Pacer[int], from, to time.Duration) []shot {
	var out []shot
	for now := from; now < to; {
		if d, ok := p.Next(at(0).Add(now)); ok {
			out = append(out, shot{d, now})
			continue
		}
		next, ok := p.NextAt(at(0).Add(now))
		if !ok {
			break
		}
		now = max(next.Sub(at(0)), now+1)
	}
	return out
}

func newPacer(c PacerConfig) *Pacer[int] {
	return NewPacer[int](c, rand.New(rand.NewPCG(1, 2)).Float64, at(0))
}

func TestPacerRoles(t *testing.T) {
	const span = 200 * time.Second
	c := DefaultPacing()
	for role, every := range []time.Duration{c.Idle, c.Standby, c.Active} {
		p := newPacer(c)
		p.Set(1, Role(role), 1472, at(0))
		got := paced(p, 0, span)
		if want := int(span / every); len(got) < want-want/8-1 || len(got) > want+want/8+2 {
			t.Errorf("role %d: %d probes, expected about %d", role, len(got), want)
		}
		full := 0
		for i, s := range got {
			if s.Size == 1472 {
				full++
			} else if s.Size != c.Small {
				t.Errorf("role %d: %d octets", role, s.Size)
			}
			if i == 0 {
				continue
			}
			gap := s.at - got[i-1].at
			if gap < every*66/100 || gap > every*134/100 {
				t.Errorf("role %d: gap %s", role, gap)
			}
		}
		if want := len(got) / c.FullEvery; full < want || full > want+1 {
			t.Errorf("role %d: %d of %d full", role, full, len(got))
		}
	}
}

func TestPacerBurst(t *testing.T) {
	c := DefaultPacing()
	p := newPacer(c)
	p.Set(1, Active, 1472, at(0))
	p.Set(2, Standby, 1472, at(0))
	paced(p, 0, 100*time.Millisecond)
	if !p.Suspect(1, at(100)) || !p.Suspect(2, at(100)) || p.Suspect(1, at(101)) || p.Suspect(3, at(100)) {
		t.Error("Suspect is wrong")
	}
	var when [3][]time.Duration
	for _, s := range paced(p, 100*time.Millisecond, 124*time.Millisecond) {
		if !s.Burst || s.Size != c.Small {
			t.Errorf("%+v", s)
		}
		when[s.Key] = append(when[s.Key], s.at-100*time.Millisecond)
	}
	for k := 1; k <= 2; k++ {
		if len(when[k]) != c.Burst {
			t.Fatalf("path %d: %v", k, when[k])
		}
		for i, at := range when[k] {
			if at != time.Duration(i)*c.BurstGap {
				t.Errorf("path %d: %v", k, when[k])
			}
		}
	}
	if p.Suspect(1, at(150)) {
		t.Error("a burst right after a burst")
	}
	if !p.Suspect(1, at(172)) {
		t.Error("no burst after the rest")
	}
	p.Remove(1) // in the midst of it
	for _, s := range paced(p, 172*time.Millisecond, 5*time.Second) {
		if s.Key == 1 || s.Burst {
			t.Errorf("%+v after the burst", s)
		}
	}
}

// TestPacerRoleChange: a path that begins to carry traffic is not left to its
// idle schedule.
func TestPacerRoleChange(t *testing.T) {
	p := newPacer(DefaultPacing())
	p.Set(1, Idle, 0, at(0))
	paced(p, 0, 2*time.Second)
	p.Set(1, Active, 0, at(2000))
	if got := paced(p, 2*time.Second, 2*time.Second+210*time.Millisecond); len(got) == 0 {
		t.Error("not probed")
	}
	p.Set(1, Idle, 0, at(2210))
	if got := paced(p, 2210*time.Millisecond, 8*time.Second); len(got) != 0 {
		t.Errorf("idle, but %v", got)
	}
}

// TestPacerBound: in no span is more sent than Most says, with all suspected all
// the time; and bursts still come when steady probing alone would use it up.
func TestPacerBound(t *testing.T) {
	c := DefaultPacing()
	c.Probes, c.Bytes = 200, 60000
	p := newPacer(c)
	for i := range 300 {
		p.Set(i, Role(i%3), 1472, at(0))
	}
	var all []shot
	for ms := range 5000 {
		now := time.Duration(ms) * time.Millisecond
		if ms > 1000 {
			p.Suspect(ms%300, at(float64(ms)))
		}
		all = append(all, paced(p, now, now+time.Millisecond)...)
	}
	burst := 0
	for i := range all {
		if all[i].Burst {
			burst++
		}
		n, bytes := 0., 0.
		for j := i; j < len(all); j++ {
			n, bytes = n+1, bytes+float64(all[j].Size+c.Overhead)
			if most := c.Most(all[j].at - all[i].at); n > most.Probes+1 || bytes > most.Bytes+1 {
				t.Fatalf("%v probes of %v octets in %s, more than %+v", n, bytes, all[j].at-all[i].at, most)
			}
		}
	}
	if burst < 400 {
		t.Errorf("only %d of %d probes were of bursts", burst, len(all))
	}
}

// TestPacerSteady: what Steady says is what is sent.
func TestPacerSteady(t *testing.T) {
	for _, n := range [][3]int{{100, 0, 0}, {0, 100, 50}, {1000, 3000, 1000}} {
		c := DefaultPacing()
		p := newPacer(c)
		key := 0
		for role, k := range n {
			for range k {
				p.Set(key, Role(role), 1472, at(0))
				key++
			}
		}
		const settle, span = 20 * time.Second, 40 * time.Second
		paced(p, 0, settle)
		var got Load
		for _, s := range paced(p, settle, settle+span) {
			got.Probes += 1 / span.Seconds()
			got.Bytes += float64(s.Size+c.Overhead) / span.Seconds()
		}
		want := c.Steady(n, 1472)
		if r := got.Probes / want.Probes; r < .9 || r > 1.1 {
			t.Errorf("%v: %v, expected %v", n, got, want)
		}
		if r := got.Bytes / want.Bytes; r < .9 || r > 1.1 {
			t.Errorf("%v: %v, expected %v", n, got, want)
		}
		if want.Probes > c.Probes*3/4+1 || want.Bytes > c.Bytes*3/4+1 {
			t.Errorf("%v: %v is too much", n, want)
		}
	}
}

// TestPacerAfterStall: a stall is not made up for.
func TestPacerAfterStall(t *testing.T) {
	p := newPacer(DefaultPacing())
	p.Set(1, Active, 0, at(0))
	paced(p, 0, time.Second)
	if got := paced(p, time.Hour, time.Hour+90*time.Millisecond); len(got) != 1 {
		t.Errorf("%d probes", len(got))
	}
}

// TestPacerKeepsForBursts: however much steady probing wants, a burst finds its
// share untouched.
func TestPacerKeepsForBursts(t *testing.T) {
	c := DefaultPacing()
	c.Probes, c.Bytes = 200, 1e9 // so a quarter of the depth is 25 probes
	p := newPacer(c)
	for i := range 2000 {
		p.Set(i, Active, 0, at(0)) // all want their first probe within 150 ms
	}
	paced(p, 0, 140*time.Millisecond)
	for i := range 3 {
		p.Suspect(i, at(140))
	}
	burst := 0
	for _, s := range paced(p, 140*time.Millisecond, 162*time.Millisecond) {
		if s.Burst {
			burst++
		}
	}
	if burst != 3*c.Burst {
		t.Errorf("%d probes of the bursts went out", burst)
	}
}
