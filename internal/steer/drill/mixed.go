package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pathwise.dev/pathwise/internal/measure/figure"
)

func mixedKind() kind {
	return kind{
		name: "mixed", about: "bulk next to requests of one pair, by real programs, where one network has more " +
			"rate and another answers sooner: against each of them alone on its best network",
		defaults: Options{Repetitions: 3, Programs: []string{"iperf3", "nginx", "wrk", "sockperf"},
			For: 15 * time.Second, Capacity: 200e6, Connections: 4},
		keys: []string{"programs", "for", "capacity", "connections"},
		length: func(o Options, f File) time.Duration {
			alone, together := len(f.Networks)*len(o.Programs), 2*len(mixes(o))
			const starts = 3 * time.Second
			return time.Duration(alone+together) * (o.learning() + o.For + starts)
		},
		run: runMixed, figures: mixedFigures,
	}
}

// learning is how long flows of a mixed pair have to find their networks before anything is counted.
func (o Options) learning() time.Duration { return o.For / 3 }

// mix is a program that moves bulk next to one that waits for answers.
type mix struct{ bulk, asks string }

func (m mix) String() string { return m.bulk + " and " + m.asks }

// mixes are all of the drill's programs.
func mixes(o Options) (out []mix) {
	for _, b := range o.Programs {
		for _, a := range o.Programs {
			if isBulk(programNamed(b)) && !isBulk(programNamed(a)) {
				out = append(out, mix{b, a})
			}
		}
	}
	return out
}

// disagreement is what networks give where rate and delay disagree.
type disagreement struct {
	rates map[string]float64
	// delays of each way.
	delays map[string]time.Duration
}

// disagree draws it: of the networks one has all of the capacity and answers last, one has a fifth to two
// fifths of it and answers first, and others are between them.
func disagree(r *rand.Rand, networks []string, capacity float64) disagreement {
	d := disagreement{rates: map[string]float64{}, delays: map[string]time.Duration{}}
	for i, at := range r.Perm(len(networks)) {
		part, least, most := 0.4+0.3*r.Float64(), 3.0, 6.0 // ms
		switch i {
		case 0:
			part, least, most = 0.2+0.2*r.Float64(), 1, 2
		case 1:
			part, least, most = 1, 8, 12
		}
		d.rates[networks[at]] = capacity * part
		d.delays[networks[at]] = time.Duration((least + (most-least)*r.Float64()) * float64(time.Millisecond))
	}
	return d
}

// impose makes the networks of a ground like that.
func (g *ground) impose(ctx context.Context, d disagreement) error {
	return g.alter(ctx, leg{}, leg{rates: d.rates, delays: d.delays})
}

// mixedPart is what programs had: early, until flows have settled, and then.
type mixedPart struct {
	bits float64 // acknowledged per second
	waits
	early waits
}

// mixedResult is what was measured in a repetition.
type mixedResult struct {
	// alone is what each program had on each network, with nothing next to it.
	alone map[string]map[string]mixedPart
	// byAgents is what each mix had with agents; byHand without them, each program where it was best alone.
	byAgents, byHand map[mix]mixedPart
}

// mostBits is what a program moved on its best network.
func (r mixedResult) mostBits(p string) (most float64, network string) {
	for _, n := range sortedNames(r.alone[p]) {
		if one := r.alone[p][n]; one.bits > most {
			most, network = one.bits, n
		}
	}
	return most, network
}

// least is how long a program waited where it waited least.
func (r mixedResult) least(p string, of func(waits) float64) (least float64, network string) {
	for _, n := range sortedNames(r.alone[p]) {
		if w := of(r.alone[p][n].waits); network == "" || w < least {
			least, network = w, n
		}
	}
	return least, network
}

// judge compares a mix with each of its programs alone on its best network.
func (r mixedResult) judge(out *Sample, m mix, networks int) error {
	if len(r.alone[m.bulk]) != networks || len(r.alone[m.asks]) != networks {
		return errIncomplete
	}
	most, wide := r.mostBits(m.bulk)
	p50, quick := r.least(m.asks, func(w waits) float64 { return w.p50 })
	p99, _ := r.least(m.asks, func(w waits) float64 { return w.p99 })
	if !(most > 0 && p50 > 0 && p99 > 0) {
		return errNothing
	}
	out.Text["best of bulk"], out.Text["best of requests"] = wide, quick
	for name, of := range map[string]map[mix]mixedPart{"": r.byAgents, "apart_": r.byHand} {
		if one, ok := of[m]; ok {
			out.Values[name+"bulk"], out.Values[name+"p50"], out.Values[name+"p99"] = one.bits/most, one.p50/p50, one.p99/p99
			out.Values[name+"early_p50"], out.Values[name+"early_p99"] = one.early.p50/p50, one.early.p99/p99
		}
	}
	return nil
}

// What a mixed pair is held to, of each alone on its best network.
const (
	mixedBulk  = 0.95
	mixedWaits = 1.1
)

func mixedFigures(o Options, all []Sample) (out []Figure) {
	for _, m := range mixes(o) {
		v := m.String() + " verdict"
		middle := func(key string) float64 { return summary("", "ratio", values(all, v, key), median, nil).Value }
		for _, q := range []struct {
			key, name string
			bar       *figure.Bar
		}{{"bulk", "bulk", atLeast(mixedBulk)}, {"p50", "requests, p50", atMost(mixedWaits)},
			{"p99", "requests, p99", atMost(mixedWaits)}} {
			f := summary(m.String()+": "+q.name+" / alone on its best network", "ratio", values(all, v, q.key), median, q.bar)
			if f.N > 0 {
				f.Note = fmt.Sprintf("kept apart by hand: %.3f", middle("apart_"+q.key))
				if q.key != "bulk" {
					f.Note += fmt.Sprintf("; in the first %s: %.3f", seconds(o.learning().Seconds()), middle("early_"+q.key))
				}
				f.Note += " (medians)"
			}
			out = append(out, f)
		}
	}
	return out
}
