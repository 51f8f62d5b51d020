package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// ablatedByDefault is the number of schedules of each family where none is asked for.
const ablatedByDefault = 20

// ablation is the answer of "pathwise replay --ablate".
type ablation struct {
	Seed       uint64          `json:"seed"`
	Families   []ablatedFamily `json:"families"`
	Mechanisms []ablated       `json:"mechanisms"`
}

// ablatedFamily is a kind of courses, with what the policy achieves in them.
type ablatedFamily struct {
	Name    string `json:"name"`
	Courses int    `json:"courses"`
	// OfHindsight is the part of the best in hindsight, with all mechanisms, in percent.
	OfHindsight stat.Interval `json:"of_hindsight"`
}

// ablated is what a mechanism earns in each family.
type ablated struct {
	decide.Mechanism
	Earned []decide.Earning `json:"earned"`
}

func (f replayFlags) checkAblate() error {
	if f.paper || f.trace || f.bare || f.table != "" || f.policy != "all" || f.need != "throughput" {
		return usageError{errors.New("--ablate: expected without --paper, --trace, --bare, --table, --policy and --need")}
	}
	return nil
}

// replayAblate turns each mechanism off in turn.
func (e env) replayAblate(ctx context.Context, f replayFlags, args []string) error {
	if err := f.checkAblate(); err != nil {
		return err
	}
	all := decide.Mechanisms()
	if f.share == "on" {
		all = append(all, decide.ShareMechanisms()...)
	}
	mechanisms, err := decide.Named(all, func(m decide.Mechanism) string { return m.Name }, f.mechanisms)
	if err != nil {
		return usageError{fmt.Errorf("--mechanism: %w", err)}
	}
	courses, err := e.courses(f, args)
	if err != nil {
		return err
	}
	achieved, err := e.ablate(ctx, courses, mechanisms, f)
	if err != nil {
		return err
	}
	return writeAblation(e.stdout, f, ablationOf(f.seed, courses, mechanisms, achieved), e.listOptions(f.format))
}

// courses are the random schedules that are asked for, and the recordings.
func (e env) courses(f replayFlags, args []string) (out []decide.Course, err error) {
	families, err := decide.Named(decide.Families(), func(f decide.Family) string { return f.Name }, f.families)
	if err != nil {
		return nil, usageError{fmt.Errorf("--family: %w", err)}
	}
	n := f.random
	if n <= 0 && (len(args) == 0 || len(f.families) > 0) {
		n = ablatedByDefault
	}
	for _, family := range families {
		out = append(out, family.Courses(f.seed, max(n, 0))...)
	}
	for _, path := range args {
		rec, err := e.readRecording(path)
		if err != nil {
			return nil, err
		}
		recorded := rec.Courses()
		if len(recorded) == 0 {
			return nil, fmt.Errorf("replay: %s: no record has a truth, which tells what another decision "+
				"would have given: expected evidence of the drill schedules", path)
		}
		out = append(out, recorded...)
	}
	return out, nil
}

// ablate runs the courses on all CPUs. The result has their order.
func (e env) ablate(ctx context.Context, courses []decide.Course, mechanisms []decide.Mechanism, f replayFlags) (
	[][]float64, error,
) {
	out := make([][]float64, len(courses))
	n := 0
	err := onAllCPUs(ctx, len(courses), func(i int) error {
		out[i] = courses[i].Ablate(mechanisms, f.seed, f.share == "on")
		return nil
	}, func(i int) {
		n++
		e.tellAblated(courses, i, n)
	})
	if e.interactive() {
		fmt.Fprint(e.stderr, clearLine)
	}
	return out, err
}

// tellAblated shows how far it is: on a terminal by a line that is rewritten, else by
// one for each tenth.
func (e env) tellAblated(courses []decide.Course, i, n int) {
	all := len(courses)
	switch {
	case e.interactive():
		fmt.Fprintf(e.stderr, "%s[%d/%d] %s", clearLine, n, all, courses[i].Family)
	case n*10/all != (n-1)*10/all:
		fmt.Fprintf(e.stderr, "[%d/%d] %s\n", n, all, courses[i].Family)
	}
}

