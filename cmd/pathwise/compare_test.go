package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// written is a result of host, bridge and vxlan at two loads, the bridge's throughput
// times bridge, all times speed.
func written(t *testing.T, dir string, r *rand.Rand, speed, bridge float64, duration, kernel string) {
	t.Helper()
	writtenAs(t, dir, r, func(int) float64 { return speed }, bridge, duration, kernel)
}

// writtenAs is written with a speed for each repetition.
func writtenAs(t *testing.T, dir string, r *rand.Rand, speed func(rep int) float64, bridge float64, duration,
	kernel string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exp := "name: mine\nnetworks: [bridge, vxlan]\nduration: " + duration + "\nworkloads: [tcp-stream]\n"
	machine := fmt.Sprintf(`{"recorded": "%s", "pathwise": "v1", "cpu": {"model": "C", "mhz": "%f"}, "kernel": {"release": "%s"}}`, duration, speed(1), kernel)
	for name, text := range map[string]string{result.ExperimentFile: exp, result.MachineFile: machine} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, result.SamplesFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := sample.NewWriter(f, sample.Header{Experiment: "mine", Seed: 1, Planned: 60})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rep := 1; rep <= 10; rep++ {
		for i, network := range []string{"host", "bridge", "vxlan"} {
			for _, connections := range []int{1, 8, 64} {
				n++
				v := speed(rep) * 1e10 / float64(1+i) * math.Exp(0.03*r.NormFloat64())
				if network == "bridge" {
					v *= bridge
				}
				cell := sample.Cell{Network: network, Workload: "tcp-stream", Load: sample.Load{Connections: connections},
					Scenario: topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500}}
				err := w.Trial(sample.Trial{Cell: cell, Repetition: rep, Order: n, Started: time.Unix(1_700_000_000+int64(n), 0),
					Status: sample.OK, Kernel: kernel,
					Metrics: map[string]float64{sample.Throughput: v, sample.CPUPerGB: 1e10 / v}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.Footer(sample.Footer{Trials: n}); err != nil {
		t.Fatal(err)
	}
}

// A machine that is a quarter slower and a network that is 15 % slower are told apart, and
// what else differs is said before.
func TestCompareResults(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	r := rand.New(rand.NewPCG(1, 2))
	written(t, a, r, 1, 1, "1s", "6.1.0")
	written(t, b, r, 0.75, 0.85, "3s", "6.2.0")
	compare := func(args ...string) (string, error) {
		var out bytes.Buffer
		e := env{stdout: &out, stderr: &out, getenv: func(string) string { return "" }, now: time.Now}
		err := run(t.Context(), e, append([]string{"compare", a, b}, args...))
		return out.String(), err
	}
	got, err := compare()
	if err != nil {
		t.Fatal(err)
	}
	first, rest, found := strings.Cut(got, "figures compared.")
	if !found || !strings.Contains(first, "window of tcp-stream") || !strings.Contains(first, "6.1.0") ||
		strings.Contains(got, "mhz") {
		t.Errorf("conditions are not said first:\n%s", got)
	}
	for _, want := range []string{"drift: the baseline host itself moved", "host b/a", "vs host", "finds", "fdr",
		"A change of 10 % would have been found in"} {
		if !strings.Contains(rest, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	got, err = compare("--networks", "bridge", "--metric", "throughput", "--correction", "fdr", "-o", "csv")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(got, ",worse,"); n != 3 || strings.Contains(got, "vxlan") || strings.Count(got, "\n") != 7 {
		t.Errorf("selected:\n%s", got)
	}
	if _, err := compare("--networks", "vxlan", "--check", "--metric", "throughput"); err == nil {
		got, _ = compare("--networks", "vxlan", "--metric", "throughput")
		t.Logf("unchanged, as it is:\n%s", got)
	}
	if _, err := compare("--networks", "bridge", "--check"); err == nil {
		t.Error("--check found no change")
	}
	for args, want := range map[string]string{
		"--networks brigde":  `--networks "brigde": neither result has it: there is bridge, host, vxlan`,
		"--workloads http":   `--workloads "http": neither result has it: there is tcp-stream`,
		"--metric latency":   `--metric "latency": neither result has it: there is cpu_per_gb, throughput`,
		"--family all":       `--family "all": expected question or comparison`,
		"--correction none":  `--correction "none": expected holm or fdr`,
		"--change 5":         `--change "5": expected a share above 0 such as 10%`,
		"--change -5%":       `--change "-5%": expected a share above 0 such as 10%`,
		"--change nan%":      `--change "nan%": expected a share above 0 such as 10%`,
		"--networks bridge,": `--networks "": neither result has it: there is bridge, host, vxlan`,
	} {
		if _, err := compare(strings.Fields(args)...); err == nil || err.Error() != want {
			t.Errorf("%s: %v, expected %s", args, err, want)
		}
	}
}

// Names are completed from the results that the line names.
func TestCompareCompletes(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, rand.New(rand.NewPCG(3, 4)), 1, 1, "1s", "6.1.0")
	var out bytes.Buffer
	e := env{stdout: &out, stderr: &out, getenv: func(string) string { return "" }, now: time.Now}
	if err := run(t.Context(), e, []string{"__complete", "compare", dir, "--networks", "bridge,v"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "bridge,vxlan\n") {
		t.Errorf("completed:\n%s", out.String())
	}
}

// What compare advises can be asked for: exactly so many repetitions, whatever the file says.
func TestBenchRepetitions(t *testing.T) {
	e := env{getenv: func(string) string { return "" }}
	exp, err := readExperiment(e, benchFlags{experiment: "networks", repetitions: 7})
	if r := exp.Repeat; err != nil || r.Min != 7 || r.Max != 7 || r.Claims != 0 || r.Raced {
		t.Errorf("%v, %+v", err, exp.Repeat)
	}
	for _, n := range []int{-1, 1001} {
		if _, err := readExperiment(e, benchFlags{experiment: "quick", repetitions: n}); err == nil {
			t.Errorf("%d repetitions", n)
		}
	}
}

// A trial's time and the run's are asked for as the file's keys are, within the same bounds.
func TestBenchTimes(t *testing.T) {
	e := env{getenv: func(string) string { return "" }}
	exp, err := readExperiment(e, benchFlags{experiment: "networks", duration: 2 * time.Second, budget: time.Minute})
	if err != nil || exp.Budget != time.Minute {
		t.Fatalf("%v, budget %v", err, exp.Budget)
	}
	for _, entry := range exp.Entries {
		if entry.Window.Duration != 2*time.Second || entry.Window.Warmup == 0 {
			t.Errorf("%s: %+v", entry.Workload, entry.Window)
		}
	}
	for _, f := range []benchFlags{{duration: -1}, {duration: time.Millisecond}, {duration: 2 * time.Hour}, {budget: 1}} {
		f.experiment = "quick"
		if _, err := readExperiment(e, f); err == nil {
			t.Errorf("duration %v, budget %v are taken", f.duration, f.budget)
		}
	}
	if _, err := (benchFlags{budget: time.Minute, kernel: "auto"}).asDrills(); err == nil {
		t.Error("drills take a budget")
	}
}

// A host that slows by a fifth from the first repetition to the last is told by the report.
func TestReportTellsDrift(t *testing.T) {
	still, slows := filepath.Join(t.TempDir(), "still"), filepath.Join(t.TempDir(), "slows")
	written(t, still, rand.New(rand.NewPCG(5, 6)), 1, 1, "1s", "6.1.0")
	slower := func(rep int) float64 { return 1 - 0.02*float64(rep) }
	writtenAs(t, slows, rand.New(rand.NewPCG(5, 6)), slower, 1, "1s", "6.1.0")
	for dir, want := range map[string]bool{still: false, slows: true} {
		var out bytes.Buffer
		e := env{stdout: &out, stderr: &out, getenv: func(string) string { return "" }, now: time.Now}
		if err := run(t.Context(), e, []string{"report", dir}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "drift: the baseline host became slower by") != want {
			t.Errorf("%s:\n%s", filepath.Base(dir), out.String())
		}
	}
}

// Lists and profiles of the user's are compared by what is in them: where a result keeps
// them is no difference between the runs.
func TestCompareReadsFilesOfTheUser(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	list := `{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/16"}}]}`
	profile := `<profile name="x"><group nthreads="1"><transaction iterations="1"><flowop type="connect" ` +
		`options="remotehost=$h protocol=tcp"/></transaction><transaction duration="1s">` +
		`<flowop type="write" options="size=9"/></transaction></group></profile>`
	for _, d := range []string{a, b} {
		written(t, d, rand.New(rand.NewPCG(7, 8)), 1, 1, "1s", "6.1.0")
		for name, text := range map[string]string{
			"experiment.yaml": "name: mine\nnetworks: [{name: ours, cni: networks/ours.conflist, route: static}]\n" +
				"workloads: [tcp-rr, {name: uperf, profile: profiles/web.xml}]\n",
			"networks/ours.conflist": list, "profiles/web.xml": profile,
		} {
			path := filepath.Join(d, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	compare := func(args ...string) string {
		var out bytes.Buffer
		e := env{stdout: &out, stderr: &out, getenv: func(string) string { return "" }, now: time.Now}
		if err := run(t.Context(), e, append([]string{"compare", a, b}, args...)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := compare(); strings.Contains(got, "Conditions") {
		t.Errorf("the same files differ:\n%s", got)
	}
	for name, text := range map[string]string{
		"networks/ours.conflist": strings.Replace(list, "10.1", "10.2", 1),
		"profiles/web.xml":       strings.Replace(profile, "size=9", "size=8", 1),
		"experiment.yaml": "name: mine\nnetworks: [{name: ours, cni: networks/ours.conflist, route: bgp}]\n" +
			"workloads: [tcp-rr, {name: uperf, profile: profiles/web.xml, duration: 9s}]\n",
	} {
		if err := os.WriteFile(filepath.Join(b, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := compare()
	for _, want := range []string{"list of ours ", "route of ours ", "profile uperf:web ", "window of uperf:web "} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s:\n%s", want, got)
		}
	}
}

// Nothing compared is not "unchanged".
func TestCompareOfNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	written(t, a, rand.New(rand.NewPCG(7, 8)), 1, 1, "1s", "6.1.0")
	if err := os.MkdirAll(b, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(b, result.SamplesFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := sample.NewWriter(f, sample.Header{Experiment: "mine", Seed: 1, Planned: 60}); err != nil {
		t.Fatal(err)
	}
	compare := func(args ...string) error {
		var out bytes.Buffer
		e := env{stdout: &out, stderr: &out, getenv: func(string) string { return "" }, now: time.Now}
		return run(t.Context(), e, append([]string{"compare"}, args...))
	}
	if err := compare(a, b); err != nil {
		t.Errorf("without --check: %v", err)
	}
	if err := compare(a, b, "--check"); err == nil || !strings.Contains(err.Error(), "nothing is known to be unchanged") {
		t.Errorf("--check: %v", err)
	}
	if err := compare(a, a, "--networks", "host"); err == nil || !strings.HasPrefix(err.Error(), "nothing to compare") {
		t.Errorf("host alone: %v", err)
	}
}
