package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/path/steer"
	"pathwise.dev/pathwise/internal/stream"
)

// paperInserts is by how much 3,000 switches lengthened 5,000 inserts in Table 7
// of Atici and Boluk (2020).
const paperInserts = 0.097

func insertsKind() kind {
	return kind{
		name: "inserts", about: "request-response operations alone and with switches spread over them, in pairs",
		defaults: Options{Repetitions: 30, Inserts: 5000, Switches: 3000}, keys: []string{"inserts", "switches", "work"},
		length: func(o Options, _ File) time.Duration {
			return 3*time.Second + time.Duration(o.Inserts)*(300*time.Microsecond+5*o.Work)
		},
		run: runInserts, figures: insertsFigures,
	}
}

// runInserts runs the inserts on each path alone, with the switches among all of
// them, and on the default path with something that waits as the switches do and
// moves nothing: a machine of two cores feels that.
func runInserts(ctx context.Context, s *session) ([]Sample, error) {
	g, err := s.ground(ctx, s.pair("inserts"))
	if err != nil {
		return nil, err
	}
	if g.planes == nil {
		p, err := g.steerer(g.pod("a"), g.pod("b"))
		if err == nil {
			err = p.fit()
		}
		if err != nil {
			return nil, err
		}
	}
	if s.memory["alone"] == nil {
		warm := s.sample("warm-up") // how long the inserts take, and warm caches
		if err := g.inserts(ctx, &warm, 0, 0, false); err != nil {
			return nil, err
		}
	}
	var out []Sample
	variants := []string{"switching", "waiting"}
	for _, n := range g.nets {
		variants = append(variants, alone+n)
	}
	for _, i := range s.order(len(variants)) {
		n, path := s.options().Switches, 0
		if i >= 2 {
			n, path = 0, g.planes.index(g.nets[i-2])
		}
		one, err := s.try(ctx, variants[i], func(out *Sample) error { return g.inserts(ctx, out, n, path, i == 1) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// alone begins the variants without switches; the network follows.
const alone = "alone "

func (g *ground) inserts(ctx context.Context, out *Sample, switches, path int, idle bool) error {
	p := g.planes
	if _, err := p.from.Switch(p.b.UID, steer.All, path); err != nil {
		return err
	}
	before, err := p.from.Opened(p.b.UID)
	if err != nil {
		return err
	}
	f, err := g.begin(ctx, traffic{kind: stream.RR, from: p.a, to: p.b, pin: lastCPU(),
		args: []string{"--count", strconv.Itoa(g.s.options().Inserts), "--request", "200-1000", "--work", g.s.options().Work.String()}})
	if err != nil {
		return err
	}
	if switches > 0 {
		if err := until(ctx, 5*time.Second, 100*time.Microsecond, "inserts begin", func() (bool, error) {
			now, err := p.from.Opened(p.b.UID)
			return now > before+4, err
		}); err != nil {
			return errors.Join(err, f.abandon())
		}
		took, _ := g.s.memory["alone"].(time.Duration)
		w, err := p.blow(ctx, switches, len(g.nets), took/time.Duration(switches), g.s.rand, f.client.done, idle)
		if err != nil {
			return errors.Join(err, f.abandon())
		}
		w.note(out)
	}
	if err := f.wait(ctx); err != nil {
		return errors.Join(err, f.abandon())
	}
	client, server, err := f.end()
	if err != nil {
		return err
	}
	took := client.Ended - client.Started.Monotonic
	if switches == 0 && path == 0 {
		g.s.memory["alone"] = took
	}
	out.Text["path"] = strconv.Itoa(path)
	out.Values["took_s"], out.Values["operations"] = took.Seconds(), float64(client.Counts.Operations)
	judge(out, client, server)
	return g.s.keep(out, "client", client)
}

func insertsFigures(o Options, all []Sample) []Figure {
	all = withMix(all)
	change := func(variant, by string) []float64 {
		out := ratios(all, variant, by, "took_s")
		for i := range out {
			out[i]--
		}
		return out
	}
	f := figure("longer by switches, median of pairs", "change", change("switching", mix), median, atMost(0.005))
	f.Note = fmt.Sprintf("against the paths alone, by equal shares of time; both ends on one core, the switches from another; median of %.0f switches during %d operations of %s; the paper's manager: %+.1f %% (Atici and Boluk 2020, Table 7)",
		figure("", "", values(all, "switching", "switches"), median, nil).Value, o.Inserts,
		seconds(figure("", "", values(all, mix, "took_s"), median, nil).Value), paperInserts*100)
	w := figure("... by a timer of the same pace that moves nothing", "change", change("waiting", home(all)), median, nil)
	w.Note = "what the drill's own waiting costs on the same cores"
	return []Figure{f, w, total("connections lost", "count", values(all, "", "connections_lost"), atMost(0))}
}

// mix stands for the paths alone, as many operations at their mean rate: who is
// switched among them at even intervals has each for an equal share of the time.
const mix = "mix of paths"

func withMix(all []Sample) []Sample {
	rates := map[int][]float64{}
	networks := map[string]bool{}
	for _, s := range all {
		if strings.HasPrefix(s.Variant, alone) && s.Error == "" && s.Values["took_s"] > 0 {
			networks[s.Variant] = true
			rates[s.Repetition] = append(rates[s.Repetition], 1/s.Values["took_s"])
		}
	}
	out := slices.Clone(all)
	for rep, r := range rates {
		if len(r) == len(networks) {
			out = append(out, Sample{Repetition: rep, Variant: mix, Values: map[string]float64{"took_s": float64(len(r)) / sum(r)}})
		}
	}
	return out
}

// home is the variant on the default network alone: the one that notes so.
func home(all []Sample) string {
	for _, s := range all {
		if strings.HasPrefix(s.Variant, alone) && s.Text["path"] == "0" {
			return s.Variant
		}
	}
	return ""
}
