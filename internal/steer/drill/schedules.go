package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

func schedulesKind() kind {
	return kind{
		name: "schedules", about: "courses of loads and impairments, shipped and random ones: steered, against each network kept throughout",
		defaults: Options{Repetitions: 4, Phases: 6, For: 6 * time.Second, Capacity: 400e6},
		keys:     []string{"phases", "for", "capacity"},
		length: func(o Options, f File) time.Duration {
			return time.Duration(len(f.Networks)+1) * (time.Duration(o.Phases)*(o.For+200*time.Millisecond) + 4*time.Second)
		},
		run: runSchedules, figures: schedulesFigures,
	}
}

// shipped are schedules written by hand, on the networks of a file. Phases are
// as long as they are said to be.
func shipped(networks []string, span time.Duration) []decide.Schedule {
	ns := make([]decide.SimNetwork, len(networks))
	for i, n := range networks {
		ns[i] = decide.SimNetwork{Name: n, Capacity: 4e8 * (1 - 0.15*float64(i)),
			Many: 1 - 0.6*float64(len(networks)-1-2*i)/float64(len(networks))}
	}
	phase := func(connections int, bad ...decide.Impairment) decide.Phase {
		return decide.Phase{For: span, Load: decide.Load{Connections: connections}, Impairments: bad}
	}
	last := networks[len(networks)-1]
	return []decide.Schedule{
		{Name: "load", Need: decide.Throughput, Networks: ns, Phases: []decide.Phase{phase(1), phase(32), phase(32,
			decide.Impairment{Network: last, Fault: decide.Competing, Factor: 0.6}), phase(1)}},
		{Name: "faults", Need: decide.Throughput, Networks: ns, Phases: []decide.Phase{phase(4),
			phase(4, decide.Impairment{Network: networks[0], Fault: decide.RateLimit, Factor: 0.1}),
			phase(4, decide.Impairment{Network: networks[1], Fault: decide.BlackHole}),
			phase(4, decide.Impairment{Network: networks[0], Fault: decide.BlackHoleReverse})}},
	}
}

// schedule of a repetition: the shipped ones first, then random ones by the seed.
func (s *session) schedule() decide.Schedule {
	o := s.options()
	own := shipped(s.File.Networks, o.For)
	if s.repetition <= len(own) {
		return own[s.repetition-1]
	}
	return decide.RandomSchedule(s.Seed+uint64(s.repetition),
		decide.Shape{Networks: s.File.Networks, Phases: o.Phases, Least: o.For * 2 / 3, Most: o.For * 4 / 3})
}

func runSchedules(ctx context.Context, s *session) ([]Sample, error) {
	plan := s.schedule()
	all := legs(plan, s.options().Capacity)
	dir := filepath.Join(s.Out, "evidence")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	evidence := filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", plan.Name, s.repetition))
	kept := map[string]outcome{}
	var mine outcome
	var out []Sample
	variants := append([]string{"cost-aware"}, s.File.Networks...)
	for _, i := range s.order(len(variants)) {
		v := variants[i]
		one, err := s.try(ctx, v, func(out *Sample) (err error) {
			var r outcome
			if i == 0 {
				var events []string
				r, events, err = s.steeredWith(ctx, all, v, evidence)
				out.Text["events"] = strings.Join(events, "\n")
				mine = r
			} else {
				r, err = s.kept(ctx, s.File.Networks, all, v, nil)
				kept[v] = r
				err = errors.Join(err, bounded(all, r, v))
			}
			if err != nil {
				return err
			}
			for k, rate := range r.rates {
				out.Values[fmt.Sprintf("rate %d", k+1)] = rate
				out.Text[fmt.Sprintf("phase %d", k+1)] = all[k].what
				err = errors.Join(err, s.keep(out, fmt.Sprintf("leg%d", k+1), r.report[k]))
			}
			out.Values["bits"] = achieved(all, r)
			return err
		})
		if err != nil {
			return nil, err
		}
		if one.Error != "" {
			delete(kept, v)
		}
		out = append(out, one)
	}
	verdict, err := s.try(ctx, "verdict", func(out *Sample) error {
		if len(kept) != len(s.File.Networks) || len(mine.rates) != len(all) {
			return errIncomplete
		}
		most, single, which := hindsight(all, kept)
		got := achieved(all, mine)
		out.Text["schedule"], out.Text["best network"] = plan.Name, which
		out.Values["of_hindsight"], out.Values["of_static"] = got/most, got/single
		one := achieved(all, capped(mine, kept))
		out.Values["of_hindsight_one"], out.Values["of_static_one"] = one/most, one/single
		phases(out, all, mine, kept)
		return truthful(evidence, plan, all, mine, kept)
	})
	return append(out, verdict), err
}

// capped is an outcome that got in no leg more than that leg's best network gave. The
// best choice in hindsight is one network at a time, but the buckets of a canary
// are on another network than the rest, and may carry the capacity of two.
func capped(r outcome, kept map[string]outcome) outcome {
	rates := slices.Clone(r.rates)
	for i, rate := range rates {
		top, _ := best(i, kept)
		rates[i] = min(rate, top)
	}
	return outcome{rates: rates}
}

