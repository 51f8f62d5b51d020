package result_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func create(t testing.TB) (string, *result.Run) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	run, err := result.Create(dir,
		result.Plan{Header: sample.Header{Experiment: "x", Seed: 3}, Experiment: []byte("name: x\n"),
			Networks: map[string][]byte{"mine.conflist": []byte("{}")}, Machine: machine.Record{OS: "Debian"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	return dir, run
}

// TestCreateStaysInside: a file's name from an experiment is no way out of the result.
func TestCreateStaysInside(t *testing.T) {
	for _, name := range []string{"../../x", "../../../../x", "a/../../../x"} {
		dir := t.TempDir()
		_, err := result.Create(filepath.Join(dir, "a", "out"),
			result.Plan{Networks: map[string][]byte{name: nil}, Experiment: []byte("name: x\n")})
		if err == nil || !strings.Contains(err.Error(), "would be outside of it") {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "a", "out", "*")); len(left) > 0 {
			t.Errorf("%s: made %v", name, left)
		}
	}
}

func trial(rep int) sample.Trial {
	return sample.Trial{Cell: sample.Cell{Network: "host", Workload: "w",
		Scenario: topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500}}, Repetition: rep, Order: rep,
		Status: sample.OK}
}

func TestCreateOpenResume(t *testing.T) {
	dir, run := create(t)
	for rep := 1; rep <= 2; rep++ {
		if err := run.Log.Trial(trial(rep)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := result.Open(dir)
	if err != nil || len(got.Samples.Trials) != 2 || got.Experiment != "name: x\n" || got.Machine["os"] != "Debian" {
		t.Fatalf("got %+v, %v", got, err)
	}
	// A kill in the middle of a line.
	path := filepath.Join(dir, result.SamplesFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw[:len(raw)-9], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Open(dir); !errors.Is(err, sample.ErrTruncated) || !strings.HasPrefix(err.Error(), path+":3: ") {
		t.Errorf("open a truncated result: %v", err)
	}
	again, err := result.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if len(again.Done) != 1 || again.Seed != 3 {
		t.Errorf("resumed with %d trials, seed %d", len(again.Done), again.Seed)
	}
	if err := errors.Join(again.Log.Trial(trial(2)), again.Log.Footer(sample.Footer{Trials: 2})); err != nil {
		t.Fatal(err)
	}
	if got, err = result.Open(dir); err != nil || len(got.Samples.Trials) != 2 || got.Samples.Footer == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := result.Resume(dir); err == nil || !strings.Contains(err.Error(), "is finished") {
		t.Errorf("resume a finished run: %v", err)
	}
}

func TestCreateRefusesAUsedDirectory(t *testing.T) {
	dir, _ := create(t)
	if _, err := result.Create(dir, result.Plan{}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v", err)
	}
}

func TestOpenNamesTheBadFile(t *testing.T) {
	dir, _ := create(t)
	path := filepath.Join(dir, result.MachineFile)
	if err := os.WriteFile(path, []byte("{\n\"os\": }"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Open(dir); err == nil || !strings.HasPrefix(err.Error(), path+":2: ") {
		t.Errorf("got %v", err)
	}
}

// TestFullDisk uses /proc, a file system without any space.
func TestFullDisk(t *testing.T) {
	if err := result.CheckSpace("/proc/self"); err == nil || !strings.Contains(err.Error(), "MB free") {
		t.Errorf("a file system without space: %v", err)
	}
}
