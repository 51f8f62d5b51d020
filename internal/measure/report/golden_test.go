package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/topo"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden compares every rendering with a file in testdata. After a wanted
// change: go test ./internal/measure/report -run Golden -update, and read the diff.
func TestGolden(t *testing.T) {
	small, tiny := fixtures()["small"], fixtures()["tiny"]
	later := laterRun()
	comparison := rank.Compare(small.Results.Trials, later.Results.Trials,
		rank.CompareOptions{
			Conditions: []rank.Condition{{Name: "window of tcp-stream", A: "1s after 200ms", B: "3s after 200ms"}}})
	rec, err := rank.Recommend(small.Results.Trials, rank.Need{
		App: "bulk", Load: rank.High, Robust: true,
		Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: topo.DefaultMTU},
	}, rank.Options{})
	if err != nil {
		t.Fatal(err)
	}
	grids := rank.Table(small.Results.Trials, rank.Options{})
	for name, write := range map[string]func(io.Writer) error{
		"small.txt":       func(w io.Writer) error { return Render(w, Text, small, Options{}) },
		"small-80.txt":    func(w io.Writer) error { return Render(w, Text, small, Options{Width: 80}) },
		"small-color.txt": func(w io.Writer) error { return Render(w, Text, small, Options{Width: 80, Color: true}) },
		"small-brief.txt": func(w io.Writer) error { return Brief(w, small, Options{}) },
		"small.md":        func(w io.Writer) error { return Render(w, Markdown, small, Options{}) },
		"tiny.csv":        func(w io.Writer) error { return Render(w, CSV, tiny, Options{}) },
		"tiny.json":       func(w io.Writer) error { return Render(w, JSON, tiny, Options{}) },
		"tiny.bench":      func(w io.Writer) error { return Render(w, Bench, tiny, Options{}) },
		"zero.txt":        func(w io.Writer) error { return Render(w, Text, fixtures()["zero"], Options{}) },
		"failed.txt":      func(w io.Writer) error { return Render(w, Text, fixtures()["failed"], Options{Width: 80}) },
		"compare.txt": func(w io.Writer) error {
			return Compare(w, Text, "before", "after", comparison,
				Options{Width: 80})
		},
		"compare.md": func(w io.Writer) error {
			return Compare(w, Markdown, "before", "after", comparison,
				Options{})
		},
		"compare.csv": func(w io.Writer) error { return Compare(w, CSV, "before", "after", comparison, Options{}) },
		"recommend.txt": func(w io.Writer) error {
			return Recommend(w, Text, []rank.Recommendation{rec},
				Options{Width: 80})
		},
		"recommend.csv":      func(w io.Writer) error { return Recommend(w, CSV, []rank.Recommendation{rec}, Options{}) },
		"recommendations.md": func(w io.Writer) error { return RecommendTable(w, Markdown, grids, Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, name, got.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update and read the diff); got:\n%s", file, got)
	}
}

// laterRun is the small plan once more: macvlan became slower, vxlan works.
func laterRun() Input {
	p := smallPlan()
	for i := range p.networks {
		if p.networks[i].name == "macvlan" {
			p.networks[i].speed, p.networks[i].delay = 0.6, 1.9
		}
	}
	p.questions = p.questions[1:]
	p.fail, p.reps = nil, 4
	return Input{Results: p.results()}
}