// ablationOf sorts what was achieved by family and mechanism.
func ablationOf(seed uint64, courses []decide.Course, mechanisms []decide.Mechanism, achieved [][]float64) ablation {
	out := ablation{Seed: seed}
	for _, m := range mechanisms {
		out.Mechanisms = append(out.Mechanisms, ablated{Mechanism: m})
	}
	for from := 0; from < len(courses); {
		to := from
		for to < len(courses) && courses[to].Family == courses[from].Family {
			to++
		}
		name, part := courses[from].Family, achieved[from:to]
		whole := make([]float64, len(part))
		for i, a := range part {
			whole[i] = 100 * a[0]
		}
		family := ablatedFamily{Name: name, Courses: len(part), OfHindsight: stat.MeanT(whole, stat.Level)}
		out.Families = append(out.Families, family)
		for i, earned := range decide.Earnings(name, mechanisms, part) {
			out.Mechanisms[i].Earned = append(out.Mechanisms[i].Earned, earned)
		}
		from = to
	}
	return out
}

func writeAblation(w io.Writer, f replayFlags, a ablation, o report.Options) error {
	switch f.format {
	case "json":
		return writeJSON(w, a)
	case "csv":
		rows := [][]string{{"mechanism", "family", "courses", "differ", "points", "low", "high"}}
		for _, m := range a.Mechanisms {
			for i, x := range m.Earned {
				rows = append(rows, []string{m.Name, x.Family, strconv.Itoa(a.Families[i].Courses), strconv.Itoa(x.Differ),
					number(x.Points.Center), number(x.Points.Low), number(x.Points.High)})
			}
		}
		if err := csv.NewWriter(w).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	return writeAblationText(w, a, o)
}

func writeAblationText(w io.Writer, a ablation, o report.Options) error {
	head := []string{}
	heads := []report.Head{{Name: "without"}}
	for _, x := range a.Families {
		head = append(head, fmt.Sprintf("%s %d, %s %%", x.Name, x.Courses, aroundCenter("%.2f", x.OfHindsight)))
		heads = append(heads, report.Head{Name: x.Name, Right: true, Drop: dropOfFamily(x.Name)})
	}
	text := fmt.Sprintf("What each mechanism of the policy cost-aware earns, in points of the best in hindsight.\n"+
		"Courses from seed %d, with what all mechanisms achieve: %s.\n", a.Seed, strings.Join(head, "; "))
	if err := report.Lines(w, text, o); err != nil {
		return err
	}
	l := report.NewList(heads...)
	rows := slices.Clone(a.Mechanisms)
	slices.SortStableFunc(rows, func(x, y ablated) int { return y.rank() - x.rank() })
	for _, m := range rows {
		cells := []string{m.Name}
		for _, x := range m.Earned {
			cells = append(cells, earned(x))
		}
		l.Add(cells...)
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	return report.Lines(w, "\nMeans of paired differences over the courses, with 95 % intervals: of a hundred mechanisms "+
		"that do nothing, five seem to do something. \"-\": each course ends the same without it."+unseen(rows), o)
}

// rank orders mechanisms: those that earn most first, in thousandths of a point.
func (m ablated) rank() (rank int) {
	for _, x := range m.Earned {
		if x.Significant() {
			rank = max(rank, int(1000*x.Points.Center))
		}
	}
	return rank
}

// earned is what a mechanism earns, for people.
func earned(x decide.Earning) string {
	if x.Differ == 0 {
		return "-"
	}
	return aroundCenter("%+.2f", x.Points)
}

// aroundCenter is an interval by its centre and half its width.
func aroundCenter(format string, i stat.Interval) string {
	center := fmt.Sprintf(format, i.Center)
	if !i.Bounded() {
		return center + " ±?"
	}
	return fmt.Sprintf("%s ±%.2f", center, (i.High-i.Low)/2)
}

// dropOfFamily is which families a narrow terminal does without first.
func dropOfFamily(name string) int {
	switch name {
	case "bare-latency":
		return 2
	case "quiet":
		return 1
	}
	return 0
}

// unseen names the mechanisms that schedules cannot judge.
func unseen(rows []ablated) string {
	var out []string
	for _, m := range rows {
		if m.Unseen != "" {
			out = append(out, fmt.Sprintf("%s (%s)", m.Name, m.Unseen))
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return "\nNo schedule has what these are for: " + strings.Join(out, ", ") + "."
}

// completeNames completes the names of a list.
func completeNames[T any](all []T, name func(T) string) cobra.CompletionFunc {
	var names []string
	for _, x := range all {
		names = append(names, name(x))
	}
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}
