package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/measure/figure"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// playable are the families of random schedules that a lab can play: their connections last
// throughout, and their faults are those that a leg has. Round trips are the lab's own.
func playable() []string {
	return []string{"loss", "swing", "flap", "turns", "all-fail", "choked", "refused", "credit"}
}

// familyNetworks is the number of networks of a family's schedules.
const familyNetworks = 3

func familiesKind() kind {
	return kind{
		name: "families", about: "random schedules of the families that policies are simulated on, with bulk TCP on three " +
			"networks: steered, against each network kept throughout",
		defaults: Options{Repetitions: 3, Families: playable(), For: time.Minute, Capacity: 200e6},
		keys:     []string{"families", "for", "capacity"},
		length: func(o Options, _ File) time.Duration {
			return time.Duration((familyNetworks+1)*len(o.Families)) * (o.For + 6*time.Second)
		},
		run: runFamilies, figures: familiesFigures,
	}
}

// familySchedule is the schedule of a seed on given networks, cut after some time.
func familySchedule(family string, seed uint64, networks []string, most time.Duration) (decide.Schedule, error) {
	found, err := decide.Named(decide.Families(), func(f decide.Family) string { return f.Name }, []string{family})
	if err != nil {
		return decide.Schedule{}, err
	}
	s := found[0].Schedule(seed)
	as := map[string]string{}
	for i := range s.Networks {
		as[s.Networks[i].Name] = networks[i]
		s.Networks[i].Name = networks[i]
	}
	var phases []decide.Phase
	for _, p := range s.Phases {
		if p.For = min(p.For, most); p.For <= 0 {
			break
		}
		most -= p.For
		p.Impairments = slices.Clone(p.Impairments)
		for i := range p.Impairments {
			p.Impairments[i].Network = as[p.Impairments[i].Network]
		}
		phases = append(phases, p)
	}
	s.Phases = phases
	return s, nil
}

// throughout are a schedule's legs with connections that last from the first to the last.
func throughout(s decide.Schedule, capacity float64) []leg {
	all := legs(s, capacity)
	for i := range all {
		all[i].goesOn = i > 0
	}
	return all
}

func runFamilies(ctx context.Context, s *session) (out []Sample, err error) {
	networks := s.File.Networks[:familyNetworks]
	for _, family := range s.options().Families {
		plan, err := familySchedule(family, s.Seed+uint64(s.repetition), networks, s.options().For)
		if err != nil {
			return nil, err
		}
		all, err := s.runFamily(ctx, family, throughout(plan, s.options().Capacity), networks)
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}

// runFamily plays a schedule steered, and with each network kept, in a random order.
func (s *session) runFamily(ctx context.Context, family string, all []leg, networks []string) ([]Sample, error) {
	kept := map[string]outcome{}
	var mine outcome
	var out []Sample
	variants := append([]string{"cost-aware"}, networks...)
	for _, i := range s.order(len(variants)) {
		v := variants[i]
		one, err := s.try(ctx, family+" "+v, func(out *Sample) (err error) {
			var r outcome
			if i == 0 {
				var events []string
				r, events, err = s.steeredOn(ctx, networks, all, v, "")
				out.Text["events"] = strings.Join(events, "\n")
				mine = r
			} else if r, err = s.kept(ctx, networks, all, v, nil); err == nil {
				kept[v] = r
			}
			if err != nil {
				return err
			}
			out.Values["bits"] = achieved(all, r)
			return s.keep(out, "server", r.report[0])
		})
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	verdict, err := s.try(ctx, family+" verdict", func(out *Sample) error {
		if len(kept) != len(networks) || len(mine.rates) != len(all) {
			return errIncomplete
		}
		return judgeFamily(out, family, all, mine, kept)
	})
	return append(out, verdict), err
}

// judgeFamily compares what was carried with the best network of each second or so, and with the
// best one throughout: what half a second shows is too much of an accident to be the best of three.
func judgeFamily(out *Sample, family string, all []leg, mine outcome, kept map[string]outcome) error {
	const least = time.Second
	judged, got := merged(all, mine, least)
	by := map[string]outcome{}
	for network, r := range kept {
		_, by[network] = merged(all, r, least)
	}
	most, single, which := hindsight(judged, by)
	if !(single > 0) {
		return errors.New("no network carried anything")
	}
	sum := achieved(judged, got)
	out.Text["family"], out.Text["best network"] = family, which
	out.Values["of_hindsight"], out.Values["of_static"] = sum/most, sum/single
	one := achieved(judged, capped(got, by))
	out.Values["of_hindsight_one"], out.Values["of_static_one"] = one/most, one/single
	return nil
}

// merged joins legs with those after them until each takes so long at least.
func merged(all []leg, r outcome, least time.Duration) (spans []leg, out outcome) {
	var span time.Duration
	bits := 0.0
	for i, l := range all {
		span += l.span
		bits += r.rates[i] * l.span.Seconds()
		if span < least && i < len(all)-1 {
			continue
		}
		spans = append(spans, leg{span: span})
		out.rates = append(out.rates, bits/span.Seconds())
		span, bits = 0, 0
	}
	return spans, out
}

func familiesFigures(_ Options, all []Sample) []Figure {
	var names []string
	for _, s := range all {
		if s.Text["family"] != "" && s.Error == "" {
			names = append(names, fmt.Sprintf("%s %.3f/%.3f", s.Text["family"], s.Values["of_hindsight"],
				s.Values["of_static"]))
		}
	}
	least := func(sorted []float64) float64 { return sorted[0] }
	f := summary("achieved of the best choice in hindsight, median schedule", "ratio", values(all, "", "of_hindsight"),
		median, atLeast(0.95))
	f.Note = "family of hindsight/of best network: " + strings.Join(names, ", ")
	of := func(name, key string, statistic func([]float64) float64, bar *figure.Bar) Figure {
		return summary(name, "ratio", values(all, "", key), statistic, bar)
	}
	return []Figure{f, of("... worst schedule", "of_hindsight", least, nil),
		of("... median schedule, no second above its best network", "of_hindsight_one", median, nil),
		of("achieved of the best single network, worst schedule", "of_static", least, atLeast(0.95)),
		of("... worst schedule, no second above its best network", "of_static_one", least, nil)}
}
