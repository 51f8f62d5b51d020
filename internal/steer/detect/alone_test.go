package detect

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestAlone: a pair's path fails alone where its echoes are lost and the hosts' probes are not, and not where both are.
func TestAlone(t *testing.T) {
	const seed, trials = 8, 4000
	t.Logf("seed %d", seed)
	pairs, hosts := Pairs(), Hosts()
	always := func(p float64) func(time.Duration) float64 { return func(time.Duration) float64 { return p } }
	first := func(d time.Duration, p, then float64) func(time.Duration) float64 {
		return func(at time.Duration) float64 {
			if at < d {
				return p
			}
			return then
		}
	}
	for _, tt := range []struct {
		name string
		// pair and host are the chance to be lost of what goes so long after the suspicion.
		pair, host func(time.Duration) float64
		// least and most are the part of the trials that are found to fail alone, within so long.
		least, most float64
		within      time.Duration
	}{
		{"fails alone", always(1), always(0), 1, 1, 8 * time.Millisecond},
		{"fails alone, where one in twenty is lost", always(1), always(0.05), 0.99, 1, 60 * time.Millisecond},
		{"fails alone, where half are lost", always(1), always(0.5), 0.5, 1, 200 * time.Millisecond},
		{"all are lost", always(1), always(1), 0, 0, 200 * time.Millisecond},
		{"all are lost for a while", first(30*time.Millisecond, 1, 0), first(30*time.Millisecond, 1, 0), 0, 0,
			200 * time.Millisecond},
		{"nine in ten are lost", always(0.9), always(0.9), 0, 0.02, 200 * time.Millisecond},
		{"half are lost", always(0.5), always(0.5), 0, 0.02, 200 * time.Millisecond},
		{"a queue that was full is so at times", first(20*time.Millisecond, 1, 0.8), first(20*time.Millisecond, 1, 0.8),
			0, 0.02, 200 * time.Millisecond},
	} {
		rng := rand.New(rand.NewPCG(seed, 0))
		found := 0
		for range trials {
			if failsAlone(rng, &pairs, &hosts, tt.pair, tt.host, tt.within) {
				found++
			}
		}
		if part := float64(found) / trials; part < tt.least || part > tt.most {
			t.Errorf("%s: found in %.4f, want %v to %v", tt.name, part, tt.least, tt.most)
		}
	}
}

// failsAlone plays a suspicion, in which what is not lost is answered at once, and another path is well. It reports
// whether the pair's path is found to fail alone while all of its echoes are lost.
func failsAlone(rng *rand.Rand, pairs, hosts *Params, pair, host func(time.Duration) float64,
	within time.Duration) bool {
	const tick, answer = time.Millisecond, 100 * time.Microsecond
	begin, seq := time.Unix(1e9, 0), uint32(0)
	p, h, z := New(pairs), New(hosts), New(pairs)
	send := func(to *Path, at time.Duration, lost float64) (answered bool) {
		seq++
		x := Shot{Seq: seq, Sent: begin.Add(at)}
		to.Sent(x.Seq, x.Sent)
		if rng.Float64() < lost {
			return false
		}
		x.Answered = x.Sent.Add(answer)
		to.Answer(x, false)
		return true
	}
	do, ask := p.Suspect(begin.Add(-pairs.Silence), begin), Action(0)
	for at := time.Duration(0); at <= within; at += tick {
		now := begin.Add(at)
		if at > 0 {
			do = p.Tick(now, Evidence{Until: now, Expected: answer, Witnesses: []Witness{z.Testimony("z", answer, answer)}})
			ask = h.Tick(now, Evidence{Until: now, Expected: answer})
		}
		if do.Has(AskHosts) {
			ask |= h.Suspect(begin, now)
		}
		if ask.Has(Ask) || p.Compares(answer, now) && !h.Asked(now) {
			send(&h, at, host(at))
		}
		if p.State() == Confirming && p.Alone(&h, answer, now) {
			return true
		}
		if do.Has(AskOthers) {
			send(&z, at, 0)
		}
		if do.Has(Ask) && send(&p, at, pair(at)) {
			return false
		}
	}
	return false
}

// TestCompares: the hosts' path is asked next to the pair's once the first echo is late, and after the burst with each
// round.
func TestCompares(t *testing.T) {
	params := Pairs()
	for _, tt := range []struct {
		at, usual float64 // ms
		want      bool
	}{{0, 0.1, false}, {1, 0.1, true}, {1, 5, false}, {5, 5, true}, {29, 0.1, true}, {31, 0.1, false}, {50, 0.1, true}} {
		p := New(&params)
		p.Suspect(at(-6), at(0))
		for ms := 1.0; ms <= tt.at; ms++ {
			p.Tick(at(ms), Evidence{Until: at(ms)})
		}
		if got := p.Compares(time.Duration(tt.usual*float64(time.Millisecond)), at(tt.at)); got != tt.want {
			t.Errorf("%v ms after the suspicion, where %v ms are usual: %v", tt.at, tt.usual, got)
		}
	}
}
