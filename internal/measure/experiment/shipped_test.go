package experiment_test

import (
	"bytes"
	"flag"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

// shipped is the text of each shipped experiment and paper that is no file of drills, by name.
func shipped(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	add := func(names []string, open func(string) (fs.File, error)) {
		for _, name := range names {
			f, err := open(name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, []byte("\ndrills:")) {
				out[name] = text
			}
		}
	}
	add(experiments.Names(), experiments.Open)
	add(experiments.Papers(), experiments.OpenPaper)
	return out
}

// anything is a catalogue that has every workload, with every load.
func anything() experiment.Catalogue {
	known := catalogue()
	var metrics []string
	for _, m := range sample.Metrics() {
		metrics = append(metrics, m.Name)
	}
	known.Workload = func(name string) (workload.Info, error) {
		return workload.Info{Name: name, Metrics: metrics, Pairs: true, Server: "any",
			Knobs: []string{"connections", "size", "rate", "congestion"},
			Max:   sample.Load{Connections: 1000, Size: 1 << 30, Rate: 1e12}}, nil
	}
	return known
}

// TestEncodingIsKept: a result holds the experiment as it was encoded, and a resumed run
// compares the bytes. What is encoded of a shipped experiment changes with its file alone.
func TestEncodingIsKept(t *testing.T) {
	const golden = "testdata/encoded.txtar"
	kept, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{}
	for _, f := range kept.Files {
		want[f.Name] = f.Data
	}
	texts := shipped(t)
	for name, text := range map[string]string{"all-claims": allClaims, "shops": shops, "every-key": everyKey} {
		texts[name] = []byte(strings.Replace(text, "name: x", "name: "+name, 1))
	}
	var now txtar.Archive
	for name, text := range texts {
		e, err := experiment.Parse(name+".yaml", bytes.NewReader(text), anything())
		if err != nil {
			t.Fatal(err)
		}
		variants := []experiment.Experiment{e}
		if quick, ok := e.AsQuick(); ok {
			variants = append(variants, quick)
		}
		for _, e := range variants {
			var b bytes.Buffer
			if err := e.Encode(&b, func(n experiment.Network) string { return n.Name + ".conflist" }); err != nil {
				t.Fatal(err)
			}
			file := e.Name + ".yaml"
			now.Files = append(now.Files, txtar.File{Name: file, Data: b.Bytes()})
			if !*update && !bytes.Equal(want[file], b.Bytes()) {
				t.Errorf("%s is encoded otherwise than testdata/encoded.txtar has it: go test -update writes it", file)
			}
			if _, err := experiment.Parse(file, &b, experiment.Recorded()); err != nil {
				t.Errorf("as recorded: %v", err)
			}
		}
	}
	if *update {
		slices.SortFunc(now.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
		if err := os.WriteFile(golden, txtar.Format(&now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
