package detect

import (
	"math/rand"
	"testing"
	"time"
)

// TestNeeded: the more of its probes a path loses one by one, the more in a row are needed.
func TestNeeded(t *testing.T) {
	params := Hosts()
	// every are probes each 10 ms of which each n-th is lost; none if 0.
	every := func(n int) []Shot {
		var out []Shot
		for i := range kept {
			took := .2
			if n > 0 && i%n == n-1 {
				took = -1
			}
			out = append(out, shots(float64(10*i), took)...)
		}
		return out
	}
	outage := func(from, to int) []Shot {
		out := every(0)
		for i := from; i < to; i++ {
			out[i].Answered = time.Time{}
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		shots []Shot
		well  time.Time
		weak  bool
		want  int
	}{
		{"none is known", nil, time.Time{}, false, 3},
		{"none was lost", every(0), time.Time{}, false, 3},
		{"none was lost, weak", every(0), time.Time{}, true, 6},
		{"one of 32", every(20), time.Time{}, false, 6},
		{"each tenth", every(10), time.Time{}, false, 8},
		{"each tenth, weak", every(10), time.Time{}, true, 8},
		{"each fifth", every(5), time.Time{}, false, 11},
		{"each second", every(2), time.Time{}, true, 16},
		{"each second, before it was well again", every(2), at(321), false, 3},
		{"an outage", outage(3, 30), time.Time{}, false, 3},
		{"a short outage", outage(5, 20), time.Time{}, false, 7},
		{"an outage that goes on", outage(20, kept), time.Time{}, false, 3},
		{"one of few", shots(0, .2, 200, -1, 300, .2, 319, -1), time.Time{}, false, 7},
		{"one on its way", shots(0, .2, 319, -1), time.Time{}, false, 3},
	} {
		s := suspicion{start: at(320), shots: tt.shots, well: tt.well, weak: tt.weak}
		if got := params.needed(s, 2*time.Millisecond); got != tt.want {
			t.Errorf("%s: %d, expected %d", tt.name, got, tt.want)
		}
	}
}

// lossy is a path of a pair whose packets nobody answers, so that it is suspected as soon as it may be,
// and that loses a part of its probes. It returns how many times the path failed in so long.
func lossy(rng *rand.Rand, params *Params, share float64, begin, end time.Time) (failed int, last time.Time) {
	p := New(params)
	var seq uint32
	var sent []Shot
	witness := Witness{Name: "z", Usual: time.Millisecond / 5}
	send := func(now time.Time, do Action) {
		if !do.Has(Ask) {
			return
		}
		seq++
		p.Sent(seq, now)
		x := Shot{Seq: seq, Sent: now}
		witness.Shots = append(witness.Shots, Shot{Sent: now, Answered: now.Add(time.Millisecond / 5)})
		if len(witness.Shots) > kept {
			witness.Shots = witness.Shots[1:]
		}
		if now.Before(begin) || rng.Float64() >= share {
			sent = append(sent, x)
		}
	}
	for now := at(0); now.Before(end); now = now.Add(time.Millisecond) {
		for _, x := range sent {
			x.Answered = x.Sent.Add(time.Millisecond / 5)
			p.Answer(x, false)
		}
		sent = sent[:0]
		send(now, p.Suspect(at(-1000), now))
		send(now, p.Tick(now, Evidence{Until: now, Expected: time.Millisecond / 5, Witnesses: []Witness{witness}}))
		if p.Confirm(now, Agrees).Has(Fail) {
			failed, last = failed+1, now
			return failed, last
		}
	}
	return failed, last
}

// TestLossIsNoFailure: a path of a pair whose packets nobody answers is asked all the time, and does not fail as
// it begins to lose some of them; it does soon if it loses all.
func TestLossIsNoFailure(t *testing.T) {
	params := Pairs()
	rng := rand.New(rand.NewSource(1))
	for _, tt := range []struct {
		share float64
		most  int // of 80 paths that lose for 5 s
	}{{0.01, 0}, {0.1, 0}, {0.3, 2}} {
		failed := 0
		for range 80 {
			n, _ := lossy(rng, &params, tt.share, at(400), at(5400))
			failed += n
		}
		if failed > tt.most {
			t.Errorf("%d of 80 paths that lose %v failed, expected %d at most", failed, tt.share, tt.most)
		}
	}
	for range 50 {
		if n, last := lossy(rng, &params, 1, at(1000), at(2000)); n == 0 || last.Sub(at(1000)) > 50*time.Millisecond {
			t.Fatalf("a path that loses all failed %d times, after %v", n, last.Sub(at(1000)))
		}
	}
}
