package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// compareDrills compares two results of drills, and tells whether they differ, and how many
// figures both have.
func compareDrills(e env, dirs [2]string, format string, o rank.CompareOptions,
	given func(flag string) bool) (differ bool, compared int, err error) {
	for _, name := range []string{"networks", "workloads", "metric", "change"} {
		if given(name) {
			return false, 0, usageError{fmt.Errorf("--%s: it is for results of trials, and these hold drills", name)}
		}
	}
	var figures [2][]drill.Figure
	var conditions [2]map[string]string
	for i, dir := range dirs {
		if !holdsDrills(dir) {
			return false, 0, usageError{fmt.Errorf(
				"%s holds drills and %s does not: expected two results of drills, or two of trials", dirs[1-i], dir)}
		}
		var r drill.Result
		if r, figures[i], err = openDrills(dir); err != nil {
			return false, 0, err
		}
		if conditions[i], err = drillConditions(dir, r); err != nil {
			return false, 0, err
		}
	}
	c := drill.Compare(figures[0], figures[1], drill.CompareOptions{All: o.Family == rank.PerComparison,
		Discovery: o.Correction == rank.ByDiscovery})
	out := report.SteeringComparison{Conditions: rank.Conditions(conditions[0], conditions[1]), By: adjustment(o)}
	for _, ch := range c.Changes {
		differ = differ || ch.Significant() || ch.Crossed()
		out.Changes = append(out.Changes, report.SteeringChange{A: figureOf(ch.A), B: figureOf(ch.B), P: ch.P,
			Adjusted: ch.Adjusted, Verdict: string(ch.Verdict)})
	}
	for _, f := range c.OnlyA {
		out.OnlyA = append(out.OnlyA, figureOf(f))
	}
	for _, f := range c.OnlyB {
		out.OnlyB = append(out.OnlyB, figureOf(f))
	}
	return differ, len(c.Changes), report.CompareSteering(e.stdout, format, dirs[0], dirs[1], out, e.reportOptions())
}

// adjustment says how p-values of drills are adjusted.
func adjustment(o rank.CompareOptions) string {
	of := "the figures of a drill"
	if o.Family == rank.PerComparison {
		of = "all figures"
	}
	if o.Correction == rank.ByDiscovery {
		return "Benjamini and Hochberg over " + of + ", so that of the changes named at most 5 % are false on average"
	}
	return "Holm over " + of + ", so that the chance of any false claim among them is at most 5 %"
}

// drillConditions are what a run of drills is to have in common with one that it is
// compared with: the drills' options, the networks and the machine.
func drillConditions(dir string, r drill.Result) (map[string]string, error) {
	file, err := fileOf(dir, r)
	if err != nil {
		return nil, err
	}
	record, err := machineOf(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]string{"networks": strings.Join(file.Networks, " ")}
	var errs []error
	for _, d := range file.Drills {
		raw, err := json.Marshal(d.Options)
		errs = append(errs, err)
		out["drill "+d.Name] = strings.Trim(strings.ReplaceAll(string(raw), `"`, ""), "{}")
	}
	flatten(out, "", record)
	return out, errors.Join(errs...)
}