// phases tells of each phase what was achieved of what the best network gave in it.
func phases(out *Sample, all []leg, mine outcome, kept map[string]outcome) {
	for i, l := range all {
		top, which := best(i, kept)
		if top <= 0 {
			continue
		}
		out.Values[fmt.Sprintf("of_best %d", i+1)] = mine.rates[i] / top
		out.Text[fmt.Sprintf("phase %d", i+1)] = fmt.Sprintf("%s: %s of %s on %s", l.what, Quantity(mine.rates[i], "bit/s"),
			Quantity(top, "bit/s"), which)
	}
}

var (
	errIncomplete = errors.New("an outcome is missing")
	errUnbounded  = errors.New("its capacity did not bound it: the uplink does not tell its packets from others")
)

// boundedBy is what may come above a limit: the burst, and what a queue held from the leg before.
const boundedBy = 1.1

// bounded wants an outcome that kept one network to have got no more than that had:
// else every comparison with it would be with something that no schedule offers.
func bounded(all []leg, r outcome, network string) error {
	for i, rate := range r.rates {
		if most := all[i].rates[network]; most > 0 && rate > boundedBy*most {
			return fmt.Errorf("%s, %s: %.4g of %.4g bit/s: %w", network, all[i].what, rate, most, errUnbounded)
		}
	}
	return nil
}

// steeredWith outcomes under a policy and tells the events in words.
func (s *session) steeredWith(ctx context.Context, all []leg, policy, evidence string) (outcome, []string, error) {
	return s.steeredOn(ctx, s.File.Networks, all, policy, evidence)
}

// steeredOn is the same on some of the networks.
func (s *session) steeredOn(ctx context.Context, networks []string, all []leg, policy, evidence string) (
	outcome, []string, error,
) {
	r, events, err := s.steered(ctx, networks, all, policy, evidence, nil)
	var out []string
	for _, e := range events {
		if e.Pair == "a>b" || e.Pair == "" {
			out = append(out, fmt.Sprintf("%s %s %s->%s %s", e.At.Format("05.000"), e.Kind, e.From, e.To, e.Reason))
		}
	}
	return r, out, err
}

// truthful adds to the recorded evidence what each network would have given, as
// the outcomes that kept it measured: "pathwise replay" can then judge any policy.
func truthful(path string, plan decide.Schedule, all []leg, mine outcome, kept map[string]outcome) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	rec, err := decide.ReadRecording(path, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// The agent's clock begins as it starts; its records are an epoch apart, so
	// the first one with traffic of the first leg is found by their number from the end.
	var out []decide.Record
	var last time.Duration
	for _, r := range rec.Records {
		if r.Evidence.Pair == "a>b" {
			last = max(last, r.Evidence.At)
		}
	}
	end := mine.to[len(mine.to)-1]
	for _, r := range rec.Records {
		if r.Evidence.Pair != "a>b" {
			continue
		}
		at := end - (last - r.Evidence.At)
		for i := range all {
			if at >= mine.from[i] && at < mine.to[i] {
				r.Truth = map[string]float64{}
				for network, k := range kept {
					r.Truth[network] = k.rates[i]
				}
				out = append(out, r)
			}
		}
	}
	h := rec.Header
	h.Name, h.Note = plan.Name, "recorded live by the drill schedules; the truth is what outcomes on each network alone gave in the phase"
	return replaceRecording(path, decide.Recording{Header: h, Records: out})
}

// replaceRecording puts another file in the place of one to which an agent may
// still be writing, and goes on to where nobody reads.
func replaceRecording(path string, rec decide.Recording) error {
	next := path + ".new"
	w, err := os.Create(next)
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	if err := errors.Join(decide.WriteRecording(w, rec), w.Close()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}

func schedulesFigures(_ Options, all []Sample) []Figure {
	var names []string
	for _, s := range all {
		if s.Variant == "verdict" && s.Error == "" {
			names = append(names, fmt.Sprintf("%s %.3f/%.3f", s.Text["schedule"], s.Values["of_hindsight"],
				s.Values["of_static"]))
		}
	}
	of := values(all, "", "of_hindsight")
	f := summary("achieved of the best choice in hindsight, median schedule", "ratio", of, median, atLeast(0.97))
	f.Note = "schedule of hindsight/of best network: " + strings.Join(names, ", ")
	least := func(sorted []float64) float64 { return sorted[0] }
	return []Figure{f, summary("... worst schedule", "ratio", of, least, atLeast(0.97)),
		summary("... median schedule, no phase above its best network", "ratio", values(all, "", "of_hindsight_one"), median,
			atLeast(0.97)),
		summary("achieved of the best single network, worst schedule", "ratio", values(all, "", "of_static"), least,
			atLeast(0.98)),
		summary("... worst schedule, no phase above its best network", "ratio", values(all, "", "of_static_one"), least,
			atLeast(0.98)),
		phasesFigure(all)}
}

// phasesFigure shows where schedules lose: in a phase of so many seconds, a move
// that comes a second late costs their share of what it gains.
func phasesFigure(all []Sample) Figure {
	var of []float64
	var notes []string
	for _, s := range all {
		if s.Variant != "verdict" || s.Error != "" {
			continue
		}
		var own []string
		for i := range len(s.Text) { // each phase has a text
			if v, ok := s.Values[fmt.Sprintf("of_best %d", i+1)]; ok {
				of = append(of, v)
				own = append(own, fmt.Sprintf("%.3f", v))
			}
		}
		notes = append(notes, s.Text["schedule"]+" "+strings.Join(own, " "))
	}
	f := summary("... of the best network of each phase, median phase", "ratio", of, median, nil)
	f.Note = "by phase: " + strings.Join(notes, ", ")
	return f
}
