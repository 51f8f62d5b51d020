package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// simulated is what a policy did on random schedules.
type simulated struct {
	// Family of the schedules, where they are of one.
	Family string `json:"family,omitempty"`
	// Class of the flows, where a pair has more than one.
	Class  decide.Class `json:"class,omitempty"`
	Policy string       `json:"policy"`
	// Schedules played, and over them the quantiles of achieved over hindsight
	// and over the best static network.
	Schedules   int       `json:"schedules"`
	OfHindsight quantiles `json:"of_hindsight"`
	OfStatic    quantiles `json:"of_static"`
	// OfShared is the same over the best with several networks at once.
	OfShared quantiles `json:"of_shared"`
	// BelowStatic is the number of schedules with less than 95 % of the best static network.
	BelowStatic int `json:"below_static"`
	Switches    int `json:"switches"`
	Failovers   int `json:"failovers"`
	False       int `json:"false_switches"`
	// Shares is how often the portions of networks that flows share were changed.
	Shares int `json:"shares"`
	// Slower50 and Slower99 are the median and the 99th percentile of the time of an
	// operation, over those of the class alone on its best network: medians of schedules.
	Slower50 float64 `json:"slower_p50,omitempty"`
	Slower99 float64 `json:"slower_p99,omitempty"`
}

type quantiles struct {
	Mean   float64 `json:"mean"`
	Least  float64 `json:"least"`
	P5     float64 `json:"p5"`
	Median float64 `json:"median"`
}

func quantilesOf(values []float64) (q quantiles) {
	v := slices.Sorted(slices.Values(values))
	for _, x := range v {
		q.Mean += x / float64(len(v))
	}
	q.Least, q.P5, q.Median = v[0], v[len(v)/20], v[len(v)/2]
	return q
}

// belowStatic is the share of the best static network that steering should not fall short of.
const belowStatic = 0.95

// replayRandom plays random schedules.
func (e env) replayRandom(ctx context.Context, f replayFlags) error {
	need := decide.Need(f.need)
	if need != decide.Throughput && need != decide.Latency {
		return usageError{fmt.Errorf("--need %s: expected throughput or latency", f.need)}
	}
	if f.trace {
		return usageError{fmt.Errorf("--trace: expected with FILE or --paper")}
	}
	drawn := func(seed uint64) decide.Schedule {
		return decide.RandomSchedule(seed, decide.Shape{Need: need, Bare: f.bare})
	}
	if len(f.families) == 0 {
		out, err := e.playAll(ctx, f, "", drawn)
		if err != nil {
			return err
		}
		return writeSimulated(e.stdout, f, out, e.listOptions(f.format))
	}
	names := f.families
	if slices.Equal(names, []string{"all"}) {
		names = nil
	}
	families, err := decide.Named(decide.Families(), func(f decide.Family) string { return f.Name }, names)
	if err != nil {
		return usageError{fmt.Errorf("--family: %w, or all", err)}
	}
	var out []simulated
	for i, family := range families {
		fmt.Fprintf(e.stderr, "[%d/%d] %s\n", i+1, len(families), family.Name)
		// every other seed, so that an odd one draws none of an even one's schedules
		one, err := e.playAll(ctx, f, family.Name, func(seed uint64) decide.Schedule {
			return family.Schedule(f.seed + 2*(seed-f.seed))
		})
		if err != nil {
			return err
		}
		out = append(out, one...)
	}
	return writeSimulated(e.stdout, f, out, e.listOptions(f.format))
}

// playAll plays as many schedules as are asked for with each policy.
func (e env) playAll(ctx context.Context, f replayFlags, family string, draw func(seed uint64) decide.Schedule) (
	out []simulated, err error,
) {
	names := []string{f.policy}
	if f.policy == "all" {
		names = []string{"table", "hysteresis", "cost-aware"}
	}
	for _, name := range names {
		results := make([]decide.Result, f.random)
		err := onAllCPUs(ctx, f.random, func(i int) error {
			schedule := draw(f.seed + uint64(i))
			policy, err := decide.ParsePolicy(name, schedule.Table(), f.seed)
			if err != nil {
				return usageError{fmt.Errorf("--policy: %w, or all", err)}
			}
			results[i] = decide.Play(schedule, sharing(policy, f.share), schedule.Seed)
			return nil
		}, func(int) {})
		if err != nil {
			return nil, err
		}
		out = append(out, simulatedOf(family, name, results))
		for c := range results[0].Classes {
			class := make([]decide.Result, len(results))
			for i, r := range results {
				class[i] = r.Classes[c]
			}
			out = append(out, simulatedOf(family, name, class))
		}
	}
	return out, nil
}

// simulatedOf sums up what a policy did on schedules, or for a class of flows on them.
func simulatedOf(family, policy string, results []decide.Result) simulated {
	s := simulated{Family: family, Class: results[0].Class, Policy: policy, Schedules: len(results)}
	var hindsight, static, shared, slower50, slower99 []float64
	for _, r := range results {
		hindsight, static = append(hindsight, r.OfHindsight()), append(static, r.OfStatic())
		shared = append(shared, r.OfShared())
		s.Shares += r.Shares
		slower50, slower99 = append(slower50, r.Slower50), append(slower99, r.Slower99)
		if r.OfStatic() < belowStatic {
			s.BelowStatic++
		}
		s.Switches, s.Failovers, s.False = s.Switches+r.Switches, s.Failovers+r.Failovers, s.False+r.False
	}
	s.OfHindsight, s.OfStatic, s.OfShared = quantilesOf(hindsight), quantilesOf(static), quantilesOf(shared)
	s.Slower50, s.Slower99 = quantilesOf(slower50).Median, quantilesOf(slower99).Median
	return s
}

// title names the schedules, and the class where there is one.
func (s simulated) title() string {
	var words []string
	for _, w := range []string{s.Family, string(s.Class), s.Policy} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}

// onAllCPUs does n things, as many at once as there are CPUs, and tells of each that it is
// done, one after the other.
func onAllCPUs(ctx context.Context, n int, do func(i int) error, done func(i int)) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(i); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done(i)
			return nil
		})
	}
	return group.Wait()
}

func writeSimulated(w io.Writer, f replayFlags, out []simulated, o report.Options) error {
	switch f.format {
	case "json":
		return writeJSON(w, out)
	case "csv":
		rows := [][]string{{"family", "policy", "schedules", "of_hindsight_mean", "of_hindsight_p5", "of_hindsight_least",
			"of_static_mean", "of_static_p5", "of_static_least", "below_static", "switches", "failovers", "false_switches",
			"class", "slower_p50", "slower_p99", "of_shared_mean", "of_shared_p5", "shares"}}
		for _, s := range out {
			rows = append(rows, []string{s.Family, s.Policy, strconv.Itoa(s.Schedules), number(s.OfHindsight.Mean),
				number(s.OfHindsight.P5), number(s.OfHindsight.Least),
				number(s.OfStatic.Mean), number(s.OfStatic.P5), number(s.OfStatic.Least), strconv.Itoa(s.BelowStatic),
				strconv.Itoa(s.Switches), strconv.Itoa(s.Failovers), strconv.Itoa(s.False),
				string(s.Class), number(s.Slower50), number(s.Slower99),
				number(s.OfShared.Mean), number(s.OfShared.P5), strconv.Itoa(s.Shares)})
		}
		if err := csv.NewWriter(w).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	title := "policy"
	head := fmt.Sprintf("%d random schedules from seed %d, need %s, simulated\n\n", f.random, f.seed, f.need)
	if len(f.families) > 0 {
		head = fmt.Sprintf("%d schedules of each family, every other seed from %d, simulated\n\n", f.random, f.seed)
		title = "family, policy"
	}
	fmt.Fprint(w, head)
	l := report.NewList(report.Numbered(title, "of hindsight: mean", "median", "5 %", "least", "of best static: mean",
		"5 %", "least", "below 95 %", "switches", "failovers", "false")...)
	for _, s := range out {
		h, b := s.OfHindsight, s.OfStatic
		l.Add(s.title(), part(h.Mean), part(h.Median), part(h.P5), part(h.Least),
			part(b.Mean), part(b.P5), part(b.Least), strconv.Itoa(s.BelowStatic), strconv.Itoa(s.Switches),
			strconv.Itoa(s.Failovers), strconv.Itoa(s.False))
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	for _, s := range out {
		if s.Slower99 == 0 {
			continue
		}
		slower := fmt.Sprintf("\n%s: an operation takes %.2f times as long as on the class's best network alone (median), "+
			"%.2f times at the 99th percentile\n", s.title(), s.Slower50, s.Slower99)
		if err := report.Lines(w, slower, o); err != nil {
			return err
		}
	}
	return nil
}
